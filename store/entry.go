package store

import (
	"encoding/json"
	"fmt"
	"time"
)

// Place is where a record is, or was, in Kafka.
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

// Entry is one dead letter in the store: the fields of both documents, "Dead Letter Queue Lifecycle" and the management
// schema's.
type Entry struct {
	// ID is a UUID of the entry's own; Version grows with every change.
	ID      string
	Version int64
	// Source is where the record that failed was consumed; no two entries have the same. A letter that doesn't say has
	// its own place here.
	Source Place
	// Letter is where the dead letter itself is; Dialect how it was written, "raw" if nothing could open it.
	Letter  Place
	Dialect string

	EventID      string
	SubscriberID string
	// Pattern is the event's, such as "payment.created"; "" if it doesn't say. It is always the one that OriginalEvent
	// names.
	Pattern string
	// Key, Value and Headers are the original record's, byte for byte; a nil Key or Value is a null.
	Key, Value []byte
	Headers    []Header
	// OriginalEvent is the value as JSON where it is JSON, otherwise an object that holds it in base64 (see the
	// function of this name). A database may put its spaces and the order of its fields differently.
	OriginalEvent json.RawMessage

	Error        Failure
	RetryHistory []Attempt
	// RetryCount is how often the consumer had tried, MaxRetries how often it may, DLQRetryCount how often workers have
	// tried since.
	RetryCount, MaxRetries, DLQRetryCount int
	FirstFailedAt, LastFailedAt           time.Time

	State    State
	Strategy Strategy
	// NextRetryAt is when a worker may take the entry; the zero time: not of its own accord.
	NextRetryAt time.Time
	Priority    int
	// LockedBy is the worker that has the entry, since LockedAt and until LeaseUntil unless it renews; "" if none has.
	LockedBy             string
	LockedAt, LeaseUntil time.Time

	// Service is the one that failed ("metadata.source", "source.name").
	Service    string
	Tags       []string
	Resolution Resolution

	CreatedAt, UpdatedAt time.Time
}

// Problem is nil for an entry that is as it should be, and ErrUnknownStatus where the table has a status that the
// vocabulary doesn't know: such an entry is shown, but no worker takes it, and it is neither changed nor removed.
func (e Entry) Problem() error {
	if e.State.Known() {
		return nil
	}
	return fmt.Errorf("%w %s: set the status of %s right in the table", ErrUnknownStatus, e.State, e.ID)
}

// Failure says why a record was dead-lettered.
type Failure struct {
	Message, Type, Code, Stack string
	Context                    json.RawMessage
}

// Attempt is one try of a worker (replayAttempts, retryHistory).
type Attempt struct {
	At       time.Time
	Worker   string
	Strategy Strategy
	// Result is "succeeded" or "failed"; Error is empty where it succeeded.
	Result, Error string
	Took          time.Duration
}

// Resolution says how an entry came to its end.
type Resolution struct {
	At time.Time
	// How is AutomaticRetry, ManualRetry, ManualResolution or Discard.
	How       string
	By, Notes string
}

// How an entry came to its end (the management schema's resolution strategies).
const (
	AutomaticRetry   = "automatic_retry"
	ManualRetry      = "manual_retry"
	ManualResolution = "manual_resolution"
	Discard          = "discard"
)

// Strategy is how an entry is tried again.
type Strategy string

// The strategies of "Dead Letter Queue Lifecycle".
const (
	Immediate   Strategy = "immediate_retry"
	Scheduled   Strategy = "scheduled_retry"
	Conditional Strategy = "conditional_retry"
	ByHand      Strategy = "manual_intervention"
)
