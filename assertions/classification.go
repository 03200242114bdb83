package assertions

// classification: permanent and logical outcomes are attempted once, logical outcomes do not reach the dead-letter
// topic, only failed records do, and succeeded records do not.
//
// All rules require that the subject received the downstream stub's answer. Therefore a suspicion is dropped if the
// answer may have been lost: a fault on the link, a stop, a stall as long as a client's timeout.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func classificationInvariant() Invariant {
	return Invariant{
		Name:    "classification",
		Promise: "Only failures that may pass are retried, and only failed records are dead-lettered.",
		Rule: "Permanent and logical outcomes are attempted once, unless a dead-letter write failed (see " +
			"bounded-retries). A logical outcome that the contract calls a result " +
			"is not dead-lettered. No record is dead-lettered that succeeded in the same delivery, was never attempted, " +
			"had attempts left when its instance was told to stop, or is one at which the contract says that the subject " +
			"halts (poison: halt).",
		Evidence: "the answers of the downstream stub, where they certainly reached the subject, and the dead-letter " +
			"writes",
		Cause: "Every exception is caught in one place. A status is compared by class instead of by code. A shutdown " +
			"hook sends records in backoff to the dead-letter topic. A success whose commit failed is handled as a " +
			"failure.",
		Anomalies: []AnomalyNote{
			{"permanent-retried", "the record was attempted again after an outcome that no retry can change", []string{
				"1.000 s  attempt 1 is answered permanent",
				"1.100 s  attempt 2 starts",
			}},
			{"logical-dead-lettered", "a logical failure, which is a result, was dead-lettered", []string{
				"logical is terminal",
				"1.000 s  attempt 1 is answered logical",
				"1.010 s  instance 0 writes it to the dead-letter topic",
			}},
			{"premature-dead-letter", "the record was dead-lettered without an attempt, after the first of several " +
				"allowed, because its instance was stopping, or in place of a halt", []string{
				"attempts.max is 3",
				"1.000 s  attempt 1 is answered transient",
				"1.010 s  instance 0 writes it to the dead-letter topic",
			}},
			{"dual-terminal", "the record succeeded and was dead-lettered in one delivery", []string{
				"1.000 s  attempt 1 is answered success",
				"1.010 s  instance 0 writes it to the dead-letter topic",
			}},
		},
		of:    "attempts",
		needs: []precondition{seesAttempts("attempts")},
		check: func(r *report) checker { return &classification{report: r, refused: map[int64]bool{}} },
		observes: []history.Kind{history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest,
			history.KindProduceResponse, history.KindShareAckRequest},
	}
}

type classification struct {
	*report
	suspects []suspect
	// refused holds the suspects' requests for dead letters, and whether they were refused.
	refused map[int64]bool
}

// suspect is an anomaly that holds unless the subject did not get an answer between from and to.
type suspect struct {
	anomaly  string
	number   int32
	instance int16
	from, to time.Duration
	// unseen: an attempt that the downstream stub did not see would explain it, too. rush: there was no time for one.
	unseen, rush bool
	// answered and told are the start and the end of the attempt whose answer is the basis of the suspicion, equal if
	// there is none.
	answered, told time.Duration
	marks          []moment
	say            func() string
}

func (c *classification) observe(e *history.Event) {
	switch {
	case e.Kind == history.KindAttemptStart && c.w.attempt != nil:
		c.judgeRetry(c.w.attempt)
	case e.Kind == history.KindAttemptEnd && c.w.attempt != nil:
		c.judgeEnd(c.w.attempt)
	case e.Kind == history.KindProduceResponse:
		if _, suspected := c.refused[e.Op]; suspected {
			c.refused[e.Op] = e.Code != 0 || e.Flags.Has(history.Forged)
		}
		return
	}
	for _, one := range c.w.lettersAsked(e) {
		c.judgeLetter(&one)
	}
}

func (c *classification) suspect(anomaly string, number int32, by holder, from, to time.Duration, say func() string,
	marks ...moment) {
	s := suspect{anomaly: anomaly, number: number, instance: by.instance, from: from, to: to, marks: marks, say: say}
	if len(marks) > 1 && marks[0].kind == history.KindAttemptEnd {
		s.answered, s.told = from, marks[0].at
	}
	c.suspects = append(c.suspects, s)
}

// judgeRetry reports another attempt in the same delivery after a permanent or logical outcome, without a
// justification. (A logical outcome, and an acknowledged dead letter, end the series, so there the attempt begins a
// fresh one.)
func (c *classification) judgeRetry(a *attempt) {
	b, start, r := a.before, a.start, c.w.record(a.number)
	class := c.w.classes[b.outcome]
	if a.stray || r.has(markMixed) || r.several() || !b.ended || b.gone ||
		class != classPermanent && class != classLogical {
		return
	}
	moved := b.by != a.by || b.delivery != r.delivery
	if a.returned && !a.unsettled && !c.w.faulted(anyFault, b.end, start) {
		c.suspect("permanent-retried", a.number, a.by, b.start, start, func() string {
			return fmt.Sprintf("released, and attempted again %s after it was answered %s", units.Text(start-b.end), b.outcome)
		}, moment{history.KindAttemptEnd, b.end}, moment{history.KindAttemptStart, start})
		return
	}
	if a.fresh && (a.unsettled || moved || c.w.disruptions(a.number, r) > 0) {
		return
	}
	if moved && !c.w.copiedSince(a.number, b.end) {
		return // the same copy was delivered again; the count in its header continues, although it was not retried
	}
	c.suspect("permanent-retried", a.number, a.by, b.start, start, func() string {
		return fmt.Sprintf("attempted again %s after it was answered %s", units.Text(start-b.end), b.outcome)
	}, moment{history.KindAttemptEnd, b.end}, moment{history.KindAttemptStart, start})
}

// judgeEnd reports a success of a record that is already dead-lettered, in the same delivery.
func (c *classification) judgeEnd(a *attempt) {
	r := c.w.record(a.number)
	if a.life != r.lives {
		return
	}
	c.result.Judged++
	if a.gone || a.stray || a.early || c.w.classes[a.outcome] != classSuccess || c.w.letterAcked(r) < 0 ||
		a.start <= c.w.letterAcked(r) {
		return
	}
	if c.w.disruptions(a.number, r) > 0 {
		return
	}
	acked, end := c.w.letterAcked(r), a.end
	c.suspect("dual-terminal", a.number, a.by, acked, end, func() string {
		return fmt.Sprintf("succeeded %s after its dead letter had been acknowledged", units.Text(end-acked))
	}, moment{history.KindProduceResponse, acked}, moment{history.KindAttemptEnd, end})
}

// judgeLetter judges a dead letter by the last attempt before it.
func (c *classification) judgeLetter(one *write) {
	r := c.w.record(one.record)
	b, at := one.before, one.at
	if c.w.contract.Halts(r.kind()) {
		say := c.lettered(one, func() string {
			return ", although the contract says that the subject halts at a value that it can't read (poison: halt)"
		})
		if c.w.header.Refusable {
			// A record that may be refused or processed counts as refused if no attempt was seen.
			c.premature(one, r.born.At(), false, say)
		} else {
			c.saw("premature-dead-letter", c.w.about(one.record, 0, at, say, one.mark()))
		}
		return
	}
	if r.exempt() || b.any && !b.ended {
		return
	}
	asked := one.mark()
	class := c.w.classes[b.outcome]
	answered := b.any && !b.gone
	switch {
	case (!b.any || class == classRetryable) && c.w.perhapsUnread(at):
		c.remark(unreadExcuse)
	case !b.any:
		if c.w.anonymous(r.born.At(), at) {
			c.remark("attempts without an id")
			return
		}
		if r.several() {
			return // the attempt belongs to a copy, and was made before the next was requested
		}
		c.premature(one, c.w.triedSince(one), c.w.rushed(one, c.w.contract.LeastAttempts()),
			c.lettered(one, func() string { return " without a single attempt" }))
	case answered && class == classSuccess && one.sameDelivery:
		c.suspect("dual-terminal", one.record, one.by, b.start, one.at, c.lettered(one, func() string {
			return fmt.Sprintf(" %s after it had succeeded", units.Text(at-b.end))
		}), moment{history.KindAttemptEnd, b.end}, asked)
	case answered && class == classLogical && c.w.contract.LogicalNeverDeadLetters() && one.sameDelivery:
		c.suspect("logical-dead-lettered", one.record, one.by, b.start, one.at, c.lettered(one, func() string {
			return " after a logical failure, which the contract calls a result"
		}), moment{history.KindAttemptEnd, b.end}, asked)
	case class == classRetryable:
		c.judgePremature(one)
	}
}

// lettered describes a suspicious dead letter: when it was requested, and whether it was refused.
func (c *classification) lettered(one *write, when func() string) func() string {
	op := one.op
	c.refused[op] = false
	return func() string {
		if c.refused[op] {
			return "its dead letter was refused; it was requested" + when()
		}
		return "dead-lettered" + when()
	}
}

// judgePremature reports that the first retryable failure was taken for the last, or that a stop cut the retries short.
// (bounded-retries reports any other wrong count.)
func (c *classification) judgePremature(one *write) {
	if c.w.record(one.record).several() {
		return // one copy may have been attempted before the next was written back
	}
	limit := c.w.contract.LeastAttempts()
	if limit == 0 || int(one.attempts) >= limit || c.w.enough(one) {
		return
	}
	attempts, stopping := one.attempts, c.w.instance(one.by.instance).term != never
	if attempts > 1 && !stopping {
		return
	}
	c.premature(one, c.w.triedSince(one), c.w.rushed(one, limit), c.lettered(one, func() string {
		if stopping {
			return c.w.outOf(attempts) + ", while its instance was stopping"
		}
		return c.w.outOf(attempts) + ", though its failure was retryable"
	}))
}

// premature suspects that a dead letter was requested before the record's last attempt.
func (c *classification) premature(one *write, from time.Duration, rush bool, say func() string) {
	c.suspect("premature-dead-letter", one.record, one.by, from, one.at, say, one.mark())
	last := &c.suspects[len(c.suspects)-1]
	last.unseen, last.rush = true, rush
}

// outOf says after how many of the promised attempts something happened.
func (w *state) outOf(attempts uint16) string {
	if w.contract.Unlimited {
		return " after " + units.Plural(int64(attempts), "attempt", "attempts")
	}
	return fmt.Sprintf(" after %d of %d attempts", attempts, w.contract.MaxAttempts)
}

func (c *classification) finish() Result {
	c.accuse(c.suspects)
	return c.judgedOrNot(Inconclusive, "no attempt was seen")
}

// accuse reports the suspects that are not excused by facts known only at the end of the history.
func (r *report) accuse(suspects []suspect) {
	for i := range suspects {
		s := &suspects[i]
		why, hidden := r.w.answersHidden(s.number, s.instance, s.from, s.to)
		if s.unseen {
			why, hidden = r.w.attemptsHidden(s.number, s.instance, s.from, s.to, s.rush)
		}
		if hidden {
			r.remark(why)
			if why == stallExcuse {
				r.stalled++
			}
			continue
		}
		if r.w.missed(s.answered, s.told) {
			r.remark("answered when the client may have given up")
			continue
		}
		// Its attempts may belong to several copies, each of which is attempted separately.
		if r.w.hops && r.w.everDisrupted(s.number) {
			r.remark("several copies")
			continue
		}
		r.saw(s.anomaly, r.w.about(s.number, 0, s.to, s.say, s.marks...))
	}
}
