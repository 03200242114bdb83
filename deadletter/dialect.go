package deadletter

import (
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// Failure is the information in a dead letter about its record. Information that the dialect cannot hold, or that is
// damaged, is zero. For Partition, Offset and Epoch, where 0 is a valid value, it is -1. As JSON, zero fields are left
// out; these three and Context, which is JSON already, are for whoever writes it.
type Failure struct {
	// Reason is the text of the last error. Class is the name of its class in the terms of the service that
	// dead-lettered the record (ValueError, java.io.IOException), Code its own code (503), and Stack the stack trace.
	Reason string `json:"reason,omitempty"`
	Class  string `json:"class,omitempty"`
	Code   string `json:"code,omitempty"`
	Stack  string `json:"stack,omitempty"`
	// Cause is the class of the underlying error, CauseReason its text.
	Cause       string `json:"cause,omitempty"`
	CauseReason string `json:"cause_reason,omitempty"`
	// Attempts is the number of executions, including the first, and MaxAttempts the permitted number; both ≥ 1.
	Attempts    int32 `json:"attempts,omitempty"`
	MaxAttempts int32 `json:"max_attempts,omitempty"`
	// Topic, Partition and Offset are the position at which the record was consumed. Epoch is the leader epoch of
	// that read, -1 if unknown.
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"-"`
	Offset    int64  `json:"-"`
	Epoch     int32  `json:"-"`
	// Time is the time at which it was dead-lettered.
	Time time.Time `json:"time,omitzero"`
	// SourceTime is the timestamp of the record, in whole milliseconds as in Kafka. SourceTimeType is the type of the
	// timestamp: CreateTime (set by the producer) or LogAppendTime (set by the broker).
	SourceTime     time.Time `json:"source_time,omitzero"`
	SourceTimeType string    `json:"source_time_type,omitempty"`
	// Service names the component that failed to process the record (a microservice, a connector, a handler).
	// Instance names one of several (a task, a node, a subscriber).
	Service  string `json:"service,omitempty"`
	Instance string `json:"instance,omitempty"`
	// Context is a JSON object with all other information about the failure (the state of the system, the endpoint
	// that was called).
	Context string `json:"-"`
	// Stage and Handler are the processing stage that failed and the code that ran it.
	Stage   string `json:"stage,omitempty"`
	Handler string `json:"handler,omitempty"`
	// Group is the consumer group or share group.
	Group string `json:"group,omitempty"`
	// ID is the dead letter's own id. EventID is the id of the event in it, EventType the event's type
	// (user_registered, invoice.created), and CorrelationID the id of the chain of events that it belongs to.
	ID            string `json:"id,omitempty"`
	EventID       string `json:"event_id,omitempty"`
	EventType     string `json:"event_type,omitempty"`
	CorrelationID string `json:"correlation_id,omitempty"`
}

// The values of SourceTimeType, as in Kafka's TimestampType.
const (
	CreateTime      = "CreateTime"
	LogAppendTime   = "LogAppendTime"
	NoTimestampType = "NoTimestampType"
)

// unknownFailure returns the Failure of a dead letter without any information.
func unknownFailure(letter *kgo.Record) Failure {
	return Failure{Partition: -1, Offset: -1, Epoch: -1, Time: letter.Timestamp}
}

// timelessFailure returns an empty Failure for a dead letter that keeps the timestamp of its record.
func timelessFailure(letter *kgo.Record) Failure {
	failure := unknownFailure(letter)
	failure.Time, failure.SourceTime = time.Time{}, letter.Timestamp
	return failure
}

// Sealer encodes dead letters.
type Sealer interface {
	// Seal returns a new record that holds the failed one and describes the failure, as far as the dialect can. The
	// failed record is not changed. The dead letter may share its key, value and header values, so none of them may
	// be written to. The caller sets Topic and Partition of the dead letter. Until then Partition is the source's.
	Seal(record *kgo.Record, failure Failure) *kgo.Record
}

// Opener decodes dead letters.
type Opener interface {
	// Open returns the information in the dead letter. missing names the mandatory fields of the dialect that the
	// dead letter lacks, or has in undecodable form. Open never fails and never panics, whatever the dead letter
	// holds.
	Open(letter *kgo.Record) (failure Failure, missing []string)
	// Prepare returns the record that a replay produces. Its Topic is the target ("" if the dead letter does not name
	// it). Key, value and headers are the original ones, as far as the dialect kept them, without the additions of
	// Seal. Most dialects return the record to its source topic, and Partition is then the source's (-1 if the dead
	// letter does not name it). The timestamp is not set. The dead letter is not changed, but may share key, value
	// and header values.
	Prepare(letter *kgo.Record) *kgo.Record
	// IsFailureHeader reports whether dead letters of the dialect use a header of this name. A record may have its
	// own header of that name.
	IsFailureHeader(name string) bool
}

// Dialect is a format of dead letters.
type Dialect interface {
	Sealer
	Opener
	// Traits returns the capabilities of the dialect. Checks may only require those of its dead letters.
	Traits() Traits
}

// Traits are the capabilities of a dialect.
type Traits struct {
	// Fields names the fields that every dead letter of the dialect has, as in the missing of Open; 16 at most.
	Fields []string
	// NoTopic: the dead letter does not name the topic of the record. Partition, Offset: it names those. Attempts: it has
	// the number of attempts.
	NoTopic   bool
	Partition bool
	Offset    bool
	Attempts  bool
	// Headers: a record prepared from the dead letter has its original headers. If OnlyHeaders is not empty, it has
	// these headers only.
	Headers     bool
	OnlyHeaders []string
	// Reserved are headers that each retry copy adds again, and that the dialect's project reads in any record: so no
	// record has them of its own.
	Reserved []string
	// Before: the failure headers stand before the record's own headers, otherwise after them.
	Before bool
	// Once: each field is in a dead letter exactly once, whatever happened to the record before.
	Once bool
	// JSON: the project that defines the dialect decodes the payload as JSON and encodes it again, so that spaces and
	// the order of fields may differ.
	JSON bool
}

// named is a dialect and its name.
type named struct {
	name    string
	dialect Dialect
}

// dialects returns the known dialects.
func dialects() []named {
	return []named{
		{PlainName, Plain{}}, {PipestreamName, Pipestream{}}, {HexkitName, Hexkit{}}, {ManagementName, Management{}},
		{SpringName, Spring{}}, {SpringRetryableName, SpringRetryable{}}, {SmallRyeName, smallRye()},
		{ConnectName, connect()}, {StreamsName, streams()}, {ShareGroupName, shareGroup()}, {WatermillName, watermill()},
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

// Named returns the dialect with this name, or the dialect that the name describes (see OwnHeadersName). Its error
// lists the known names.
func Named(name string) (Dialect, error) {
	if strings.HasPrefix(name, OwnHeadersPrefix) {
		return parseOwn(name)
	}
	for _, one := range dialects() {
		if one.name == name {
			return one.dialect, nil
		}
	}
	return nil, fmt.Errorf("%q is no dead-letter envelope: known are %s", name, strings.Join(Names(), ", "))
}
