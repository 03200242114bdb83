package workload

// The pace of an open loop. A loop that waits for its target measures only the target's good moments. So the pace
// depends only on the plan and the clock: due records are handed over, and records that could not be handed over on
// time are handed over late.

import (
	"context"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// restBetweenWakes is the shortest rest between two wake-ups of a waker. At high rates the records of one rest are
	// sent together, so that the pace costs a few thousand wake-ups a second at most. It is the built-in schedule slip.
	restBetweenWakes = 500 * time.Microsecond
	// wakers is the number of goroutines that watch the clock. A timer fires on the processor (in the Go scheduler's
	// sense) that set it. While the system gives no time to that processor's thread, because a subject on the same
	// machine has it, no other processor checks the timer. With two wakers, both threads must be held up at once: the
	// slip's p99 at 20,000 records/s on two busy cores fell by a third. More wakers gained little.
	wakers = 2
)

// LateAfter is the delay after its intended time from which a record counts as late when it is handed over. It
// equals the delay from which MonitorStalls records a stall of the harness.
const LateAfter = 10 * time.Millisecond

// pace calls send(i) for i from 0 to count-1, each as soon as the clock shows base+at(i), in this order and never
// two at once. at must not decrease. send must not block. pace returns when the last record was sent, or with ctx's
// error.
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

// pacer is the state that the wakers share.
type pacer struct {
	clock history.Clock
	base  time.Duration
	count int
	at    func(int) time.Duration
	send  func(int)

	mu   sync.Mutex
	next int
}

// wake repeatedly sends the due records until all are sent or ctx ends.
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
		// While another waker is sending there is nothing to do here: records that it leaves are due at the next
		// wake-up.
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

// sendDue sends the records that are due now; p.mu is held. It returns the time until the next record is due, and
// whether there is nothing left to do.
func (p *pacer) sendDue(ctx context.Context) (due time.Duration, done bool) {
	now := p.clock.Now()
	for p.next < p.count && p.base+p.at(p.next) <= now {
		p.send(p.next)
		p.next++
		// Check the clock and ctx during a long backlog, too: records that become due meanwhile belong to it, and
		// the end of ctx must be noticed.
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
