package assertions

// commit-after-outcome: an accepted commit covers only finished records, in partitions that its sender has and offsets
// within the log, and moves forward.
//
// Each contradiction has one name. If processing was over and only the dead letter was outstanding, commit-after-dlq
// names it. This checker covers records that had attempts left, or that were never finished.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func commitAfterOutcomeInvariant() Invariant {
	return Invariant{
		Name:    "commit-after-outcome",
		Promise: "An offset is committed only after every record below it is finished.",
		Rule: "For every accepted commit of offset N: each fetched record below N is finished when the commit is " +
			"read; the partition is or was assigned to the committer; N is not beyond the end offset; and offsets do " +
			"not go back within one assignment, nor by a process that has lost the partition. In a share group, each " +
			"record is finished when it is accepted or rejected. A result that is written in a transaction finishes its " +
			"record for the offsets of that transaction, and for others when it is committed. A record at which the " +
			"contract says that the subject halts (poison: halt) is never finished.",
		Evidence: "commits with the broker's answers, the answers of the downstream stub, fetches, assignments, and " +
			"the end offsets from the audit",
		Cause: "The highest finished offset is committed instead of the end of the finished prefix. Auto-commit is " +
			"left on beside manual commits. After a failure the position is not rewound, and the next success commits " +
			"past the failed record. Offsets are committed by the consumer while the results are in a transaction.",
		Contract: "commits: after-outcome",
		Anomalies: []AnomalyNote{
			{"commit-past-unfinished", "a commit covers a record that is still being processed", []string{
				"1.000 s  attempt 1 of offset 10 is answered transient; it waits",
				"1.010 s  attempt 1 of offset 11 is answered success",
				"1.100 s  instance 0 commits up to offset 12",
			}},
			{"commit-wrong-partition", "a process commits a partition that it was never assigned", []string{
				"1.000 s  instance 0 is assigned input-0, instance 1 input-1",
				"1.500 s  instance 0 asks to commit input-1 up to offset 8, which is accepted",
			}},
			{"commit-past-end", "a commit covers records that no instance has fetched, or lies beyond the end of the " +
				"log", []string{
				"1.000 s  instance 0 fetches input-0 offsets 0 to 9",
				"1.100 s  instance 0 asks to commit input-0 up to offset 12, which is accepted",
			}},
			{"commit-regressed", "a commit goes back within one assignment, or comes from a process that has lost the " +
				"partition and goes back", []string{
				"1.000 s  instance 0 commits input-0 up to offset 20",
				"1.200 s  instance 0 commits input-0 up to offset 15; it has had the partition all along",
			}},
		},
		of:       "commits",
		needs:    commitsFollowOutcomes(),
		check:    func(r *report) checker { return &commitAfterOutcome{report: r} },
		observes: []history.Kind{history.KindCommitResponse, history.KindTxnEndResponse, history.KindShareAckResponse},
	}
}

type commitAfterOutcome struct {
	*report
	// beyond holds commits that may lie beyond the end of their partition; only the audit shows the end.
	beyond []*commit
	// unseen holds the records of which the audit found a dead letter without their id.
	unseen map[int32]bool
}

func (c *commitAfterOutcome) observe(*history.Event) {
	for _, one := range c.w.ended {
		c.judgeCommit(one)
	}
	if one := c.w.commit; one != nil && !one.transaction {
		c.judgeCommit(one)
	}
}

func (c *commitAfterOutcome) judgeCommit(one *commit) {
	if !one.accepted {
		c.remark("not accepted")
		return
	}
	if one.malformed {
		c.remark("metadata that can't be read")
	}
	c.result.Judged++
	p := one.partition
	if one.ack != 0 {
		return // the broker of a share group determines the holders and the order of records itself
	}
	if one.offset > max(p.fetched, p.log.last)+1 {
		c.beyond = append(c.beyond, one)
	}
	c.judgeStranger(one)
	c.judgeOrder(one)
}

// judgeStranger reports a process that commits a partition that it never had. It applies only to processes that were
// seen to have a partition, because the tap may not know every way to get one.
func (c *commitAfterOutcome) judgeStranger(one *commit) {
	if !one.stranger || !c.w.holdsAny(one.by) {
		return
	}
	c.saw("commit-wrong-partition", c.aboutCommit(one, func() string {
		return fmt.Sprintf("instance %d committed offset %d of %s, which it never had and never fetched from",
			one.by.instance, one.offset, c.w.partitionName(one.partition.topic, one.partition.number()))
	}))
}

// judgeOrder counts the earlier commit only if its answer had been passed on before the later one was read. Then either
// the later commit was made with knowledge of the earlier, over any connections; or it comes from a process that knows
// it lost the partition, because it commits in a generation in which another process has it.
func (c *commitAfterOutcome) judgeOrder(one *commit) {
	p := one.partition
	last := &p.last
	lost := p.assigned && p.has && p.held != one.by
	same := last.by == one.by && last.epoch == one.epoch
	if last.offset > one.offset && (same || lost) && p.epoch == one.epoch && one.at >= last.answered {
		if c.w.repeatsCommit(one, last.asked) {
			c.remark("commit repeated by the client, as its connection was lost")
		} else {
			c.saw("commit-regressed", c.aboutOrder(one, *last, lost))
		}
	}
	if !one.withheld {
		*last = lastCommit{by: one.by, epoch: one.epoch, offset: one.offset, asked: one.at, answered: one.answered}
	}
}

// repeatsCommit reports whether a process commits again what it asked for before the time, and got no answer to.
// librdkafka sends such a request once more on the next connection, perhaps behind a later commit. With other clients,
// only the application does so.
func (w *state) repeatsCommit(one *commit, before time.Duration) bool {
	same := func(c *commit) bool {
		return c.partition == one.partition && c.by == one.by && c.epoch == one.epoch && c.offset == one.offset &&
			c.at < before
	}
	if one.other {
		return false
	}
	for _, c := range w.commits {
		if same(c) {
			return true
		}
	}
	return slices.ContainsFunc(w.unheard, same)
}

// aboutOrder returns a sighting of a commit below the previous one.
func (c *commitAfterOutcome) aboutOrder(one *commit, before lastCommit, lost bool) sighting {
	owner, of := one.partition.held.instance, c.w.partitionName(one.partition.topic, one.partition.number())
	s := c.aboutCommit(one, func() string {
		if lost {
			return fmt.Sprintf("%s: instance %d, which has lost it to instance %d, committed offset %d after "+
				"instance %d had committed offset %d",
				of, one.by.instance, owner, one.offset, before.by.instance, before.offset)
		}
		return fmt.Sprintf("%s: offset %d was committed after offset %d, within one assignment", of, one.offset,
			before.offset)
	})
	s.from = before.asked
	s.marks = append(s.marks, moment{history.KindCommitRequest, before.asked})
	return s
}

func (c *commitAfterOutcome) aboutCommit(one *commit, say func() string) sighting {
	return sighting{
		record: none, topic: one.partition.topic, partition: one.partition.number(), offset: one.offset, from: one.at,
		to: one.answered, say: say, marks: []moment{{history.KindCommitRequest, one.at}},
	}
}

func (w *state) holdsAny(by holder) bool {
	for topic := range w.parts {
		for i := range w.parts[topic] {
			if _, known := w.parts[topic][i].known[by]; known {
				return true
			}
		}
	}
	return false
}

func (c *commitAfterOutcome) finish() Result {
	c.judgeEnds()
	c.unseen = map[int32]bool{}
	for i := range c.w.found {
		if one := &c.w.found[i]; one.claimed && one.number != none {
			c.unseen[one.number] = true
		}
	}
	for i := range c.w.passes {
		if p := &c.w.passes[i]; p.accepted {
			c.judgePass(p)
		}
	}
	if c.result.Judged > 0 && !c.w.showsEnds() {
		for c.result.Judged > 0 {
			c.withdraw("it is not seen how any record ended")
		}
		return c.judgedOrNot(NotApplicable, "")
	}
	return c.judgedOrNot(Inconclusive, "no commit was accepted")
}

// judgeEnds reports commits beyond the end. A log only grows, so an offset beyond the end that the audit found was
// always beyond it.
func (c *commitAfterOutcome) judgeEnds() {
	for _, one := range c.beyond {
		p := one.partition
		if !p.audited || p.auditEnd < 0 || one.offset <= max(p.auditEnd, p.log.last+1, p.fetched+1) {
			continue
		}
		c.saw("commit-past-end", c.aboutCommit(one, func() string {
			return fmt.Sprintf("partition %d: offset %d was committed, but its log ends at %d", p.number(), one.offset,
				p.auditEnd)
		}))
	}
}

func (c *commitAfterOutcome) judgePass(p *pass) {
	r := c.w.stateOf(p)
	part := c.w.partition(p.topic, p.partition)
	committed := moment{history.KindCommitRequest, p.at}
	halts := c.w.contract.Halts(r.kind())
	unseen := c.w.contract.WireOnly && !c.w.contract.MustDeadLetter(r.kind())
	unknown := c.w.unknowable(p.number, r, c.w.attemptsBy(p, r), p.at)
	switch {
	case !halts && (unseen || r.has(markLeft) || c.w.skipped(r) || c.w.perhapsOver(p.number, r, p.at)):
	case !halts && unknown != "" && !c.w.triedOn(p, r):
		c.remark(unknown)
	case !p.fetched && part != nil && part.fetched >= 0:
		c.saw("commit-past-end", c.w.about(p.number, 0, p.at, func() string {
			return fmt.Sprintf("%s although offset %d had not been fetched by anyone%s", c.w.deed(p), p.place.offset,
				c.w.startedBehind(part, p.place.offset))
		}, committed))
	case halts && c.w.triedUnseen(p, r):
		c.remark("outcome not observable")
	case !halts && c.onlyLetterOutstanding(p, r):
	case !halts && c.unseen[p.number]:
		// Key and value are gone, and the id with them: dlq-fidelity reports that. The dead letter may have been
		// acknowledged before the commit.
		c.remark("a dead letter without the record's id: when it was written is not seen")
	default:
		to := max(c.w.firstTerminal(r), p.at)
		c.saw("commit-past-unfinished", c.w.about(p.number, 0, max(to, r.lastStart.At()), func() string {
			if p.named && p.ack == 0 {
				return fmt.Sprintf(
					"offset %d was named as finished in the metadata of the commit of offset %d while it was unfinished: %s",
					p.place.offset, p.offset, c.w.fate(r, p))
			}
			return fmt.Sprintf("%s while offset %d was unfinished: %s%s", c.w.deed(p), p.place.offset, c.w.fate(r, p),
				c.w.startedBehind(part, p.place.offset))
		}, committed).by(c.w.firstTerminal(r)-p.at))
	}
}

// triedUnseen reports whether a record that counts as refused, because no attempt was seen, may have been processed and
// given up: its dead letter or retry copy was acknowledged, and attempts at it may have been hidden.
func (w *state) triedUnseen(p *pass, r *record) bool {
	done := w.firstTerminal(r)
	if !w.header.Refusable || done < 0 || done > p.at {
		return false
	}
	_, hidden := w.answersHidden(p.number, p.by.instance, r.born.At(), p.at)
	return hidden
}

// onlyLetterOutstanding reports whether every attempt had been made and only the dead letter was missing.
func (c *commitAfterOutcome) onlyLetterOutstanding(p *pass, r *record) bool {
	return c.w.letterAsked(r) >= 0 && c.w.lastCalled(p.number, r) <= p.at && c.w.contract.HasDLQ() &&
		c.w.classOfLast(r) != classSuccess
}

// fate describes the outcome of a record that was passed.
func (w *state) fate(r *record, p *pass) string {
	switch {
	case w.contract.Halts(r.kind()):
		return "its value can't be read, and the contract says that the subject halts there (poison: halt)"
	case w.firstTerminal(r) > p.at:
		return fmt.Sprintf("it was finished %s later", units.Text(w.firstTerminal(r)-p.at))
	case r.attempts == 0:
		return r.oddValue("", ", and ") + neverAttempted
	case r.lastStart.At() > p.at && r.attempts == 1:
		return "it was attempted after that, and never finished"
	case r.lastStart.At() > p.at:
		return "it was attempted again after that"
	}
	return "it was never finished"
}

// oddValue says what is odd about the record's value, between the two texts; "" if nothing is.
func (r *record) oddValue(before, after string) string {
	switch {
	case r.has(markTombstone):
		return before + valueNull + after
	case r.has(markGarbage):
		return before + valueOdd + after
	}
	return ""
}

// triedOn reports whether the process that committed past the record went on trying it in the same delivery, so that it
// had not given it up, though the contract names no number of attempts. A single later attempt proves nothing: its
// client may have abandoned the call. Neither do calls that were held up on their way when it committed.
func (w *state) triedOn(p *pass, r *record) bool {
	c, part := w.contract, w.partition(p.topic, p.partition)
	if c.MaxAttempts > 0 || c.Calls > 1 || !w.memory || w.hops || w.share || len(w.header.Downstreams) > 0 ||
		r.lives > 0 || r.several() || r.exempt() {
		return false
	}
	further := int(r.attempts) - int(p.attempts)
	if further < 2 || int(r.inRun) < further || r.held != p.by || r.lastStart.At() < p.at ||
		r.delivery != p.delivery || part.rewound != p.rewound || !r.has(markEnded) || r.has(markGone) {
		return false
	}
	_, hidden := w.answersHidden(p.number, p.by.instance, p.at, r.lastStart.At())
	return !hidden
}

// attemptsBy is the number of attempts that the record had when it was passed, or has, where that is not known.
func (w *state) attemptsBy(p *pass, r *record) uint16 { return min(p.attempts, r.attempts) }

// unknowable says why it is unknown if the record was finished by the time, "" if it is known: its outcome has a class
// that the contract does not define, or attempts carried no id, or another downstream may have ended it, or it ended
// without a dead-letter topic while attempts could be missed, or could be given up at any time.
func (w *state) unknowable(number int32, r *record, attempts uint16, by time.Duration) (why string) {
	const unseen = "outcome not observable"
	if w.endedElsewhere(number) || r.has(markEnded) && w.classes[r.outcome] == classUnknown ||
		r.attempts == 0 && w.anonymous(r.born.At(), by) {
		return unseen
	}
	if w.contract.HasDLQ() {
		return ""
	}
	if attempts > 0 && w.contract.LeastAttempts() == 0 {
		return "the contract names no number of attempts, so that it may have been given up"
	}
	if attempts == 0 && w.anonymous(r.born.At(), by) {
		return unseen
	}
	if w.endsInSight() {
		return ""
	}
	hidden := false
	if attempts > 0 {
		if r.has(markEnded) && !w.hops && w.disruptions(number, r) == 0 {
			by = min(by, w.restsAt(number, r)) // its next attempt, or its end, would have come by then
		}
		_, hidden = w.answersHidden(number, r.held.instance, w.hiddenFrom(r, by), by)
	} else {
		for instance := range w.instances { // which one had it, no attempt says
			_, some := w.answersHidden(number, instance, r.born.At(), by)
			hidden = hidden || some
		}
	}
	if hidden {
		return unseen
	}
	return ""
}

// endsInSight reports whether only calls that the downstream stub saw can have ended a record: none is given up, and
// one whose call got no answer is tried again, so the end of each is an answer, and the stub gave it.
func (w *state) endsInSight() bool {
	return w.contract.Unlimited && !w.contract.Database && len(w.header.Downstreams) == 0 &&
		w.classes[history.OutcomeTimeout] == classRetryable && w.classes[history.OutcomeReset] == classRetryable
}

// hiddenFrom is the time from which a hidden attempt may have ended the record, or have counted. If attempts are
// unlimited, one that was followed by another did not end the record, so only those after the last one matter.
// A process that counts its attempts in memory makes none before it is handed the record.
func (w *state) hiddenFrom(r *record, by time.Duration) time.Duration {
	if w.contract.Unlimited && r.has(markEnded) && r.lastEnd.At() <= by {
		return r.lastEnd.At()
	}
	if p := w.partition(r.topic, r.partition); p != nil && w.ownAlone(r) && r.inRun == r.attempts {
		if at, known := p.hands[r.held].first(r.offset.at()); known {
			return max(at, r.born.At())
		}
	}
	return r.born.At()
}
