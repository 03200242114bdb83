package kafka

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/tap"
)

const (
	// lastKey and lastCode are above all of Kafka's API keys and error codes; both are given out one after another.
	lastKey  = 255
	lastCode = 999
)

// apiKey finds the key of an API by Kafka's name, in any case: clients spell SaslHandshake in several ways.
func apiKey(name string) (int16, error) {
	for key := range int16(lastKey) {
		if kmsg.RequestForKey(key) != nil && strings.EqualFold(kmsg.NameForKey(key), name) {
			return key, nil
		}
	}
	return 0, fmt.Errorf("%q is no Kafka request: write its name as Kafka does, such as Produce or OffsetCommit", name)
}

// ValidAPI returns an error that says what to write when name is not the name of a Kafka request.
func ValidAPI(name string) error {
	_, err := apiKey(name)
	return err
}

// ValidError returns an error when requests of the API can't be answered with an error code in the broker's place,
// because their response has none for the request as a whole.
func ValidError(api string) error {
	key, err := apiKey(api)
	if err != nil {
		return err
	}
	if !tap.CanAnswer(key) {
		return fmt.Errorf("a %s can't be answered with an error: its response has no error code for the whole request; "+
			"delay or drop the response instead", api)
	}
	return nil
}

// ErrorCode returns the code of the error with Kafka's name, such as NOT_ENOUGH_REPLICAS.
func ErrorCode(name string) (int16, error) {
	for code := int16(-1); code < lastCode; code++ {
		if known := kerr.TypedErrorForCode(code); known != nil && known.Code == code && known.Message == name {
			return code, nil
		}
	}
	return 0, fmt.Errorf("%q is no Kafka error: write its name as Kafka does, such as NOT_ENOUGH_REPLICAS", name)
}
