package workload

// The pace of an open loop. A loop that waits for its target measures the target's good moments only, so the pace looks
// at nothing but the plan and the clock: what is due is handed over, and what could not be handed over on time is
// handed over late.

import (
	"context"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// restBetweenWakes is the shortest rest between two wake-ups of a waker: at high rates the records of one rest go
	// out together, so that the pace costs a few thousand wake-ups a second at most. It is the schedule slip that is
	// built in.
	restBetweenWakes = 500 * time.Microsecond
	// wakers is how many goroutines watch the clock. A timer goes off on the processor (in the Go scheduler's sense)
	// that set it; while the system gives that one's thread no time, because a subject on the same machine has it,
	// nobody else looks at it. With two, both threads must be held up at once; the slip's p99 at 20,000 records/s on
	// two busy cores fell by a third. More brought little.
	wakers = 2
)

// LateAfter is how long after its intended time a record must be handed over to count as late. It is the same length
// from which on MonitorStalls notes a stall of the harness.
const LateAfter = 10 * time.Millisecond

// pace calls send(i) for i from 0 to count-1, each as soon as the clock shows base+at(i), in this order and never two
// at once; at must not decrease. send must not block. It returns when the last one was sent, or with ctx's error.
func pace(ctx context.Context, clock history.Clock, base time.Duration, count int, at func(int) time.Duration,
	send func(int)) error {
	p := &pacer{clock: clock, base: base, count: count, at: at, send: send}
	var group sync.WaitGroup
	for i := range wakers {
		group.Go(func() { p.wake(ctx, time.Duration(i)*restBetweenWakes/wakers) })
	}
	group.Wait()
	if p.next < count {
		return context.Cause(ctx)
	}
	return nil
}

// pacer is what the wakers share.
type pacer struct {
	clock history.Clock
	base  time.Duration
	count int
	at    func(int) time.Duration
	send  func(int)

	mu   sync.Mutex
	next int
}

// wake sends what is due, over and over, until all is sent or ctx ends.
func (p *pacer) wake(ctx context.Context, first time.Duration) {
	timer := time.NewTimer(first)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		rest := restBetweenWakes
		// While another waker is sending there is nothing to do here: what it leaves is due at the next wake-up.
		if p.mu.TryLock() {
			due, done := p.sendDue(ctx)
			p.mu.Unlock()
			if done {
				return
			}
			rest = max(rest, due)
		}
		timer.Reset(rest)
	}
}

// sendDue sends what is due now; p.mu is held. It returns how long it is until the next record is due, and whether
// there is nothing left to do.
func (p *pacer) sendDue(ctx context.Context) (due time.Duration, done bool) {
	now := p.clock.Now()
	for p.next < p.count && p.base+p.at(p.next) <= now {
		p.send(p.next)
		p.next++
		// A long backlog would otherwise be sent without looking up: records that become due meanwhile belong to it,
		// and the end of ctx must be seen.
		if p.next%256 == 0 {
			now = p.clock.Now()
			if ctx.Err() != nil {
				return 0, true
			}
		}
	}
	if p.next == p.count {
		return 0, true
	}
	return p.base + p.at(p.next) - p.clock.Now(), false
}
