package deadletter

import "github.com/twmb/franz-go/pkg/kgo"

// WatermillName is the name of the dialect Watermill.
const WatermillName = "watermill"

// The headers of Watermill's poison queue (message/router/middleware/poison.go) and of its Kafka marshaler.
const (
	watermillReason     = "reason_poisoned"
	watermillTopic      = "topic_poisoned"
	watermillHandler    = "handler_poisoned"
	watermillSubscriber = "subscriber_poisoned"
	watermillUUID       = "_watermill_message_uuid"
)

// Watermill is the dialect of Watermill's middleware PoisonQueue over Kafka. Key, value and headers are kept,
// including the message's UUID in _watermill_message_uuid. It adds reason_poisoned, topic_poisoned, handler_poisoned
// and subscriber_poisoned, in UTF-8.
//
// The dialect has no partition, offset or number of attempts. Watermill keeps headers in a map, so of several headers
// with one name only one is left, and their order is lost. Here they are all kept. Its default marshaler does not
// write the key. Here the key is kept, as with a partitioning marshaler that restores it. A replay goes to the topic
// in topic_poisoned, as with Watermill's requeuer.
type Watermill struct{}

// Traits implements Dialect.
func (Watermill) Traits() Traits {
	return Traits{Fields: []string{watermillReason, watermillTopic, watermillHandler, watermillSubscriber}, Headers: true}
}

// Seal implements Sealer.
func (Watermill) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	e := wrap(record, Watermill{}, 4, len(failure.Reason)+len(failure.Topic)+len(failure.Service)+len(failure.Instance))
	e.string(watermillReason, failure.Reason)
	e.string(watermillTopic, failure.Topic)
	e.string(watermillHandler, failure.Service)
	e.string(watermillSubscriber, failure.Instance)
	return &kgo.Record{Key: record.Key, Value: record.Value, Headers: e.headers, Partition: failure.Partition,
		Timestamp: failure.Time}
}

// Open implements Opener.
func (Watermill) Open(letter *kgo.Record) (Failure, []string) {
	failure, found := unknownFailure(letter), fields(0)
	for i := range letter.Headers {
		value := letter.Headers[i].Value
		switch letter.Headers[i].Key {
		case watermillReason:
			failure.Reason = found.text(0, value)
		case watermillTopic:
			failure.Topic = found.name(1, value)
		case watermillHandler:
			failure.Service = found.text(2, value)
		case watermillSubscriber:
			failure.Instance = found.text(3, value)
		case watermillUUID:
			failure.EventID = validText(value)
		}
	}
	if found.all(4) {
		return failure, nil
	}
	return failure, found.missing(Watermill{}.Traits().Fields)
}

// Prepare implements Opener.
func (Watermill) Prepare(letter *kgo.Record) *kgo.Record { return backToSource(Watermill{}, letter) }

// IsFailureHeader implements Opener.
func (Watermill) IsFailureHeader(name string) bool {
	switch name {
	case watermillReason, watermillTopic, watermillHandler, watermillSubscriber:
		return true
	}
	return false
}
