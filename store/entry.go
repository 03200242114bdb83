package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Place is the position of a record in Kafka, present or past.
type Place struct {
	Topic     string
	Partition int32
	Offset    int64
}

// Header is one header of the original record.
type Header struct {
	Key   string
	Value []byte
}

// Entry is one dead letter in the store. It has the fields of both documents, "Dead Letter Queue Lifecycle" and the
// management schema.
type Entry struct {
	// ID is the entry's own UUID. Version grows with every change.
	ID      string
	Version int64
	// Source is the place where the failed record was consumed. It is unique among entries. If a dead letter does not
	// name its source, Source is the dead letter's own place.
	Source Place
	// Letter is the place of the dead letter itself. Dialect is the dialect it was written in, or "raw" if no dialect
	// could open it.
	Letter  Place
	Dialect string

	EventID      string
	SubscriberID string
	// Pattern is the event's pattern, such as "payment.created", or "" if the event has none. It always equals the one
	// in OriginalEvent.
	Pattern string
	// Key, Value and Headers are those of the original record, byte for byte. A nil Key or Value is a null.
	Key, Value []byte
	Headers    []Header
	// OriginalEvent is the value if it is JSON, otherwise an object that contains it in base64 (see func
	// OriginalEvent). A database may change its spaces and the order of its fields.
	OriginalEvent json.RawMessage

	Error        Failure
	RetryHistory []Attempt
	// RetryCount is the number of tries by the consumer, MaxRetries the consumer's limit, DLQRetryCount the number of
	// later tries by workers.
	RetryCount, MaxRetries, DLQRetryCount int
	FirstFailedAt, LastFailedAt           time.Time

	State    State
	Strategy Strategy
	// NextRetryAt is the earliest time at which a worker may take the entry. With the zero time, workers do not take
	// it.
	NextRetryAt time.Time
	Priority    int
	// LockedBy is the worker that has locked the entry since LockedAt and until LeaseUntil, unless it renews; "" if it
	// is unlocked.
	LockedBy             string
	LockedAt, LeaseUntil time.Time

	// Service is the service that failed ("metadata.source", "source.name").
	Service    string
	Tags       []string
	Resolution Resolution

	CreatedAt, UpdatedAt time.Time
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
	Message, Type, Code, Stack string
	Context                    json.RawMessage
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
	At time.Time
	// How is AutomaticRetry, ManualRetry, ManualResolution or Discard.
	How       string
	By, Notes string
}

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
