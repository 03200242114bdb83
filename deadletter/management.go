package deadletter

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"maps"
	"math"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
)

// ManagementName is the name of the dialect Management.
const ManagementName = "management"

// The headers of an event that identify it, for the entry's eventId and pattern.
const (
	managementEventID = "event_id"
	managementType    = "type"
)

// The encodings of the record's value in an entry's payload.
const (
	payloadJSON   = "json"
	payloadBase64 = "base64"
	payloadNone   = "none"
)

// managementPending is the status of an entry that has not been handled.
const managementPending = "pending"

// Management is the dialect of "Dead Letter Queue (management schema)": the value is the JSON of its entry, the key
// is the record's, and there are no headers.
//
// In entries written by this program, originalEvent.payload is the value itself if it is JSON that an encoder
// reproduces byte for byte. Otherwise it is a text with the value in base64, or null for a null value.
// originalEvent.metadata.encoding names the form (json, base64, none). metadata also holds the record's position
// (topic, partition, offset), the type of its timestamp, and its headers, with values in base64. Header names must be
// UTF-8, as in Kafka; invalid bytes become U+FFFD. eventId is the event's event_id header, or its position if it has
// none. pattern is its type header, or its topic if it has none. subscriberId is the group. error.type, code and
// stackTrace are the class of the error, its code and stack. error.context holds the service and the instance.
// retryCount is the number of attempts after the first, and maxRetries the permitted number of those. retryHistory is
// empty, because the history of single retries is not known here.
//
// The document leaves metadata to the author of the entry. An entry without metadata.encoding is from another
// producer. Its event is the whole of originalEvent, in the form of the entry, and a replay returns that.
// metadata.topic, partition and offset give its position if they are present. Fields of error.context other than
// serviceName and instance become the failure's Context.
//
// A record that is itself an entry, put back unprepared, keeps its id, its event and its createdAt. A replay goes to
// the record's source topic.
type Management struct{}

// The JSON of an entry. What is a pointer tells whether the field is there.
type managementEntry struct {
	ID           *string           `json:"id"`
	EventID      *string           `json:"eventId"`
	SubscriberID string            `json:"subscriberId,omitempty"`
	Event        *managementEvent  `json:"originalEvent"`
	Error        *managementError  `json:"error"`
	RetryHistory []json.RawMessage `json:"retryHistory"`
	RetryCount   *int32            `json:"retryCount"`
	MaxRetries   *int32            `json:"maxRetries,omitempty"`
	Status       *string           `json:"status"`
	CreatedAt    *isoTime          `json:"createdAt"`
	UpdatedAt    *isoTime          `json:"updatedAt"`
}

type managementEvent struct {
	EventID   string             `json:"eventId"`
	Pattern   string             `json:"pattern"`
	Version   string             `json:"version,omitempty"`
	Source    managementSource   `json:"source"`
	Timestamp *isoTime           `json:"timestamp,omitempty"`
	Payload   json.RawMessage    `json:"payload"`
	Metadata  managementMetadata `json:"metadata"`
	// whole is the event as it stands in an entry of another producer.
	whole json.RawMessage
}

// UnmarshalJSON implements json.Unmarshaler.
func (m *managementEvent) UnmarshalJSON(data []byte) error {
	type fields managementEvent
	if err := json.Unmarshal(data, (*fields)(m)); err != nil {
		return fmt.Errorf("decoding the original event: %w", err)
	}
	if m.Metadata.Encoding == "" {
		m.whole = bytes.Clone(data)
	}
	return nil
}

type managementSource struct {
	Type string `json:"type"`
	ID   string `json:"id"`
	Name string `json:"name"`
}

type managementMetadata struct {
	Topic         string             `json:"topic"`
	Partition     *int32             `json:"partition"`
	Offset        *int64             `json:"offset"`
	TimestampType string             `json:"timestampType,omitempty"`
	Encoding      string             `json:"encoding"`
	Headers       []managementHeader `json:"headers"`
}

// UnmarshalJSON implements json.Unmarshaler. Metadata of another producer may have any form. Values in an unknown
// form are ignored.
func (m *managementMetadata) UnmarshalJSON(data []byte) error {
	type fields managementMetadata
	said := fields{}
	err := json.Unmarshal(data, &said)
	switch {
	case said.Encoding == "" && err != nil:
		said = fields{}
	case err != nil:
		return fmt.Errorf("decoding the event's metadata: %w", err)
	}
	*m = managementMetadata(said)
	return nil
}

type managementHeader struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

type managementError struct {
	Message string                     `json:"message"`
	Type    string                     `json:"type"`
	Code    string                     `json:"code,omitempty"`
	Stack   string                     `json:"stackTrace,omitempty"`
	Context map[string]json.RawMessage `json:"context"`
}

// The known fields of error.context.
const (
	contextService  = "serviceName"
	contextInstance = "instance"
)

// newContext returns error.context: the failure's Context with its service and instance.
func newContext(failure *Failure) map[string]json.RawMessage {
	context := map[string]json.RawMessage{}
	if json.Unmarshal([]byte(failure.Context), &context) != nil { // no Context, or not a JSON object
		context = map[string]json.RawMessage{}
	}
	for name, text := range map[string]string{contextService: failure.Service, contextInstance: failure.Instance} {
		if encoded, err := json.Marshal(text); err == nil && text != "" {
			context[name] = encoded
		}
	}
	return context
}

// openContext reverses newContext.
func openContext(context map[string]json.RawMessage, failure *Failure) {
	rest := maps.Clone(context)
	for name, text := range map[string]*string{contextService: &failure.Service, contextInstance: &failure.Instance} {
		if json.Unmarshal(context[name], text) == nil {
			delete(rest, name)
		}
	}
	if len(rest) == 0 {
		return
	}
	if encoded, err := json.Marshal(rest); err == nil {
		failure.Context = string(encoded)
	}
}

// isoTime is an ISO 8601 time: RFC 3339, which is also the form written here, or without a colon in the zone, or
// without a zone, which then means UTC.
type isoTime struct{ time.Time }

// UnmarshalJSON implements json.Unmarshaler.
func (t *isoTime) UnmarshalJSON(data []byte) error {
	var text string
	if err := json.Unmarshal(data, &text); err != nil {
		return fmt.Errorf("decoding a time: %w", err)
	}
	var first error
	for _, layout := range []string{time.RFC3339Nano, "2006-01-02T15:04:05.999999999Z0700",
		"2006-01-02T15:04:05.999999999"} {
		at, err := time.Parse(layout, text)
		if err == nil {
			t.Time = at
			return nil
		}
		first = cmp.Or(first, err)
	}
	return fmt.Errorf("decoding a time: %w", first)
}

// Traits implements Dialect.
func (Management) Traits() Traits {
	return Traits{
		Fields: []string{
			"id", "eventId", "originalEvent", "originalEvent.metadata.topic", "originalEvent.metadata.partition",
			"originalEvent.metadata.offset", "error", "retryCount", "status", "createdAt", "updatedAt",
		},
		Partition: true, Offset: true, Attempts: true, Headers: true,
	}
}

// Seal implements Sealer.
func (Management) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	at := isoTime{failure.Time.UTC()}
	entry, again := readEntry(record.Value)
	if !again {
		id := newUUID()
		entry = managementEntry{ID: &id, Event: newManagementEvent(record, &failure), CreatedAt: &at,
			RetryHistory: []json.RawMessage{}}
		entry.EventID = &entry.Event.EventID
	}
	status, retries := managementPending, max(failure.Attempts, 1)-1
	entry.SubscriberID, entry.Status, entry.UpdatedAt = failure.Group, &status, &at
	entry.RetryCount, entry.MaxRetries = &retries, nil
	if failure.MaxAttempts > 0 {
		most := failure.MaxAttempts - 1
		entry.MaxRetries = &most
	}
	entry.Error = &managementError{
		Message: failure.Reason, Type: failure.Class, Code: failure.Code, Stack: failure.Stack,
		Context: newContext(&failure),
	}
	return &kgo.Record{Key: record.Key, Value: entry.encode(), Partition: failure.Partition, Timestamp: failure.Time}
}

// encode encodes the entry as JSON. This cannot fail: invalid UTF-8 becomes U+FFFD, and the payload was checked.
func (m *managementEntry) encode() []byte {
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	encoder.SetEscapeHTML(false)
	if err := encoder.Encode(m); err != nil {
		panic(fmt.Sprintf("encoding a dead letter: %v", err))
	}
	return bytes.TrimSuffix(out.Bytes(), []byte("\n"))
}

func newManagementEvent(record *kgo.Record, failure *Failure) *managementEvent {
	position := fmt.Sprintf("%s/%d@%d", failure.Topic, failure.Partition, failure.Offset)
	event := &managementEvent{
		EventID: failure.EventID, Pattern: failure.EventType, Source: managementSource{Type: "external", ID: position,
			Name: failure.Topic},
		Metadata: managementMetadata{
			Topic: failure.Topic, Partition: &failure.Partition, Offset: &failure.Offset, TimestampType: failure.SourceTimeType,
			Headers: make([]managementHeader, 0, len(record.Headers)),
		},
	}
	if event.EventID == "" {
		event.EventID = headerOr(record.Headers, managementEventID, position)
	}
	if event.Pattern == "" {
		event.Pattern = headerOr(record.Headers, managementType, failure.Topic)
	}
	if !failure.SourceTime.IsZero() {
		event.Timestamp = &isoTime{failure.SourceTime.UTC()}
	}
	for _, header := range record.Headers {
		event.Metadata.Headers = append(event.Metadata.Headers, managementHeader{header.Key, header.Value})
	}
	event.Payload, event.Metadata.Encoding = encodePayload(record.Value)
	return event
}

// headerOr returns the text of the header, or otherwise if there is no such header.
func headerOr(headers []kgo.RecordHeader, name, otherwise string) string {
	if header, found := last(headers, name); found && len(header.Value) > 0 && utf8.Valid(header.Value) {
		return string(header.Value)
	}
	return otherwise
}

// encodePayload returns a value as JSON, and the encoding. It returns the value itself only if decoding and encoding
// reproduce it byte for byte.
func encodePayload(value []byte) (payload json.RawMessage, encoding string) {
	if value == nil {
		return json.RawMessage("null"), payloadNone
	}
	var compact bytes.Buffer
	if utf8.Valid(value) && json.Compact(&compact, value) == nil && bytes.Equal(compact.Bytes(), value) {
		return value, payloadJSON
	}
	text, err := json.Marshal(value)
	if err != nil {
		panic(fmt.Sprintf("encoding a payload: %v", err)) // bytes can always be encoded
	}
	return text, payloadBase64
}

// decodePayload reverses encodePayload. ok is false if the payload does not match the encoding.
func (m *managementEvent) decodePayload() (value []byte, ok bool) {
	switch m.Metadata.Encoding {
	case "":
		return m.whole, m.whole != nil
	case payloadNone:
		return nil, true
	case payloadBase64:
		return value, json.Unmarshal(m.Payload, &value) == nil
	}
	return m.Payload, m.Metadata.Encoding == payloadJSON
}

// readEntry decodes an entry. whole is false if the value is not an entry or lacks a field.
func readEntry(value []byte) (entry managementEntry, whole bool) {
	if len(value) == 0 || value[0] != '{' || json.Unmarshal(value, &entry) != nil {
		return managementEntry{}, false
	}
	found := entry.fields()
	return entry, found.all(len(Management{}.Traits().Fields))
}

// attemptsOf returns the number of attempts, which includes the first one.
func attemptsOf(retries int32) int32 {
	return min(max(retries, 0), math.MaxInt32-1) + 1
}

// fields returns the members of Traits.Fields that the entry has.
func (m *managementEntry) fields() (found fields) {
	found.note(0, m.ID != nil && *m.ID != "")
	found.note(1, m.EventID != nil)
	if m.Event != nil {
		_, decoded := m.Event.decodePayload()
		at := m.Event.Metadata
		found.note(2, decoded)
		found.note(3, at.Topic != "")
		found.note(4, at.Partition != nil && *at.Partition >= 0)
		found.note(5, at.Offset != nil && *at.Offset >= 0)
	}
	found.note(6, m.Error != nil)
	found.note(7, m.RetryCount != nil && *m.RetryCount >= 0)
	found.note(8, m.Status != nil && *m.Status != "")
	found.note(9, m.CreatedAt != nil)
	found.note(10, m.UpdatedAt != nil)
	return found
}

// Open implements Opener. If one field of an entry cannot be decoded, the whole JSON cannot, and Open returns no
// information.
func (Management) Open(letter *kgo.Record) (Failure, []string) {
	failure := unknownFailure(letter)
	entry, _ := readEntry(letter.Value)
	found := entry.fields()
	if entry.ID != nil {
		failure.ID = *entry.ID
	}
	if entry.EventID != nil {
		failure.EventID = *entry.EventID
	}
	failure.Group = entry.SubscriberID
	if e := entry.Event; e != nil {
		failure.EventType, failure.Topic, failure.SourceTimeType = e.Pattern, e.Metadata.Topic, e.Metadata.TimestampType
		if e.Timestamp != nil {
			failure.SourceTime = e.Timestamp.Time
		}
		if found&(1<<4) != 0 {
			failure.Partition = *e.Metadata.Partition
		}
		if found&(1<<5) != 0 {
			failure.Offset = *e.Metadata.Offset
		}
	}
	if e := entry.Error; e != nil {
		failure.Reason, failure.Class, failure.Code, failure.Stack = e.Message, e.Type, e.Code, e.Stack
		openContext(e.Context, &failure)
	}
	if found&(1<<7) != 0 {
		failure.Attempts = attemptsOf(*entry.RetryCount)
	}
	if entry.MaxRetries != nil {
		failure.MaxAttempts = attemptsOf(*entry.MaxRetries)
	}
	if entry.UpdatedAt != nil {
		failure.Time = entry.UpdatedAt.Time
	}
	return failure, found.missing(Management{}.Traits().Fields)
}

// Prepare implements Opener. If the value cannot be extracted, it returns the dead letter unchanged.
func (Management) Prepare(letter *kgo.Record) *kgo.Record {
	failure, _ := Management{}.Open(letter)
	record := &kgo.Record{Key: letter.Key, Value: letter.Value, Headers: letter.Headers, Topic: failure.Topic,
		Partition: failure.Partition}
	entry, _ := readEntry(letter.Value)
	if entry.Event == nil {
		return record
	}
	value, ok := entry.Event.decodePayload()
	if !ok {
		return record
	}
	record.Value, record.Headers = value, make([]kgo.RecordHeader, 0, len(entry.Event.Metadata.Headers))
	for _, header := range entry.Event.Metadata.Headers {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: header.Key, Value: header.Value})
	}
	return record
}

// IsFailureHeader implements Opener. It is false, because a dead letter has no headers of its own.
func (Management) IsFailureHeader(string) bool { return false }
