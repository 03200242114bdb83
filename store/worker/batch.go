package worker

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/store"
)

// settleShare is the divisor that gives the part of the stop grace reserved for settling retries in progress.
const settleShare = 4

// hold is one lock of a batch.
type hold struct {
	entry store.Entry
	lock  store.Lock
	// cancel ends the retry in progress. It is called when the lock is lost.
	ctx    context.Context
	cancel context.CancelFunc

	clock func() time.Time // of this process

	mu sync.Mutex
	// until is the time at which the lease expires unless it is renewed. It is measured by this process's own clock
	// from before the request to the store, so that it is never later than the store's.
	until      time.Time
	lost, over bool
}

// isOurs reports whether the lock is certainly still held.
func (h *hold) isOurs() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.lost && h.clock().Before(h.until)
}

func (h *hold) renewed(until time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.until = until
}

func (h *hold) lose() {
	h.mu.Lock()
	h.lost = true
	h.mu.Unlock()
	h.cancel()
}

// end stops the heartbeats of the lock.
func (h *hold) end() {
	h.mu.Lock()
	h.over = true
	h.mu.Unlock()
	h.cancel()
}

func (h *hold) open() bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return !h.lost && !h.over
}

// batch is the set of entries that a worker holds at a time.
type batch struct {
	*member
	holds []*hold
	// settling ends when nothing more may be written. The contexts of the holds end when nothing more may be tried.
	settling context.Context
	cancel   func()
	unmet    func() string
	// now is the store's clock. The schedule must not depend on this machine's clock.
	now  func() time.Time
	done chan struct{}
}

// newBatch schedules the end of the work: after ctx ends, retries have three quarters of the grace, and settling has
// all of it.
func newBatch(ctx context.Context, m *member, entries []store.Entry, at moment) *batch {
	trying, stopTrying := context.WithCancel(context.WithoutCancel(ctx))
	settling, stopSettling := context.WithCancel(context.WithoutCancel(ctx))
	var mu sync.Mutex
	var timers []*time.Timer
	stop := context.AfterFunc(ctx, func() {
		mu.Lock()
		defer mu.Unlock()
		grace := m.Settings.Grace
		timers = append(timers, time.AfterFunc(grace-grace/settleShare, stopTrying), time.AfterFunc(grace, stopSettling))
	})
	b := &batch{member: m, settling: settling, now: at.now, done: make(chan struct{})}
	b.cancel = func() {
		stop()
		stopTrying()
		stopSettling()
		mu.Lock()
		defer mu.Unlock()
		for _, timer := range timers {
			timer.Stop()
		}
	}
	// All conditional entries of a batch see the same health, which is queried once.
	b.unmet = sync.OnceValue(func() string { return m.Unmet(trying) })
	for _, entry := range entries {
		holding, cancel := context.WithCancel(trying)
		b.holds = append(b.holds, &hold{
			entry: entry, lock: store.Lock{ID: entry.ID, Worker: m.name, Version: entry.Version},
			ctx: holding, cancel: cancel, clock: m.Clock, until: at.local.Add(m.lease()),
		})
	}
	return b
}

// beat renews the locks in use, three times per lease.
func (b *batch) beat() {
	ticker := time.NewTicker(max(b.lease()/3, time.Millisecond))
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-b.done:
			return
		}
		for _, each := range b.holds {
			if each.open() {
				b.renew(each)
			}
		}
	}
}

func (b *batch) renew(each *hold) {
	asking, cancel := context.WithTimeout(b.settling, answerLimit)
	defer cancel()
	asked := b.Clock()
	err := b.Store.Renew(asking, each.lock, b.lease())
	switch {
	case err == nil:
		each.renewed(asked.Add(b.lease()))
	case !each.open(): // settled meanwhile
	case errors.Is(err, store.ErrLockLost):
		each.lose()
	default:
		b.trouble.complain(err, "renewing a lock failed; it goes on")
	}
}

// handle processes one entry to its end.
func (b *batch) handle(ctx context.Context, each *hold) {
	defer each.end()
	if ctx.Err() != nil {
		b.giveBack(each)
		return
	}
	step := b.Strategies.Before(each.entry, b.now(), b.unmet)
	if step.Instead != nil {
		b.Logger.Info().Str("worker", b.name).Str("entry", each.lock.ID).Str("strategy", string(step.Strategy)).Str("to",
			string(step.Instead.State)).Str("why", step.Why).
			Msg("the dead letter is not tried now")
		b.conclude(each, *step.Instead, nil)
		return
	}
	if b.pace.Wait(ctx) != nil {
		b.giveBack(each)
		return
	}
	b.try(each, step.Strategy)
}

// giveBack returns an untried entry unchanged.
func (b *batch) giveBack(each *hold) {
	change := store.Change{State: store.Pending, Strategy: each.entry.Strategy, RetryAt: each.entry.NextRetryAt}
	if change.RetryAt.IsZero() {
		change.RetryIn = time.Millisecond
	}
	b.conclude(each, change, nil)
}

// try executes the retry and settles the entry with the result. It does not start if the lock may have expired, because
// another worker may have the entry by then.
func (b *batch) try(each *hold, strategy store.Strategy) {
	if !each.isOurs() {
		b.Logger.Error().Str("worker", b.name).Str("entry", each.lock.ID).Msg(
			"the lock's lease was over before the retry began; the dead letter is left to its recovery")
		return
	}
	began := b.now()
	err := b.Retrier.Retry(each.ctx, each.entry)
	ended := b.now()
	attempt := store.Attempt{At: began, Worker: b.name, Strategy: strategy, Took: ended.Sub(began)}
	change := b.Strategies.After(each.entry, attempt, retryError(err), ended)
	b.conclude(each, change, err)
}

// retryError converts a retrier's error; nil stays nil.
func retryError(err error) *RetryError {
	var failed *RetryError
	switch {
	case err == nil:
		return nil
	case errors.As(err, &failed):
		return failed
	}
	return &RetryError{Class: Transient, Err: fmt.Errorf("retrying: %w", err)}
}

// conclude settles the entry, and logs the lost result if that fails. tried is the retry's error, if there was one.
func (b *batch) conclude(each *hold, change store.Change, tried error) {
	err := b.settle(b.settling, each, change)
	if err == nil {
		b.Logger.Debug().AnErr("reason", tried).Str("worker", b.name).Str("entry", each.lock.ID).Str("to",
			string(change.State)).Msg("the dead letter is settled")
		if b.Observer != nil {
			b.Observer.Settled(each.entry, change)
		}
		return
	}
	event := b.Logger.Error().Err(err).Str("worker", b.name).Str("entry", each.lock.ID).Str("source",
		fmt.Sprintf("%s-%d@%d", each.entry.Source.Topic, each.entry.Source.Partition, each.entry.Source.Offset))
	switch {
	case change.Attempt == nil:
		event.Msg("the dead letter was not tried and could not be given back; it is recovered when its lease is over")
	case change.State == store.Resolved:
		event.Msg(
			"the retry succeeded, but its result could not be written: the dead letter will be tried again (at least once)")
	default:
		event.Msg("the retry failed, and its result could not be written: the dead letter will be tried again, without " +
			"counting this retry")
	}
}
