package subject

// When a process wrote what: its lines may carry times of any form, or none, so beside its log there is a file that
// says at which byte the log had come to which time of the run's clock. One line for each tenth of a second in which
// something came: "OFFSET NANOSECONDS".

import (
	"fmt"
	"os"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// TimesSuffix is what the name of that file has after the log's name.
const TimesSuffix = ".times"

// TimesEvery is how exact the times are.
const TimesEvery = 100 * time.Millisecond

// times notes when a log grew.
type times struct {
	file  *os.File
	clock history.Clock
	noted time.Duration
}

// keepTimes opens the file of times beside the log.
func (o *output) keepTimes(clock history.Clock) error {
	file, err := os.OpenFile(o.file.Name()+TimesSuffix, os.O_CREATE|os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("opening the times of the subject's output: %w", err)
	}
	o.times = &times{file: file, clock: clock, noted: -TimesEvery}
	return nil
}

// note notes that what follows was read now.
func (t *times) note(offset int64) error {
	if t == nil {
		return nil
	}
	now := t.clock.Now()
	if now-t.noted < TimesEvery {
		return nil
	}
	t.noted = now
	_, err := fmt.Fprintf(t.file, "%d %d\n", offset, now)
	return err
}

func (t *times) close() error {
	if t == nil {
		return nil
	}
	return t.file.Close()
}
