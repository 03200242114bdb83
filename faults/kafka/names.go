package kafka

import (
	"fmt"
	"strings"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

const (
	// lastKey and lastCode exceed all of Kafka's API keys and error codes, which Kafka assigns consecutively.
	lastKey  = 255
	lastCode = 999
)

// apiKey returns the key of the API with Kafka's name. It ignores case, because clients spell SaslHandshake in
// several ways.
func apiKey(name string) (int16, error) {
	for key := range int16(lastKey) {
		if kmsg.RequestForKey(key) != nil && strings.EqualFold(kmsg.NameForKey(key), name) {
			return key, nil
		}
	}
	return 0, fmt.Errorf("%q is no Kafka request: write its name as Kafka does, such as Produce or OffsetCommit", name)
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

// ErrorNames returns the names of the Kafka error codes that a fault can answer with, by code.
func ErrorNames() []string {
	var list []string
	for code := int16(-1); code < lastCode; code++ {
		if err := kerr.TypedErrorForCode(code); err != nil && err.Code == code {
			list = append(list, err.Message)
		}
	}
	return list
}
