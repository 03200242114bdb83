package reference

// This file judges records that passed from one process to another, or whose commit or dead letter failed. It decides
// only what no disturbance can excuse, and counts: where the number of disturbances is known or makes no difference.

import (
	"cmp"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// trace holds what the events say about a disturbed record.
type trace struct {
	*record
	letters []asked
	commits []asked
	// astray counts the attempts by processes that did not own its partition.
	astray int
	// last is the end of its last attempt, or nil if it has none or that attempt was not answered. lastStart is the
	// start of that attempt.
	last      *history.Event
	lastStart time.Duration
}

// disturbances judges the disturbed records as far as possible.
func (j *judge) disturbances() {
	c := j.header.Contract()
	if j.header.Replay || c.Retry == history.RetryTopics || !c.HasDLQ() || !j.wholeTime() {
		return
	}
	for number := range int32(j.header.Records) {
		if j.opinion.Decided[OfRecord("no-loss", number)] {
			continue // undisturbed
		}
		s := j.trace(number)
		if s == nil {
			continue
		}
		s.disturbed = true
		j.unclearPlaces(s)
		for _, invariant := range []string{"no-loss", "commit-after-dlq", outcome, "dlq-fidelity", "dlq-once"} {
			j.decide(OfRecord(invariant, number))
		}
		j.noLoss(s.record, j.finished(s))
		j.commitsPast(s)
		j.letters(s.record)
		j.copiesOnce(s)
	}
}

// trace gathers the record's trace, or returns nil if the events are ambiguous.
func (j *judge) trace(number int32) *trace {
	r := j.place(number)
	if r == nil || !j.unique(number) || j.stale(number) {
		return nil
	}
	s := &trace{record: r, lastStart: -1}
	var plain bool
	if s.commits, plain = j.commitsOf(r.topic, r.partition); !plain || !j.tellAttempts(s) {
		return nil
	}
	for i := range s.commits {
		if c := &s.commits[i]; c.ask.Time <= r.known && c.ask.Offset > r.offset ||
			c.answer != nil && c.answer.Time < c.ask.Time {
			return nil
		}
	}
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Kind == history.KindFetched && e.Topic == r.topic && e.Partition == r.partition && !j.holds(e, r):
			return nil
		case !r.owns(e):
		case e.Kind == history.KindProduceRequest:
			s.letters = append(s.letters, asked{e, j.reply(e)})
			r.letters = append(r.letters, written{e.Time, s.letters[len(s.letters)-1].acked(), e})
		case e.Kind == history.KindProduceResponse && !j.begun(e, history.KindProduceRequest):
			return nil
		case e.Kind == history.KindAuditRecord && j.audit(e) != j.audits(e.Topic):
			// A later audit of the topic replaces this one.
		case e.Kind == history.KindAuditRecord && j.role(e.Topic) == history.RoleDLQ:
			r.found = append(r.found, e)
		case e.Kind == history.KindAuditRecord && r.at(e):
			r.inTopic = true
		}
	}
	return s
}

// acked is the time at which a produce was acknowledged to the subject, or -1.
func (a *asked) acked() time.Duration {
	if !a.told() {
		return -1
	}
	return a.answer.Time
}

func (j *judge) tellAttempts(s *trace) bool {
	for i := range j.events {
		e := &j.events[i]
		if !s.owns(e) {
			continue
		}
		switch e.Kind {
		case history.KindAttemptEnd:
			if !j.begun(e, history.KindAttemptStart) {
				return false
			}
		case history.KindAttemptStart:
			if e.Time < s.send.Time {
				return false
			}
			if s.send.Flags == 0 && !j.holds(e, s.record) {
				s.astray++
			}
			end := j.ending(e)
			s.lastStart = e.Time
			one := tried{start: e.Time, end: -1}
			if end != nil {
				one.end, one.outcome, one.gone = end.Time, end.Outcome, end.Flags.Has(history.ClientGone)
			}
			if !j.inCall(&one, e) {
				return false
			}
			if s.last = end; one.open {
				s.last = nil
			}
			s.attempts = append(s.attempts, one)
		}
	}
	return true
}

func (j *judge) ending(ask *history.Event) *history.Event {
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindAttemptEnd && e.Op == ask.Op && e.Record == ask.Record &&
			e.Time >= ask.Time {
			return e
		}
	}
	return nil
}

// holds reports whether the event's process owned the record's partition at that time.
func (j *judge) holds(of *history.Event, r *record) bool {
	var holder *history.Event
	for i := range j.events {
		e := &j.events[i]
		if e.Time > of.Time {
			break
		}
		switch {
		case e.Topic != r.topic || e.Partition != r.partition:
		case e.Kind == history.KindAssigned:
			holder = e
		case e.Kind == history.KindRevoked && same(e, holder):
			holder = nil
		}
	}
	return same(of, holder)
}

// finished is the time at which the record first became terminal, or -1.
func (j *judge) finished(s *trace) time.Duration {
	c := j.header.Contract()
	if j.skipped(s.record) {
		return 0
	}
	if j.halts(s.record) {
		return -1
	}
	first := s.acked()
	for i := range s.attempts {
		a := &s.attempts[i]
		ends := a.end >= 0 && !a.gone && !a.open &&
			(a.outcome == history.OutcomeSuccess || j.is(c.Logical, a.outcome) && c.LogicalEnds())
		if ends && (first < 0 || a.end < first) {
			first = a.end
		}
	}
	return first
}

// passing is the first commit past the record before it was terminal. Among accepted commits it is the one answered
// first; if there are none, it is the first of those never answered. It is nil if there is no such commit.
func (j *judge) passing(s *trace) *asked {
	terminal := j.finished(s)
	var first *asked
	for i := range s.commits {
		c := &s.commits[i]
		if c.ask.Offset <= s.offset || terminal >= 0 && terminal <= c.ask.Time || c.answer != nil && !c.took() {
			continue
		}
		switch {
		case first == nil, c.answer != nil && first.answer == nil, c.answer != nil && c.answer.Time < first.answer.Time:
			first = c
		}
	}
	return first
}

// commitsPast implements "for every accepted or unanswered C(p,N): each r in p below N that ends in the DLQ has D(r)
// acknowledged before C was read" and "for every accepted C(p,N): every fetched r below N is terminal".
func (j *judge) commitsPast(s *trace) {
	j.judged(outcome)
	if len(s.letters) > 0 {
		j.judged("commit-after-dlq")
	}
	c := j.passing(s)
	if c == nil || j.mayBeOver(s, c.ask.Time) {
		return
	}
	if s.astray > 0 {
		// Which of its attempts counts as the last depends on the processes that made them.
		j.open("commit-after-dlq", "commit-before-dlq", s.record)
		j.open("commit-after-dlq", "commit-without-dlq", s.record)
		j.open(outcome, "commit-past-unfinished", s.record)
		j.open(outcome, "commit-past-end", s.record)
		return
	}
	succeeded := s.last != nil && !s.last.Flags.Has(history.ClientGone) && s.last.Outcome == history.OutcomeSuccess
	if len(s.letters) > 0 && !j.halts(s.record) {
		switch acked := s.acked(); {
		case acked > c.ask.Time:
			j.saw("commit-after-dlq", "commit-before-dlq", s.record)
		case acked < 0 && !succeeded:
			j.saw("commit-after-dlq", "commit-without-dlq", s.record)
		}
	}
	outstanding := len(s.letters) > 0 && s.lastStart <= c.ask.Time && !j.halts(s.record)
	if !c.took() {
		return
	}
	j.passed(s.record, commit{c.ask.Time, c.answer.Time, c.ask.Offset}, outstanding && !succeeded)
}

// covered is the time from which on accepted commits cover the record, or -1.
func (s *trace) covered() time.Duration {
	accepted := slices.DeleteFunc(slices.Clone(s.commits), func(c asked) bool { return !c.took() })
	slices.SortStableFunc(accepted, func(a, b asked) int { return cmp.Compare(a.answer.Time, b.answer.Time) })
	since := time.Duration(-1)
	for _, c := range accepted {
		switch {
		case c.ask.Offset <= s.offset:
			since = -1
		case since < 0:
			since = c.answer.Time
		}
	}
	return since
}

// disruptions returns the minimum and maximum number of disruptions of the record: "The instance
// that held r was killed, stopped or lost r's partition before the commit that covers r was accepted; that commit
// failed or went unanswered; a produce of r was answered with an error, went unanswered, or its acknowledgement was
// withheld past the client's request timeout."
func (j *judge) disruptions(s *trace) (least, most int) {
	seen, end := forever, forever
	for i := range s.attempts {
		seen = min(seen, s.attempts[i].start)
	}
	for i := range s.letters {
		seen = min(seen, s.letters[i].ask.Time)
	}
	if covered := s.covered(); covered >= 0 {
		end = min(end, covered)
	}
	handed := min(seen, j.handed(s.record))
	var last *history.Event
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Kind == history.KindAssigned && e.Topic == s.topic && e.Partition == s.partition:
			fell, open := false, false
			if last != nil && j.firstEnd(last) != nil && j.firstEnd(last).Time <= e.Time {
				fell, open = j.fell(j.firstEnd(last)) // a voluntary exit excuses nothing
			}
			if last != nil && !fell && !open && e.Time > seen && e.Time < end {
				least++
			}
			if last != nil && !fell && e.Time >= handed && e.Time <= end {
				most++
			}
			last = e
		case e.Kind == history.KindStall, e.Kind == history.KindInstanceSignal && e.Text == "CONT":
			most++ // a process told to stop may have been in the middle of something
		}
	}
	for i := range s.commits {
		c := &s.commits[i]
		switch {
		case c.answer == nil:
			most++
		case !c.told():
			most++
			if c.ask.Offset > s.offset && c.answer.Time <= end && c.ask.Time > s.known {
				least++
			}
		}
	}
	if j.header.Contract().Poison == history.PoisonHalt {
		most += j.rewinds(s.record)
	}
	return least, most
}

// handed is the time at which an instance was first given the record.
func (j *judge) handed(r *record) time.Duration {
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == history.KindFetched && e.Topic == r.topic && e.Partition == r.partition &&
			e.Offset <= r.offset && e.Aux >= r.offset {
			return e.Time
		}
	}
	return forever
}

// refusals returns the minimum and maximum number of produces of its dead letter that had failed, as far as the subject
// knew. forged counts those that certainly left no copy.
func (s *trace) refusals() (least, most, forged int) {
	for i := range s.letters {
		l := &s.letters[i]
		switch {
		case l.told() && l.answer.Time-l.ask.Time < time.Second:
		case l.answer == nil:
			most++
		default:
			least++
			most++
			if l.answer.Flags.Has(history.Forged) {
				forged++
			}
		}
	}
	return least, most, forged
}

const forever = time.Duration(1) << 60

// copiesOnce implements "copies of r in the DLQ ≤ 1 + disruptions that justify one".
func (j *judge) copiesOnce(s *trace) {
	if len(s.found) == 0 {
		return
	}
	least, most := j.disruptions(s)
	refused, atMost, forged := s.refusals()
	least, most = least+refused+s.astray-forged, most+atMost+s.astray-forged
	if slices.ContainsFunc(s.found, func(e *history.Event) bool { return e.Record < 0 }) {
		most += j.unansweredUnnamed()
	}
	most += j.aborts()
	j.copies(s.record, len(s.found), 1+least, 1+most)
}

// frozen reports whether a process or the harness stood still.
func (j *judge) frozen() bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindStall || e.Kind == history.KindInstanceSignal && e.Text == "STOP"
	})
}

// copies compares the number of dead letters with the justified one, if that is known well enough.
func (j *judge) copies(r *record, n, least, most int) {
	switch {
	case n > most:
		j.judged("dlq-once")
		j.saw("dlq-once", "dlq-duplicate", r)
	case n > least:
		j.open("dlq-once", "dlq-duplicate", r)
	default:
		j.judged("dlq-once")
	}
}

// firstEnd is the first end of the event's process, nil if it has none.
func (j *judge) firstEnd(of *history.Event) *history.Event {
	for i := range j.events {
		if e := &j.events[i]; e.Kind == history.KindInstanceExited && by(e, of) {
			return e
		}
	}
	return nil
}

// fell reports whether the process ended without being asked to. The result is open if its contract lets it end at
// times, or if Kafka may have left it no other choice.
func (j *judge) fell(end *history.Event) (fell, open bool) {
	c := j.header.Contract()
	if end.Flags.Has(history.Expected) {
		return false, false
	}
	ends := c.MayCrash()
	worked, fatal := false, false
	for i := range j.events {
		e := &j.events[i]
		if !by(e, end) || e.Time > end.Time {
			continue
		}
		worked = worked || e.Kind == history.KindFetched || e.Kind == history.KindAssigned
		answer := e.Kind == history.KindCommitResponse || e.Kind == history.KindProduceResponse ||
			e.Kind == history.KindTxnEndResponse
		fatal = fatal || answer && slices.Contains([]int16{45, 47, 49, 53, 59, 82, 90}, e.Code)
	}
	if ends || fatal || !worked && len(j.header.Faults) > 0 {
		return false, true
	}
	return true, false
}
