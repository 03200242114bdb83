package deadletter

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// SmallRyeName is the name of the dialect SmallRye.
const SmallRyeName = "smallrye"

// The headers of io.smallrye.reactive.messaging.kafka.fault.KafkaDeadLetterQueue.
const (
	smallryeClass       = "dead-letter-exception-class-name"
	smallryeReason      = "dead-letter-reason"
	smallryeCauseClass  = "dead-letter-cause-class-name"
	smallryeCauseReason = "dead-letter-cause"
	smallryeTopic       = "dead-letter-topic"
	smallryePartition   = "dead-letter-partition"
	smallryeOffset      = "dead-letter-offset"
)

// SmallRye is the dialect of the failure strategy dead-letter-queue in SmallRye Reactive Messaging (Quarkus), class
// KafkaDeadLetterQueue. Key, value and headers are kept. Before the headers it writes
// dead-letter-exception-class-name, dead-letter-reason, if the error has a cause dead-letter-cause-class-name and
// dead-letter-cause, and dead-letter-topic, -partition and -offset, all in UTF-8, numbers in decimal.
//
// The dialect has no number of attempts. SmallRye treats the headers of an earlier failure like any other header of
// the record and writes them after the new ones. Here they are dropped. A replay goes to the topic in
// dead-letter-topic.
type SmallRye struct{}

// Traits implements Dialect.
func (SmallRye) Traits() Traits {
	return Traits{Fields: []string{smallryeClass, smallryeReason, smallryeTopic, smallryePartition, smallryeOffset},
		Position: true, Headers: true, Before: true}
}

// Seal implements Sealer.
func (SmallRye) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	e := envelope{
		headers: make([]kgo.RecordHeader, 0, len(record.Headers)+7),
		text: make([]byte, 0, 40+len(failure.Class)+len(failure.Reason)+len(failure.Cause)+len(failure.CauseReason)+len(
			failure.Topic)),
	}
	e.string(smallryeClass, failure.Class)
	e.string(smallryeReason, failure.Reason)
	if failure.Cause != "" {
		e.string(smallryeCauseClass, failure.Cause)
		e.string(smallryeCauseReason, failure.CauseReason)
	}
	e.string(smallryeTopic, failure.Topic)
	e.decimal(smallryePartition, int64(failure.Partition))
	e.decimal(smallryeOffset, failure.Offset)
	e.headers = append(e.headers, sealed(record, SmallRye{})...)
	return &kgo.Record{Key: record.Key, Value: record.Value, Headers: e.headers, Partition: failure.Partition,
		Timestamp: failure.Time}
}

// Open implements Opener. Of several headers with one name the first counts, because SmallRye writes it before the
// others.
func (SmallRye) Open(letter *kgo.Record) (Failure, []string) {
	failure, found := unknownFailure(letter), fields(0)
	for i := range slices.Backward(letter.Headers) {
		value := letter.Headers[i].Value
		switch letter.Headers[i].Key {
		case smallryeClass:
			failure.Class = found.name(0, value)
		case smallryeReason:
			failure.Reason = found.text(1, value)
		case smallryeTopic:
			failure.Topic = found.name(2, value)
		case smallryePartition:
			failure.Partition = int32(found.decimal(3, value, 0, 31))
		case smallryeOffset:
			failure.Offset = found.decimal(4, value, 0, 63)
		case smallryeCauseClass:
			failure.Cause = validText(value)
		case smallryeCauseReason:
			failure.CauseReason = validText(value)
		}
	}
	if found.all(5) {
		return failure, nil
	}
	return failure, found.missing(SmallRye{}.Traits().Fields)
}

// Prepare implements Opener.
func (SmallRye) Prepare(letter *kgo.Record) *kgo.Record { return backToSource(SmallRye{}, letter) }

// IsFailureHeader implements Opener.
func (SmallRye) IsFailureHeader(name string) bool {
	switch name {
	case smallryeClass, smallryeReason, smallryeCauseClass, smallryeCauseReason, smallryeTopic, smallryePartition,
		smallryeOffset:
		return true
	}
	return false
}
