package worker

import (
	"cmp"
	"encoding/json"
	"errors"
	"strconv"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/store"
)

// maxPeeked is the maximum size in bytes of a value that is searched for ids.
const maxPeeked = 1 << 20

// LetterContext is what an entry's error context says of its dead letter, as far as the dead letter does.
type LetterContext struct {
	// ReplayTopic is where the dialect wants a replay to go; OriginalTopic where the record came from.
	ReplayTopic   string `json:"replayTopic,omitempty"`
	OriginalTopic string `json:"originalTopic,omitempty"`
	Group         string `json:"group,omitempty"`
	Instance      string `json:"instance,omitempty"`
	Cause         string `json:"cause,omitempty"`
	LetterID      string `json:"letterId,omitempty"`
	CorrelationID string `json:"correlationId,omitempty"`
	// Context is what else the dead letter tells of the failure, such as the state of the system; an object.
	Context json.RawMessage `json:"context,omitempty"`
	// FirstError is the dead letter's own error, once a retry has failed with another one.
	FirstError *FirstError `json:"firstError,omitempty"`
	// Missing names the fields that the dead letter should have and lacks.
	Missing []string `json:"missing,omitempty"`
}

// maxFirstStack is the maximum size in bytes of the stack of a FirstError, because the database's document may already
// have its maximum size.
const maxFirstStack = 64 << 10

// FirstError is the error that a record was dead-lettered for.
type FirstError struct {
	Message    string `json:"message,omitempty"`
	Type       string `json:"type,omitempty"`
	Code       string `json:"code,omitempty"`
	StackTrace string `json:"stackTrace,omitempty"`
}

// keepFirst returns the error's context with the error itself added, unless it contains an earlier one. A context that
// is not an object is unchanged.
func keepFirst(before store.Failure) json.RawMessage {
	fields := map[string]json.RawMessage{}
	if len(before.Context) > 0 && json.Unmarshal(before.Context, &fields) != nil || fields == nil ||
		fields["firstError"] != nil {
		return before.Context
	}
	// Strings can always be encoded; invalid UTF-8 is replaced.
	fields["firstError"], _ = json.Marshal(FirstError{Message: before.Message, Type: before.Type, Code: before.Code,
		StackTrace: before.Stack[:min(len(before.Stack), maxFirstStack)]})
	kept, err := json.Marshal(fields)
	if err != nil {
		return before.Context
	}
	return kept
}

// deadLetterContext reads the context that newEntry wrote. It is zero if another program wrote the entry.
func deadLetterContext(entry store.Entry) (said LetterContext) {
	if json.Unmarshal(entry.Error.Context, &said) != nil {
		return LetterContext{}
	}
	return said
}

// newEntry makes an entry of a dead letter. The entry has the record that the dialect prepares for a replay: key, value
// and headers as they were before the failure. Two entries of one dead letter are equal except for values that the
// dialect draws at random.
func newEntry(letter *kgo.Record, name string, opener deadletter.Opener) store.Entry {
	place := store.Place{Topic: letter.Topic, Partition: letter.Partition, Offset: letter.Offset}
	failure, missing := opener.Open(letter)
	record := opener.Prepare(letter)
	entry := store.Entry{Source: place, Letter: place, Dialect: name, Key: record.Key, Value: record.Value}
	describe(&entry, failure, LetterContext{ReplayTopic: record.Topic, Missing: missing})
	for _, header := range record.Headers {
		entry.Headers = append(entry.Headers, store.Header{Key: header.Key, Value: header.Value})
	}
	peek(&entry)
	return entry
}

// describe copies the dead letter's description of the failure into the entry.
func describe(entry *store.Entry, failure deadletter.Failure, more LetterContext) {
	if failure.Topic != "" && failure.Partition >= 0 && failure.Offset >= 0 {
		entry.Source = store.Place{Topic: failure.Topic, Partition: failure.Partition, Offset: failure.Offset}
	}
	more.OriginalTopic, more.Group, more.Instance = failure.Topic, failure.Group, failure.Instance
	more.Cause, more.LetterID, more.CorrelationID = failure.Cause, failure.ID, failure.CorrelationID
	if failure.Context != "" {
		more.Context = json.RawMessage(failure.Context)
	}
	// Strings, and JSON that was decoded, can always be encoded; invalid UTF-8 is replaced.
	encoded, _ := json.Marshal(more)
	entry.Error = store.Failure{Message: failure.Reason, Type: failure.Class, Code: failure.Code, Stack: failure.Stack,
		Context: encoded}
	entry.EventID, entry.Pattern, entry.Service, entry.SubscriberID = failure.EventID, failure.EventType, failure.Service,
		failure.Instance
	entry.SubscriberID = cmp.Or(entry.SubscriberID, failure.Group)
	entry.RetryCount, entry.MaxRetries = int(failure.Attempts), int(cmp.Or(failure.MaxAttempts, failure.Attempts))
	entry.FirstFailedAt, entry.LastFailedAt = failure.Time, failure.Time
}

// event is what a record's value may say of itself, in the words of both documents.
type event struct {
	EventID  text `json:"eventId"`
	EventKey text `json:"event_id"`
	ID       text `json:"id"`
	Source   struct {
		Name text `json:"name"`
	} `json:"source"`
	Metadata struct {
		Source   text   `json:"source"`
		Priority int    `json:"priority"`
		Tags     []text `json:"tags"`
	} `json:"metadata"`
}

// text is a JSON string or number, as text. Any other value is empty.
type text string

// UnmarshalJSON never fails. A field that is not text is ignored.
func (t *text) UnmarshalJSON(data []byte) error {
	var number json.Number
	var str string
	switch {
	case json.Unmarshal(data, &str) == nil:
		*t = text(str)
	case json.Unmarshal(data, &number) == nil:
		*t = text(number)
	}
	return nil
}

// peek completes the entry from value and headers: the event's id, its type, its service and priority.
func peek(entry *store.Entry) {
	for _, header := range entry.Headers {
		value := string(header.Value)
		if !utf8.ValidString(value) {
			continue
		}
		switch header.Key {
		case "type", "ce_type":
			entry.Pattern = value
		case "priority":
			if priority, err := strconv.ParseInt(value, 10, 32); err == nil {
				entry.Priority = int(priority)
			}
		}
	}
	var said event
	if len(entry.Value) > maxPeeked {
		return
	}
	var otherType *json.UnmarshalTypeError // one field has another type than in both documents; the others are read
	if err := json.Unmarshal(entry.Value, &said); err != nil && !errors.As(err, &otherType) {
		return
	}
	entry.Pattern = cmp.Or(store.EventPattern(entry.Value), entry.Pattern)
	entry.EventID = cmp.Or(entry.EventID, string(said.EventID), string(said.EventKey), string(said.ID))
	entry.Service = cmp.Or(entry.Service, string(said.Metadata.Source), string(said.Source.Name))
	if said.Metadata.Priority != 0 {
		entry.Priority = said.Metadata.Priority
	}
	for _, tag := range said.Metadata.Tags {
		entry.Tags = append(entry.Tags, string(tag))
	}
}

// plan sets a new entry's strategy and its first due time, by the store's clock.
func plan(entry *store.Entry, strategies Strategies, now time.Time) {
	entry.Strategy, entry.NextRetryAt = strategies.First(entry.Error, now)
	if entry.NextRetryAt.IsZero() {
		entry.NextRetryAt = now
	}
}
