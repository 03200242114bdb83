package run

// Faults that wait for an event of the run. The sink sees every event and fires their triggers.

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
// For first-dead-letter the sequence is as follows. The tap has the broker's answer and records it. Record fires the
// trigger and returns, and only then does the tap write the answer to the instance. Meanwhile the nemesis wakes up
// and sends its signal, while the instance reads the answer and proceeds to its commit. The race is thus with the
// instance's path from the answer to the commit, not with the broker's.
type triggers struct {
	contract *history.Contract
	role     func(topic int16) history.Role
	// lag is the number of records that are sent and not covered by a commit.
	lag func() int64

	// waiting is the number of armed faults, so that an event costs nothing while there are none.
	waiting atomic.Int32
	mu      sync.Mutex
	armed   []*armed
}

// armed is a fault that waits for its trigger.
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
	// Lag is a state. Check it after arming, so that no change between the two is missed.
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

// observe fires the faults that wait for this event.
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

// meaning returns the trigger event that this event represents, if any.
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
		// A refusal that a fault forged never reached the broker. An acceptance that a fault withholds did happen.
		accepted := event.Code == 0 && !event.Flags.Has(history.Forged)
		return faults.TriggerFirstDeadLetter, accepted && event.Instance >= 0 && t.role(event.Topic) == history.RoleDLQ
	case history.KindAcked:
		return faults.TriggerLag, event.Code == 0
	case history.KindAssigned, history.KindShareAcquired: // a share group assigns records
		return faults.TriggerAssigned, true
	}
	return "", false
}

// inStore returns the trigger event for an action of a worker, or for a new state of an entry that a worker has.
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
