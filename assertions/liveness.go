package assertions

// liveness: after all faults are lifted, the lag returns to zero within the allowance, no partition is left paused, and
// the group does not rebalance repeatedly without a reason.
//
// stalled and paused-partition are judged per partition, at the end of a drain that ended because nothing moved any
// more (settled.go). If it ended for another reason (an interruption, a load that was off its schedule, a subject that
// still moves), or a fault was never lifted, nothing is concluded. no-loss.stalled states that a record was never
// finished. stalled here states that a partition's commits do not reach its end, which can also happen with every
// record finished. One bug can cause both. If the holder of a partition had it all through the drain and did not
// request its records, the partition is reported as paused-partition instead.
//
// The lag is measured at the audit. If it is zero there and was not zero when the drain ended, the subject only caught
// up because it was told to stop.

import (
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

func livenessInvariant() Invariant {
	return Invariant{
		Name:    "liveness",
		Promise: "When all faults are lifted, the subject catches up and its group settles.",
		Rule: "After heal, every consumed partition is committed to its end without the subject being stopped, or " +
			"finished to its end where offsets are kept outside Kafka. It has stalled if nothing moves for longer than the " +
			"promised waits, the commit interval and the session timeout together. No partition is left unread by the " +
			"living instance that owns it. The group does not rebalance repeatedly unless an instance starts or ends, a " +
			"fault is in force, or there is a stall of a second. In a share group, a record is the broker's to hand out " +
			"again once every member that had it tried to acknowledge it: if only such records are left, the verdict is " +
			"inconclusive. If the contract says that the subject halts at a record that it can't read (poison: halt), " +
			"what lies before that record in its partition must be finished. A process that has met one owes nothing of " +
			"its other partitions, and once such a process ended by itself or left its group, nothing more is owed.",
		Evidence: "committed offsets and ends of the topics from the audit, the phases of the run, fetches, " +
			"assignments and their generations",
		Cause: "A partition is paused for a backoff, and the code that resumes it is skipped by an exception or " +
			"loses track of it in a rebalance. A fetcher dies unnoticed. A handler blocks for longer than the poll " +
			"interval, so the group expels the member again and again.",
		Anomalies: []AnomalyNote{
			{"stalled", "the lag of a partition did not return to zero within the allowance", []string{
				"5.000 s  every fault is gone, the last record is sent",
				"5.100 s  instance 0 fetches in-2 offsets 80 to 95 and commits up to 96",
				"25.100 s  nothing has moved for 20 s: in-2 ends at 130, and nothing was fetched from it since",
			}},
			{"paused-partition", "an instance owned a partition and stopped fetching from it", []string{
				"4.000 s  instance 0 leaves input-1 out of its fetches",
				"9.000 s  every fault is lifted",
				"        ... instance 0 has input-1 until the end and never asks for it again",
			}},
			{"rebalance-storm", "the group rebalanced repeatedly and nothing explains it", []string{
				"9.000 s  every fault is lifted",
				"9.500 s  generation 14",
				"10.000s generation 15",
				"10.500s generation 16; no instance started, stopped or stood still",
			}},
		},
		of:    "partitions",
		check: newLiveness,
		observes: []history.Kind{history.KindFetched, history.KindFetching, history.KindPhase, history.KindAssigned,
			history.KindCommitRequest, history.KindInstanceStarting, history.KindInstanceReady, history.KindInstanceSignal,
			history.KindInstanceExited, history.KindFaultStart, history.KindFaultEffect, history.KindFaultEnd},
	}
}

// drainStallShare is the inverse of the share of its time that the subject may lose to stalls. With longer stalls it is
// unclear whether the subject had enough time.
const drainStallShare = 4

type liveness struct {
	*report
	parts [][]served
	storm storm
	// open counts the partitions for which it is unclear whether they are stalled; withheld those among them whose
	// records the broker of a share group neither removed nor delivered again.
	open, withheld int64
}

// served describes how the process that has a partition consumes it.
type served struct {
	// epoch is the assignment of last and fetched: the largest offset handed out in it, and the time of the latest
	// fetch.
	epoch   uint32
	last    int64
	fetched time.Duration
	// asks is whether the process requests the partition, as far as that is observed, and since when.
	asks  asking
	asked time.Duration
	// The situation when the drain ended: since when a living process had it, and the latest accepted commit.
	had       bool
	since     time.Duration
	held      holder
	committed int64
}

// asking is whether a process is known to request a partition in its fetches.
type asking uint8

const (
	askUnknown asking = iota
	askOn
	askOff
)

func newLiveness(r *report) checker {
	c, w := &liveness{report: r, storm: newStorm()}, r.w
	for topic := range w.parts {
		parts := make([]served, 0)
		if w.consumed(int16(topic)) {
			parts = make([]served, len(w.parts[topic]))
		}
		for i := range parts {
			parts[i] = served{last: none, fetched: never, committed: none}
		}
		c.parts = append(c.parts, parts)
	}
	return c
}

func (c *liveness) observe(e *history.Event) {
	switch e.Kind {
	case history.KindFetched:
		c.fetch(e)
	case history.KindFetching:
		c.ask(e)
	case history.KindPhase:
		if e.Text == history.PhaseAudit {
			c.endDrain()
			c.storm.over = true
		}
	default:
		c.storm.take(e)
	}
}

func (c *liveness) served(topic int16, number int32) *served {
	if topic < 0 || int(topic) >= len(c.parts) || number < 0 || int(number) >= len(c.parts[topic]) {
		return nil
	}
	return &c.parts[topic][number]
}

func (c *liveness) fetch(e *history.Event) {
	s, p := c.served(e.Topic, e.Partition), c.w.partition(e.Topic, e.Partition)
	if s == nil || p == nil || !p.has || p.held != (holder{e.Instance, e.Run}) {
		return
	}
	if s.epoch != p.epoch {
		s.epoch, s.last = p.epoch, none
	}
	s.last, s.fetched = max(s.last, e.Aux), e.Time
}

// ask notes that a process started or stopped requesting a partition.
func (c *liveness) ask(e *history.Event) {
	s, p := c.served(e.Topic, e.Partition), c.w.partition(e.Topic, e.Partition)
	if s == nil || p == nil || e.Instance < 0 {
		return
	}
	if by := (holder{e.Instance, e.Run}); p.has && p.held != by && e.N == 0 {
		return // the previous holder; the event says nothing about the present one
	}
	s.asks, s.asked = askOn, e.Time
	if e.N == 0 {
		s.asks = askOff
	}
}

// endDrain notes the situation before the subject is told to stop.
func (c *liveness) endDrain() {
	for topic := range c.parts {
		for i := range c.parts[topic] {
			s, p := &c.parts[topic][i], &c.w.parts[topic][i]
			one := c.w.instances[p.held.instance]
			s.had = p.has && one != nil && one.alive && one.stopped == never
			s.since, s.held, s.committed = p.since, p.held, p.committed
			if s.epoch != p.epoch {
				s.last, s.fetched = none, never
			}
		}
	}
}

func (c *liveness) finish() Result {
	from, to := c.w.drain()
	for topic := range c.parts {
		for i := range c.parts[topic] {
			c.judge(&c.w.parts[topic][i], &c.parts[topic][i], from, to)
		}
	}
	if s, raging := c.storm.judge(c.w); raging && c.w.brokenOff == never {
		c.saw("rebalance-storm", s)
	}
	if c.open > 0 {
		why := c.w.unsettled()
		if c.withheld == c.open {
			why = "each record left was acknowledged in vain, and the broker did not hand it out again"
		}
		return c.done(Inconclusive, fmt.Sprintf("%s behind: %s",
			units.Plural(c.open, "partition was", "partitions were"), why))
	}
	if c.result.Judged == 0 {
		return c.w.unjudged(c.report, "no audit read a partition with records")
	}
	return c.done(Pass, "")
}

// judge judges one partition.
func (c *liveness) judge(p *partition, s *served, from, to time.Duration) {
	end := p.log.last + 1 // the offset after the last record; offsets beyond it (transaction markers) need no processing
	if end <= 0 || !c.w.reads(p.topic) {
		return
	}
	if !p.audited {
		c.skip("no audit")
		return
	}
	at := c.uncommitted(p)
	behind := at < end
	if c.halted(p, at) {
		return
	}
	_, _, enough := c.w.quiet()
	onlyAtStop := !behind && enough && s.committed < end && p.committed >= end && len(p.named) == 0
	if behind || onlyAtStop {
		if why := c.excuse(s); why != "" {
			c.skip(why)
			c.open++
			return
		}
	}
	owed := at
	if behind && c.w.share {
		if owed = c.owed(p, at); owed >= end {
			c.skip("acknowledged in vain, and not handed out again")
			c.open++
			c.withheld++
			return
		}
	}
	c.result.Judged++
	switch {
	case behind && c.paused(p, s, at, from, to):
		c.saw("paused-partition", c.trace(p, at, endless, func() string {
			return fmt.Sprintf(
				"instance %d had %s-%d all through the drain and did not ask for its records: it is %s up to %d of %d",
				s.held.instance, c.w.topicName(p.topic), p.number(), c.come(), at, end)
		}))
	case behind:
		c.saw("stalled", c.trace(p, owed, endless, func() string {
			return fmt.Sprintf("%s-%d is %s up to %d of %d, %s after everything was healed and the last record was sent%s%s",
				c.w.topicName(p.topic), p.number(), c.come(), at, end,
				units.Text(to-from), c.onlyUncommitted(p, owed, endless), c.w.startedBehind(p, at))
		}))
	case onlyAtStop:
		c.saw("stalled", c.trace(p, max(s.committed, 0), to, func() string {
			return fmt.Sprintf("%s-%d was committed up to %d of %d when nothing had moved for %s, and to its end only when "+
				"the subject was told to stop%s",
				c.w.topicName(p.topic), p.number(), max(s.committed, 0), end, units.Text(c.w.patience()),
				c.onlyUncommitted(p, max(s.committed, 0), to))
		}))
	}
}

// come is the word for how far the subject has come in a partition.
func (c *liveness) come() string {
	switch {
	case c.w.share:
		return "acknowledged"
	case c.w.contract.OffsetsOutside:
		return "finished"
	}
	return "committed"
}

// halted reports whether the subject has halted and so owes the partition no commit beyond the offset. What lies before
// the record at which it halts must be finished, and need not be committed.
func (c *liveness) halted(p *partition, at int64) bool {
	if !c.w.halts() || at > p.log.last {
		return false
	}
	_, first := c.w.blocker(p, at, endless)
	switch {
	case !c.w.held(p, first):
		return false
	case first >= c.w.haltsAt(p):
		c.result.Judged++
	default:
		c.skip(heldBack)
	}
	return true
}

// onlyUncommitted says that every record of the partition from the offset on had come to its end by the time, so that
// only commits were missing; "" if one had not.
func (c *liveness) onlyUncommitted(p *partition, offset int64, by time.Duration) string {
	if first, _ := c.w.blocker(p, offset, by); first != none {
		return ""
	}
	return ", although " + allFinished
}

// long returns the total time of the stalls of the harness and the instance that were long enough to disturb the
// subject.
func (s *spans) long(instance int16, from, to time.Duration) (total time.Duration) {
	for i := range s.list {
		one := &s.list[i]
		if one.from <= to && one.to >= from && (one.instance == none || one.instance == instance) &&
			(one.stopped || one.starved || one.lasted >= answerStall) {
			total += min(one.lasted, to-from)
		}
	}
	return total
}

// uncommitted returns the first offset with a record that the group's offsets, according to the audit, do not cover, or
// the end if there is none. Where offsets are kept outside Kafka, it is that of the first record without an end.
func (c *liveness) uncommitted(p *partition) int64 {
	if c.w.contract.OffsetsOutside {
		if number, offset := c.w.blocker(p, p.log.first, endless); number != none {
			return offset
		}
		return p.log.last + 1
	}
	at := p.log.next(p.auditCommits)
	for at <= p.log.last && p.committedAt(at) {
		at = p.log.next(at + 1)
	}
	return at
}

// owed returns the first offset, from the given one on, that the share group's members still have to acknowledge, or
// the end if there is none. A record that members tried in vain to acknowledge is not included: the broker has to
// deliver it again, and whether members request it is not observed.
func (c *liveness) owed(p *partition, at int64) int64 {
	for ; at <= p.log.last; at = p.log.next(at + 1) {
		if d := p.deliveries[at]; !p.committedAt(at) && (d == nil || d.released || len(d.open) > 0) {
			break
		}
	}
	return at
}

// reads reports whether the subject's group is seen to commit the topic. A retry topic may belong to another group.
func (w *state) reads(topic int16) bool {
	return w.role(topic) == history.RoleInput || slices.ContainsFunc(w.parts[topic], func(p partition) bool {
		return p.auditCommits > 0
	})
}

// excuse returns the reason why a lagging partition proves nothing, or "" if it does.
func (c *liveness) excuse(s *served) string {
	from, to, enough := c.w.quiet()
	switch {
	case !enough:
		return "drain ended early"
	case !c.w.healed():
		return "a fault was never healed"
	}
	if c.w.tookTime(s.held.instance, from, to) && !c.w.deserted(to) {
		return stallExcuse
	}
	return ""
}

// paused reports whether the process that had the partition all through the drain ignored it in the whole second half
// of the drain: it requested other partitions and not this one, or it was not handed records that were there.
func (c *liveness) paused(p *partition, s *served, at int64, from, to time.Duration) bool {
	middle := from + (to-from)/2
	left := s.asks == askUnknown || s.asks == askOff && s.asked <= middle
	left = left && (s.last < p.log.last || s.asks == askOff && c.asksElsewhere(s.held))
	if !s.had || s.since > from || s.fetched > middle || !left {
		return false
	}
	// If some of its records are still being processed, the process may only be full.
	for offset := at; offset <= p.log.last; offset++ {
		if r := c.w.record(p.log.at(offset)); r != nil &&
			max(r.lastStart.At(), r.lastEnd.At(), c.w.letterAsked(r)) > middle && r.lastStart.At() < to {
			return false
		}
	}
	return true
}

// asksElsewhere reports whether the process requested any partition when the drain ended. A client also leaves out
// partitions whose fetched records it has not passed on yet, but not for long while it continues with others.
func (c *liveness) asksElsewhere(by holder) bool {
	for topic := range c.parts {
		for i := range c.parts[topic] {
			if s := &c.parts[topic][i]; s.had && s.held == by && s.asks == askOn {
				return true
			}
		}
	}
	return false
}

// trace returns the trace of the record that the others wait for: the first at or after the offset that had not come to
// its end by the time. If all had come to their ends, the first of them is merely not committed.
func (c *liveness) trace(p *partition, at int64, by time.Duration, say func() string) sighting {
	number, offset := c.w.blocker(p, at, by)
	if number == none {
		offset = p.log.next(at)
		number = p.log.at(offset)
	}
	s := c.w.about(number, 0, endless, say).missingSince(c.w.drainedAt(), MissingDrained)
	s.topic, s.partition, s.offset = p.topic, p.number(), offset
	return s
}
