package subject

// The times of a process's output. Its lines may carry times of any form, or none. So beside the log there is a file
// that maps positions in the log, in bytes, to times of the run's clock. It has one line for each tenth of a second
// with output: "OFFSET NANOSECONDS".

import (
	"fmt"
	"os"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// TimesSuffix is appended to the log's name for that file.
const TimesSuffix = ".times"

// TimesEvery is the precision of the times.
const TimesEvery = 100 * time.Millisecond

// times records when a log grew.
type times struct {
	file  *os.File
	clock history.Clock
	noted time.Duration
}

// newTimes opens the file of times beside the log.
func newTimes(log string, clock history.Clock) (*times, error) {
	file, err := os.OpenFile(log+TimesSuffix, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return nil, fmt.Errorf("opening the times of the subject's output: %w", err)
	}
	return &times{file: file, clock: clock, noted: -TimesEvery}, nil
}

// note records that the following output was read now.
func (t *times) note(offset int64) error {
	now := t.clock.Now()
	if now-t.noted < TimesEvery {
		return nil
	}
	t.noted = now
	_, err := fmt.Fprintf(t.file, "%d %d\n", offset, now)
	return err
}
