package store

// Faults of a worker's clock. A worker has one clock, but several faults can be in force on it: two of a schedule whose
// times overlap, one whose event occurs late, or faults that a person injects. The fault that began last determines the
// clock and is credited with the entries that the worker locks. When it is lifted, the fault before it is in effect
// again, and only when the last of them is lifted is the clock correct.

import (
	"context"
	"errors"
	"slices"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// workerClock is the clock of one worker and the faults in force on it.
type workerClock struct {
	workers Workers
	number  int

	// mu is also held while the worker restarts, because two faults must not restart it at the same time.
	mu     sync.Mutex
	shifts []*clockShift // in the order in which they began
	// unwatch ends the watch on behalf of the last shift; nil if there is no watch.
	unwatch func()
}

// clockShift is a fault in force on a worker's clock. locked counts the entries that the worker locked while this fault
// determined the clock. A worker that locked nothing was not affected by its clock.
type clockShift struct {
	offset time.Duration
	locked counter
}

func (i *Injector) clock(ctx context.Context, active faults.Active, spec *Store) (faults.Heal, error) {
	_, worker, err := faults.ReadProcess(spec.Process)
	if err != nil {
		return nil, err
	}
	clock, shift := i.clockOf(worker), &clockShift{offset: spec.offset(), locked: counter{active: active}}
	if err := clock.begin(ctx, shift); err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return clock.end(ctx, shift) }, nil
}

func (i *Injector) clockOf(worker int) *workerClock {
	i.mu.Lock()
	defer i.mu.Unlock()
	if i.clocks == nil {
		i.clocks = map[int]*workerClock{}
	}
	if i.clocks[worker] == nil {
		i.clocks[worker] = &workerClock{workers: i.Workers, number: worker}
	}
	return i.clocks[worker]
}

// begin puts the shift in force. If that fails, the clock is again as it was.
func (c *workerClock) begin(ctx context.Context, shift *clockShift) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.shifts = append(c.shifts, shift)
	err := c.set(ctx)
	if err == nil {
		return nil
	}
	c.remove(shift)
	return errors.Join(err, c.set(context.WithoutCancel(ctx)))
}

// end lifts the shift and reports its effect. The worker restarts only if that changes its clock.
func (c *workerClock) end(ctx context.Context, shift *clockShift) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	determines := c.shifts[len(c.shifts)-1] == shift
	c.remove(shift)
	if determines {
		c.stopWatching()
	}
	shift.locked.report("entries locked by a worker whose clock is wrong", shift.offset,
		int(history.Worker(c.number)))
	if !determines {
		return nil
	}
	return c.set(ctx)
}

// set restarts the worker with the offset of the last shift, or with a correct clock if there is none. It watches even
// a worker that did not start, because the run may start it later, with the same offset.
func (c *workerClock) set(ctx context.Context) error {
	c.stopWatching()
	n := len(c.shifts)
	if n == 0 {
		return c.workers.SetClock(ctx, c.number, 0)
	}
	last := c.shifts[n-1]
	err := c.workers.SetClock(ctx, c.number, last.offset)
	c.unwatch = c.workers.WatchLocks(c.number, last.locked.add)
	return err
}

func (c *workerClock) stopWatching() {
	if c.unwatch != nil {
		c.unwatch()
		c.unwatch = nil
	}
}

func (c *workerClock) remove(shift *clockShift) {
	c.shifts = slices.DeleteFunc(c.shifts, func(other *clockShift) bool { return other == shift })
}
