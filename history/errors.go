package history

import (
	"cmp"
	"errors"
	"fmt"
	"time"
)

// ErrFormat is wrapped by the error for a history that was written by a newer dlqbench.
var ErrFormat = errors.New("the history's format is newer than this dlqbench reads")

// SegmentError reports that a file of a history is unusable, or that the files do not match the seal.
type SegmentError struct {
	// Path is the file.
	Path string
	// Found describes the defect.
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
