package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/deadletter"
)

// Class says what follows from a failed attempt.
type Class uint8

// The classes. An error that says nothing is Retryable, a timeout or a broken connection likewise.
const (
	// Retryable: it may go better next time.
	Retryable Class = iota
	// Permanent: it will fail again; dead-lettered after this one attempt.
	Permanent
	// Logical: a business outcome, no malfunction; the record is finished and logged, and is not dead-lettered.
	Logical
)

func (c Class) String() string {
	switch c {
	case Permanent:
		return "permanent"
	case Logical:
		return "logical"
	case Retryable:
	}
	return "retryable"
}

// Error is a handler's error with its class.
type Error struct {
	Class Class
	// RetryAfter is the shortest wait before the next attempt that the downstream asks for; 0 if it doesn't.
	RetryAfter time.Duration
	// Name is that of the failure in the words of what failed ("UNAVAILABLE") or of the management schema
	// ("NetworkError"), Code a code it has of its own ("503"), Stack the stack trace; each "" where it has none.
	Name, Code, Stack string
	Err               error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of a handler's error; Retryable for one that carries none.
func ClassOf(err error) Class {
	var classed *Error
	if errors.As(err, &classed) {
		return classed.Class
	}
	return Retryable
}

// The names of the kinds of errors that the consumer itself tells apart, in the words of the management schema's
// classification.
const (
	nameNetwork     = "NetworkError"
	nameTimeout     = "TimeoutError"
	nameRateLimit   = "RateLimitError"
	nameUnavailable = "ServiceUnavailableError"
	nameServer      = "ServerError"
	nameValidation  = "ValidationError"
	namePermission  = "AuthorizationError"
	nameNotFound    = "ResourceNotFoundError"
	namePanic       = "HandlerPanic"
)

// describe notes in a failure what is known of an error: its name, or else its Go type.
func describe(err error, failure *deadletter.Failure) {
	if err == nil {
		return
	}
	failure.Reason = err.Error()
	var classed *Error
	switch {
	case errors.As(err, &classed) && classed.Name != "":
		failure.Class, failure.Code, failure.Stack = classed.Name, classed.Code, classed.Stack
	case errors.Is(err, context.DeadlineExceeded):
		failure.Class = nameTimeout
	case classed != nil:
		failure.Class = fmt.Sprintf("%T", classed.Err)
	default:
		failure.Class = fmt.Sprintf("%T", err)
	}
}

func retryAfter(err error) time.Duration {
	var classed *Error
	if errors.As(err, &classed) {
		return classed.RetryAfter
	}
	return 0
}
