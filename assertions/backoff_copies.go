package assertions

// The promises for each copy of a record that waits in retry topics.
//
// A record may have several copies: a stop between a copy's acknowledgement and the commit of its source leaves two,
// and each is retried separately. So an attempt is compared with the promise of its own copy, not with the previous
// attempt:
//
//	attempt at the source fails ─▶ copy A is written, due B(1) after the failure ─▶ (restart) ─▶ attempt at A: not before
//	    A is due
//	                                                                            └▶ the source once more: no gap at all
//
// The attempt's coordinates identify the copy. An attempt without coordinates is compared with the copy that is due
// first among its possible copies: its process was handed each of them, and a committed place is not delivered again,
// unless a process held it when partitions were reassigned.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// promise is the earliest time at which a retry copy may be attempted, derived from the failure that caused the copy.
type promise struct {
	// by is the process that met the failure, k the number of the failed attempt. k is a lower bound, because an
	// attempt may not have reached the downstream stub.
	by holder
	k  uint16
	// tries is the number of attempts that the copy is known to count: k, or less if it may belong to another failure.
	tries uint16
	// start and end are the times of the failed attempt. unanswered: the subject may have given up on it at any time
	// between them.
	start, end time.Duration
	unanswered bool
	least      time.Duration
}

// due is the earliest time for the next attempt.
func (p *promise) due() time.Duration {
	if p.unanswered {
		return p.start + p.least
	}
	return p.end + p.least
}

// or returns the weaker of two promises, for a copy that may belong to either failure.
func (p *promise) or(other *promise) promise {
	least := *p
	if other.due() < p.due() {
		least = *other
	}
	least.tries = min(p.tries, other.tries)
	return least
}

// failure is an attempt that did not succeed, or is under way, without a known copy or dead letter.
type failure struct {
	promise
	op   int64
	open bool
}

// failureLimit is the number of failures of a record that are distinguished.
const failureLimit = 64

// chain is the known state of the copies of one record.
//
// The failure that a copy belongs to is not observed. A write that was refused, or whose answer was withheld, is
// requested again at any later time, and other copies of the record may have failed by then. So a copy may belong to
// any failure of its process that precedes the request and is not settled, and is promised the least of their waits. A
// failure is settled when its copy or dead letter was acknowledged. If acknowledged writes may belong to several
// failures, those failures are settled when the same number of writes was acknowledged.
type chain struct {
	failures []failure
	// acked holds, by process, the times of the first requests of acknowledged writes that may belong to several
	// failures, in order.
	acked map[holder][]time.Duration
	// any is the least promise of all failures of a process; crowded: the oldest of them are no longer distinguished.
	any     map[holder]promise
	crowded bool
	// asked holds the copies without a known place, by operation, placed those with one.
	asked  map[int64]promise
	placed map[place]*copyWait
}

// copyWait is a copy with its promise; tried: it was attempted before.
type copyWait struct {
	promise
	tried bool
}

func newChain() *chain {
	return &chain{acked: map[holder][]time.Duration{}, any: map[holder]promise{}, asked: map[int64]promise{},
		placed: map[place]*copyWait{}}
}

// add notes an attempt that failed, or may fail.
func (c *chain) add(f *failure) {
	c.failures = append(c.failures, *f)
	if len(c.failures) > failureLimit {
		c.failures, c.crowded = slices.Delete(c.failures, 0, 1), true
	}
}

// settle forgets the failures of a process whose copies or dead letters were acknowledged.
func (c *chain) settle(by holder) {
	var own []time.Duration
	for i := range c.failures {
		if c.failures[i].by == by {
			own = append(own, c.failures[i].start)
		}
	}
	slices.Sort(own)
	for n := 0; n <= len(own); n++ {
		// The acknowledged writes can only belong to the first n failures.
		acked := len(c.acked[by])
		if n < len(own) {
			if n > 0 && own[n] == own[n-1] {
				continue
			}
			acked, _ = slices.BinarySearch(c.acked[by], own[n])
		}
		if acked < n {
			continue
		}
		c.acked[by] = slices.Delete(c.acked[by], 0, acked)
		if n > 0 {
			last := own[n-1]
			c.failures = slices.DeleteFunc(c.failures, func(f failure) bool { return f.by == by && f.start <= last })
			own, n = own[n:], -1
		}
	}
}

// promised returns the least wait that may be promised to a copy first requested by the process at the time.
func (c *chain) promised(by holder, at time.Duration) (least promise, known bool) {
	c.settle(by)
	for i := range c.failures {
		f := &c.failures[i]
		switch {
		case f.by != by || f.start > at:
		case known:
			least = least.or(&f.promise)
		default:
			least, known = f.promise, true
		}
	}
	if !known || c.crowded {
		least, known = c.any[by]
	}
	return least, known
}

// chains tracks the copies of all records.
type chains struct {
	w      *state
	least  func(k uint16, outcome history.Outcome, told time.Duration) time.Duration
	byName map[int32]*chain
}

func (cs *chains) of(number int32) *chain {
	one := cs.byName[number]
	if one == nil {
		one = newChain()
		cs.byName[number] = one
	}
	return one
}

// observe applies ends of attempts, and writes of copies and dead letters.
func (cs *chains) observe(e *history.Event) {
	switch e.Kind {
	case history.KindAttemptEnd:
		if a := cs.w.attempt; a != nil {
			cs.end(a, e)
		}
	case history.KindProduceRequest:
		if one := cs.w.write; one != nil && one.by.instance >= 0 && one.op == e.Op {
			cs.ask(one)
		}
	case history.KindProduceResponse:
		if one := cs.w.write; one != nil && one.by.instance >= 0 && one.op == e.Op {
			cs.answer(one, e)
		}
	}
}

// end notes a failure. A failure that is not retryable promises no wait to a copy.
func (cs *chains) end(a *attempt, e *history.Event) {
	c := cs.byName[a.number]
	f := failure{promise: promise{by: a.by, k: 1, start: a.start}, op: a.op}
	if c != nil {
		if i := slices.IndexFunc(c.failures, func(f failure) bool { return f.open && f.op == a.op }); i >= 0 {
			f = c.failures[i]
			c.failures = slices.Delete(c.failures, i, i+1)
		}
	}
	class := cs.w.classes[a.outcome]
	if class == classSuccess && !a.gone || class != classRetryable && c == nil {
		return
	}
	c = cs.of(a.number)
	f.open, f.tries, f.end, f.least = false, f.k, a.end, 0
	f.unanswered = a.gone || a.outcome == history.OutcomeTimeout || a.outcome == history.OutcomeReset
	if f.unanswered || class == classRetryable {
		f.least = cs.least(f.k, a.outcome, a.told(e))
	}
	all, known := c.any[a.by]
	if known {
		all = all.or(&f.promise)
	} else {
		all = f.promise
	}
	c.any[a.by] = all
	c.add(&f)
}

// ask notes the request for a copy.
func (cs *chains) ask(one *write) {
	c := cs.byName[one.record]
	if c == nil || one.letter {
		return
	}
	if wait, known := c.promised(one.by, one.first); known {
		c.asked[one.op] = wait
	}
}

// answer notes the place of a copy, and that a failure is settled, unless its writer may no longer wait for the answer
// and may request the write again.
func (cs *chains) answer(one *write, e *history.Event) {
	c := cs.byName[one.record]
	if c == nil {
		return
	}
	wait, known := c.asked[e.Op]
	if known && e.Code == 0 && e.Offset >= 0 && !e.Flags.Has(history.Forged) {
		delete(c.asked, e.Op)
		at := place{e.Topic, e.Partition, e.Offset}
		if c.placed[at] == nil {
			c.placed[at] = &copyWait{promise: wait}
		}
	}
	if !one.passed || e.Time-one.at >= slowAck {
		return
	}
	first := one.first
	if one.letter {
		first = one.at
	}
	before, found := slices.BinarySearch(c.acked[one.by], first)
	if !found || one.letter || one.first == one.at { // otherwise it repeats a write that was acknowledged
		c.acked[one.by] = slices.Insert(c.acked[one.by], before, first)
	}
	c.settle(one.by)
}

// attempt notes an attempt, and returns the copy to which it belongs, or nil if there is none or it is unknown.
// certain: the copy waited for its first attempt.
func (cs *chains) attempt(a *attempt, e *history.Event) (of *promise, certain bool) {
	c := cs.byName[a.number]
	if c == nil {
		return nil, false // the attempt has not failed yet
	}
	known := c.placed[place{e.Topic, e.Partition, e.Offset}]
	k := uint16(1)
	if known != nil {
		k = bump(known.tries)
	}
	if cs.w.memory {
		k = min(k, max(a.k, 1))
	}
	c.add(&failure{op: a.op, open: true, promise: promise{
		by: a.by, k: k, tries: k, start: a.start, end: a.start, unanswered: true,
		least: cs.least(k, history.OutcomeTimeout, 0),
	}})
	switch {
	case known != nil && !known.tried:
		known.tried, of, certain = true, &known.promise, true
	case known == nil && e.Offset < 0 && !a.stray:
		of = cs.firstDue(c, a)
	}
	return of, certain
}

// firstDue returns the copy that is due first among those that an attempt without coordinates may belong to, or nil if
// it may belong to a place that promises no wait, or to one that is not known.
func (cs *chains) firstDue(c *chain, a *attempt) *promise {
	r := cs.w.record(a.number)
	if cs.mayTry(a.by, r.original(), r) || r.again() > 0 && !cs.w.placedAgain(a.number) {
		return nil
	}
	if known := cs.w.copies[a.number]; known != nil {
		unpromised := func(one copied) bool { return c.placed[one.place] == nil && cs.mayTry(a.by, one.place, r) }
		if known.unplaced > len(c.asked) || slices.ContainsFunc(known.list, unpromised) {
			return nil
		}
	}
	var first *promise
	for at, one := range c.placed {
		if cs.mayTry(a.by, at, r) && (first == nil || one.due() < first.due()) {
			first = &one.promise
		}
	}
	for _, one := range c.asked {
		if first != nil && one.due() < first.due() {
			first = &one
		}
	}
	return first
}

// mayTry reports whether an attempt of the process may be of the record at the place: the process was handed it, and it
// is not committed, or its commit may be that of another process.
func (cs *chains) mayTry(by holder, at place, r *record) bool {
	p := cs.w.partition(at.topic, at.partition)
	if p == nil || !p.mayKnow(by, at.offset) {
		return p == nil
	}
	return !cs.w.committedPast(at, place{none, none, none}) || !cs.onlyHands(p, by, at.offset, r)
}

// mayKnow reports whether the process may have been handed the offset, which is none if it is not known.
func (p *partition) mayKnow(by holder, offset int64) bool {
	last, known := p.known[by]
	return known && offset <= last
}

// onlyHands reports whether the process is the only living one that can hold the offset, and once only: no other
// process was handed it, and no partition was reassigned since the record was sent.
func (cs *chains) onlyHands(p *partition, by holder, offset int64, r *record) bool {
	for other := range p.known {
		later := other.instance == by.instance && other.run < by.run
		if other != by && !later && p.mayKnow(other, offset) && cs.w.instance(other.instance).alive {
			return false
		}
	}
	return !slices.ContainsFunc(cs.w.handovers, func(h handover) bool { return h.to >= r.born.At() })
}
