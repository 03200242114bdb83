package assertions

// Histories of the dead-letter store: permitted and forbidden actions of a worker, the router and the retention.

import (
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	poll  = 20 * ms
	lease = 500 * ms
)

// stores gives the run a dead-letter store with one router and three workers, and starts all of them.
func (b *builder) stores() *builder {
	b.h.Store = &history.StoreContract{
		Engine: "sqlite", Vocabulary: "lifecycle", Workers: 3, Routers: 1, MaxRetries: 5,
		Waits: []time.Duration{100 * ms, 500 * ms, 1500 * ms},
		Poll:  poll, Lease: lease, Late: 50 * ms, Success: history.SuccessProcessed,
		Retention: &history.Retention{Resolved: 3000 * ms, Failed: 9000 * ms, Archived: 36000 * ms, Sweep: 100 * ms},
	}
	b.begin()
	watch := b.event(history.KindStoreWatch)
	watch.Text = history.WatchBegins
	b.put(watch)
	clock := b.event(history.KindStoreClock)
	clock.Aux = int64(ms)
	b.put(clock)
	b.process(history.Router(0), 0)
	for n := range 3 {
		b.process(history.Worker(n), 0)
	}
	b.process(history.Keeper(0), 0)
	return b
}

func (b *builder) process(instance int16, run uint16) *builder {
	e := b.event(history.KindInstanceStarting)
	e.Instance, e.Run = instance, run
	b.put(e)
	return b
}

// dead makes a dead letter of a new record, committed by the subject.
func (b *builder) dead(number int32) *builder {
	return b.send(number).attempt(number, history.OutcomePermanent).letter(number).commit(int64(number) + 1)
}

// entry is the test's view of an entry.
type entry struct {
	b       *builder
	number  int64
	record  int32
	state   history.StoreState
	by      string
	retries int32
	// strategy and next hold until they are changed.
	strategy string
	next     time.Duration
	lease    time.Duration
	instance int16
	// byLetter is the dead letter's offset, from 1; the entry names the dead letter as its source, too. 0: the entry
	// belongs to the record, and its source is the record's position.
	byLetter int64
}

// rowOfLetter makes an entry that is identified by the place of its dead letter.
func (b *builder) rowOfLetter(record int32, offset, number int64) *entry {
	e := &entry{
		b: b, number: number, record: record, state: history.StoreAbsent, strategy: immediateRetry, lease: history.None,
		instance: history.None, byLetter: offset + 1, next: b.now + 100*ms,
	}
	return e.change(history.StorePending)
}

// watched notes that the watcher loses sight of the table, or sees it again.
func (b *builder) watched(what string) *builder {
	e := b.event(history.KindStoreWatch)
	e.Text = what
	b.put(e)
	return b
}

// change records a change of the entry, made now and seen a little later.
func (e *entry) change(to history.StoreState) *entry {
	event := e.b.event(history.KindStoreChange)
	at := e.b.where[e.record]
	event.Op, event.Record, event.N, event.Aux, event.Instance = e.number, e.record, e.retries, int64(event.Time),
		e.instance
	event.Topic, event.Partition, event.Offset = dlq, at.partition, int64(e.record)
	event.Claim = &history.Claim{Topic: at.topic, Partition: at.partition, Offset: at.offset}
	if e.byLetter > 0 {
		event.Offset = e.byLetter - 1
		event.Claim.Topic, event.Claim.Offset = dlq, event.Offset
	}
	event.Text = history.StoreChange{From: e.state, To: to, By: e.by, Strategy: e.strategy, Next: e.next,
		Lease: e.lease}.String()
	event.Time += 100 * time.Microsecond
	e.b.put(event)
	e.state = to
	return e
}

// ingest puts a dead letter into the store, due after the first wait, and the router commits.
func (b *builder) ingest(number int32) *entry {
	e := b.row(number)
	b.routerCommits(int64(number) + 1)
	return e
}

func (b *builder) row(number int32) *entry {
	e := &entry{
		b: b, number: int64(number) + 1, record: number, state: history.StoreAbsent, strategy: immediateRetry,
		lease: history.None, instance: history.None,
	}
	e.next = b.now + 100*ms
	return e.change(history.StorePending)
}

// failedFromTheFirst is an entry that was never pending.
func (b *builder) failedFromTheFirst(number int32) {
	e := &entry{b: b, number: int64(number) + 1, record: number, state: history.StoreAbsent, strategy: immediateRetry,
		lease: history.None, instance: history.None, next: history.None}
	e.change(history.StoreFailed)
	b.routerCommits(int64(number) + 1)
}

func (b *builder) routerCommits(offset int64) *builder {
	b.op++
	e := b.event(history.KindCommitRequest)
	e.Instance, e.Op, e.Topic, e.Partition, e.Offset = history.Router(0), b.op, dlq, 0, offset
	answer := *b.put(e)
	answer.Kind, answer.Time = history.KindCommitResponse, b.tick()
	b.put(answer)
	return b
}

// due waits until the entry is due.
func (e *entry) due() *entry {
	e.b.now = max(e.b.now, e.next+5*ms)
	return e
}

func (e *entry) lock(worker int) *entry {
	e.instance, e.by, e.lease = history.Worker(worker), []string{"worker-0", "worker-1", "worker-2"}[worker], e.b.now+lease
	return e.change(history.StoreProcessing)
}

func (e *entry) open() *entry {
	e.instance, e.by, e.lease = history.None, "", history.None
	return e
}

// try makes an attempt of the worker that has it.
func (e *entry) try(outcome history.Outcome) *entry { return e.tryAs(e.instance, outcome) }

func (e *entry) tryAs(worker int16, outcome history.Outcome) *entry {
	return e.answer(e.ask(worker), outcome)
}

func (e *entry) ask(worker int16) history.Event {
	e.b.op++
	event := e.b.event(history.KindAttemptStart)
	event.Op, event.Record, event.Instance, event.N = e.b.op, e.record, worker, 1
	return *e.b.put(event)
}

func (e *entry) answer(asked history.Event, outcome history.Outcome) *entry {
	asked.Kind, asked.Time, asked.Outcome = history.KindAttemptEnd, e.b.tick(), outcome
	e.b.put(asked)
	return e
}

// again notes that the attempt failed and that the entry is scheduled for another.
func (e *entry) again() *entry {
	e.retries++
	e.next = e.b.now + e.b.h.Store.Waits[min(int(e.retries), 2)]
	e.open()
	return e.change(history.StorePending)
}

func (e *entry) resolve() *entry {
	e.retries++
	e.next = history.None
	return e.open().change(history.StoreResolved)
}

func (e *entry) fail() *entry {
	e.retries++
	e.next = history.None
	return e.open().change(history.StoreFailed)
}

// settled ends the run: the store is at rest, its services end, the table is read.
func (b *builder) settled() history.Source {
	b.drain()
	b.phase(history.PhaseAudit)
	ends := b.event(history.KindStoreWatch)
	ends.Text = history.WatchEnds
	b.put(ends)
	audited := b.event(history.KindStoreAudited)
	for _, found := range b.inTable() {
		found.Time = b.tick()
		b.put(found)
		audited.N++
	}
	audited.Time = b.tick()
	audited.Aux = int64(audited.Time)
	b.put(audited)
	b.as(0, b.alive()[0]).signal("TERM").exit(0)
	return b.sealed()
}

// inTable returns the entries that the changes so far have left in the table.
func (b *builder) inTable() []history.Event {
	last := map[int64]history.Event{}
	for _, e := range b.events {
		if e.Kind == history.KindStoreChange {
			last[e.Op] = e
		}
	}
	var found []history.Event
	for _, number := range slices.Sorted(maps.Keys(last)) {
		e := last[number]
		said, err := history.ParseStoreChange(e.Text)
		if err != nil || said.To == history.StoreAbsent || b.vanished[number] {
			continue
		}
		said.From = history.StoreAbsent
		e.Kind, e.Aux, e.Flags, e.Text = history.KindStoreEntry, history.None, 0, said.String()
		found = append(found, e)
	}
	return found
}

// repeat lets a fault write the dead letter once more; the copy's offset follows.
func (b *builder) repeat(number int32) *builder {
	copied := b.inDLQ(number)
	copied.Flags |= history.Repeated
	return b
}

func (b *builder) killed(instance int16) *builder {
	e := b.event(history.KindInstanceExited)
	e.Instance, e.Code, e.Text, e.Flags = instance, -1, "KILL", history.Expected
	b.put(e)
	return b
}

func storeCases() []testCase {
	return slices.Concat(storeStateCases(), storeOwnCases(), storeLockCases(), storeTimeCases(), storeProbeCases(),
		storeArrivalCases(), storeReplayCases(), storeSightCases(), storeHandCases(), storeIdleCases(), storeRouterCases())
}

func storeStateCases() []testCase {
	return []testCase{
		{"an entry is tried and resolved", nil, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"an entry is tried twice, the second time after its longer wait", nil, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).due().lock(0).try(transient).again().due().lock(1).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"an entry fails after its last DLQ retry", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			for range 4 {
				e.due().lock(0).try(transient).again()
			}
			e.due().lock(0).try(transient).fail()
			return b.settled()
		}},
		{"one DLQ retry too many", []string{"over-retried-in-store"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			for range 5 {
				e.due().lock(0).try(transient).again()
			}
			e.due().lock(0).try(transient).fail()
			return b.settled()
		}},
		{"tried six times, and counted five times", []string{"over-retried-in-store"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			for range 4 {
				e.due().lock(0).try(transient).again()
			}
			e.due().lock(0).try(transient).try(transient).fail()
			return b.settled()
		}},
		{"back to pending after its last DLQ retry", []string{"over-retried-in-store"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			for range 5 {
				e.due().lock(0).try(transient).again()
			}
			return b.settled()
		}},
		{"resolved before the answer is there", []string{"resolved-without-success"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0)
			asked := e.ask(e.instance)
			e.resolve()
			b.wait(5 * ms)
			e.answer(asked, history.OutcomeSuccess)
			return b.settled()
		}},
		{"resolved though it failed", []string{"resolved-without-success"}, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).due().lock(0).try(transient).resolve()
			return b.settled()
		}},
		{"resolved by a republish that is acknowledged", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.h.Store.Success = history.SuccessPublished
			e.due().lock(0).republish(0, 0).resolve()
			b.backIn(0)
			return b.settled()
		}},
		{"written back twice though nothing happened", []string{"replay-duplicated"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.h.Store.Success = history.SuccessPublished
			e.due().lock(0).republish(0, 0)
			b.backIn(0)
			e.republish(0, 0)
			b.backIn(0)
			e.resolve()
			return b.settled()
		}},
		{"written back twice, for the first worker was killed before it could say so", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.h.Store.Success = history.SuccessPublished
			e.due().lock(0).republish(0, 0)
			b.backIn(0).killed(history.Worker(0)).wait(lease + 30*ms)
			e.open().change(history.StorePending)
			e.lock(1).republish(0, 0)
			b.backIn(0)
			e.resolve()
			return b.settled()
		}},
		// Soundness, seeds 900188 and 900374.
		{"a dead letter is asked for again by the idempotent producer after it was written back, before its copy is tried",
			nil, func(b *builder) history.Source {
				return b.askedAgain(true)
			}},
		{"a dead letter is asked for again by the idempotent producer after its copy has succeeded", nil,
			func(b *builder) history.Source {
				return b.askedAgain(false)
			}},
		// The reference consumer with republishing workers, killed between its dead letter and its commit: the dead
		// letter is in the store, and comes back to the topic before the record is delivered again.
		{"written back while the record itself is uncommitted, for its process was killed", nil,
			func(b *builder) history.Source {
				return b.writtenBack(func() { b.kill() })
			}},
		{"written back while the record itself is uncommitted, by when another process has the partition", nil,
			func(b *builder) history.Source {
				return b.writtenBack(func() { b.kill().as(0, 1).up().assign(0, 1, 2, 3) })
			}},
		{"written back while the record itself is uncommitted, and handed out twice though nothing happened",
			[]string{"duplicate"}, func(b *builder) history.Source {
				return b.writtenBack(func() {})
			}},
		{"written back once, and processed twice though nothing happened", []string{"duplicate"},
			func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0)
				b.h.Store.Success = history.SuccessPublished
				e.due().lock(0).republish(0, 0).resolve()
				b.backIn(0).success(0)
				return b.settled()
			}},
		{"written back, and never processed", []string{"replay-lost"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.h.Store.Success = history.SuccessPublished
			e.due().lock(0).republish(0, 0).resolve()
			b.inInput(0, 0)
			b.as(0, 0).fetch(0).commit(b.next[0])
			b.h.Expect.Invariants = []string{"replay-round-trip", "store-lifecycle"}
			return b.settled()
		}},
		{"resolved by a republish that was refused", []string{"resolved-without-success"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.h.Store.Success = history.SuccessPublished
			e.due().lock(0).republish(7, 0).resolve()
			b.as(0, 0).success(0)
			return b.settled()
		}},
		{"resolved without having been taken", []string{"illegal-transition"}, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).change(history.StoreResolved)
			return b.settled()
		}},
		{"tried again after it was resolved", []string{"illegal-transition"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			e.next = b.now + 500*ms
			e.change(history.StorePending).due().lock(1).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"discarded by a person", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.h.Store.ByHand = true
			e.change(history.StoreArchived)
			return b.settled()
		}},
		{"discarded, and nobody was there", []string{"illegal-transition"}, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).change(history.StoreArchived)
			return b.settled()
		}},
		{"put back from an archive by a person", nil, func(b *builder) history.Source {
			b.stores().dead(0)
			b.h.Store.ByHand = true
			b.failedFromTheFirst(0)
			return b.settled()
		}},
		{"failed from the first moment on, and nobody was there", []string{"illegal-transition"},
			func(b *builder) history.Source {
				b.stores().dead(0).failedFromTheFirst(0)
				return b.settled()
			}},
		{"a status that nobody knows", []string{"illegal-transition"}, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).change(history.StoreUnknown)
			return b.settled()
		}},
		{"seen by polling, with what was in between missing", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due()
			e.tryAs(history.Worker(0), history.OutcomeSuccess)
			e.retries = 1
			e.change(history.StoreResolved)
			for i := range b.events {
				if b.events[i].Kind == history.KindStoreChange {
					b.events[i].Flags |= history.Polled
				}
			}
			return b.settled()
		}},
	}
}

// polled converts the history so far to what polling would have observed.
func (b *builder) polled() *builder {
	for i := range b.events {
		if e := &b.events[i]; e.Kind == history.KindStoreChange {
			e.Flags |= history.Polled
			e.Aux = history.None
		}
	}
	return b
}

// ownStore makes the store the subject's own, whose services are unknown.
func (b *builder) ownStore() *builder {
	b.stores()
	b.h.Store = &history.StoreContract{Engine: "postgres", Vocabulary: "own", MaxRetries: 5,
		Success: history.SuccessProcessed}
	return b
}

func storeOwnCases() []testCase {
	return []testCase{
		{"a store of the subject's own, seen by polling", nil, func(b *builder) history.Source {
			b.ownStore().dead(0).row(0)
			b.as(0, 0).success(0) // attempted again by an unknown process
			e := &entry{b: b, number: 1, record: 0, state: history.StorePending, lease: history.None, next: history.None,
				instance: history.None, retries: 1}
			e.change(history.StoreResolved)
			b.h.Expect.Invariants = []string{"store-lifecycle"}
			return b.polled().settled()
		}},
		{"resolved in a store of the subject's own, and nothing ever succeeded", []string{"resolved-without-success"},
			func(b *builder) history.Source {
				b.ownStore().dead(0).row(0).change(history.StoreResolved)
				return b.polled().settled()
			}},
		{"failed, and in process again, seen by polling", []string{"illegal-transition"}, func(b *builder) history.Source {
			b.ownStore().dead(0).row(0).change(history.StoreFailed).change(history.StoreProcessing)
			return b.polled().settled()
		}},
		{"back to pending with more tries than promised, seen by polling", []string{"over-retried-in-store"},
			func(b *builder) history.Source {
				e := b.ownStore().dead(0).row(0)
				e.retries = 6
				e.change(history.StorePending)
				return b.polled().settled()
			}},
	}
}

func storeLockCases() []testCase {
	return []testCase{
		{"the lock of a dead worker is recovered", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0)
			b.killed(history.Worker(0)).wait(lease + 30*ms)
			e.open().change(history.StorePending)
			e.due().lock(1).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"a worker is in the midst of its attempt, another unlocks the entry while its lease holds and tries it",
			[]string{"double-lock"}, func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0).due().lock(0)
				asked := e.ask(e.instance)
				b.wait(50 * ms)
				e.open().change(history.StorePending)
				e.lock(1).try(transient)
				b.wait(5 * ms)
				e.answer(asked, history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"a worker gives an entry back when its attempt is over, and another tries it", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0).try(transient)
			b.wait(5 * ms)
			e.retries++
			e.next = b.now
			e.open().change(history.StorePending)
			b.wait(100 * ms)
			e.lock(1).try(history.OutcomeSuccess).resolve()
			b.h.Store.Waits = nil
			return b.settled()
		}},
		{"a lock whose lease is over is taken over at once", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0)
			b.killed(history.Worker(0)).wait(lease + 30*ms)
			e.lock(1).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"two workers lock one entry", []string{"double-lock"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0)
			e.lock(1).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"two workers try one entry, which only one has locked", []string{"double-lock"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0)
			asked := e.ask(e.instance)
			b.wait(3 * ms)
			e.tryAs(history.Worker(1), transient).answer(asked, history.OutcomeSuccess)
			e.resolve()
			return b.settled()
		}},
		{"another worker tries on when the first was killed in its attempt and its lease is over", nil,
			func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0).due().lock(0)
				asked := e.ask(e.instance)
				b.killed(history.Worker(0)).wait(lease + 10*ms)
				e.open().change(history.StorePending)
				e.lock(1).try(history.OutcomeSuccess).resolve()
				e.answer(asked, history.OutcomeSuccess)
				return b.settled()
			}},
		{"a slow worker still tries what another has taken since, for its lease was over", nil,
			func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0).due().lock(0)
				asked := e.ask(e.instance)
				b.wait(lease + 10*ms)
				e.open().change(history.StorePending)
				e.lock(1).try(history.OutcomeSuccess)
				e.answer(asked, history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"another tries an entry once the first one's lease is over, and nobody has written that down yet", nil,
			func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0).due().lock(0)
				asked := e.ask(e.instance)
				b.wait(lease + 10*ms)
				e.tryAs(history.Worker(1), history.OutcomeSuccess)
				e.lock(1).answer(asked, history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"a dead worker's lock is never recovered", []string{"orphaned-lock"}, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).due().lock(0)
			b.killed(history.Worker(0)).wait(3 * time.Second)
			return b.settled()
		}},
		{"a dead worker's lock stays, for all workers are dead", nil, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).due().lock(0)
			b.killed(history.Worker(0)).killed(history.Worker(1)).killed(history.Worker(2)).wait(3 * time.Second)
			return b.settled()
		}},
		{"a dead worker's lock stays while the store's link is down", nil, func(b *builder) history.Source {
			fault := b.stores().fault("network", "store", "the store's link is down")
			b.dead(0).ingest(0).due().lock(0)
			b.killed(history.Worker(0)).breaks(fault).wait(3 * time.Second)
			return b.settled()
		}},
	}
}

func storeTimeCases() []testCase {
	return []testCase{
		{"taken before it is due", []string{"retry-early"}, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"taken before the time that the table names, though after the strategy's wait", []string{"retry-early"},
			func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0).due().lock(0).try(transient)
				e.retries, e.next = 1, b.now+3*time.Second // the downstream requested a longer wait
				e.open().change(history.StorePending)
				b.wait(600 * ms)
				e.lock(0).try(history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"tried again too soon, though the table says it was due", []string{"retry-early"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0).try(transient)
			e.again()
			b.events[len(b.events)-1].Text = strings.Replace(b.events[len(b.events)-1].Text, "next=", "was=", 1)
			e.next = b.now
			e.due().lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"due, and left lying beside an idle worker", []string{"retry-late"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.wait(3 * time.Second)
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"due, and never taken", []string{"retry-late"}, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0)
			b.wait(3 * time.Second)
			return b.settled()
		}},
		{"due, and every worker stands still", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.wait(3 * time.Second)
			for n := range 3 {
				b.stall(history.Worker(n), 3*time.Second)
			}
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"due, and left lying on a machine that is busy", []string{"retry-late"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			for range 160 {
				b.wait(50*ms).stall(history.None, 10*ms)
			}
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"due, and left lying for no longer than a machine that is busy explains", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			for range 40 {
				b.wait(200*ms).stall(history.None, 100*ms)
			}
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"due, while the only worker still tries an entry whose lock it has lost", nil, func(b *builder) history.Source {
			b.stores().dead(0).dead(1)
			b.killed(history.Worker(1)).killed(history.Worker(2))
			e, other := b.ingest(0), b.ingest(1)
			e.due().lock(0)
			asked := e.ask(e.instance)
			b.wait(lease + 30*ms)
			e.open().change(history.StorePending)
			b.wait(3 * time.Second)
			e.answer(asked, history.OutcomeSuccess)
			other.lock(0).try(history.OutcomeSuccess).resolve()
			e.due().lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"scheduled, and tried at an off-peak hour", nil, func(b *builder) history.Source {
			e := b.stores().offPeak().dead(0).ingestScheduled(0)
			b.now = 250 * ms // 02:30
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"scheduled, taken at an off-peak hour, renewed and tried a little after it", nil, func(b *builder) history.Source {
			e := b.stores().offPeak().dead(0).ingestScheduled(0)
			b.now = 490 * ms // 04:54
			e.lock(0)
			b.wait(30 * ms)
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"scheduled, and tried at noon", []string{"retry-early"}, func(b *builder) history.Source {
			e := b.stores().offPeak().dead(0).ingestScheduled(0)
			b.now = 1200 * ms
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"resolved and removed when its time was over", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			b.wait(3 * time.Second)
			e.change(history.StoreAbsent)
			return b.settled()
		}},
		{"resolved and removed too soon", []string{"retention-early"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			b.wait(2 * time.Second)
			e.change(history.StoreAbsent)
			return b.settled()
		}},
		{"resolved by a statement that waited, and removed when its time was over since that began", nil,
			func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess)
				b.wait(200 * ms)
				e.resolve()
				b.wait(2900 * ms)
				e.change(history.StoreAbsent)
				return b.settled()
			}},
		{"pending and removed", []string{"retention-early"}, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).change(history.StoreAbsent)
			return b.settled()
		}},
		{"resolved and removed long after its time", []string{"retention-late"}, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			b.wait(6 * time.Second)
			e.change(history.StoreAbsent)
			return b.settled()
		}},
		{"resolved and removed late, as the database could not be reached when it was due", nil,
			func(b *builder) history.Source {
				e := b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
				gone := b.fault("network", "store", "the link to the database is down")
				b.wait(2 * time.Second).breaks(gone).wait(3900 * ms).heals(gone).wait(100 * ms)
				e.change(history.StoreAbsent)
				return b.settled()
			}},
		{"resolved and kept for ever", []string{"retention-late"}, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			b.wait(6 * time.Second)
			return b.settled()
		}},
	}
}

// offPeak makes a day 2.4 seconds long, with midnight at the run's beginning.
func (b *builder) offPeak() *builder {
	b.h.Store.OffPeak = &history.OffPeak{
		Hours: []int{2, 3, 4}, Zone: "UTC", Scale: 36000, Epoch: time.Date(2026, 2, 11, 0, 0, 0, 0, time.UTC).UnixNano(),
	}
	return b
}

func (b *builder) ingestScheduled(number int32) *entry {
	e := b.row(number)
	b.routerCommits(int64(number) + 1)
	e.strategy, e.next = scheduledRetry, history.None
	return e.change(history.StorePending)
}

func storeArrivalCases() []testCase {
	return []testCase{
		{"a committed row is gone when the database is back from a crash", []string{"lost-in-store"},
			func(b *builder) history.Source {
				crash := b.stores().fault("store", "database", "the store's database crashed")
				b.dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
				b.breaks(crash).wait(300 * ms).heals(crash)
				b.vanished = map[int64]bool{1: true}
				return b.settled()
			}},
		{"a router commits while the database is away, and the dead letter is missing afterwards", []string{"lost-in-store"},
			func(b *builder) history.Source {
				crash := b.stores().fault("store", "database", "the store's database crashed")
				b.dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
				b.breaks(crash).watched(history.WatchLost).dead(1).routerCommits(2).wait(300 * ms).watched(history.WatchResumed).
					heals(crash)
				return b.settled()
			}},
		{"a dead letter that comes twice has one entry", nil, func(b *builder) history.Source {
			repeat := b.stores().fault("store", "dlq", "100% of the dead letters written again, in another order")
			b.h.Contract().SamePartition = true
			b.dead(0).repeat(0).breaks(repeat).heals(repeat)
			b.inTopics[len(b.inTopics)-1].Partition = 1 // of the copy itself
			b.ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			b.routerCommits(2)
			return b.settled()
		}},
		{"a dead letter that comes twice has an entry for each place where it lies", []string{"doubled-in-store"},
			func(b *builder) history.Source {
				repeat := b.stores().fault("store", "dlq", "100% of the dead letters written again, in another order")
				b.dead(0).repeat(0).breaks(repeat).heals(repeat)
				first, second := b.rowOfLetter(0, 0, 1), b.rowOfLetter(0, 1, 2)
				b.routerCommits(2)
				first.due().lock(0).try(history.OutcomeSuccess).resolve()
				second.due().lock(1).try(history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"the router commits before the row is there", []string{"committed-before-stored"}, func(b *builder) history.Source {
			b.stores().dead(0).routerCommits(1).wait(20 * ms)
			b.row(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"the router commits past a dead letter that never comes into the store", []string{"lost-in-store"},
			func(b *builder) history.Source {
				b.stores().dead(0).dead(1).row(0).due().lock(0).try(history.OutcomeSuccess).resolve()
				b.routerCommits(2)
				return b.settled()
			}},
		{"the router never takes a dead letter", []string{"lost-in-store"}, func(b *builder) history.Source {
			b.stores().dead(0).dead(1).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"an entry that was removed before anybody could see whose it was", nil, func(b *builder) history.Source {
			b.stores().dead(0)
			b.h.Store.ByHand = true
			b.row(0).change(history.StoreAbsent)
			for i := range b.events {
				if e := &b.events[i]; e.Kind == history.KindStoreChange {
					e.Record, e.Topic, e.Partition, e.Offset, e.Claim = history.None, history.None, history.None, history.None,
						nil
				}
			}
			b.routerCommits(1)
			return b.settled()
		}},
		{"due, while the table can't keep up", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0)
			b.wait(3 * time.Second)
			e.lock(0).try(history.OutcomeSuccess).resolve()
			for i := range b.events {
				if one := &b.events[i]; one.Kind == history.KindStoreChange && strings.HasPrefix(one.Text, "absent>") {
					one.Aux, one.Time = int64(one.Time), one.Time+2980*ms
				}
			}
			b.h.Expect.Invariants = []string{"store-lifecycle"}
			slices.SortStableFunc(b.events, func(x, y history.Event) int { return int(x.Time - y.Time) })
			return b.settled()
		}},
		// A router was killed between its row and its commit, and its group gave the partition away only after a
		// session timeout. Meanwhile the dead letter had been processed, and the retention, a thousand times as fast,
		// had removed its entry.
		{"read again when its entry has been removed, by a router that never committed it", nil,
			func(b *builder) history.Source {
				return b.forgotten(0)
			}},
		{"read again when its entry has been removed, though it was committed", []string{"doubled-in-store"},
			func(b *builder) history.Source {
				return b.forgotten(1)
			}},
		{"two entries of one record", []string{"doubled-in-store"}, func(b *builder) history.Source {
			b.stores().dead(0).ingest(0).due().lock(0).try(history.OutcomeSuccess).resolve()
			second := &entry{b: b, number: 9, record: 0, state: history.StoreAbsent, strategy: immediateRetry,
				lease: history.None, instance: history.None, next: b.now + 100*ms}
			second.change(history.StorePending).due().lock(1).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
	}
}

// forgotten is a history of an entry that is removed by the retention, and of another one made of its dead letter after
// that; committed is the router's commit before that.
func (b *builder) forgotten(committed int64) history.Source {
	e := b.stores().dead(0).rowOfLetter(0, 0, 1)
	if committed > 0 {
		b.routerCommits(committed)
	}
	e.due().lock(0).try(history.OutcomeSuccess).resolve()
	b.wait(b.h.Store.Retention.Resolved + 20*ms)
	e.change(history.StoreAbsent)
	second := b.rowOfLetter(0, 0, 2)
	b.routerCommits(1)
	second.due().lock(1).try(history.OutcomeSuccess).resolve()
	return b.settled()
}

// republish writes the record back, with the broker's answer.
func (e *entry) republish(code int16, flags history.Flags) *entry {
	b := e.b
	b.op++
	event := b.event(history.KindProduceRequest)
	event.Op, event.Record, event.Instance, event.Topic, event.Partition = b.op, e.record, e.instance, input, 0
	answer := *b.put(event)
	answer.Kind, answer.Time, answer.Code, answer.Flags = history.KindProduceResponse, b.tick(), code, flags
	if code == 0 {
		answer.Offset = b.next[0]
	}
	b.put(answer)
	return e
}

// askedAgain has the acknowledgement of a dead letter withheld, and the dead letter requested again after it has been
// written back.
func (b *builder) askedAgain(beforeTheCopy bool) history.Source {
	b.stores().send(0).fetch(0).attempt(0, history.OutcomePermanent)
	b.h.Store.Success = history.SuccessPublished
	asked := b.askLetter(0)
	b.answerLetter(asked, 0, history.Withheld)
	b.ingest(0).due().lock(0).republish(0, 0).resolve()
	b.inInput(0, 0)
	b.fetch(0)
	again := func() {
		b.op++
		e := asked
		e.Op, e.Time = b.op, b.tick()
		b.put(e)
		e.Kind, e.Time, e.Offset = history.KindProduceResponse, b.tick(), 0
		b.put(e)
	}
	if beforeTheCopy {
		again()
	}
	b.success(0)
	if !beforeTheCopy {
		again()
	}
	b.commit(b.next[0])
	return b.settled()
}

// writtenBack writes a record back that is not committed yet, after the given events. Then the record and its copy are
// both processed.
func (b *builder) writtenBack(happens func()) history.Source {
	b.stores().send(0).fetch(0).attempt(0, history.OutcomePermanent).letter(0)
	b.h.Store.Success = history.SuccessPublished
	happens()
	e := b.ingest(0)
	e.due().lock(0).republish(0, 0).resolve()
	if _, alive := b.alive()[0]; !alive {
		b.as(0, 1).up().assign(0, 1, 2, 3)
	}
	b.fetch(0).success(0)
	b.inInput(0, 0)
	b.fetch(0).success(0).commit(b.next[0])
	return b.settled()
}

// backIn lets the subject process the copy that was written back.
func (b *builder) backIn(number int32) *builder {
	b.inInput(number, 0)
	return b.as(0, 0).fetch(number).success(number).commit(b.next[0])
}

// probed makes the entry one that is attempted when its worker's health probe allows it.
func (e *entry) probed() *entry {
	e.b.h.Store.Probed = true
	e.strategy = conditional
	return e
}

// tells is the health probe's answer to the worker, "" if all conditions are met.
func (e *entry) tells(worker int, unmet string) *entry {
	event := e.b.event(history.KindStoreProbe)
	event.Instance, event.Text = history.Worker(worker), unmet
	e.b.put(event)
	return e
}

func storeProbeCases() []testCase {
	const open = "the circuit breaker is OPEN"
	conditionalEntry := func(b *builder) *entry { return b.stores().dead(0).ingest(0).probed().due() }
	return []testCase{
		{"conditional, and tried when the probe says that all is well", nil, func(b *builder) history.Source {
			conditionalEntry(b).lock(0).tells(0, "").try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"conditional, put off while the probe says that something is wrong, and tried then", nil,
			func(b *builder) history.Source {
				e := conditionalEntry(b).lock(0).tells(0, open)
				e.next = b.now + 20*ms
				e.open().change(history.StorePending)
				e.due().lock(1).tells(1, "").try(history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"conditional, and tried although the probe said that something is wrong", []string{"retry-while-unhealthy"},
			func(b *builder) history.Source {
				conditionalEntry(b).lock(0).tells(0, open).try(history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"conditional, and tried on what the probe had said before the lock", []string{"retry-while-unhealthy"},
			func(b *builder) history.Source {
				e := conditionalEntry(b).tells(0, "")
				b.wait(20 * ms)
				e.lock(0).try(history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"conditional, and tried on what the probe said to another worker", []string{"retry-while-unhealthy"},
			func(b *builder) history.Source {
				conditionalEntry(b).lock(0).tells(0, open).tells(1, "").try(history.OutcomeSuccess).resolve()
				return b.settled()
			}},
		{"conditional, without a probe", nil, func(b *builder) history.Source {
			e := conditionalEntry(b)
			b.h.Store.Probed = false
			e.lock(0).try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
		{"tried by another strategy while the probe says that something is wrong", nil, func(b *builder) history.Source {
			e := b.stores().dead(0).ingest(0).due().lock(0).tells(0, open)
			b.h.Store.Probed = true
			e.try(history.OutcomeSuccess).resolve()
			return b.settled()
		}},
	}
}
