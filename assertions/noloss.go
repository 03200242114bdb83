package assertions

// no-loss: after the drain every acknowledged record is finished, and every record that a broker acknowledged exists.
//
// lost: committed past and not finished, and no process is left to finish it: the subject has ended, or stands still
// (settled.go), or left the record alone for longer than its longest wait. stalled: neither finished nor committed
// although all faults are lifted and the subject stands still. dropped-by-ack: the broker acknowledged the record and
// the audit finds no copy.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func noLossInvariant() Invariant {
	return Invariant{
		Name:    "no-loss",
		Promise: "Every record that Kafka acknowledged is processed, dead-lettered, or skipped by contract.",
		Rule: "After heal and drain, every acknowledged record has a success (or a logical failure, where the " +
			"contract calls that a result), or an acknowledged dead letter or retry copy. A success does not count if all " +
			"calls of the record at another downstream failed, unless that is optional. The audit confirms that " +
			"acknowledged writes exist. A record that the broker of a share group gives up after too many deliveries is " +
			"lost. If the contract says that the subject halts at a record that it can't read (poison: halt), what it has " +
			"not committed behind that record is held, and not lost. Where no attempts are seen (observe: wire), only " +
			"records are judged that have a dead letter or an effect, must have a dead letter, or are not committed.",
		Evidence: "acknowledgements, the answers of the downstream stub, and the audit of all topics and committed " +
			"offsets",
		Cause: "At shutdown or on a rebalance, an offset is committed for records still in backoff. A failed " +
			"dead-letter write is logged and forgotten. A seek after a failure moves one partition and drops the " +
			"records already fetched from the others.",
		Anomalies: []AnomalyNote{
			{"lost", "the record was committed past and never finished, and no instance will finish it", []string{
				"1.000 s  record 7 acknowledged at offset 7",
				"1.020 s  instance 0: attempt 1 is answered transient",
				"1.100 s  instance 0 gets TERM",
				"1.110 s  instance 0 commits up to offset 8",
				"1.120 s  instance 0 ends",
				"        ... record 7 is never tried again",
			}},
			{"stalled", "the record is neither finished nor committed, although all faults are lifted and there was " +
				"time enough", []string{
				"1.000 s  record 7 acknowledged at offset 7",
				"1.020 s  instance 0: attempt 1 is answered transient",
				"9.000 s  every fault is lifted, the drain begins",
				"        ... no attempt, no dead letter and no commit of record 7 until the drain ends",
			}},
			{"dropped-by-ack", "a broker acknowledged a copy of the record that the audit does not find", []string{
				"2.000 s  the dead letter of record 3 is accepted at offset 0",
				"2.010 s  instance 0 commits up to offset 4",
				"9.000 s  the audit reads the dead-letter topic to its end, and record 3 is not there",
			}},
		},
		of:    "records",
		check: func(r *report) checker { return &noLoss{report: r, blockers: map[*partition]int32{}} },
	}
}

type noLoss struct {
	*report
	// whole: the subject had its full promised drain time; healed: with every fault lifted.
	whole, healed bool
	inputAudited  bool
	dlqAudited    bool
	early, cut    int64
	// blockers holds, by partition, the record for which the others in the partition wait.
	blockers map[*partition]int32
}

func (c *noLoss) finish() Result {
	c.whole, c.healed = c.w.standsStill(), c.w.healed()
	c.inputAudited, c.dlqAudited = c.w.audited(history.RoleInput), c.w.audited(history.RoleDLQ)
	for number := range c.w.records.count {
		c.judge(int32(number))
	}
	switch {
	case !c.inputAudited && c.result.Judged == 0:
		return c.done(Inconclusive, "no audit read the source topic and its committed offsets")
	case c.cut > 0:
		return c.done(Inconclusive, fmt.Sprintf("the broker gave up %d records after deliveries that faults cut off: no "+
			"subject finishes what it is not handed; raise group.share.delivery.count.limit, or make the fault shorter", c.cut))
	case c.early > 0:
		return c.done(Inconclusive, counted(c.early)+" unfinished: "+c.w.unsettled())
	}
	return c.judgedOrNot(Inconclusive, "no record was acknowledged")
}

func (c *noLoss) judge(number int32) {
	r := c.w.record(number)
	if !r.has(markSent) {
		return
	}
	if r.offset.at() < 0 || !r.has(markAcked) && !r.has(markInTopic) {
		if !r.has(markInTopic) && !c.inputAudited {
			c.skip("neither acknowledged nor audited")
		}
		return
	}
	if c.dropped(number, r) {
		c.result.Judged++
		return
	}
	at := c.w.position(number, r)
	p := c.w.partition(at.topic, at.partition)
	if p == nil || !p.audited {
		c.skip("no audit")
		return
	}
	c.result.Judged++
	if !c.unfinished(number, r, at, p) {
		if c.w.contract.WireOnly && !c.w.showsEnd(number, r, at) {
			c.withdraw(processingUnseen)
		}
		return
	}
	committed, over := p.committedAt(at.offset), c.w.over(p, at.offset)
	unknown := c.w.unknowable(number, r, r.attempts, endless)
	switch {
	case over && unknown != "":
		c.withdraw(unknown)
	case over && c.w.perhapsOver(number, r, endless):
		c.withdraw("has no id, and attempts or dead letters that name no position may be its")
	case committed && c.w.forfeited(number, r):
		c.withdraw("commits follow time, by contract")
	case committed && c.cutOff(number, r, p):
		c.cut++
		c.withdraw("given up by the broker after deliveries that faults cut off")
	case committed && c.abandoned(number, p):
		c.sawLost(number, r, p)
	case !committed && at.offset == c.w.haltsAt(p): // it is left there, as the contract says
	case !committed && c.w.held(p, at.offset):
		c.withdraw(heldBack)
	case !committed && c.w.perhapsLettered(r, p, at.offset):
		c.withdraw("has no id, and a dead letter that names no record may be its")
	case !committed && c.whole && c.healed:
		s := c.w.about(number, 0, endless, func() string {
			still := map[bool]string{true: "not finished", false: "neither finished nor committed"}[c.w.contract.OffsetsOutside]
			return fmt.Sprintf("%s (%s) though every fault is gone and nothing has moved for %s%s%s", still,
				c.w.reached(p), units.Text(c.w.patience()), r.oddValue("; ", ""), c.w.startedBehind(p, at.offset))
		}).missingSince(c.w.drainedAt(), MissingDrained)
		s.leads = c.blocks(number, p)
		c.saw("stalled", s)
	default:
		c.early++
		c.withdraw("drain ended early")
	}
}

// processingUnseen is why a record of a subject whose calls are not seen is not judged. A consumer that drops every
// record commits it, too.
const processingUnseen = "committed, and nothing shows whether it was processed"

// showsEnd reports whether the history shows how a record ended, by more than the commit that passed it.
func (w *state) showsEnd(number int32, r *record, at place) bool {
	return r.traits&traitEffect != 0 || w.contract.Halts(r.kind()) || w.contract.MustDeadLetter(r.kind()) ||
		!w.skipped(r) && !w.unfinished(number, r, at, w.foundOf.of(number))
}

// showsEnds reports whether it shows that of any record.
func (w *state) showsEnds() bool {
	if !w.contract.WireOnly {
		return true
	}
	for number := range int32(w.records.count) {
		r := w.record(number)
		if r.has(markSent) && w.showsEnd(number, r, w.position(number, r)) {
			return true
		}
	}
	return false
}

// blocks reports whether the other records of its partition wait for the record, because it is the first that never
// came to its end.
func (c *noLoss) blocks(number int32, p *partition) bool {
	first, known := c.blockers[p]
	if !known {
		first, _ = c.w.blocker(p, max(p.auditCommits, p.log.first), endless)
		c.blockers[p] = first
	}
	return first == number
}

// blocker returns the first record of the partition, at or after the offset, that had not come to its end by the time,
// or none.
func (w *state) blocker(p *partition, from int64, by time.Duration) (number int32, offset int64) {
	for offset = from; offset <= min(p.log.last, from+holeLimit); offset++ {
		number = p.log.at(offset)
		if number == none || by >= p.auditedAt && p.committedAt(offset) {
			continue
		}
		r := w.record(number)
		if w.skipped(r) || w.done(number, r, place{p.topic, p.number(), offset}, by) || r.exempt() && w.perhapsTried(r) ||
			by >= p.auditedAt && w.over(p, offset) && (w.unknowable(number, r, r.attempts, by) != "" ||
				w.perhapsOver(number, r, by)) {
			continue
		}
		return number, offset
	}
	return none, from
}

func (c *noLoss) sawLost(number int32, r *record, p *partition) {
	since, how := c.gone(number, r, p)
	s := c.w.about(number, 0, endless, func() string {
		if other := c.w.leftElsewhere(number, r); other != "" {
			return fmt.Sprintf("%s (%s), although its calls of %s failed and no dead letter was written", c.left(number, r),
				c.w.reached(p), other)
		}
		return fmt.Sprintf("%s (%s) and never finished: neither processed nor dead-lettered%s", c.left(number, r),
			c.w.reached(p), c.w.startedBehind(p, c.w.position(number, r).offset))
	}).missingSince(since, how)
	if how == MissingCommitted && !c.w.share {
		s.marks = []moment{{history.KindCommitRequest, since}}
	}
	c.saw("lost", s)
}

// gone is since when the record is no longer delivered: since the commit that passed it, if that was accepted in its
// present replay generation. Otherwise it was certain when the audit read the committed offset.
func (c *noLoss) gone(number int32, r *record, p *partition) (time.Duration, Missing) {
	if at := c.w.passedAt(number, r); at != never {
		return at, MissingCommitted
	}
	return p.auditedAt, MissingAudited
}

// passedAt is when the accepted commit that passed a record was requested, never if there is none in its present replay
// generation.
func (w *state) passedAt(number int32, r *record) time.Duration {
	if one, passed := w.passOf[number]; passed && r.has(markPassed) {
		if pass := &w.passes[one]; pass.accepted && pass.state == nil {
			return pass.at
		}
	}
	return never
}

// cutOff reports whether the broker of a share group gave the record up and faults contributed to that. A delivery that
// is lost between the broker and the tap is not observed, but the broker counts it.
func (c *noLoss) cutOff(number int32, r *record, p *partition) bool {
	if !c.w.share || r.has(markPassed) {
		return false
	}
	d := c.w.deliveryOf(number, r)
	if d == nil || d.count < lastDelivery {
		return c.w.faulted(anyFault, r.born.At(), p.auditedAt)
	}
	return (d.forced > 0 || int(d.count) > int(d.number)) && c.w.faulted(anyFault, r.born.At(), d.at)
}

// left describes how the group left the record behind.
func (c *noLoss) left(number int32, r *record) string {
	d := c.w.deliveryOf(number, r)
	switch {
	case !c.w.share:
		return "committed past"
	case r.has(markPassed):
		return "accepted or rejected"
	case d == nil:
		return "passed by the share group without a delivery"
	}
	return fmt.Sprintf("given up by the broker after %d deliveries", d.count)
}

// dropped reports whether a record that a broker acknowledged is missing.
func (c *noLoss) dropped(number int32, r *record) bool {
	if c.inputAudited && r.has(markAcked) && !r.has(markInTopic) {
		c.saw("dropped-by-ack", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("acknowledged to the workload at offset %d, but the audit did not find it in %s", r.offset.at(),
				c.w.topicName(r.topic))
		}).missingSince(c.w.auditedAt(r.topic, r.partition), MissingAudited))
		return true
	}
	if at, missing := c.w.missingCopy(number, r); c.inputAudited && missing {
		c.saw("dropped-by-ack", c.w.about(number, 0, endless, func() string {
			return fmt.Sprintf("acknowledged to the workload a second time, at offset %d, but the audit did not find it in %s",
				at.offset, c.w.topicName(at.topic))
		}).missingSince(c.w.auditedAt(at.topic, at.partition), MissingAudited))
		return true
	}
	if l := c.w.letters.of(number); c.dlqAudited && l != nil && l.acked > 0 && len(c.w.foundOf.of(number)) == 0 {
		c.saw("dropped-by-ack", c.w.about(number, 0, endless, func() string {
			if l.lost {
				return "its dead letter was acknowledged by the leader alone (acks=1), which failed before another broker had it"
			}
			return "its dead letter was acknowledged, but the audit found none in the dead-letter topic"
		}, moment{history.KindProduceResponse, c.w.letterAcked(r)}))
		return true
	}
	if kept := c.w.copies[number]; kept != nil && kept.lost > max(c.w.lastTerminal(r), kept.handedOn) {
		c.saw("dropped-by-ack", c.w.about(number, 0, kept.lost, func() string {
			return "its retry copy was acknowledged by the leader alone (acks=1), which failed before another broker had it"
		}, moment{history.KindProduceResponse, kept.lost}))
		return true
	}
	return false
}

// missingCopy returns the place of a copy that the workload produced, and that the audit did not find.
func (w *state) missingCopy(number int32, r *record) (at place, missing bool) {
	if c := w.copies[number]; r.again() > 0 && c != nil {
		for _, one := range c.list {
			if w.role(one.topic) == history.RoleInput && !slices.ContainsFunc(c.audited, func(found auditedCopy) bool {
				return found.place == one.place
			}) {
				return one.place, true
			}
		}
	}
	return place{}, false
}

// unfinished reports whether the record's obligation was never met.
func (c *noLoss) unfinished(number int32, r *record, at place, p *partition) bool {
	if !c.w.unfinished(number, r, at, c.w.foundOf.of(number)) {
		return len(c.w.foundOf.of(number)) == 0 && c.w.leftElsewhere(number, r) != ""
	}
	switch {
	case c.w.contract.Halts(r.kind()):
	case c.w.contract.WireOnly && !c.w.contract.MustDeadLetter(r.kind()), r.has(markLeft):
		return !c.w.over(p, at.offset) // its processing cannot be observed
	case c.w.contract.MustDeadLetter(r.kind()):
	case r.exempt():
		// The downstream cannot identify the record of a request, so any attempt may have been its last. Without an
		// attempt it was not processed.
		return !p.committedAt(at.offset) || r.attempts == 0
	}
	return true
}

// abandoned reports whether no process can finish the record any more.
func (c *noLoss) abandoned(number int32, p *partition) bool {
	return c.whole || c.w.allExited(p.auditedAt) || c.w.rested(number, p.auditedAt)
}

// allExited reports whether every instance had ended by the time.
func (w *state) allExited(by time.Duration) bool {
	for _, one := range w.instances {
		if one.alive || one.exited == never || one.exited > by {
			return false
		}
	}
	return len(w.instances) > 0
}

// auditedAt is when the last audit of a partition ended, or never if there was none.
func (w *state) auditedAt(topic int16, number int32) time.Duration {
	if p := w.partition(topic, number); p != nil && p.audited {
		return p.auditedAt
	}
	return never
}

func (w *state) healed() bool {
	for i := range w.faults {
		if f := &w.faults[i]; f.injected && !f.healed {
			return false
		}
	}
	return true
}
