package deadletter

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Failure is what a dead letter says about the record it holds. What a letter does not say, because its dialect can't
// hold it or because it is damaged, is zero; of Partition, Offset and Epoch, where 0 means something, -1.
type Failure struct {
	// Reason is the text of the last error, Class the name of its class in the words of whoever dead-lettered the
	// record (ValueError, java.io.IOException), Code a code of its own for it (503), Stack the stack trace.
	Reason string
	Class  string
	Code   string
	Stack  string
	// Cause is the class of the error behind it, CauseReason its text.
	Cause       string
	CauseReason string
	// Attempts is the number of executions, the first included, MaxAttempts how many there may be; ≥ 1.
	Attempts    int32
	MaxAttempts int32
	// Topic, Partition and Offset are where the record was consumed; Epoch is the leader epoch it was read with, -1 if
	// unknown.
	Topic     string
	Partition int32
	Offset    int64
	Epoch     int32
	// Time is when it was dead-lettered.
	Time time.Time
	// SourceTime is the timestamp of the record, in whole milliseconds as Kafka keeps it; SourceTimeType tells who gave
	// it: CreateTime (the producer) or LogAppendTime (the broker).
	SourceTime     time.Time
	SourceTimeType string
	// Service names what failed to process it (a microservice, a connector, a handler), Instance which one of several
	// (a task, a node, a subscriber).
	Service  string
	Instance string
	// Context is a JSON object of whatever else the letter tells of the failure (the state of the system, the endpoint
	// that was called).
	Context string
	// Stage and Handler are the stage of the processing that failed and the code that carried it out.
	Stage   string
	Handler string
	// Group is the consumer group or share group.
	Group string
	// ID is the letter's own id. EventID is that of the event in it, EventType of what kind it is (user_registered,
	// invoice.created), CorrelationID the id of the chain of events that it belongs to.
	ID            string
	EventID       string
	EventType     string
	CorrelationID string
}

// Who gave a record its timestamp: the names of Kafka's TimestampType.
const (
	CreateTime      = "CreateTime"
	LogAppendTime   = "LogAppendTime"
	NoTimestampType = "NoTimestampType"
)

// unknownFailure is what a letter says that says nothing.
func unknownFailure(letter *kgo.Record) Failure {
	return Failure{Partition: -1, Offset: -1, Epoch: -1, Time: letter.Timestamp}
}

// timelessFailure is that of a letter that has the timestamp of its record.
func timelessFailure(letter *kgo.Record) Failure {
	failure := unknownFailure(letter)
	failure.Time, failure.SourceTime = time.Time{}, letter.Timestamp
	return failure
}

// Sealer makes dead letters.
type Sealer interface {
	// Seal returns a new record that holds the failed one and says how it failed, as far as the dialect can. The failed
	// record is not changed; key, value and header values may be shared with it, so none may be written to. Topic and
	// Partition of the letter are the caller's to set: Partition is the source's until then.
	Seal(record *kgo.Record, failure Failure) *kgo.Record
}

// Opener reads dead letters.
type Opener interface {
	// Open returns what the letter says. missing names the fields that every letter of the dialect has and this one
	// lacks, or has in a form that can't be decoded. It never fails and never panics, whatever the letter holds.
	Open(letter *kgo.Record) (failure Failure, missing []string)
	// Prepare returns the record that a replay produces, and in its Topic where it must go ("" if the letter doesn't
	// say): key, value and headers are as they were, as far as the dialect kept them, and what Seal added is gone. Most
	// dialects give it back to the topic it came from, and Partition is then the source's (-1 if the letter doesn't
	// say). The timestamp is not set. The letter is not changed; key, value and header values may be shared with it.
	Prepare(letter *kgo.Record) *kgo.Record
	// IsFailureHeader reports whether letters say something in a header of this name. A record may have one of its own
	// that is named so.
	IsFailureHeader(name string) bool
}

// Dialect is one way of writing a dead letter down.
type Dialect interface {
	Sealer
	Opener
	// Traits tells what the dialect can hold: only that can be asked of its letters.
	Traits() Traits
}

// Traits are what a dialect can hold.
type Traits struct {
	// Fields names what every letter of the dialect has, as in the missing of Open; 16 at most.
	Fields []string
	// Position: the letter names the partition and the offset that the record was at, not the topic alone. Attempts: it
	// tells their number.
	Position bool
	Attempts bool
	// Headers: a record prepared from the letter has the headers of its own that it had; where OnlyHeaders names some,
	// these and no others.
	Headers     bool
	OnlyHeaders []string
	// Before: what the letter says stands before the record's own headers, otherwise behind them.
	Before bool
	// Once: each field is in a letter exactly once, whatever became of the record before.
	Once bool
	// JSON: the project that the dialect is of decodes the payload as JSON and encodes it again, so that spaces and the
	// order of fields may differ.
	JSON bool
}

// named is a dialect with its name.
type named struct {
	name    string
	dialect Dialect
}

// dialects are the known dialects.
func dialects() []named {
	return []named{
		{PlainName, Plain{}}, {PipestreamName, Pipestream{}}, {HexkitName, Hexkit{}}, {ManagementName, Management{}},
		{SpringName, Spring{}}, {SpringRetryableName, SpringRetryable{}}, {SmallRyeName, SmallRye{}},
		{ConnectName, Connect{}}, {StreamsName, Streams{}}, {ShareGroupName, ShareGroup{}}, {WatermillName, Watermill{}},
	}
}

// Names returns the names of the known dialects.
func Names() []string {
	var names []string
	for _, one := range dialects() {
		names = append(names, one.name)
	}
	return names
}

// Named returns the dialect with this name, or the one that the name describes (see OwnHeaders); its error lists the
// names there are.
func Named(name string) (Dialect, error) {
	if strings.HasPrefix(name, ownHeadersPrefix) {
		return parseOwnHeaders(name)
	}
	for _, one := range dialects() {
		if one.name == name {
			return one.dialect, nil
		}
	}
	return nil, fmt.Errorf("%q is no dead-letter envelope: known are %s", name, strings.Join(Names(), ", "))
}
