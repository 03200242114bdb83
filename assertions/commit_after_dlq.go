package assertions

// commit-after-dlq: no offset is committed past a record that ends in the dead-letter topic before its dead letter was
// acknowledged.
//
// The request is judged, not only its result: a subject that sends the commit before the acknowledgement is at fault
// whether or not the broker accepts it, or its answer is lost. A commit that was refused, or that a fault answered in
// place of the broker, moved nothing and is left out, because a subject that has lost its partition may send any
// commit. An acknowledgement that a fault withheld was not passed to the subject, so it justifies no commit, although
// the dead letter exists.

import (
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func commitAfterDLQInvariant() Invariant {
	return Invariant{
		Name:    "commit-after-dlq",
		Promise: "An offset is committed only after all dead letters below it were acknowledged.",
		Rule: "For every accepted or unanswered commit of offset N: each record below N that ends in the dead-letter " +
			"topic had its dead letter acknowledged, and the acknowledgement passed on to the subject, before the " +
			"commit was read.",
		Evidence: "The tap stamps an acknowledgement before it passes it to the subject, and a commit after it was " +
			"read from the subject. A subject that waits is therefore always seen in that order",
		Cause: "The write is asynchronous and its future or callback is not awaited. The offset is marked as " +
			"finished when the record is handed to the producer. A flush that timed out is taken for a successful one.",
		Contract: "dlq: {enabled: true}, and commits: after-outcome",
		Scenario: "records that fail for good (smoke)",
		Anomalies: []AnomalyNote{
			{"commit-before-dlq", "the commit was sent before the dead letter was acknowledged", []string{
				"2.000 s  instance 0 writes record 3 to the dead-letter topic",
				"2.001 s  instance 0 asks to commit up to offset 4",
				"2.050 s  the write is accepted",
			}},
			{"commit-without-dlq", "the commit was sent although the dead letter was refused, or never acknowledged", []string{
				"2.000 s  instance 0 writes record 3 to the dead-letter topic",
				"2.001 s  the write is refused with MESSAGE_TOO_LARGE",
				"2.002 s  instance 0 asks to commit up to offset 4",
			}},
		},
		of:    "dead-lettered records",
		needs: append(commitsFollowOutcomes(), hasDLQ(), writesDLQ(brokerWrites)),
		check: func(r *report) checker { return &commitAfterDLQ{r, map[int32]bool{}} },
	}
}

type commitAfterDLQ struct {
	*report
	// copied are records of which commits passed only places that owed a copy.
	copied map[int32]bool
}

func (c *commitAfterDLQ) finish() Result {
	for i := range c.w.passes {
		c.w.passesOf(&c.w.passes[i], c.judge)
	}
	for number := range c.w.letters.values {
		if r := c.w.record(number); r.has(markCovered) || r.lives > 0 || r.has(markPassed) && !c.copied[number] {
			c.result.Judged++
		}
	}
	if c.result.Judged == 0 && len(c.copied) > 0 {
		return c.done(Inconclusive, "of no dead-lettered record was the last copy committed")
	}
	if c.result.Judged == 0 && c.w.planned(history.OutcomeExhausted, history.OutcomePermanent) {
		return c.done(Inconclusive, "no record that was dead-lettered was committed")
	}
	return c.judgedOrNot(NotApplicable, c.w.noLetters())
}

func (c *commitAfterDLQ) judge(p *pass) {
	r := c.w.stateOf(p)
	if !c.w.owesLetter(p) {
		return
	}
	if c.w.hops && r.lastStart.At() > p.at {
		c.copied[p.number] = true // it went on to a retry topic: the committed position owed a copy, not the dead letter
		return
	}
	delete(c.copied, p.number)
	acked := moment{history.KindProduceResponse, c.w.letterAcked(r)}
	committed := moment{history.KindCommitRequest, p.at}
	if c.w.letterAcked(r) > p.at {
		c.saw("commit-before-dlq", c.w.about(p.number, 0, c.w.letterAcked(r), func() string {
			return fmt.Sprintf("%s %s before the dead letter of offset %d was acknowledged", c.w.deed(p),
				units.Text(c.w.letterAcked(r)-p.at), p.place.offset)
		}, committed, acked).by(c.w.letterAcked(r)-p.at))
		return
	}
	if c.w.letterAcked(r) < 0 && c.w.classOfLast(r) != classSuccess {
		c.saw("commit-without-dlq", c.w.about(p.number, 0, max(p.at, c.w.letterAsked(r)), func() string {
			return fmt.Sprintf("%s, but no dead letter of offset %d was ever acknowledged to the subject", c.w.deed(p),
				p.place.offset)
		}, committed, moment{history.KindProduceRequest, c.w.letterAsked(r)}))
	}
}

// classOfLast is the class of the record's last attempt; unknown if there is none or the subject did not get its
// answer.
func (w *state) classOfLast(r *record) class {
	if !r.has(markEnded) || r.has(markGone) {
		return classUnknown
	}
	return w.classes[r.outcome]
}

// noLetters says why no dead letter is judged, where no outcome of the plan calls for one.
func (w *state) noLetters() string {
	if w.stray {
		return "no dead letter could be told whose it is: none has an id, or a position of the input"
	}
	for i := range w.records.count {
		if r := w.records.at(i); r.has(markSent) && w.contract.MustDeadLetter(r.kind()) {
			return "nothing was dead-lettered, although the contract promises it of records that can't be read"
		}
	}
	return "nothing was dead-lettered, and nothing of the plan had to be"
}

// planned reports whether the plan contains a record with one of the outcomes.
func (w *state) planned(outcomes ...history.Outcome) bool {
	if w.contract.WireOnly {
		return false // outcomes are answers of the downstream stub, which it does not call
	}
	for i := range w.records.count {
		r := w.records.at(i)
		if !r.has(markSent) {
			continue
		}
		if slices.Contains(outcomes, r.planned) {
			return true
		}
	}
	return false
}
