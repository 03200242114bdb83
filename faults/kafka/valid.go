package kafka

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/internal/tap"
)

// What requests can be told apart by; the other ways of matching (client id, instance, version, count, share) work for
// all.
const (
	withTopics     = "Produce, Fetch, OffsetCommit, TxnOffsetCommit, Metadata"
	withPartitions = "Produce, Fetch, OffsetCommit, TxnOffsetCommit"
	withGroup      = "OffsetCommit, TxnOffsetCommit, FindCoordinator, JoinGroup, SyncGroup, Heartbeat, " +
		"ConsumerGroupHeartbeat, ShareGroupHeartbeat, ShareFetch, ShareAcknowledge"
)

// longestThrottle is what throttle_time_ms can say.
const longestThrottle = math.MaxInt32 * time.Millisecond

// Valid returns an error that says what to write when the fault can't be made, whatever the run: a request or an error
// that does not exist, an action that is not possible for the request, something to match by that the request does not
// have, no or several actions.
func Valid(spec faults.Kafka) error {
	key, err := apiKey(spec.API)
	if err != nil {
		return err
	}
	api := kmsg.NameForKey(key)
	for _, by := range []struct {
		field, apis string
		set         bool
	}{
		{"topic", withTopics, spec.Topic != ""}, {"partition", withPartitions, spec.Partition != nil},
		{"group", withGroup, spec.Group != ""},
	} {
		if by.set && !listed(by.apis, api) {
			return fmt.Errorf("%s requests can't be told apart by %s: leave %s out, or write one of %s as api", spec.API,
				by.field, by.field, by.apis)
		}
	}
	if spec.Partition != nil && spec.Topic == "" {
		return fmt.Errorf("partition goes with topic: say of which topic partition %d is", *spec.Partition)
	}
	if err := validActions(spec); err != nil {
		return err
	}
	if spec.Error != "" {
		if err := ValidError(spec.API); err != nil {
			return err
		}
		if _, err := ErrorCode(spec.Error); err != nil {
			return err
		}
	}
	return validThrottle(spec, key)
}

func listed(names, name string) bool {
	for one := range strings.SplitSeq(names, ", ") {
		if one == name {
			return true
		}
	}
	return false
}

// validActions checks that the fault does exactly one thing.
func validActions(spec faults.Kafka) error {
	var set []string
	for _, action := range []struct {
		name string
		set  bool
	}{
		{"error", spec.Error != ""}, {"delay_request", spec.DelayRequest > 0}, {"delay_response", spec.DelayResponse > 0},
		{"drop_request", spec.DropRequest}, {"drop_response", spec.DropResponse}, {"close", spec.Close},
		{"throttle", spec.Throttle > 0},
	} {
		if action.set {
			set = append(set, action.name)
		}
	}
	switch len(set) {
	case 0:
		return fmt.Errorf(
			"it does nothing: give error, delay_request, delay_response, drop_request, drop_response, close or throttle")
	case 1:
		return nil
	}
	return fmt.Errorf("%s exclude each other: keep one", strings.Join(set, " and "))
}

// validThrottle checks that clients will wait.
func validThrottle(spec faults.Kafka, key int16) error {
	if spec.Throttle <= 0 {
		return nil
	}
	newest := kmsg.RequestForKey(key).MaxVersion()
	switch {
	case !tap.CanThrottle(key, newest):
		return fmt.Errorf(
			"a %s can't be throttled: its response has no throttle_time_ms that clients honour; use delay_response instead",
			spec.API)
	case spec.Version != nil && !tap.CanThrottle(key, int16(min(*spec.Version, math.MaxInt16))):
		return fmt.Errorf(
			"a %s of version %d can't be throttled: clients honour throttle_time_ms only in later versions (KIP-219)", spec.API,
			*spec.Version)
	case spec.Throttle.D() > longestThrottle:
		return fmt.Errorf("a throttle of %s is more than throttle_time_ms can say: the longest is %s", spec.Throttle,
			longestThrottle)
	}
	return nil
}
