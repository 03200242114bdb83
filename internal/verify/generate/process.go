package generate

// This file simulates the consumer: a process of an instance, its assigned partitions, and its handling of each record.
// It keeps its contract.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// process is one process of an instance. A restart creates the next one.
type process struct {
	*simulation
	instance int16
	// node is the graph node that the process belongs to.
	node  int
	run   uint16
	owned map[spot]*assignment
	dead  bool
	// stuck is the partition in which it met a record that keeps it from beginning anything in the others, or nil.
	stuck *assignment
	// stopping reports whether the process was asked to end. It then begins nothing new.
	stopping bool
	// frozen is the time until which the process stands still.
	frozen time.Duration
	id     int64
	writes int32
	// sleeping counts the records whose backoff blocks other records.
	sleeping int
	// flights are its calls of other downstreams under way. batches: it was recorded that one is for several records.
	flights map[int32]*flight
	batches bool
	txn     *transaction
	// half holds the starts of its attempts of several calls that have not ended.
	half map[int32]history.Event
	// pending are the records for which it has yet to make a call.
	pending pending
}

// assignment is a partition assigned to a process.
type assignment struct {
	process *process
	at      spot
	next    int64
	works   []*work
	// gone reports whether the broker has reassigned the partition; lost reports whether the process knows of it.
	gone, lost bool
	waking     bool
	halted     bool // it has met a record that it can't read, before which it stops
	committing bool
	committed  int64
}

// work is a record that a process is handling.
type work struct {
	*assignment
	record *planned
	offset int64
	// k is the number of attempts made; answers are the failed answers that the process received.
	k       int
	answers []history.Outcome
	// resume is the call with which its next attempt of several calls begins, 0 for the first.
	resume  int
	started bool
	done    bool
	asleep  bool
	// replays is the number of times the document had been replayed when this copy was made.
	replays int
	// origin is the offset in the input topic of the record that a retry copy was made of.
	origin int64
	// pending: it waits for the next call for several records. tried: one was made for it.
	pending, tried bool
}

func (p *process) start() {
	p.dead, p.stopping, p.frozen, p.stuck = false, false, 0, nil
	p.owned = map[spot]*assignment{}
	p.producer++
	p.id, p.writes = p.producer, 0
	p.flights, p.batches, p.pending = map[int32]*flight{}, false, pending{}
	p.giveUpHalves()
	p.begin()
	p.instant()
	e := p.event(history.KindInstanceStarting)
	e.Aux = 100 + p.id
	p.put(e)
	p.instant()
}

// event returns an event of the process.
func (p *process) event(kind history.Kind) history.Event {
	e := p.simulation.event(kind)
	e.Instance, e.Run = p.instance, p.run
	return e
}

// after schedules an action of the process. The action waits while the process is frozen and is dropped if it is dead.
func (p *process) after(wait time.Duration, do func()) {
	run := p.run
	var try func()
	try = func() {
		switch {
		case p.dead || p.run != run:
		case p.now < p.frozen:
			p.at(p.frozen, try)
		default:
			do()
		}
	}
	p.simulation.after(wait, try)
}

// wake makes the process fetch the available records.
func (a *assignment) wake() {
	if a.waking || a.lost || a.process.stopping {
		return
	}
	a.waking = true
	p := a.process
	// A record is never read at the instant at which it is written.
	p.after(ms+p.lag(), func() {
		a.waking = false
		a.fetch()
	})
}

func (a *assignment) fetch() {
	p := a.process
	log := p.logs[a.at]
	end := int64(len(log.entries))
	if a.lost || a.gone || p.stopping || a.next >= end || a.mayNotBegin() {
		return
	}
	end = min(end, a.next+1+int64(p.Intn(3)))
	e := p.event(history.KindFetched)
	e.Topic, e.Partition, e.Offset, e.Aux = a.at.topic, a.at.partition, a.next, end-1
	p.put(e)
	for ; a.next < end; a.next++ {
		one := log.entries[a.next]
		if p.contract().Halts(p.records[one.record].kind()) {
			a.halt()
			break
		}
		w := &work{assignment: a, record: p.records[one.record], offset: a.next, k: one.attempts, replays: one.replays,
			origin: one.origin}
		a.works = append(a.works, w)
		wait := time.Duration(one.ready) - p.now
		switch c := p.contract(); {
		case c.Skips(w.record.kind()):
			w.started = true
			w.finish()
		case w.record.refused, w.record.kind() != 0 && c.HasDLQ() && w.k == 0 && chance(p, 4):
			w.started = true // a record that cannot be decoded is dead-lettered at once
			w.after(p.lag(), w.giveUp)
		case wait > 0:
			w.started = true
			w.after(wait, w.attempt)
		}
	}
	a.pump()
	a.wake()
}

// halt stops before a record that the consumer can't read.
func (a *assignment) halt() {
	p := a.process
	a.halted = true
	switch p.halting {
	case haltProcess:
		p.stuck = a
	case haltExit:
		a.process.after(time.Duration(p.Intn(30))*ms, p.fall)
	}
}

// mayNotBegin reports whether nothing more is begun in the partition.
func (a *assignment) mayNotBegin() bool {
	return a.halted || a.process.elsewhere(a.at)
}

// elsewhere reports whether the process is kept from the partition by a record in another one.
func (p *process) elsewhere(at spot) bool { return p.stuck != nil && p.stuck.at != at }

// mostFalls is how often a consumer ends by itself in a history. In the end it stays, and does nothing.
const mostFalls = 4

// fall ends the process by itself. The next one starts after a while.
func (p *process) fall() {
	if p.dead || p.stopping {
		return
	}
	if p.falls++; p.falls > mostFalls {
		return
	}
	p.instant()
	e := p.event(history.KindInstanceExited)
	e.Code = 1
	p.put(e)
	p.leave(time.Duration(20+p.Intn(100)) * ms)
}

// after continues the work after a wait, unless the process has lost it.
func (w *work) after(wait time.Duration, do func()) {
	w.process.after(wait, func() {
		if !w.lost {
			do()
		}
	})
}

// pump starts all work that may start.
func (a *assignment) pump() {
	for i, w := range a.works {
		if w.started || slices.ContainsFunc(a.works[:i], w.mustWaitFor) {
			continue
		}
		w.started = true
		w.after(a.process.lag(), w.attempt)
	}
}

// mustWaitFor reports whether the record is not begun before the other one is finished. Records of one call need not
// wait for one another.
func (w *work) mustWaitFor(before *work) bool { return w.waitsFor(before) && !before.pending }

// waitsFor reports whether the promised order requires the other record to finish first.
func (w *work) waitsFor(before *work) bool {
	switch w.process.contract().Ordering {
	case history.OrderingPartition:
		return !before.done
	case history.OrderingKey:
		return !before.done && w.record.key >= 0 && before.record.key == w.record.key
	}
	return false
}

// attempt calls every downstream.
func (w *work) attempt() {
	p := w.process
	if p.stopping {
		return
	}
	w.awake()
	if p.elsewhere(w.at) {
		return
	}
	if p.recognises && w.record.over && w.k == 0 {
		w.finish()
		return
	}
	if w.k == 0 && p.sleeping > 0 {
		w.after(ms, w.attempt)
		return
	}
	w.k++
	if p.bulk != nil {
		p.enqueue(w)
		return
	}
	w.callOthers(true, func() { w.call(1) })
}

// call calls the downstream stub, for the n-th time in the attempt.
func (w *work) call(n int) {
	p, r := w.process, w.plan()
	hidden := p.linkDown && p.Intn(2) == 1
	if hidden {
		w.after(20*ms+p.lag(), func() { w.hear(n, history.OutcomeReset, 0) })
		return
	}
	r.tries++
	outcome := r.answer(p.calls)
	e := p.event(history.KindAttemptStart)
	e.Op, e.Record, e.N, e.Topic, e.Partition, e.Offset = p.nextOp(), r.number, r.tries, w.at.topic, w.at.partition,
		w.offset
	if outcome == history.OutcomeUnknownID {
		e.Record, e.N = none, none
	}
	if p.vague {
		e.Topic, e.Partition, e.Offset = none, none, none
	}
	if p.spanned > 0 {
		w.span(e, n, outcome)
		return
	}
	p.put(e)
	p.simulation.after(p.took(outcome), func() { w.answered(e, n, outcome) })
}

// took is the time until the downstream stub answers a call.
func (p *process) took(outcome history.Outcome) time.Duration {
	took := time.Duration(1+p.Intn(4)) * ms
	if outcome == history.OutcomeTimeout {
		took = 60 * ms
	}
	return took
}

// answered is the downstream stub's side of the end of an attempt. It does not depend on the state of the process.
func (w *work) answered(e history.Event, n int, outcome history.Outcome) {
	p := w.process
	e.Kind, e.Time, e.Outcome = history.KindAttemptEnd, p.now, outcome
	told := time.Duration(0)
	switch outcome {
	case history.OutcomeSuccess:
		e.Code = 200
	case history.OutcomeUnknownID:
		e.Code = 404
	case history.OutcomeRateLimited:
		told = 120 * ms
		e.Code, e.Aux = 429, int64(told)
	case history.OutcomeTimeout:
		e.Flags = history.ClientGone
	}
	if p.dead || p.run != e.Run {
		e.Flags |= history.ClientGone
	}
	p.put(e)
	if p.linkDown && p.Intn(2) == 1 {
		outcome, told = history.OutcomeReset, 0
	}
	if p.run == e.Run {
		w.after(0, func() { w.hear(n, outcome, told) })
	}
}

// answer is the answer of the downstream stub to a record's latest call. An attempt that fails has that many calls.
func (r *planned) answer(calls int) history.Outcome {
	switch r.outcome {
	case history.OutcomeTransient, history.OutcomeTimeout, history.OutcomeReset, history.OutcomeRateLimited:
		if int(r.tries) > r.failures*max(calls, 1) {
			return history.OutcomeSuccess
		}
		return r.outcome
	case history.OutcomeExhausted:
		return history.OutcomeTransient
	}
	return r.outcome
}

// decide acts on an answer as the contract requires.
func (w *work) decide(outcome history.Outcome, told time.Duration) {
	p := w.process
	c := p.contract()
	if answered := outcome != history.OutcomeTimeout && outcome != history.OutcomeReset; answered {
		w.answers = append(w.answers, outcome)
	}
	switch {
	case outcome == history.OutcomeSuccess:
		w.callOthers(false, w.succeed)
	case outcome == history.OutcomeLogical && !c.LogicalDeadLetters,
		// The consumer may treat this answer either way, unless it must dead-letter the record.
		outcome == history.OutcomeUnknownID && chance(p, 2) && !c.MustDeadLetter(w.record.kind()):
		w.succeed()
	case outcome == history.OutcomePermanent, outcome == history.OutcomeLogical, w.k >= c.MaxAttempts,
		outcome == history.OutcomeUnknownID && chance(p, 2):
		w.giveUp()
	case p.stopping:
	default:
		wait := c.Backoff.Wait(w.k)
		if !c.IgnoresRetryAfter {
			wait = max(wait, told)
		}
		if c.Backoff.Jitter > 0 && !p.steady {
			wait += time.Duration(p.Intn(int(c.Backoff.Jitter/ms))) * ms
		}
		wait += p.delay(c.Backoff, w.k)
		if c.Retry == history.RetryTopics {
			w.handOn(p.now + wait)
			return
		}
		w.sleep()
		w.after(wait, w.attempt)
	}
}

func (w *work) finish() {
	w.done, w.record.over = true, true
	w.pump()
	w.commitSoon()
}

func (w *work) giveUp() {
	switch p := w.process; {
	case !p.contract().HasDLQ():
		w.finish()
	case !p.stopping:
		w.write(spot{w.deadLetterTopic(), w.deadLetterPartition()}, w.deadLetterEntry(), nil)
	}
}

// losesID reports whether the record's headers are gone, so that only the position in a dead letter identifies the
// record.
func (s *simulation) losesID(r *planned) bool {
	c := s.contract()
	return r.flags != 0 && s.unnamed && !c.KeepsHeaders && c.Envelope == "plain" && !s.h.Header.Replay &&
		c.Retry != history.RetryTopics
}

func (w *work) deadLetterPartition() int32 {
	if w.process.contract().SamePartition {
		return w.record.partition
	}
	return int32(w.process.Intn(partitions))
}

func (w *work) deadLetterEntry() entry {
	claim := &history.Claim{Topic: w.record.topic, Attempts: int32(w.k)}
	claim.Partition, claim.Offset = w.place()
	if w.process.graph() != nil {
		claim.Topic, claim.Partition, claim.Offset = w.at.topic, w.at.partition, w.offset
	}
	claim.More = w.tells()
	switch w.process.contract().Envelope {
	case "other":
		claim.Partition, claim.Offset, claim.Attempts = none, none, none
	case "":
		claim = nil
	}
	return entry{record: w.record.number, letter: claim, replays: w.replays}
}

// tells draws the other fields of a dead letter: the reason, which is the last answer and perhaps earlier ones; the
// time of writing, by a clock that deviates from the harness's; and an epoch: that of the batch, of a later leader, or
// of the process's own assignment.
func (w *work) tells() string {
	p := w.process
	var more history.ClaimMore
	if n := len(w.answers); n > 0 && !chance(p, 3) {
		more.Quotes = slices.Clone(w.answers[p.Intn(n):])
		slices.Sort(more.Quotes)
		more.Quotes = slices.Compact(more.Quotes)
	}
	if chance(p, 2) {
		more.Times = map[string]time.Duration{"its time": p.now + time.Duration(p.Intn(100)-50)*time.Second}
	}
	if chance(p, 2) {
		least := int32(p.Intn(3))
		epochs := [2]int32{least, least + int32(p.Intn(3))}
		epoch := pick(p.simulation, least, epochs[1], int32(p.Intn(int(epochs[1])+1)))
		more.Epoch, more.Epochs = &epoch, &epochs
	}
	return more.Encode()
}

// place is the one that a dead letter names: that of the failed copy or, after a retry topic, that of the original.
func (w *work) place() (partition int32, offset int64) {
	if w.at.topic == w.record.topic {
		return w.at.partition, w.offset
	}
	return w.record.partition, w.origin
}

// handOn writes a copy to the retry topic, or to the end of the input, with the earliest time of its next attempt.
func (w *work) handOn(ready time.Duration) {
	to := spot{retryTopic, w.at.partition}
	if w.process.h.Header.Topics[inputTopic].Retries {
		to.topic = inputTopic
	}
	w.write(to, entry{record: w.record.number, attempts: w.k, ready: int64(ready),
		origin: w.origin}, nil)
}
