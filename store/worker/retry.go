package worker

import (
	"context"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// These are the results of attempts, as entries have them.
const (
	Succeeded   = "succeeded"
	FailedAgain = "failed"
)

// Retrier retries an entry.
type Retrier interface {
	// Retry returns nil when the entry is resolved. An error other than a *RetryError counts as Transient. Retry ends
	// when ctx does; the outcome is then unknown.
	Retry(ctx context.Context, entry store.Entry) error
}

// RetryError is the reason why a retry failed.
type RetryError struct {
	Class Class
	// RetryAfter is the minimum real wait that the downstream asks for, or 0.
	RetryAfter time.Duration
	Err        error
}

func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// failure is the entry's new failure. The stack belongs to another failure and is dropped. The context is the dead
// letter's and stays, together with the error for which the record was dead-lettered, so that people can still find it.
func (e *RetryError) failure(before store.Failure) *store.Failure {
	after := store.Failure{Message: e.Error(), Type: before.Type, Code: before.Code, Context: keepFirst(before)}
	if Analyse(before) != e.Class { // the reason differs from that of the first failure
		after.Type, after.Code = string(e.Class), ""
	}
	return &after
}
