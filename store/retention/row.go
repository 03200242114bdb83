package retention

import (
	"encoding/json"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// row is an entry in an archive file. Texts are encoded by store.EncodeText, so that every Parquet reader accepts them.
// A missing time or value is null.
type row struct {
	ID              string    `parquet:"id"`
	Version         int64     `parquet:"version"`
	ArchivedAt      time.Time `parquet:"archived_at,timestamp(millisecond)"`
	State           string    `parquet:"state,dict"`
	SourceTopic     string    `parquet:"source_topic,dict"`
	SourcePartition int32     `parquet:"source_partition"`
	SourceOffset    int64     `parquet:"source_offset"`
	LetterTopic     string    `parquet:"letter_topic,dict"`
	LetterPartition int32     `parquet:"letter_partition"`
	LetterOffset    int64     `parquet:"letter_offset"`
	Dialect         string    `parquet:"dialect,dict"`
	EventID         string    `parquet:"event_id"`
	SubscriberID    string    `parquet:"subscriber_id,dict"`
	Pattern         string    `parquet:"pattern,dict"`
	Key             *[]byte   `parquet:"original_key,optional"`
	Value           *[]byte   `parquet:"original_value,optional"`
	Headers         []field   `parquet:"original_headers,list"`
	OriginalEvent   string    `parquet:"original_event"`
	ErrorMessage    string    `parquet:"error_message"`
	ErrorType       string    `parquet:"error_type,dict"`
	ErrorCode       string    `parquet:"error_code,dict"`
	ErrorStack      string    `parquet:"error_stack_trace"`
	ErrorContext    string    `parquet:"error_context"`
	RetryHistory    []attempt `parquet:"retry_history,list"`
	RetryCount      int       `parquet:"retry_count"`
	MaxRetries      int       `parquet:"max_retries"`
	DLQRetryCount   int       `parquet:"dlq_retry_count"`
	FirstFailedAt   time.Time `parquet:"first_failed_at,optional,timestamp(millisecond)"`
	LastFailedAt    time.Time `parquet:"last_failed_at,optional,timestamp(millisecond)"`
	Strategy        string    `parquet:"strategy,dict"`
	Priority        int       `parquet:"priority"`
	Service         string    `parquet:"service,dict"`
	Tags            []string  `parquet:"tags,list"`
	ResolvedAt      time.Time `parquet:"resolution_timestamp,optional,timestamp(millisecond)"`
	Resolution      string    `parquet:"resolution_strategy,dict"`
	ResolvedBy      string    `parquet:"resolved_by"`
	Notes           string    `parquet:"resolution_notes"`
	CreatedAt       time.Time `parquet:"created_at,timestamp(millisecond)"`
	UpdatedAt       time.Time `parquet:"updated_at,timestamp(millisecond)"`
}

type field struct {
	Key   string  `parquet:"key"`
	Value *[]byte `parquet:"value,optional"`
}

type attempt struct {
	At        time.Time `parquet:"timestamp,timestamp(millisecond)"`
	Worker    string    `parquet:"worker"`
	Strategy  string    `parquet:"strategy"`
	Result    string    `parquet:"result"`
	Error     string    `parquet:"error"`
	TookNanos int64     `parquet:"took_ns"`
}

func rowOf(e store.Entry, at time.Time) row {
	text := store.EncodeText
	written := row{
		ID: e.ID, Version: e.Version, ArchivedAt: at, State: text(string(e.State)),
		SourceTopic: text(e.Source.Topic), SourcePartition: e.Source.Partition, SourceOffset: e.Source.Offset,
		LetterTopic: text(e.Letter.Topic), LetterPartition: e.Letter.Partition, LetterOffset: e.Letter.Offset,
		Dialect: text(e.Dialect),
		EventID: text(e.EventID), SubscriberID: text(e.SubscriberID), Pattern: text(e.Pattern), Key: present(e.Key),
		Value:         present(e.Value),
		OriginalEvent: text(string(e.OriginalEvent)), ErrorMessage: text(e.Error.Message), ErrorType: text(e.Error.Type),
		ErrorCode:  text(e.Error.Code),
		ErrorStack: text(e.Error.Stack), ErrorContext: text(string(e.Error.Context)), RetryCount: e.RetryCount,
		MaxRetries:    e.MaxRetries,
		DLQRetryCount: e.DLQRetryCount, FirstFailedAt: e.FirstFailedAt, LastFailedAt: e.LastFailedAt,
		Strategy: text(string(e.Strategy)), Priority: e.Priority,
		Service: text(e.Service), ResolvedAt: e.Resolution.At, Resolution: text(e.Resolution.How),
		ResolvedBy: text(e.Resolution.By), Notes: text(e.Resolution.Notes), CreatedAt: e.CreatedAt, UpdatedAt: e.UpdatedAt,
	}
	for _, h := range e.Headers {
		written.Headers = append(written.Headers, field{text(h.Key), present(h.Value)})
	}
	for _, a := range e.RetryHistory {
		written.RetryHistory = append(written.RetryHistory, attempt{a.At, text(a.Worker), text(string(a.Strategy)),
			text(a.Result), text(a.Error), int64(a.Took)})
	}
	for _, tag := range e.Tags {
		written.Tags = append(written.Tags, text(tag))
	}
	return written
}

func (r row) entry() store.Entry {
	text := store.DecodeText
	e := store.Entry{
		ID: r.ID, Version: r.Version, State: store.State(text(r.State)),
		Source:  store.Place{Topic: text(r.SourceTopic), Partition: r.SourcePartition, Offset: r.SourceOffset},
		Letter:  store.Place{Topic: text(r.LetterTopic), Partition: r.LetterPartition, Offset: r.LetterOffset},
		Dialect: text(r.Dialect),
		EventID: text(r.EventID), SubscriberID: text(r.SubscriberID), Pattern: text(r.Pattern), Key: absent(r.Key),
		Value: absent(r.Value), OriginalEvent: document(r.OriginalEvent),
		Error: store.Failure{
			Message: text(r.ErrorMessage), Type: text(r.ErrorType), Code: text(r.ErrorCode), Stack: text(r.ErrorStack),
			Context: document(r.ErrorContext),
		},
		RetryCount: r.RetryCount, MaxRetries: r.MaxRetries, DLQRetryCount: r.DLQRetryCount,
		FirstFailedAt: r.FirstFailedAt.UTC(), LastFailedAt: r.LastFailedAt.UTC(),
		Strategy: store.Strategy(text(r.Strategy)), Priority: r.Priority, Service: text(r.Service),
		Resolution: store.Resolution{At: r.ResolvedAt.UTC(), How: text(r.Resolution), By: text(r.ResolvedBy),
			Notes: text(r.Notes)},
		CreatedAt: r.CreatedAt.UTC(), UpdatedAt: r.UpdatedAt.UTC(),
	}
	for _, h := range r.Headers {
		e.Headers = append(e.Headers, store.Header{Key: text(h.Key), Value: absent(h.Value)})
	}
	for _, a := range r.RetryHistory {
		e.RetryHistory = append(e.RetryHistory, store.Attempt{
			At: a.At.UTC(), Worker: text(a.Worker), Strategy: store.Strategy(text(a.Strategy)), Result: text(a.Result),
			Error: text(a.Error), Took: time.Duration(a.TookNanos),
		})
	}
	for _, tag := range r.Tags {
		e.Tags = append(e.Tags, text(tag))
	}
	return e
}

// bytes estimates the memory for a row.
func (r row) bytes() int {
	bytes := 1000 + len(r.OriginalEvent) + len(r.ErrorMessage) + len(r.ErrorStack) + len(r.ErrorContext)
	for _, value := range []*[]byte{r.Key, r.Value} {
		if value != nil {
			bytes += len(*value)
		}
	}
	for _, h := range r.Headers {
		if h.Value != nil {
			bytes += len(*h.Value)
		}
	}
	for _, a := range r.RetryHistory {
		bytes += len(a.Error) + 100
	}
	return bytes
}

// document is JSON that was stored as text, or nil if there was none.
func document(kept string) json.RawMessage {
	if kept == "" {
		return nil
	}
	return json.RawMessage(store.DecodeText(kept))
}

// present and absent preserve the difference between nil and empty.
func present(value []byte) *[]byte {
	if value == nil {
		return nil
	}
	return &value
}

func absent(value *[]byte) []byte {
	if value == nil {
		return nil
	}
	if *value == nil {
		return []byte{}
	}
	return *value
}
