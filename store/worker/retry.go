package worker

import (
	"context"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// The results of attempts, as entries tell them.
const (
	Succeeded   = "succeeded"
	FailedAgain = "failed"
)

// Retrier tries an entry again.
type Retrier interface {
	// Retry returns nil when the entry is dealt with. An error that is no *RetryError counts as Transient. It ends when
	// ctx does; what became of the entry is then unknown.
	Retry(ctx context.Context, entry store.Entry) error
}

// RetryError is why a retry failed.
type RetryError struct {
	Class Class
	// RetryAfter is the shortest real wait that the downstream asks for; 0 if it doesn't.
	RetryAfter time.Duration
	Err        error
}

func (e *RetryError) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *RetryError) Unwrap() error { return e.Err }

// failure is what the entry says of its error from now on. The stack is that of another failure, and goes; the context
// is the letter's, and stays, with the error that the record was dead-lettered for: whoever looks into the failure must
// still find it.
func (e *RetryError) failure(before store.Failure) *store.Failure {
	after := store.Failure{Message: e.Error(), Type: before.Type, Code: before.Code, Context: keepFirst(before)}
	if Analyse(before) != e.Class { // it failed for another reason than it did at first
		after.Type, after.Code = string(e.Class), ""
	}
	return &after
}
