package mongo

import (
	"bytes"
	"encoding/json"
	"fmt"
	"strings"
	"time"

	"go.mongodb.org/mongo-driver/v2/bson"

	"github.com/dlqbench/dlqbench/store"
)

// maxDocumentBytes is MongoDB's limit for a document, minus a reserve for later additions.
const (
	maxDocumentBytes = 16 << 20
	roomForChanges   = 512 << 10
	// maxNativeBytes is the maximum length of an original message that is stored a second time as BSON beside its
	// bytes.
	maxNativeBytes = 1 << 20
)

// document is a document of dlq_messages. The first part has the fields of "Dead Letter Queue Lifecycle", the second
// the additional ones.
type document struct {
	ID              string     `bson:"_id"`
	MessageID       string     `bson:"messageId"`
	OriginalMessage any        `bson:"originalMessage"`
	ErrorReason     string     `bson:"errorReason"`
	ErrorStack      string     `bson:"errorStack"`
	ErrorType       string     `bson:"errorType"`
	RetryCount      int        `bson:"retryCount"`
	DLQRetryCount   int        `bson:"dlqRetryCount"`
	FirstFailedAt   *time.Time `bson:"firstFailedAt"`
	LastFailedAt    *time.Time `bson:"lastFailedAt"`
	Status          string     `bson:"status"`
	LockedBy        *string    `bson:"lockedBy"`
	LockedAt        *time.Time `bson:"lockedAt"`
	NextRetryAt     *time.Time `bson:"nextRetryAt"`
	Metadata        metadata   `bson:"metadata"`
	ReplayAttempts  []attempt  `bson:"replayAttempts"`
	CreatedAt       time.Time  `bson:"createdAt"`
	UpdatedAt       time.Time  `bson:"updatedAt"`

	Version int64 `bson:"version"`
	// Held is what holds a pending entry, in a vocabulary without a word for it.
	Held       string     `bson:"held"`
	LeaseUntil *time.Time `bson:"leaseUntil"`
	Strategy   string     `bson:"strategy"`
	MaxRetries int        `bson:"maxRetries"`
	// Coordinate is the place where the failed record was consumed, Letter the place of the dead letter.
	Coordinate place  `bson:"coordinate"`
	Letter     place  `bson:"letter"`
	Dialect    string `bson:"dialect"`
	// Raw is the original record, byte for byte. OriginalJSON is the original message if BSON cannot represent it
	// exactly. If OriginalJSON is absent and originalMessage is null, the message follows from the bytes.
	Raw          raw    `bson:"raw"`
	OriginalJSON string `bson:"originalJSON,omitempty"`
	SubscriberID string `bson:"subscriberId"`
	Pattern      string `bson:"pattern"`
	ErrorCode    string `bson:"errorCode"`
	ErrorContext string `bson:"errorContext,omitempty"`
	Resolution   *ended `bson:"resolution,omitempty"`
	// Transitions are all changes of the entry, if they are recorded.
	Transitions []transition `bson:"transitions,omitempty"`
}

type metadata struct {
	Source      string   `bson:"source"`
	Priority    int      `bson:"priority"`
	Tags        []string `bson:"tags"`
	SystemState any      `bson:"systemState"`
}

type attempt struct {
	Timestamp time.Time `bson:"timestamp"`
	WorkerID  string    `bson:"workerId"`
	Strategy  string    `bson:"strategy"`
	Result    string    `bson:"result"`
	Error     string    `bson:"error,omitempty"`
	TookNanos int64     `bson:"tookNanos"`
}

type place struct {
	Topic     string `bson:"topic"`
	Partition int32  `bson:"partition"`
	Offset    int64  `bson:"offset"`
}

type raw struct {
	Key     []byte   `bson:"key"`
	Value   []byte   `bson:"value"`
	Headers []header `bson:"headers"`
}

type header struct {
	Key   string `bson:"key"`
	Value []byte `bson:"value"`
}

type ended struct {
	Timestamp  *time.Time `bson:"timestamp"`
	Strategy   string     `bson:"strategy"`
	ResolvedBy string     `bson:"resolvedBy"`
	Notes      string     `bson:"notes"`
	// InDLQMillis is the time from the creation to the resolution.
	InDLQMillis int64 `bson:"inDLQMillis"`
}

// transition is one change of an entry. From is empty for a new entry. HeldFrom and HeldTo are what held it before and
// after. Worker holds it afterwards.
type transition struct {
	Version     int64      `bson:"version"`
	From        string     `bson:"from"`
	HeldFrom    string     `bson:"heldFrom"`
	To          string     `bson:"to"`
	HeldTo      string     `bson:"heldTo"`
	At          time.Time  `bson:"at"`
	Worker      string     `bson:"worker"`
	Retried     bool       `bson:"retried"`
	Strategy    string     `bson:"strategy"` // empty if unchanged
	NextRetryAt *time.Time `bson:"nextRetryAt"`
	LeaseUntil  *time.Time `bson:"leaseUntil"`
}

// write returns the document of a new entry.
func (s *Store) write(entry store.Entry) document {
	status, held := s.words.Write(entry.State)
	written := document{
		ID: entry.ID, Version: entry.Version, MessageID: store.Cut(entry.EventID, 255),
		SubscriberID: store.Cut(entry.SubscriberID, 255), Pattern: store.EncodeText(entry.Pattern),
		Dialect: entry.Dialect, Coordinate: writePlace(entry.Source), Letter: writePlace(entry.Letter),
		RetryCount: entry.RetryCount, MaxRetries: entry.MaxRetries, DLQRetryCount: entry.DLQRetryCount, Status: status,
		Held:          held,
		FirstFailedAt: writeTime(entry.FirstFailedAt), LastFailedAt: writeTime(entry.LastFailedAt),
		NextRetryAt: writeTime(entry.NextRetryAt),
		Strategy:    store.Cut(string(entry.Strategy), 50),
		CreatedAt:   millis(entry.CreatedAt), UpdatedAt: millis(entry.UpdatedAt),
		ErrorReason: store.EncodeText(entry.Error.Message), ErrorStack: store.EncodeText(entry.Error.Stack),
		ErrorType: store.Cut(entry.Error.Type, 100),
		ErrorCode: store.Cut(entry.Error.Code, 100), ErrorContext: store.EncodeText(string(entry.Error.Context)),
		Metadata: metadata{
			Source: store.EncodeText(entry.Service), Priority: entry.Priority, Tags: encodeTexts(entry.Tags),
			SystemState: systemState(entry.Error.Context),
		},
		Raw:            raw{Key: entry.Key, Value: entry.Value, Headers: []header{}},
		ReplayAttempts: []attempt{},
	}
	written.OriginalMessage, written.OriginalJSON = writeEvent(entry)
	for _, h := range entry.Headers {
		written.Raw.Headers = append(written.Raw.Headers, header{store.EncodeText(h.Key), h.Value})
	}
	for _, a := range entry.RetryHistory {
		written.ReplayAttempts = append(written.ReplayAttempts, writeAttempt(a))
	}
	if entry.Resolution.Notes != "" { // of a restored entry: no other new entry has a resolution
		written.Resolution = &ended{Notes: store.EncodeText(entry.Resolution.Notes)}
	}
	if s.audit {
		written.Transitions = []transition{{Version: entry.Version, To: status, HeldTo: held, At: written.UpdatedAt,
			Strategy: written.Strategy, NextRetryAt: written.NextRetryAt}}
	}
	return written
}

// writeEvent returns the original message as BSON, or as a text if BSON has no exact form of it. It returns neither if
// the message is long and follows from the stored bytes.
func writeEvent(entry store.Entry) (message any, text string) {
	if len(entry.OriginalEvent) > maxNativeBytes &&
		bytes.Equal(entry.OriginalEvent, store.OriginalEvent(entry.Value, entry.Pattern, entry.EventID)) {
		return nil, ""
	}
	message, err := native(entry.OriginalEvent)
	if err != nil || message == nil {
		return nil, string(entry.OriginalEvent)
	}
	return message, ""
}

// systemState is the part of an error's context that has a field in the document. The entry's author set it; for an
// entry from a router, its dead letter did.
func systemState(context json.RawMessage) any {
	state := store.Field(context, "systemState")
	if state == nil {
		state = store.Field(store.Field(context, "context"), "systemState")
	}
	if state == nil {
		return nil
	}
	kept, err := native(state)
	if err != nil {
		return string(state)
	}
	return kept
}

// fit cuts the stack of a document that is too long for MongoDB. The record itself is never cut.
func fit(written document) (document, error) {
	if written.roughBytes() < maxDocumentBytes/4 {
		return written, nil
	}
	encoded, err := bson.Marshal(written)
	if err != nil {
		return document{}, fmt.Errorf("writing the dead letter of %s/%d@%d as a document: %w", written.Coordinate.Topic,
			written.Coordinate.Partition, written.Coordinate.Offset, err)
	}
	excess := len(encoded) - (maxDocumentBytes - roomForChanges)
	if excess <= 0 {
		return written, nil
	}
	const mark = "\n… cut: MongoDB's documents have 16 MiB"
	if keep := len(written.ErrorStack) - excess - len(mark); keep > 0 {
		written.ErrorStack = strings.ToValidUTF8(written.ErrorStack[:keep], "") + mark
		return written, nil
	}
	return document{}, fmt.Errorf(
		"the dead letter of %s/%d@%d needs %d bytes, and MongoDB's documents have %d: keep such records in another store",
		written.Coordinate.Topic, written.Coordinate.Partition, written.Coordinate.Offset, len(encoded), maxDocumentBytes)
}

// roughBytes estimates the size of the parts that may be long. The message is stored a second time as BSON, in which a
// one-digit number takes eight bytes.
func (d document) roughBytes() int {
	bytes := len(d.Raw.Key) + 4*len(d.Raw.Value) + len(d.OriginalJSON) + len(d.ErrorReason) + len(d.ErrorStack) + 2*len(
		d.ErrorContext)
	for _, h := range d.Raw.Headers {
		bytes += len(h.Key) + len(h.Value)
	}
	for _, a := range d.ReplayAttempts {
		bytes += len(a.Error)
	}
	for _, tag := range d.Metadata.Tags {
		bytes += len(tag)
	}
	return bytes
}

// read returns the entry of a document. An unknown status becomes the entry's state.
func (s *Store) read(d document) (store.Entry, error) {
	event, err := readEvent(d)
	if err != nil {
		return store.Entry{}, fmt.Errorf("reading the original message of %s: %w", d.ID, err)
	}
	// Entry.Problem reports an unknown word, which is the entry's state.
	state, _ := s.words.Read(d.Status, d.Held)
	entry := store.Entry{
		ID: d.ID, Version: d.Version, Source: readPlace(d.Coordinate), Letter: readPlace(d.Letter), Dialect: d.Dialect,
		EventID: store.DecodeText(d.MessageID), SubscriberID: store.DecodeText(d.SubscriberID),
		Pattern: store.DecodeText(d.Pattern), Key: d.Raw.Key, Value: d.Raw.Value, OriginalEvent: event,
		Error: store.Failure{
			Message: store.DecodeText(d.ErrorReason), Type: store.DecodeText(d.ErrorType), Code: store.DecodeText(d.ErrorCode),
			Stack: store.DecodeText(d.ErrorStack),
		},
		RetryCount: d.RetryCount, MaxRetries: d.MaxRetries, DLQRetryCount: d.DLQRetryCount,
		FirstFailedAt: readTime(d.FirstFailedAt), LastFailedAt: readTime(d.LastFailedAt),
		State: state, Strategy: store.Strategy(d.Strategy), NextRetryAt: readTime(d.NextRetryAt),
		Priority: d.Metadata.Priority,
		LockedAt: readTime(d.LockedAt), LeaseUntil: readTime(d.LeaseUntil), Service: store.DecodeText(d.Metadata.Source),
		CreatedAt: d.CreatedAt.UTC(), UpdatedAt: d.UpdatedAt.UTC(),
	}
	if d.LockedBy != nil {
		entry.LockedBy = store.DecodeText(*d.LockedBy)
	}
	if d.ErrorContext != "" {
		entry.Error.Context = json.RawMessage(store.DecodeText(d.ErrorContext))
	}
	for _, h := range d.Raw.Headers {
		entry.Headers = append(entry.Headers, store.Header{Key: store.DecodeText(h.Key), Value: h.Value})
	}
	for _, a := range d.ReplayAttempts {
		entry.RetryHistory = append(entry.RetryHistory, readAttempt(a))
	}
	for _, tag := range d.Metadata.Tags {
		entry.Tags = append(entry.Tags, store.DecodeText(tag))
	}
	if d.Resolution != nil {
		entry.Resolution = store.Resolution{
			At: readTime(d.Resolution.Timestamp), How: d.Resolution.Strategy, By: store.DecodeText(d.Resolution.ResolvedBy),
			Notes: store.DecodeText(d.Resolution.Notes),
		}
	}
	return entry, nil
}

func readEvent(d document) (json.RawMessage, error) {
	switch {
	case d.OriginalJSON != "":
		return json.RawMessage(d.OriginalJSON), nil
	case d.OriginalMessage != nil:
		return plain(d.OriginalMessage)
	default:
		return store.OriginalEvent(d.Raw.Value, store.DecodeText(d.Pattern), store.DecodeText(d.MessageID)), nil
	}
}

func writeAttempt(a store.Attempt) attempt {
	return attempt{
		Timestamp: millis(a.At), WorkerID: store.EncodeText(a.Worker), Strategy: string(a.Strategy), Result: a.Result,
		Error: store.EncodeText(a.Error), TookNanos: int64(a.Took),
	}
}

func readAttempt(a attempt) store.Attempt {
	return store.Attempt{
		At: a.Timestamp.UTC(), Worker: store.DecodeText(a.WorkerID), Strategy: store.Strategy(a.Strategy), Result: a.Result,
		Error: store.DecodeText(a.Error), Took: time.Duration(a.TookNanos),
	}
}

func writePlace(p store.Place) place { return place{store.EncodeText(p.Topic), p.Partition, p.Offset} }
func readPlace(p place) store.Place {
	return store.Place{Topic: store.DecodeText(p.Topic), Partition: p.Partition, Offset: p.Offset}
}

// millis is a time with MongoDB's precision.
func millis(t time.Time) time.Time { return t.UTC().Truncate(time.Millisecond) }

func writeTime(t time.Time) *time.Time {
	if t.IsZero() {
		return nil
	}
	kept := millis(t)
	return &kept
}

func readTime(t *time.Time) time.Time {
	if t == nil {
		return time.Time{}
	}
	return t.UTC()
}

func encodeTexts(texts []string) []string {
	encoded := make([]string, len(texts))
	for i, text := range texts {
		encoded[i] = store.EncodeText(text)
	}
	return encoded
}
