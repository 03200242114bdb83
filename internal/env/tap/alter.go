package tap

import (
	"cmp"
	"maps"
	"math"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/history"
)

// throttled is a response with throttle_time_ms.
type throttled interface {
	// Throttle returns the time in ms, and whether clients wait that long: before KIP-219 the broker held the answer
	// back instead.
	Throttle() (int32, bool)
	SetThrottle(int32)
}

// waitsIfTold reports whether clients wait as long as an answer of the API's version tells them to (KIP-219).
func waitsIfTold(key, version int16) bool {
	response := kmsg.ResponseForKey(key)
	if response == nil {
		return false
	}
	response.SetVersion(version)
	t, ok := response.(throttled)
	if !ok {
		return false
	}
	_, wait := t.Throttle()
	return wait
}

// throttle makes the answer ask the client to wait, unless the broker itself asks for a longer wait.
func throttle(wait time.Duration) func(kmsg.Response) bool {
	millis := int32(min(max(wait.Milliseconds(), 1), math.MaxInt32))
	return func(response kmsg.Response) bool {
		t, ok := response.(throttled)
		if !ok {
			return false
		}
		own, waits := t.Throttle()
		if !waits {
			return false
		}
		t.SetThrottle(max(own, millis))
		return true
	}
}

// endsSession reports whether an error code applies to a whole Fetch: the broker does not know the client's session,
// or has another state of it.
func endsSession(code int16) bool {
	return code == kerr.FetchSessionIDNotFound.Code || code == kerr.InvalidFetchSessionEpoch.Code ||
		code == kerr.FetchSessionTopicIDError.Code
}

// refuseTopics refuses the matching topics of a Metadata. The answer still names its brokers.
func refuseTopics(code int16, matches func(Partition) bool, nameOf func([16]byte) string) func(kmsg.Response) bool {
	return func(response kmsg.Response) bool {
		r, refused := response.(*kmsg.MetadataResponse), false
		for i := range r.Topics {
			topic := &r.Topics[i]
			if matches == nil || matches(Partition{topicName(topic, nameOf), history.None}) {
				topic.ErrorCode, topic.Partitions, refused = code, nil, true
			}
		}
		return refused
	}
}

func topicName(topic *kmsg.MetadataResponseTopic, nameOf func([16]byte) string) string {
	if topic.Topic != nil {
		return *topic.Topic
	}
	return nameOf(topic.TopicID)
}

// refuseFetch refuses the matching partitions of a Fetch, including those that the broker leaves out because they
// have no news (KIP-227).
func (c *conn) refuseFetch(code int16, matches func(Partition) bool,
	asked map[partition]int64) func(kmsg.Response) bool {
	meant := func(name string, number int32) bool { return matches == nil || matches(Partition{name, number}) }
	return func(response kmsg.Response) bool {
		r, refused, answered := response.(*kmsg.FetchResponse), false, map[partition]bool{}
		if r.ErrorCode != 0 {
			return false // the session has ended: the answer has no partitions
		}
		for i := range r.Topics {
			topic := &r.Topics[i]
			name := topic.Topic
			if name == "" {
				name = c.nameOf(topic.TopicID)
			}
			index := c.tap.topics.named(name)
			for j := range topic.Partitions {
				number := topic.Partitions[j].Partition
				answered[partition{index, number}] = true
				if meant(name, number) {
					topic.Partitions[j], refused = refusedPartition(number, code), true
				}
			}
		}
		for _, at := range slices.SortedFunc(maps.Keys(asked), byNumber) {
			if name := c.tap.Topics[at.topic].Name; !answered[at] && meant(name, at.number) {
				c.addRefused(r, name, refusedPartition(at.number, code))
				refused = true
			}
		}
		return refused
	}
}

func byNumber(a, b partition) int {
	return cmp.Or(cmp.Compare(a.topic, b.topic), cmp.Compare(a.number, b.number))
}

// addRefused adds a partition to the answer, under its topic's name or id.
func (c *conn) addRefused(r *kmsg.FetchResponse, name string, refused kmsg.FetchResponseTopicPartition) {
	topic := kmsg.NewFetchResponseTopic()
	if topic.Topic = name; r.Version >= 13 {
		topic.Topic, topic.TopicID = "", c.tap.topics.idOf(name)
	}
	for i := range r.Topics {
		if r.Topics[i].Topic == topic.Topic && r.Topics[i].TopicID == topic.TopicID {
			r.Topics[i].Partitions = append(r.Topics[i].Partitions, refused)
			return
		}
	}
	topic.Partitions = append(topic.Partitions, refused)
	r.Topics = append(r.Topics, topic)
}

func refusedPartition(number int32, code int16) kmsg.FetchResponseTopicPartition {
	p := kmsg.NewFetchResponseTopicPartition()
	p.Partition, p.ErrorCode, p.HighWatermark, p.RecordBatches = number, code, -1, []byte{}
	return p
}
