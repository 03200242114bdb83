package assertions

// What is promised of each copy of a record that waits in retry topics.
//
// A record may have several copies: a stop between a copy's acknowledgement and the commit of where it came from makes two of it, and each is retried
// for itself. So an attempt is held against the copy it is of, not against the attempt before it:
//
//	attempt at the source fails ─▶ copy A is written, due B(1) after the failure ─▶ (restart) ─▶ attempt at A: not before A is due
//	                                                                            └▶ the source once more: no gap at all
//
// The copy is the one whose coordinates the attempt names. One that names none is held against the copy that is due first of those it may be of: a place
// that was committed is not handed out again, unless somebody held it when partitions changed hands.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// promise is from when a retry copy may be tried, by the failure that it was written for.
type promise struct {
	// by is the process that met the failure, k the number of the attempt that failed: at least, as one may have missed the oracle.
	by holder
	k  uint16
	// start and end are the failed attempt's, unanswered that the subject may have given up on it at any time between them.
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

// chain is what is known of the copies of one record.
type chain struct {
	// open are the numbers of the attempts that have not ended, by operation.
	open map[int64]uint16
	// failed are retryable failures of which neither copy nor dead letter was asked for yet; taken counts those that were since the list had
	// more than one, when which of them a write is for is not known.
	failed []promise
	taken  int
	// asked are copies without a known place, by operation; placed those with one. last is the latest of each process: what it writes again is for
	// the same failure.
	asked  map[int64]promise
	placed map[place]*copyWait
	last   map[holder]promise
	// by are the processes that attempted it.
	by []holder
}

// copyWait is a copy with its promise; tried: it was attempted before.
type copyWait struct {
	promise
	tried bool
}

func newChain() *chain {
	return &chain{open: map[int64]uint16{}, asked: map[int64]promise{}, placed: map[place]*copyWait{}, last: map[holder]promise{}}
}

// chains follows the copies of all records.
type chains struct {
	w      *world
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
		one := cs.byName[e.Record]
		if one == nil {
			return
		}
		wait, known := one.asked[e.Op]
		if known && e.Code == 0 && e.Offset >= 0 && !e.Flags.Has(history.Forged) {
			delete(one.asked, e.Op)
			at := place{e.Topic, e.Partition, e.Offset}
			if one.placed[at] == nil {
				one.placed[at] = &copyWait{promise: wait}
			}
		}
	}
}

// end notes a failure that is to be retried.
func (cs *chains) end(a *attempt, e *history.Event) {
	k := uint16(1)
	if one := cs.byName[a.number]; one != nil {
		k = max(one.open[a.op], 1)
		delete(one.open, a.op)
	}
	if cs.w.classes[a.outcome] != classRetryable {
		return
	}
	one := cs.of(a.number)
	one.tried(a.by)
	one.failed = append(one.failed, promise{
		by: a.by, k: k, start: a.start, end: a.end, unanswered: a.gone || a.outcome == history.OutcomeTimeout || a.outcome == history.OutcomeReset,
		least: cs.least(k, a.outcome, time.Duration(e.Aux)),
	})
}

// ask notes a copy, with the promise of the failure that it is for; of several failures of its process, the one that is due first.
func (cs *chains) ask(one *write) {
	c := cs.byName[one.record]
	if c == nil {
		return
	}
	var own []int
	for i := range c.failed {
		if c.failed[i].by == one.by {
			own = append(own, i)
		}
	}
	wait, known := c.last[one.by]
	if len(own) > 0 {
		first := slices.MinFunc(own, func(a, b int) int { return int(c.failed[a].due() - c.failed[b].due()) })
		wait, known = c.failed[first], true
		if c.taken++; c.taken >= len(own) {
			c.failed = slices.DeleteFunc(c.failed, func(f promise) bool { return f.by == one.by })
			c.taken = 0
		}
	}
	if known && !one.letter {
		c.asked[one.op], c.last[one.by] = wait, wait
	}
}

// attempt notes an attempt, and returns the copy that it is of, nil where that is not known or where it is of none. certain: it is one that waited for
// its first attempt.
func (cs *chains) attempt(a *attempt, e *history.Event) (of *promise, certain bool) {
	c := cs.byName[a.number]
	if c == nil {
		return nil, false // it has not failed yet
	}
	known := c.placed[place{e.Topic, e.Partition, e.Offset}]
	k := uint16(1)
	if known != nil {
		k = bump(known.k)
	}
	if cs.w.memory {
		k = min(k, max(a.k, 1))
	}
	c.open[a.op] = k
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

// firstDue returns the copy that is due first of those that an attempt may be of which names none; nil if it may be one that needs no wait.
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

// keptHands reports whether no living process but the attempt's can have kept a copy from before: no other has attempted the record, and no
// partition has changed hands since it was sent.
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
