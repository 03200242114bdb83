package deadletter

import "github.com/twmb/franz-go/pkg/kgo"

// ConnectName is the name of the dialect Connect.
const ConnectName = "connect"

// The headers of org.apache.kafka.connect.runtime.errors.DeadLetterQueueReporter begin with connectPrefix.
const (
	connectPrefix    = "__connect.errors."
	connectTopic     = connectPrefix + "topic"
	connectPartition = connectPrefix + "partition"
	connectOffset    = connectPrefix + "offset"
	connectName      = connectPrefix + "connector.name"
	connectTask      = connectPrefix + "task.id"
	connectStage     = connectPrefix + "stage"
	connectHandler   = connectPrefix + "class.name"
	connectClass     = connectPrefix + "exception.class.name"
	connectReason    = connectPrefix + "exception.message"
	connectStack     = connectPrefix + "exception.stacktrace"
)

// connectPut is the stage of a sink's failures (Stage.TASK_PUT), the only stage that a consumer can fail in.
const connectPut = "TASK_PUT"

// Connect is the dialect of a Kafka Connect sink's dead-letter queue, class DeadLetterQueueReporter, with
// errors.deadletterqueue.context.headers.enable. Key, value, headers and timestamp are kept, so a dead letter does
// not say when the record failed. The added headers all begin with "__connect.errors.": topic, partition, offset,
// connector.name, task.id, stage, class.name (of the executed class), exception.class.name, exception.message and
// exception.stacktrace, all in UTF-8, numbers in decimal.
//
// The dialect has no number of attempts. Connect does not overwrite headers that the record already has, so a record
// that fails again still describes its first failure. Here each failure replaces the previous one. A replay goes to
// the topic in __connect.errors.topic.
type Connect struct{}

// Traits implements Dialect.
func (Connect) Traits() Traits {
	return Traits{
		Fields: []string{connectTopic, connectPartition, connectOffset, connectName, connectTask, connectStage,
			connectHandler, connectClass},
		Position: true, Headers: true,
	}
}

// Seal implements Sealer.
func (Connect) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	e := wrap(record, Connect{}, 10, 60+len(failure.Topic)+len(failure.Service)+len(failure.Instance)+len(failure.Handler)+
		len(failure.Class)+len(failure.Reason)+len(failure.Stack))
	stage := failure.Stage
	if stage == "" {
		stage = connectPut
	}
	e.string(connectTopic, failure.Topic)
	e.decimal(connectPartition, int64(failure.Partition))
	e.decimal(connectOffset, failure.Offset)
	e.string(connectName, failure.Service)
	e.string(connectTask, failure.Instance)
	e.string(connectStage, stage)
	e.string(connectHandler, failure.Handler)
	e.string(connectClass, failure.Class)
	e.string(connectReason, failure.Reason)
	e.known(connectStack, failure.Stack)
	return &kgo.Record{Key: record.Key, Value: record.Value, Headers: e.headers, Partition: failure.Partition,
		Timestamp: failure.SourceTime}
}

// Open implements Opener.
func (Connect) Open(letter *kgo.Record) (Failure, []string) {
	failure, found := timelessFailure(letter), fields(0)
	for i := range letter.Headers {
		value := letter.Headers[i].Value
		switch letter.Headers[i].Key {
		case connectTopic:
			failure.Topic = found.name(0, value)
		case connectPartition:
			failure.Partition = int32(found.decimal(1, value, 0, 31))
		case connectOffset:
			failure.Offset = found.decimal(2, value, 0, 63)
		case connectName:
			failure.Service = found.text(3, value)
		case connectTask:
			failure.Instance = found.text(4, value)
		case connectStage:
			failure.Stage = found.name(5, value)
		case connectHandler:
			failure.Handler = found.text(6, value)
		case connectClass:
			failure.Class = found.name(7, value)
		case connectReason:
			failure.Reason = validText(value)
		case connectStack:
			failure.Stack = validText(value)
		}
	}
	if found.all(8) {
		return failure, nil
	}
	return failure, found.missing(Connect{}.Traits().Fields)
}

// Prepare implements Opener.
func (Connect) Prepare(letter *kgo.Record) *kgo.Record { return backToSource(Connect{}, letter) }

// IsFailureHeader implements Opener.
func (Connect) IsFailureHeader(name string) bool {
	switch name {
	case connectTopic, connectPartition, connectOffset, connectName, connectTask, connectStage, connectHandler,
		connectClass, connectReason, connectStack:
		return true
	}
	return false
}
