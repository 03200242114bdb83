package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/deadletter"
)

// Class is the class of a failed attempt, which determines what follows.
type Class uint8

// The classes. An error without a class is Retryable, and so is a timeout or a broken connection.
const (
	// Retryable: a later attempt may succeed.
	Retryable Class = iota
	// Permanent: every attempt would fail. The record is dead-lettered after this one.
	Permanent
	// Logical: a business outcome, not a malfunction. The record is finished and logged, and is not dead-lettered.
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
	// RetryAfter is the minimum wait before the next attempt that the downstream asks for, 0 if none.
	RetryAfter time.Duration
	// Name is the failure's name in the terms of the failed component ("UNAVAILABLE") or of the management schema
	// ("NetworkError"), Code is its own code ("503"), and Stack the stack trace. Each is "" if there is none.
	Name, Code, Stack string
	Err               error
}

func (e *Error) Error() string { return e.Err.Error() }

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// ClassOf returns the class of a handler's error, Retryable if it has none.
func ClassOf(err error) Class {
	if classed, ok := errors.AsType[*Error](err); ok {
		return classed.Class
	}
	return Retryable
}

// The names of the errors that the consumer itself distinguishes, from the classification of the management schema.
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

// describe fills in a failure from an error: its name, or else its Go type.
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
	if classed, ok := errors.AsType[*Error](err); ok {
		return classed.RetryAfter
	}
	return 0
}
