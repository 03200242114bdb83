package deadletter

import "github.com/twmb/franz-go/pkg/kgo"

// StreamsName is the name of the dialect Streams.
const StreamsName = "streams"

// The headers of org.apache.kafka.streams.errors.internals.ExceptionHandlerUtils begin with streamsPrefix.
const (
	streamsPrefix    = "__streams.errors."
	streamsClass     = streamsPrefix + "exception"
	streamsReason    = streamsPrefix + "message"
	streamsStack     = streamsPrefix + "stacktrace"
	streamsTopic     = streamsPrefix + "topic"
	streamsPartition = streamsPrefix + "partition"
	streamsOffset    = streamsPrefix + "offset"
)

// Streams is the dialect of Kafka Streams' dead-letter queue (KIP-1034), class ExceptionHandlerUtils. Key and value
// are kept as they were read, and so are the headers and the timestamp, so a dead letter does not say when the record
// failed. The added headers all begin with "__streams.errors.": exception (its class), message, stacktrace, topic,
// partition and offset, all in UTF-8, numbers in decimal.
//
// The dialect has no number of attempts, because Streams does not retry. Streams appends the headers of each further
// failure. Here they replace the earlier ones. A replay goes to the topic in __streams.errors.topic.
type Streams struct{}

// Traits implements Dialect.
func (Streams) Traits() Traits {
	return Traits{
		Fields:   []string{streamsClass, streamsReason, streamsStack, streamsTopic, streamsPartition, streamsOffset},
		Position: true, Headers: true,
	}
}

// Seal implements Sealer.
func (Streams) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	e := wrap(record, Streams{}, 6, 40+len(failure.Class)+len(failure.Reason)+len(failure.Stack)+len(failure.Topic))
	e.string(streamsClass, failure.Class)
	e.string(streamsReason, failure.Reason)
	e.string(streamsStack, failure.Stack)
	e.string(streamsTopic, failure.Topic)
	e.decimal(streamsPartition, int64(failure.Partition))
	e.decimal(streamsOffset, failure.Offset)
	return &kgo.Record{Key: record.Key, Value: record.Value, Headers: e.headers, Partition: failure.Partition,
		Timestamp: failure.SourceTime}
}

// Open implements Opener. The message of an exception without a message is null.
func (Streams) Open(letter *kgo.Record) (Failure, []string) {
	failure, found := timelessFailure(letter), fields(0)
	for i := range letter.Headers {
		value := letter.Headers[i].Value
		switch letter.Headers[i].Key {
		case streamsClass:
			failure.Class = found.name(0, value)
		case streamsReason:
			failure.Reason = found.text(1, value)
		case streamsStack:
			failure.Stack = found.text(2, value)
		case streamsTopic:
			failure.Topic = found.name(3, value)
		case streamsPartition:
			failure.Partition = int32(found.decimal(4, value, 0, 31))
		case streamsOffset:
			failure.Offset = found.decimal(5, value, 0, 63)
		}
	}
	if found.all(6) {
		return failure, nil
	}
	return failure, found.missing(Streams{}.Traits().Fields)
}

// Prepare implements Opener.
func (Streams) Prepare(letter *kgo.Record) *kgo.Record { return backToSource(Streams{}, letter) }

// IsFailureHeader implements Opener.
func (Streams) IsFailureHeader(name string) bool {
	switch name {
	case streamsClass, streamsReason, streamsStack, streamsTopic, streamsPartition, streamsOffset:
		return true
	}
	return false
}
