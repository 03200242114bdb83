package assertions

// ordering: within one assignment, the first attempt of the next record of a key (or partition) starts after its
// predecessor is finished.
//
// Two observations prove a violation: the predecessor has not been finished by any process when the next record starts;
// or, within one assignment, the predecessor has its own first attempt after the next record's. The second finds
// records that are repeated after a rebalance, where the first fails because the record was finished in the previous
// assignment.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func orderingInvariant() Invariant {
	return Invariant{
		Name:    "ordering",
		Promise: "Records that must stay in order are processed in order.",
		Rule: "Within one assignment of a partition, the first attempt of the next record of a key (or of the " +
			"partition) starts after the record before it is finished. Where dead letters are written in transactions, " +
			"it may start after the last attempt of the record before it, because that dead letter takes effect with " +
			"the rest of the transaction. Attempts that are writes in the same transaction take effect together, so " +
			"they need not wait for one another.",
		Evidence: "the stamps of the downstream stub: an attempt's end is stamped before the answer is written and " +
			"its start after the request was read, so a subject that waits is seen in order",
		Cause: "A failed record goes to a retry queue while its key is not held back. After a resize, the hash of " +
			"the key selects another lane. A stream of stages begins with the next record while the last stage writes " +
			"the dead letter: if that is meant, the contract says order_of: attempts.",
		Contract: "ordering: key, or partition",
		Anomalies: []AnomalyNote{
			{"reordered", "the next record was started before the one before it was finished", []string{
				"1.000 s  attempt 1 of offset 10, key A, is answered transient",
				"1.010 s  attempt 1 of offset 11, key A, starts",
				"1.100 s  attempt 2 of offset 10 is answered success",
			}},
		},
		of: "pairs",
		needs: []precondition{
			seesAttempts("attempts"),
			{func(w *state) bool {
				return w.contract.Ordering == history.OrderingKey || w.contract.Ordering == history.OrderingPartition
			}, Unpromised, "the contract promises no order"},
			{func(w *state) bool { return !w.hops }, Unseen, "records that go through retry topics keep no order"},
		},
		check:    func(r *report) checker { return &ordering{report: r, joining: map[int32][]int{}} },
		observes: []history.Kind{history.KindAttemptStart},
	}
}

type ordering struct {
	*report
	suspects []outOfOrder
	// joining are the suspects whose predecessor may still have an attempt in the same transaction, by predecessor.
	joining map[int32][]int
}

type outOfOrder struct {
	before, next int32
	started      time.Duration // start of the next record's first attempt
	then         time.Duration // start of the predecessor's first attempt, never if its end is the criterion
	since        time.Duration // since when the process has the partition again, never if it did not have it before
	tried        bool          // the predecessor had had its last attempt: only its dead letter was outstanding
	// within is the transaction that the next record's attempt is in, and number counts those of its producer.
	within *transaction
	number uint32
	// together: the predecessor had an attempt in that transaction, too. They take effect together.
	together bool
}

func (c *ordering) observe(*history.Event) {
	a := c.w.attempt
	if a != nil && a.within != nil {
		c.join(a)
	}
	if a == nil || !a.fresh || a.renewed || a.stray {
		return
	}
	r := c.w.record(a.number)
	// A replayed copy lies after all other records. Its order relative to them is not known at this point.
	if r.lives > 0 {
		return
	}
	before := c.w.predecessor(r)
	switch {
	case a.early && before != none:
		c.skip(handedAgain) // in which of the deliveries, is not known
		return
	case a.early:
		return
	case before != none:
		c.judgeBefore(a, before)
	}
	first := !a.before.any || a.before.by != a.by || a.before.delivery != r.delivery
	together := a.within != nil && a.within.has(r.next)
	if next := c.w.record(r.next); first && !together && next != nil && c.overtook(a, r, next) {
		c.suspects = append(c.suspects, outOfOrder{
			before: a.number, next: r.next, started: next.seriesStart.At(), then: a.start, since: c.regained(a.number, r),
		})
	}
}

// overtook reports whether the next record was attempted in this delivery before r was.
func (c *ordering) overtook(a *attempt, r, next *record) bool {
	if next.lives > 0 || next.attempts == 0 || next.held != r.held || next.delivery != r.delivery ||
		next.seriesStart.At() >= a.start || !sameLog(r, next) {
		return false
	}
	since := c.regained(a.number, r)
	return since == never || next.seriesStart.At()-since >= faultGrace
}

// regained returns since when the process has the partition, if it may have had the record before that: attempts of
// that time may still arrive.
func (c *ordering) regained(number int32, r *record) time.Duration {
	if p := c.w.home(number, r); c.w.heldBefore(p, number, r) {
		return p.since
	}
	return never
}

func sameLog(a, b *record) bool {
	return a.topic == b.topic && a.partition == b.partition && a.offset.at() < b.offset.at() && a.offset.at() >= 0
}

func (c *ordering) judgeBefore(a *attempt, before int32) {
	b := c.w.record(before)
	c.result.Judged++
	// A record that a commit has passed is not delivered again. Whichever process committed it, this order is not
	// violated. A record that only waits for the end of an open transaction is finished.
	if c.w.firstTerminal(b) >= 0 || b.has(markCovered|markJoined) {
		return
	}
	one := outOfOrder{
		before: before, next: a.number, started: a.start, then: never, since: c.regained(a.number, c.w.record(a.number)),
		tried: c.w.tried(b), within: a.within,
	}
	if a.within != nil {
		if a.within.has(before) {
			return
		}
		// The writes of a transaction go to several brokers, in any order.
		one.number = a.within.number
		c.joining[before] = append(c.joining[before], len(c.suspects))
	}
	c.suspects = append(c.suspects, one)
}

// join notes that the record has an attempt in the transaction in which its successor already has one.
func (c *ordering) join(a *attempt) {
	for _, i := range c.joining[a.number] {
		one := &c.suspects[i]
		one.together = one.together || one.within == a.within && one.number == a.within.number
	}
	delete(c.joining, a.number)
}

// predecessor returns the record before r in its order that is certain to be in the log, or none.
func (w *state) predecessor(r *record) int32 {
	number := r.prev
	for range 16 {
		b := w.record(number)
		if b == nil {
			return none
		}
		if !b.has(markRefused) && (!b.exempt() || w.contract.Halts(b.kind())) {
			return number
		}
		number = b.prev
	}
	return none
}

// tried reports whether the record has had its last attempt, and failed.
func (w *state) tried(r *record) bool {
	switch w.classOfLast(r) {
	case classPermanent, classLogical:
		return true
	case classRetryable:
		made := r.inSeries
		if w.memory && r.has(markMixed) {
			made = r.attempts
		}
		return w.contract.MaxAttempts > 0 && int(made) >= w.contract.MaxAttempts
	}
	return false
}

func (c *ordering) finish() Result {
	for i := range c.suspects {
		if !c.suspects[i].together {
			c.judge(&c.suspects[i])
		}
	}
	return c.judgedOrNot(Inconclusive, "no two records of one key or partition were seen")
}

func (c *ordering) judge(s *outOfOrder) {
	b, next := c.w.record(s.before), c.w.record(s.next)
	// In a transaction the dead letter may be written last: it takes effect with the rest of the transaction, or
	// nothing does. So in a transaction, the predecessor only needs to have had its last attempt. It certainly had not
	// if its series continued.
	if l := c.w.letters.of(s.before); s.then == never && l != nil && l.transactional &&
		(s.tried || b.seriesStart.At() > s.started || b.lastStart.At() <= s.started) {
		return
	}
	// If only the order of attempts is promised, the dead letter of the predecessor may still be outstanding. The
	// predecessor must have had its last attempt, or at least no attempt after that time. A subject also counts
	// attempts that never reached the downstream stub.
	if s.then == never && c.w.contract.OrderOfAttempts && (s.tried || b.lastStart.At() <= s.started) {
		return
	}
	unknown := c.w.unknowable(s.before, b, b.attempts, endless)
	switch {
	case !sameLog(b, next):
		c.withdraw("place in the log not known")
		return
	case unknown != "":
		c.withdraw(unknown)
		return
	case s.since != never && c.w.faulted(c.w.hidesCalls, s.since, max(s.started, s.then)):
		c.withdraw("fault on the link to the downstream")
		return
	}
	if s.then != never {
		c.saw("reordered", c.w.about(s.next, 0, s.then, func() string {
			return fmt.Sprintf("its first attempt started %s before that of record %d, which comes before it",
				units.Text(s.then-s.started), s.before)
		}, moment{history.KindAttemptStart, s.started}).by(s.then-s.started))
		return
	}
	seen := c.w.about(s.next, 0, s.started, func() string {
		if c.w.firstTerminal(b) < 0 {
			return fmt.Sprintf("its first attempt started although record %d, which comes before it, was never finished",
				s.before)
		}
		if c.w.contract.OrderOfAttempts {
			return fmt.Sprintf("its first attempt started %s before the last attempt of record %d, which comes before it",
				units.Text(b.lastStart.At()-s.started), s.before)
		}
		if c.w.firstTerminal(b) == c.w.letterAcked(b) {
			return fmt.Sprintf(
				"its first attempt started %s before the dead letter of record %d, which comes before it, was acknowledged",
				units.Text(c.w.firstTerminal(b)-s.started), s.before)
		}
		return fmt.Sprintf("its first attempt started %s before record %d, which comes before it, was finished",
			units.Text(c.w.firstTerminal(b)-s.started), s.before)
	}, moment{history.KindAttemptStart, s.started}).by(c.w.firstTerminal(b) - s.started)
	// The attempt is wrong only since it is certain that the record before is not finished.
	if c.w.firstTerminal(b) == never {
		seen = seen.missingSince(c.w.passedAt(s.before, b), MissingCommitted)
	}
	c.saw("reordered", seen)
}
