package generate

// This file simulates the dead-letter store of a run: a router, workers, a retention process, and an observer that sees
// each change a little later than it was made.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	storeWorkers = 2
	// atOnce is the maximum number of entries that a worker holds.
	atOnce = 3
	// storeBlur is the maximum deviation of the database's clock.
	storeBlur = ms
)

// storeSide is the store of a run.
type storeSide struct {
	*simulation
	contract *history.StoreContract
	entries  []*stored
	hands    [storeWorkers]int // entries held by each worker
	runs     [storeWorkers]uint16
	dead     [storeWorkers]bool
	routed   map[int32]time.Duration // by partition, the time until which the router is busy
}

// stored is an entry of the store.
type stored struct {
	*storeSide
	number   int64
	record   *planned
	letter   deadLetterAt
	source   *history.Claim
	state    history.StoreState
	by       int // the worker, or none
	retries  int32
	version  int32
	calls    int32
	failures int
	// lasting marks an entry whose failure needs a person to look at it.
	lasting     bool
	next, lease time.Duration
	seen        time.Duration
}

// Store makes a correct history of a run with a dead-letter store.
func Store(c Choices) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}, calm: true}
	s.h.Header = s.drawHeader()
	h := &s.h.Header
	h.Replay, h.Contract().Envelope = false, "plain"
	h.Store = &history.StoreContract{
		Engine: "sqlite", Vocabulary: "lifecycle", Workers: storeWorkers, Routers: 1, Group: "generated.router",
		MaxRetries: 1 + c.Intn(3),
		Waits:      []time.Duration{50 * ms, 100 * ms, 200 * ms}, Poll: 20 * ms, Lease: 400 * ms, Late: 100 * ms,
		Recovery: time.Second, Success: history.SuccessProcessed,
	}
	if chance(c, 2) {
		h.Store.Retention = &history.Retention{Resolved: time.Second, Failed: 3 * time.Second, Sweep: 100 * ms}
	}
	s.store = &storeSide{simulation: s, contract: h.Store, routed: map[int32]time.Duration{}}
	s.store.begin()
	if chance(c, 4) {
		s.calm = false
		s.store.endWorker(c.Intn(storeWorkers))
	}
	calm := s.calm
	s.calm = true // the consumer is not disturbed
	s.run().Calm = calm
	return s.h
}

// tell adds an event of a process of the service.
func (t *storeSide) tell(kind history.Kind, instance int16, run uint16, fill func(*history.Event)) history.Event {
	e := t.event(kind)
	e.Instance, e.Run = instance, run
	if fill != nil {
		fill(&e)
	}
	t.put(e)
	return e
}

func (t *storeSide) processes() []int16 {
	all := []int16{history.Router(0)}
	for n := range storeWorkers {
		all = append(all, history.Worker(n))
	}
	if t.contract.Retention != nil {
		all = append(all, history.Keeper(0))
	}
	return all
}

func (t *storeSide) begin() {
	t.tell(history.KindStoreClock, history.None, 0, func(e *history.Event) { e.Aux = int64(storeBlur) })
	t.tell(history.KindStoreWatch, history.None, 0, func(e *history.Event) {
		e.Text, e.Aux = history.WatchBegins, int64(20*ms)
	})
	for _, instance := range t.processes() {
		t.tell(history.KindInstanceStarting, instance, 0, nil)
		t.tell(history.KindInstanceReady, instance, 0, nil)
	}
	t.instant()
}

// stop ends the processes and records the contents of the store.
func (t *storeSide) stop() {
	for _, instance := range t.processes() {
		run := uint16(0)
		if kind, n := history.StoreProcess(instance); kind == "worker" {
			run = t.runs[n]
		}
		t.tell(history.KindInstanceSignal, instance, run, func(e *history.Event) { e.Text = "TERM" })
		t.later(ms)
		t.tell(history.KindInstanceExited, instance, run, func(e *history.Event) { e.Flags = history.Expected })
	}
	t.tell(history.KindStoreWatch, history.None, 0, func(e *history.Event) {
		e.Text, e.Aux = history.WatchEnds, int64(20*ms)
	})
	there := int32(0)
	for _, one := range t.entries {
		if one.state != history.StoreAbsent {
			there++
			t.put(one.observed(history.KindStoreEntry, history.StoreAbsent, t.now))
		}
	}
	t.tell(history.KindStoreAudited, history.None, 0, func(e *history.Event) { e.N, e.Aux = there, int64(t.now) })
	t.later(ms)
}

// arrives makes the router take up a dead letter. The router handles one at a time.
func (t *storeSide) arrives(at spot, offset int64, letter entry) {
	ready := max(t.now, t.routed[at.partition]) + 2*ms + t.lag()
	t.routed[at.partition] = ready
	t.simulation.at(ready, func() {
		place := func(e *history.Event) { e.Topic, e.Partition, e.Offset, e.Aux = at.topic, at.partition, offset, offset }
		t.tell(history.KindFetched, history.Router(0), 0, place)
		one := &stored{
			storeSide: t, number: int64(len(t.entries) + 1), record: t.records[letter.record], letter: deadLetterAt{at, offset},
			source: new(*letter.letter), state: history.StoreAbsent, by: none, failures: t.Intn(4), lasting: t.Intn(8) == 7,
		}
		one.source.Attempts = none
		t.entries = append(t.entries, one)
		one.next = t.now + t.contract.Waits[0]
		one.become(history.StorePending)
		one.wait()
		t.instant()
		ask := t.tell(history.KindCommitRequest, history.Router(0), 0, func(e *history.Event) {
			e.Op, e.Topic, e.Partition, e.Offset, e.N = t.nextOp(), at.topic, at.partition, offset+1, 1
		})
		ask.Kind = history.KindCommitResponse
		t.put(ask)
	})
}

// observed returns the entry's present state as an event of the history.
func (e *stored) observed(kind history.Kind, from history.StoreState, made time.Duration) history.Event {
	change := history.StoreChange{From: from, To: e.state, Strategy: "immediate_retry", Next: history.None,
		Lease: history.None}
	seen := e.event(kind)
	if e.by != none {
		change.By, change.Lease = []string{"worker-0", "worker-1"}[e.by], e.lease
		seen.Instance = history.Worker(e.by)
	}
	if e.state == history.StorePending || e.state == history.StoreProcessing {
		change.Next = e.next
	}
	seen.Op, seen.Record, seen.N, seen.Sequence, seen.Aux, seen.Text = e.number, e.record.number, e.retries, e.version,
		int64(made), change.String()
	seen.Topic, seen.Partition, seen.Offset, seen.Claim = e.letter.topic, e.letter.partition, e.letter.offset, e.source
	return seen
}

// become changes the entry's state. The observer of the table sees the change a little later.
func (e *stored) become(state history.StoreState) {
	from := e.state
	e.state = state
	e.version++
	change := e.observed(history.KindStoreChange, from, e.now)
	e.seen = max(e.seen+brief, e.now+time.Duration(e.Intn(20))*ms)
	change.Time = e.seen
	e.simulation.at(e.seen, func() { e.put(change) })
}

// wait leaves the entry until it is due and a worker claims it.
func (e *stored) wait() {
	version := e.version
	e.simulation.at(e.next+time.Duration(1+e.Intn(15))*ms, func() { e.take(version) })
}

func (e *stored) take(version int32) {
	first := e.Intn(storeWorkers)
	for n := range storeWorkers {
		if n = (n + first) % storeWorkers; e.dead[n] || e.hands[n] >= atOnce {
			continue
		}
		e.hands[n]++
		e.by, e.lease = n, e.now+e.contract.Lease
		e.become(history.StoreProcessing)
		run := e.runs[n]
		e.after(ms+e.lag(), func() { e.try(n, run) })
		e.after(e.contract.Lease+time.Duration(e.Intn(20))*ms, func() { e.recover(version + 1) })
		return
	}
	e.after(5*ms, func() { e.take(version) })
}

// mine reports whether the worker's process is still alive, so that it continues.
func (e *stored) mine(n int, run uint16) bool { return !e.dead[n] && e.runs[n] == run }

func (e *stored) try(n int, run uint16) {
	if !e.mine(n, run) {
		return
	}
	e.calls++
	outcome := history.OutcomeSuccess
	switch {
	case e.lasting:
		outcome = history.OutcomePermanent
	case e.failures > 0:
		outcome = history.OutcomeTransient
	}
	ask := e.tell(history.KindAttemptStart, history.Worker(n), run, func(s *history.Event) {
		s.Op, s.Record, s.N, s.Topic, s.Partition, s.Offset = e.nextOp(), e.record.number, e.calls, e.source.Topic,
			e.source.Partition, e.source.Offset
	})
	e.after(time.Duration(1+e.Intn(30))*ms, func() {
		ask.Kind, ask.Time, ask.Outcome = history.KindAttemptEnd, e.now, outcome
		if !e.mine(n, run) {
			ask.Flags |= history.ClientGone
		} else {
			e.after(2*ms, func() { e.settle(n, run, outcome) })
		}
		e.put(ask)
	})
}

func (e *stored) settle(n int, run uint16, outcome history.Outcome) {
	if !e.mine(n, run) {
		return
	}
	e.hands[n]--
	e.by = none
	e.retries++
	switch {
	case outcome == history.OutcomeSuccess:
		e.become(history.StoreResolved)
	case outcome == history.OutcomePermanent:
		e.become(history.StoreManual)
	case int(e.retries) >= e.contract.MaxRetries:
		e.become(history.StoreFailed)
	default:
		e.failures--
		e.next = e.now + e.contract.Waits[min(int(e.retries), len(e.contract.Waits)-1)]
		e.become(history.StorePending)
		e.wait()
	}
	e.retire()
}

// recover releases a dead worker's entry when its lease expires.
func (e *stored) recover(version int32) {
	if e.state != history.StoreProcessing || e.version != version {
		return
	}
	e.by, e.next = none, e.now
	e.become(history.StorePending)
	e.wait()
}

// retire applies the retention to the entry.
func (e *stored) retire() {
	r := e.contract.Retention
	if r == nil {
		return
	}
	sweep := time.Duration(1+e.Intn(int(r.Sweep/ms))) * ms
	switch e.state {
	case history.StoreResolved:
		e.after(r.Resolved+sweep, func() { e.become(history.StoreAbsent) })
	case history.StoreFailed:
		e.after(r.Failed+sweep, func() { e.become(history.StoreArchived) })
	}
}

// endWorker kills a worker during its work. A new process replaces it.
func (t *storeSide) endWorker(n int) {
	t.simulation.at(time.Duration(100+t.Intn(300))*ms, func() {
		t.tell(history.KindInstanceSignal, history.Worker(n), t.runs[n], func(e *history.Event) { e.Text = "KILL" })
		t.instant()
		t.tell(history.KindInstanceExited, history.Worker(n), t.runs[n], func(e *history.Event) {
			e.Code, e.Text, e.Flags = -1, "KILL", history.Expected
		})
		t.dead[n], t.hands[n] = true, 0
		t.after(time.Duration(500+t.Intn(300))*ms, func() {
			t.dead[n] = false
			t.runs[n]++
			t.tell(history.KindInstanceStarting, history.Worker(n), t.runs[n], nil)
			t.tell(history.KindInstanceReady, history.Worker(n), t.runs[n], nil)
		})
	})
}

// isDeadLetterTopic reports whether the dead letters of a topic go into a store.
func (s *simulation) isDeadLetterTopic(topic int16) bool {
	return s.store != nil && s.h.role(topic) == history.RoleDLQ
}
