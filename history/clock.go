package history

import "time"

// RunClock is the run's one monotonic clock: every event of a run is stamped with it. It is safe for concurrent use.
type RunClock struct{ base time.Time }

// NewClock returns a clock that shows 0 now.
func NewClock() *RunClock { return &RunClock{base: time.Now()} }

// Now returns the time since the clock was made. It is monotonic: changes of the machine's wall clock do not affect
// it.
func (c *RunClock) Now() time.Duration { return time.Since(c.base) }
