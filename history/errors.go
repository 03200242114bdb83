package history

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// ErrFormat is wrapped by the error for a history that a newer dlqbench wrote.
var ErrFormat = errors.New("the history's format is newer than this dlqbench reads")

// SegmentError tells that one file of a history can't be used, or that what the files hold isn't what the seal says.
type SegmentError struct {
	// Path of the file.
	Path string
	// Found says what is wrong with it.
	Found error
}

func (e *SegmentError) Error() string {
	return fmt.Sprintf("reading history segment %s: %v: what it held is lost; restore the file from a copy, or judge "+
		"what is left of the run (inconclusive at best)", e.Path, e.Found)
}

func (e *SegmentError) Unwrap() error { return e.Found }

func damaged(path string, format string, args ...any) *SegmentError {
	return &SegmentError{Path: path, Found: fmt.Errorf(format, args...)}
}

func compareTimes(a, b time.Duration) int { return cmp.Compare(a, b) }
