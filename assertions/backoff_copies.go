package assertions

// What is promised of each copy of a record that waits in retry topics.
//
// A record may have several copies: a stop between a copy's acknowledgement and the commit of where it came from makes
// two of it, and each is retried for itself. So an attempt is held against the copy it is of, not against the attempt
// before it:
//
//	attempt at the source fails ─▶ copy A is written, due B(1) after the failure ─▶ (restart) ─▶ attempt at A: not before
//	    A is due
//	                                                                            └▶ the source once more: no gap at all
//
// The copy is the one whose coordinates the attempt names. One that names none is held against the copy that is due
// first of those it may be of: a place that was committed is not handed out again, unless somebody held it when
// partitions changed hands.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// promise is from when a retry copy may be tried, by the failure that it was written for.
type promise struct {
	// by is the process that met the failure, k the number of the attempt that failed: at least, as one may have missed
	// the oracle.
	by holder
	k  uint16
	// tries is how many attempts the copy is known to count: k, or less where it may be of another failure.
	tries uint16
	// start and end are the failed attempt's, unanswered that the subject may have given up on it at any time between
	// them.
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

// or returns the least of what two failures promise of a copy that may be of either.
func (p *promise) or(other *promise) promise {
	least := *p
	if other.due() < p.due() {
		least = *other
	}
	least.tries = min(p.tries, other.tries)
	return least
}

// failure is an attempt that did not succeed, or is under way, of which no written copy or dead letter is known.
type failure struct {
	promise
	op   int64
	open bool
}

// failureLimit is how many failures of a record are told apart.
const failureLimit = 64

// chain is what is known of the copies of one record.
//
// Which failure a copy is of is not seen. A write that was refused, or whose answer was withheld, is asked for again,
// at any later time: then other copies of the record may have failed as well. So a copy may be of any failure of its
// process before its request that is not settled, and is promised the least of what those promise. A failure is settled
// when its copy or dead letter was acknowledged. Where acknowledged ones may be of several failures, those are settled
// when as many were acknowledged.
type chain struct {
	failures []failure
	// acked are, by process, when acknowledged writes were first asked for that may be of several failures, in that
	// order.
	acked map[holder][]time.Duration
	// any is the least that all failures of a process promise; crowded: the oldest of them are not told apart any more.
	any     map[holder]promise
	crowded bool
	// asked are copies without a known place, by operation; placed those with one.
	asked  map[int64]promise
	placed map[place]*copyWait
	// by are the processes that attempted it.
	by []holder
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

// add notes an attempt that failed, or may.
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
		// These are for none but the first n failures.
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

// promised returns the least that a copy may be promised which the process first asked for at the time.
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

// chains follows the copies of all records.
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

// observe takes ends of attempts, and the writes of copies and dead letters.
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

// end notes a failure. One that is not to be retried promises a copy no wait.
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
	c.tried(a.by)
	f.open, f.tries, f.end, f.least = false, f.k, a.end, 0
	f.unanswered = a.gone || a.outcome == history.OutcomeTimeout || a.outcome == history.OutcomeReset
	if f.unanswered || class == classRetryable {
		f.least = cs.least(f.k, a.outcome, time.Duration(e.Aux))
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

// ask notes the request of a copy.
func (cs *chains) ask(one *write) {
	c := cs.byName[one.record]
	if c == nil || one.letter {
		return
	}
	if wait, known := c.promised(one.by, one.first); known {
		c.asked[one.op] = wait
	}
}

// answer notes where a copy is, and that a failure is settled: unless its writer may have given up on the answer, and
// asks again.
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
	if !found || one.letter || one.first == one.at { // else it repeats one that was acknowledged
		c.acked[one.by] = slices.Insert(c.acked[one.by], before, first)
	}
	c.settle(one.by)
}

// attempt notes an attempt, and returns the copy that it is of, nil where that is not known or where it is of none.
// certain: it is one that waited for its first attempt.
func (cs *chains) attempt(a *attempt, e *history.Event) (of *promise, certain bool) {
	c := cs.byName[a.number]
	if c == nil {
		return nil, false // it has not failed yet
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
	c.tried(a.by)
	return of, certain
}

// tried notes a process that attempted it.
func (c *chain) tried(by holder) {
	if !slices.Contains(c.by, by) {
		c.by = append(c.by, by)
	}
}

// firstDue returns the copy that is due first of those that an attempt may be of which names none; nil if it may be one
// that needs no wait.
func (cs *chains) firstDue(c *chain, a *attempt) *promise {
	r := cs.w.record(a.number)
	nowhere := place{none, none, none}
	source := place{r.topic, r.partition, r.offset}
	if !cs.w.committedPast(source, nowhere) || !cs.keptHands(c, a, r) {
		return nil
	}
	var first *promise
	for at, one := range c.placed {
		if !cs.w.committedPast(at, nowhere) && (first == nil || one.due() < first.due()) {
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

// keptHands reports whether no living process but the attempt's can have kept a copy from before: no other has
// attempted the record, and no partition has changed hands since it was sent.
func (cs *chains) keptHands(c *chain, a *attempt, r *record) bool {
	for _, other := range c.by {
		later := other.instance == a.by.instance && other.run < a.by.run
		if other != a.by && !later && cs.w.instance(other.instance).alive {
			return false
		}
	}
	for i := range cs.w.handovers {
		if cs.w.handovers[i].to >= r.born {
			return false
		}
	}
	return len(cs.w.copies) == 0 || cs.w.copies[a.number] == nil || cs.w.copies[a.number].unplaced <= len(c.asked)
}
