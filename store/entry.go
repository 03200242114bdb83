package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Place is the position of a record in Kafka, present or past.
type Place struct {
	Topic     string `json:"topic"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
}

// Header is one header of the original record.
type Header struct {
	Key   string `json:"key"`
	Value []byte `json:"value"`
}

// Entry is one dead letter in the store. It has the fields of both documents, "Dead Letter Queue Lifecycle" and the
// management schema, and in JSON their names. What JSON has in other forms, package manage adds.
type Entry struct {
	// ID is the entry's own UUID. Version grows with every change.
	ID      string `json:"id"`
	Version int64  `json:"version"`
	// Source is the place where the failed record was consumed. It is unique among entries. If a dead letter does not
	// name its source, Source is the dead letter's own place.
	Source Place `json:"-"`
	// Letter is the place of the dead letter itself. Dialect is the dialect it was written in, or "raw" if no dialect
	// could open it.
	Letter  Place  `json:"letter"`
	Dialect string `json:"dialect"`

	EventID      string `json:"eventId,omitempty"`
	SubscriberID string `json:"subscriberId,omitempty"`
	// Pattern is the event's pattern, such as "payment.created", or "" if the event has none. It always equals the one
	// in OriginalEvent.
	Pattern string `json:"pattern,omitempty"`
	// Key, Value and Headers are those of the original record, byte for byte. A nil Key or Value is a null.
	Key     []byte   `json:"-"`
	Value   []byte   `json:"-"`
	Headers []Header `json:"-"`
	// OriginalEvent is the value if it is JSON, otherwise an object that contains it in base64 (see func
	// OriginalEvent). A database may change its spaces and the order of its fields.
	OriginalEvent json.RawMessage `json:"originalEvent,omitempty"`

	Error        Failure   `json:"error"`
	RetryHistory []Attempt `json:"-"`
	// RetryCount is the number of tries by the consumer, MaxRetries the consumer's limit, DLQRetryCount the number of
	// later tries by workers.
	RetryCount    int       `json:"retryCount"`
	MaxRetries    int       `json:"maxRetries"`
	DLQRetryCount int       `json:"dlqRetryCount"`
	FirstFailedAt time.Time `json:"firstFailedAt,omitzero"`
	LastFailedAt  time.Time `json:"lastFailedAt,omitzero"`

	State    State    `json:"status"`
	Strategy Strategy `json:"strategy,omitempty"`
	// NextRetryAt is the earliest time at which a worker may take the entry. With the zero time, workers do not take
	// it.
	NextRetryAt time.Time `json:"nextRetryAt,omitzero"`
	Priority    int       `json:"priority"`
	// LockedBy is the worker that has locked the entry since LockedAt and until LeaseUntil, unless it renews; "" if it
	// is unlocked.
	LockedBy   string    `json:"lockedBy,omitempty"`
	LockedAt   time.Time `json:"lockedAt,omitzero"`
	LeaseUntil time.Time `json:"leaseUntil,omitzero"`

	// Service is the service that failed ("metadata.source", "source.name").
	Service    string     `json:"source,omitempty"`
	Tags       []string   `json:"tags,omitempty"`
	Resolution Resolution `json:"resolution,omitzero"`

	CreatedAt time.Time `json:"createdAt"`
	UpdatedAt time.Time `json:"updatedAt"`
}

// Problem returns nil for a valid entry, and ErrUnknownStatus if the table has a status outside the vocabulary. Such an
// entry is shown, but workers do not take it, and it is neither changed nor removed.
func (e Entry) Problem() error {
	if e.State.Known() {
		return nil
	}
	return fmt.Errorf("%w %s: set the status of %s right in the table", ErrUnknownStatus, e.State, e.ID)
}

// Failure is the reason why a record was dead-lettered.
type Failure struct {
	Message string          `json:"message"`
	Type    string          `json:"type,omitempty"`
	Code    string          `json:"code,omitempty"`
	Stack   string          `json:"stackTrace,omitempty"`
	Context json.RawMessage `json:"context,omitempty"`
}

// Attempt is one try of a worker (replayAttempts, retryHistory).
type Attempt struct {
	At       time.Time
	Worker   string
	Strategy Strategy
	// Result is "succeeded" or "failed". Error is empty after a success.
	Result, Error string
	Took          time.Duration
}

// Resolution describes how an entry was resolved or discarded.
type Resolution struct {
	At time.Time `json:"timestamp,omitzero"`
	// How is AutomaticRetry, ManualRetry, ManualResolution or Discard.
	How   string `json:"strategy"`
	By    string `json:"resolvedBy,omitempty"`
	Notes string `json:"notes,omitempty"`
}

// IsZero reports whether the entry is neither resolved nor discarded; an edit may have left notes.
func (r Resolution) IsZero() bool { return r.How == "" }

// These are the ways in which an entry ends (the management schema's resolution strategies).
const (
	AutomaticRetry   = "automatic_retry"
	ManualRetry      = "manual_retry"
	ManualResolution = "manual_resolution"
	Discard          = "discard"
)

// Strategy is the way in which an entry is retried.
type Strategy string

// These are the strategies of "Dead Letter Queue Lifecycle".
const (
	Immediate   Strategy = "immediate_retry"
	Scheduled   Strategy = "scheduled_retry"
	Conditional Strategy = "conditional_retry"
	ByHand      Strategy = "manual_intervention"
)
