package consumer

import (
	"errors"
	"time"
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
	Err        error
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

func retryAfter(err error) time.Duration {
	var classed *Error
	if errors.As(err, &classed) {
		return classed.RetryAfter
	}
	return 0
}
