package run

import (
	"context"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// event creates an event of instance 1.
func event(kind history.Kind, change func(*history.Event)) history.Event {
	e := history.New(kind, time.Second)
	e.Instance = 1
	if change != nil {
		change(&e)
	}
	return e
}

// ackedAt is the broker's answer to the record at the offset of the input.
func ackedAt(offset int64) history.Event {
	return event(history.KindAcked, func(e *history.Event) { e.Topic, e.Partition, e.Offset, e.Code = 0, 0, offset, 0 })
}

// inState is an entry observed in the state, with worker 0 as its present or past owner.
func inState(state history.StoreState) history.Event {
	return event(history.KindStoreChange, func(e *history.Event) {
		e.Instance = history.Worker(0)
		e.Text = history.StoreChange{From: history.StorePending, To: state, Next: history.None, Lease: history.None}.String()
	})
}

// republished is the broker's answer to a record that worker 0 wrote back.
func republished(code int16, flags history.Flags) history.Event {
	return event(history.KindProduceResponse, func(e *history.Event) {
		e.Instance, e.Topic, e.Code, e.Flags = history.Worker(0), 0, code, flags
	})
}

func TestTriggersFire(t *testing.T) {
	attempt := func(kind history.Kind, n int32, outcome history.Outcome) history.Event {
		return event(kind, func(e *history.Event) { e.N, e.Outcome = n, outcome })
	}
	written := func(topic int16, code int16, flags history.Flags) history.Event {
		return event(history.KindProduceResponse, func(e *history.Event) { e.Topic, e.Code, e.Flags = topic, code, flags })
	}
	other := func(e history.Event) history.Event { e.Instance = 0; return e }
	for _, test := range []struct {
		trigger string
		// before are events that come before the fault waits, without are later events that must not fire it, and fires
		// is the event that must.
		before, without []history.Event
		fires           history.Event
	}{
		{"first-retry", []history.Event{attempt(history.KindAttemptStart, 2, 0)},
			[]history.Event{attempt(history.KindAttemptStart, 1, 0), attempt(history.KindAttemptEnd, 2, history.OutcomeSuccess)},
			attempt(history.KindAttemptStart, 2, 0)},
		{"backoff", []history.Event{attempt(history.KindAttemptEnd, 1, history.OutcomeTransient)},
			[]history.Event{
				attempt(history.KindAttemptStart, 1, 0), attempt(history.KindAttemptEnd, 1, history.OutcomeSuccess),
				attempt(history.KindAttemptEnd, 1, history.OutcomePermanent),
				attempt(history.KindAttemptEnd, 3, history.OutcomeTransient),
			}, attempt(history.KindAttemptEnd, 2, history.OutcomeTransient)},
		{"first-dead-letter", []history.Event{written(1, 0, 0)},
			[]history.Event{
				written(0, 0, 0), written(history.None, 0, 0), written(1, 7, 0), written(1, 0, history.Forged),
				event(history.KindProduceRequest, func(e *history.Event) { e.Topic = 1 }),
				event(history.KindProduceResponse, func(e *history.Event) { e.Topic, e.Code, e.Instance = 1, 0, history.Replayer }),
			}, written(1, 0, history.Withheld)},
		{"lag > 2", []history.Event{ackedAt(0), ackedAt(1)}, []history.Event{event(history.KindAcked, func(e *history.Event) {
			e.Code = 7
		})}, ackedAt(2)},
		{"instance 1 assigned", []history.Event{event(history.KindAssigned, nil)},
			[]history.Event{other(event(history.KindAssigned, nil)), event(history.KindRevoked, nil)},
			event(history.KindAssigned, nil)},
		{"store-locked", []history.Event{inState(history.StoreProcessing)},
			[]history.Event{inState(history.StorePending), inState(history.StoreResolved), event(history.KindStoreChange, nil)},
			inState(history.StoreProcessing)},
		{"store-republished", []history.Event{republished(0, 0)},
			[]history.Event{republished(7, 0), republished(0, history.Forged), written(0, 0, 0)},
			republished(0, history.Withheld)},
		{"instance 1 assigned", []history.Event{event(history.KindShareAcquired, nil)},
			[]history.Event{other(event(history.KindShareAcquired, nil)), event(history.KindShareAckRequest, nil)},
			event(history.KindShareAcquired, nil)},
	} {
		t.Run(strings.ReplaceAll(test.trigger, " ", "-"), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				l := newLive(discard{}, triggerHeader())
				for _, e := range test.before {
					l.Record(e)
				}
				trigger, err := faults.ParseTrigger(test.trigger)
				if err != nil {
					t.Fatal(err)
				}
				came := make(chan bool, 1)
				go func() { came <- l.triggers.Await(t.Context(), trigger) }()
				for _, e := range test.without {
					synctest.Wait()
					l.Record(e)
				}
				synctest.Wait()
				if len(came) > 0 {
					t.Fatal("it fired before its event")
				}
				l.Record(test.fires)
				l.Record(test.fires) // firing again does nothing
				if !<-came {
					t.Error("it did not fire")
				}
				if len(l.triggers.armed) != 0 || l.triggers.waiting.Load() != 0 {
					t.Error("it is still armed")
				}
			})
		})
	}
}

func triggerHeader() *history.Header {
	return &history.Header{
		Topics: []history.Topic{{Role: history.RoleInput, Partitions: 1}, {Role: history.RoleDLQ}},
		Consumers: []history.Consumer{{Contract: history.Contract{MaxAttempts: 3,
			Retryable: []history.Outcome{history.OutcomeTransient}}}},
	}
}

// A trigger with an instance ignores the other instances.
func TestTriggerOfOneInstance(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(discard{}, triggerHeader())
		came := make(chan bool, 1)
		go func() {
			came <- l.triggers.Await(t.Context(), faults.Trigger{Event: faults.TriggerFirstRetry, Instance: 1})
		}()
		for _, instance := range []int16{0, 2, 1} {
			synctest.Wait()
			if len(came) > 0 {
				t.Fatal("another instance fired it")
			}
			l.Record(event(history.KindAttemptStart, func(e *history.Event) { e.N, e.Instance = 2, instance }))
		}
		if !<-came {
			t.Error("its own instance did not fire it")
		}
	})
}

// Existing lag counts at once. Records that commits cover, or that a share group's members accept or reject, are not
// lag.
func TestTriggerLag(t *testing.T) {
	for name, covers := range map[string]history.Event{
		"commit": event(history.KindCommitResponse, func(e *history.Event) {
			e.Topic, e.Partition, e.Offset, e.Code = 0, 0, 2, 0
		}),
		"accept": event(history.KindShareAckResponse, func(e *history.Event) {
			e.Topic, e.Partition, e.Offset, e.Aux, e.N, e.Code = 0, 0, 1, 2, history.AckAccept, 0
		}),
	} {
		t.Run(name, func(t *testing.T) { triggersOnLag(t, covers) })
	}
}

func triggersOnLag(t *testing.T, covers history.Event) {
	synctest.Test(t, func(t *testing.T) {
		l := newLive(discard{}, triggerHeader())
		for offset := range int64(5) {
			l.Record(ackedAt(offset))
		}
		trigger := faults.Trigger{Event: faults.TriggerLag, Lag: 4, Instance: history.None}
		if !l.triggers.Await(t.Context(), trigger) {
			t.Error("a lag of 5 is not more than 4")
		}
		for _, nothing := range []func(*history.Event){
			func(e *history.Event) {
				e.N, e.Code = history.AckRelease, 0
			}, func(e *history.Event) { e.N, e.Code = history.AckAccept, 6 },
		} {
			refused := event(history.KindShareAckResponse, nothing)
			refused.Topic, refused.Aux = 0, 4
			l.Record(refused)
		}
		if !l.triggers.Await(t.Context(), trigger) {
			t.Error("what is released, and what is refused, is done with")
		}
		l.Record(covers)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		if l.triggers.Await(ctx, trigger) {
			t.Error("a lag of 3 is more than 4")
		}
	})
}
