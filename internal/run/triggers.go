package run

// Faults that wait for an event of the run: the sink sees every event, and tells them.

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// triggers implements faults.Triggers.
//
// The sequence for first-dead-letter: the tap has the broker's answer and records it; Record fires the trigger and
// returns, and only then does the tap write the answer to the instance. The nemesis wakes up meanwhile and sends its
// signal, while the instance reads the answer and goes on to its commit. What is raced is the instance's way from the
// answer to the commit, not the broker's.
type triggers struct {
	contract *history.Contract
	role     func(topic int16) history.Role
	// lag is how many records are sent and not covered by a commit.
	lag func() int64

	// waiting is how many there are, so that an event costs nothing while there are none.
	waiting atomic.Int32
	mu      sync.Mutex
	armed   []*armed
}

// armed is a fault that waits.
type armed struct {
	faults.Trigger
	fired chan struct{}
}

// Await implements faults.Triggers.
func (t *triggers) Await(ctx context.Context, trigger faults.Trigger) bool {
	one := &armed{Trigger: trigger, fired: make(chan struct{})}
	t.mu.Lock()
	t.armed = append(t.armed, one)
	t.mu.Unlock()
	t.waiting.Add(1)
	defer t.disarm(one)
	// Lag is a state: asked after arming, so that what comes between the two is not missed.
	if trigger.Event == faults.TriggerLag && t.lag() > trigger.Lag {
		return ctx.Err() == nil
	}
	select {
	case <-one.fired:
		return true
	case <-ctx.Done():
		return false
	}
}

func (t *triggers) disarm(one *armed) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.armed = slices.DeleteFunc(t.armed, func(other *armed) bool { return other == one })
	t.waiting.Add(-1)
}

// observe fires what waits for this event.
func (t *triggers) observe(event *history.Event) {
	if t.waiting.Load() == 0 {
		return
	}
	names, is := t.meaning(event)
	if !is {
		return
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	for _, one := range t.armed {
		if one.Event == names && t.matches(one, event) {
			select {
			case <-one.fired:
			default:
				close(one.fired)
			}
		}
	}
}

// meaning tells which sort of event that faults wait for this is, if any.
func (t *triggers) meaning(event *history.Event) (names faults.TriggerEvent, is bool) {
	if history.OfStore(event.Instance) {
		return inStore(event)
	}
	switch event.Kind {
	case history.KindAttemptStart:
		return faults.TriggerFirstRetry, event.N >= 2
	case history.KindAttemptEnd:
		limit := t.contract.MaxAttempts
		return faults.TriggerBackoff, slices.Contains(t.contract.Retryable, event.Outcome) &&
			(limit == 0 || int(event.N) < limit)
	case history.KindProduceResponse:
		// A refusal that a fault forged never reached the broker; an acceptance that a fault withholds is one.
		accepted := event.Code == 0 && !event.Flags.Has(history.Forged)
		return faults.TriggerFirstDeadLetter, accepted && event.Instance >= 0 && t.role(event.Topic) == history.RoleDLQ
	case history.KindAcked:
		return faults.TriggerLag, event.Code == 0
	case history.KindAssigned, history.KindShareAcquired: // a share group assigns records
		return faults.TriggerAssigned, true
	}
	return "", false
}

// inStore tells what a worker did, or an entry became that a worker has.
func inStore(event *history.Event) (names faults.TriggerEvent, is bool) {
	switch event.Kind {
	case history.KindStoreChange:
		said, err := history.ParseStoreChange(event.Text)
		return faults.TriggerStoreLocked, err == nil && said.To == history.StoreProcessing
	case history.KindProduceResponse:
		return faults.TriggerStoreRepublished, event.Code == 0 && !event.Flags.Has(history.Forged)
	}
	return "", false
}

func (t *triggers) matches(one *armed, event *history.Event) bool {
	if one.Event == faults.TriggerLag {
		return t.lag() > one.Lag
	}
	return one.Instance == history.None || one.Instance == int(event.Instance)
}
