package assertions

// Histories of the dead-letter store: what excuses its workers, its router and its retention, and what does not.

import (
	"slices"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func storeReplayCases() []testCase {
	published := func(b *builder) *entry {
		e := b.stores().dead(0).ingest(0)
		b.h.Store.Success = history.SuccessPublished
		return e
	}
	return []testCase{
		{"a worker writes a dead letter back to another topic", []string{"replay-wrong-topic"},
			func(b *builder) history.Source {
				published(b).due().lock(0).republishTo(retry, 0, 0).resolve()
				return b.settled()
			}},
		{"a worker has a dead letter acknowledged that is not in the topic", []string{"replay-lost"},
			func(b *builder) history.Source {
				published(b).due().lock(0).republish(0, 0).resolve()
				b.as(0, 0).success(0)
				b.h.Expect.Invariants = []string{"replay-round-trip", "store-lifecycle"}
				return b.settled()
			}},
		{"written back, and the topic is not read at the end", nil, func(b *builder) history.Source {
			published(b).due().lock(0).republish(0, 0).resolve()
			b.backIn(0).settled()
			b.unaudited(input)
			return b.source()
		}},
		{"in the store and not written back, beside a copy that the workload produced", nil,
			func(b *builder) history.Source {
				b.stores().sendTwice(0).attempt(0, history.OutcomePermanent).letter(0).success(0).commit(2)
				b.h.Store.Success = history.SuccessPublished
				b.ingest(0)
				return b.settled()
			}},
		{"resolved by a worker, and replayed by the tool before", nil, func(b *builder) history.Source {
			e := published(b).due().lock(0)
			b.h.Replay = true
			b.goBack(0, input)
			e.resolve()
			b.as(0, 0).fetch(0).success(0).commit(b.next[0])
			b.h.Expect.Invariants = []string{"store-lifecycle"}
			return b.settled()
		}},
	}
}

func storeSightCases() []testCase {
	return []testCase{
		{"failed, out of sight, and in process again, seen by polling", nil, func(b *builder) history.Source {
			e := b.ownStore().dead(0).row(0).change(history.StoreFailed)
			b.watched(history.WatchLost).wait(20 * ms).watched(history.WatchResumed)
			e.change(history.StoreProcessing)
			return b.polled().settled()
		}},
		{"out of sight it got a status that nobody knows, and is pending again", nil, func(b *builder) history.Source {
			e := b.ownStore().dead(0).row(0)
			b.watched(history.WatchLost).wait(20 * ms).watched(history.WatchResumed)
			e.change(history.StoreUnknown).change(history.StorePending)
			return b.polled().settled()
		}},
		{"made out of sight, and found by the audit", nil, func(b *builder) history.Source {
			b.stores().dead(0)
			b.watched(history.WatchLost)
			b.ingest(0)
			b.watched(history.WatchResumed).settled()
			b.events = slices.DeleteFunc(b.events, func(e history.Event) bool { return e.Kind == history.KindStoreChange })
			return b.source()
		}},
		{"tried and resolved, with changes that the table does not date", nil, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			return b.undated().settled()
		}},
		{"removed by the retention, with changes that the table does not date", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			b.wait(3 * time.Second)
			e.change(history.StoreAbsent)
			return b.undated().settled()
		}},
		{"a dead worker's lock is recovered in a table that does not date changes", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0)
			b.killed(history.Worker(0)).wait(lease + 30*ms)
			e.open().change(history.StorePending)
			e.due().lock(1).try(history.OutcomeSuccess).resolve()
			return b.undated().settled()
		}},
		{"a dead worker's lock is never recovered, in a table that does not date changes", []string{"orphaned-lock"},
			func(b *builder) history.Source {
				b.stores().dead(0).ingest(0).due().lock(0)
				b.killed(history.Worker(0)).wait(3 * time.Second)
				return b.undated().settled()
			}},
		{"a dead worker's lock is recovered out of sight, by the worker itself when it is back", nil,
			func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0).due().lock(0)
				b.killed(history.Worker(0)).process(history.Worker(0), 1).wait(lease + 10*ms)
				b.watched(history.WatchLost).wait(20 * ms).watched(history.WatchResumed).wait(3 * time.Second)
				e.try(history.OutcomeSuccess).resolve()
				return b.polled().settled()
			}},
		{"two entries of one record, made out of sight", nil, func(b *builder) history.Source {
			b.stores().dead(0)
			b.watched(history.WatchLost)
			b.ingest(0)
			b.rowOfLetter(0, 0, 7)
			b.watched(history.WatchResumed).settled()
			b.events = slices.DeleteFunc(b.events, func(e history.Event) bool { return e.Kind == history.KindStoreChange })
			return b.source()
		}},
		{"resolved by a worker, perhaps by hand, seen by polling", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.h.Store.ByHand = true
			e.due().lock(0).try(transient).resolve()
			return b.polled().settled()
		}},
		{"resolved, and its payload has no id", nil, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).due().lock(0).resolve()
			b.as(0, 0)
			return b.withoutID().settled()
		}},
		{"resolved in a store of the subject's own, whose attempts are not seen", nil, func(b *builder) history.Source {
			b.ownStore().dead(0).row(0).change(history.StoreResolved)
			b.h.Contract().WireOnly = true
			return b.polled().settled()
		}},
		{"resolved in a store of the subject's own, before a run that breaks off", nil, func(b *builder) history.Source {
			b.ownStore().dead(0).row(0).change(history.StoreResolved)
			return b.polled().source()
		}},
		{"resolved in a store of the subject's own, and replayed by the tool", nil, func(b *builder) history.Source {
			e := b.ownStore().dead(0).row(0)
			b.h.Replay = true
			b.goBack(0, input)
			e.change(history.StoreResolved)
			b.as(0, 0).fetch(0).attempt(0, history.OutcomePermanent).letter(0).commit(b.next[0])
			b.h.Expect.Invariants = []string{"store-lifecycle"}
			return b.polled().settled()
		}},
	}
}

func storeHandCases() []testCase {
	return []testCase{
		{"left to a person, who resolves it", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.h.Store.ByHand = true
			e.due().lock(0).try(transient)
			e.next = history.None
			e.open().change(history.StoreManual).change(history.StoreResolved)
			return b.settled()
		}},
		{"left to a person, and taken on by a worker", []string{"illegal-transition"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0).try(transient)
			e.next = history.None
			e.open().change(history.StoreManual)
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"retried more often than a contract without a limit would say", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.h.Store.MaxRetries = 0
			e.due().lock(0).try(transient).again().due().lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"another worker takes a lock over in a table that does not say how long locks hold", nil,
			func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0).due().lockWithoutLease(0)
				b.killed(history.Worker(0)).wait(lease + 30*ms)
				e.lockWithoutLease(1).try(history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"another worker takes a lock that never ends", []string{"double-lock"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.h.Store.Lease = 0
			e.due().lockWithoutLease(0).lockWithoutLease(1).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
	}
}

func storeIdleCases() []testCase {
	atNoHour := func(b *builder, hours *history.OffPeak) history.Source {
		e := b.stores().dead(0).ingestScheduled(0)
		b.h.Store.OffPeak = hours
		e.lock(0).try(history.OutcomeSuccess).resolve()
		return b.settled()
	}
	return []testCase{
		{"scheduled, and the run ends before its hour", nil, func(b *builder) history.Source {
			b.stores().offPeak().dead(0).ingestScheduled(0)
			b.wait(3 * time.Second)
			return b.settled()
		}},
		{"scheduled, in a store that names no off-peak hours", nil, func(b *builder) history.Source {
			return atNoHour(b, nil)
		}},
		{"scheduled, in a time zone that this machine does not know", nil, func(b *builder) history.Source {
			return atNoHour(b, &history.OffPeak{Hours: []int{2}, Zone: "Nowhere/Here", Scale: 1})
		}},
		{"due, and every worker is stopped", nil, func(b *builder) history.Source {
			b.stores().dead(0)
			for n := range 3 {
				b.tells(history.Worker(n), "STOP")
			}
			b.ingest(0)
			b.wait(3 * time.Second)
			return b.settled()
		}},
		{"due, while every worker was stopped, and taken when they went on", nil, func(b *builder) history.Source {
			b.stores().dead(0)
			for n := range 3 {
				b.tells(history.Worker(n), "STOP")
			}
			e := b.ingest(0)
			b.wait(3 * time.Second)
			for n := range 3 {
				b.tells(history.Worker(n), "CONT")
			}
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"due, and left lying long after the workers went on", []string{"retry-late"}, func(b *builder) history.Source {
			b.stores().dead(0)
			for n := range 3 {
				b.tells(history.Worker(n), "STOP").tells(history.Worker(n), "CONT")
			}
			e := b.ingest(0)
			b.wait(3 * time.Second)
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"due, and left lying while dead letters are written again", []string{"retry-late"},
			func(b *builder) history.Source {
				again := b.stores().fault("store", "dlq", "100% of the dead letters written again")
				e := b.dead(0).ingest(0)
				b.breaks(again).wait(3 * time.Second).heals(again)
				e.lock(0).try(history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"due when the drain is over, and never taken during the replay", []string{"retry-late"},
			func(b *builder) history.Source {
				b.stores().dead(0)
				e := b.row(0)
				b.routerCommits(1)
				e.next = b.now + 1300*ms
				e.change(history.StorePending)
				b.drain().phase(history.PhaseReplay).wait(3 * time.Second)
				return b.settled()
			}},
		{"resolved and taken away where nothing takes entries away", []string{"retention-early"},
			func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
				b.h.Store.Retention = nil
				e.change(history.StoreAbsent)
				return b.settled()
			}},
	}
}

func storeRouterCases() []testCase {
	missing := func(b *builder, happens func()) history.Source {
		b.stores().dead(0)
		happens()
		b.h.Store.Routers = 1
		return b.settled()
	}
	return []testCase{
		{"a dead letter that names no position does not come into the store", []string{"lost-in-store"},
			func(b *builder) history.Source {
				return missing(b, func() { b.inTopics[len(b.inTopics)-1].Claim = nil })
			}},
		{"a dead letter is not in the store, for the router has ended", nil, func(b *builder) history.Source {
			return missing(b, func() { b.killed(history.Router(0)) })
		}},
		{"a dead letter is not in the store, for the router is stopped", nil, func(b *builder) history.Source {
			return missing(b, func() { b.tells(history.Router(0), "STOP") })
		}},
		{"a dead letter is not in the store, for the router stood still in the drain", nil,
			func(b *builder) history.Source {
				b.stores().dead(0).drain().stall(history.Router(0), time.Second)
				return b.settled()
			}},
		{"a dead letter is not in the store, though the router had only stood still before the drain",
			[]string{"lost-in-store"}, func(b *builder) history.Source {
				return missing(b, func() { b.wait(2*time.Second).stall(history.Router(0), time.Second).wait(time.Second) })
			}},
	}
}

// republishTo writes the record back to a topic, with the broker's answer.
func (e *entry) republishTo(topic, code int16, flags history.Flags) *entry {
	b := e.b
	e.republish(code, flags)
	for i := len(b.events) - 2; i < len(b.events); i++ {
		b.events[i].Topic = topic
	}
	return e
}

func (e *entry) lockWithoutLease(worker int) *entry {
	e.instance, e.by, e.lease = history.Worker(worker), []string{"worker-0", "worker-1", "worker-2"}[worker], history.None
	return e.change(history.StoreProcessing)
}

// undated takes the dates from the changes so far.
func (b *builder) undated() *builder {
	for i := range b.events {
		if e := &b.events[i]; e.Kind == history.KindStoreChange {
			e.Aux = history.None
		}
	}
	return b
}

// withoutID takes the ids from the changes so far.
func (b *builder) withoutID() *builder {
	for i := range b.events {
		if e := &b.events[i]; e.Kind == history.KindStoreChange {
			e.Record = history.None
		}
	}
	return b
}

// tells sends a signal to a process of the store.
func (b *builder) tells(instance int16, signal string) *builder {
	e := b.event(history.KindInstanceSignal)
	e.Instance, e.Text = instance, signal
	b.put(e)
	return b
}

// A store that nobody watched, or that was not read at the end, proves nothing.
func TestAStoreThatIsNotObserved(t *testing.T) {
	for name, kind := range map[string]history.Kind{
		"nobody watched the store":                                history.KindStoreWatch,
		"the store was not read to its end when the run was over": history.KindStoreAudited,
	} {
		b := newBuilder()
		b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
		b.settled()
		b.events = slices.DeleteFunc(b.events, func(e history.Event) bool { return e.Kind == kind })
		if r := resultOf(t, judged(t, b.source()), "store-lifecycle"); r.Status != Inconclusive || r.Why != name {
			t.Errorf("%s: %s, %q", name, r.Status, r.Why)
		}
	}
}
