package naive

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	halting = "halt-on-dlq-failure"
	// outageLeast is the least that is an outage; single failures among successes are none.
	outageLeast = 200 * time.Millisecond
)

// outage is a stretch in which every write of a dead letter failed; answered is when the first error came, refused when the last did, -1 if none did.
// records are those that one was written for.
type outage struct {
	from, to, answered, refused time.Duration
	records                     []int32
}

// outages: "a window begins with the first dead-letter write that fails after the last that succeeded, and ends with the next that succeeds". A
// write that was asked for before the last success may fail after it: the window then begins with its failure.
func (j *judge) outages() []outage {
	var all []outage
	open := false
	success := time.Duration(-1)
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.KindProduceResponse || j.role(e.Topic) != history.RoleDLQ || e.Instance < 0 {
			continue
		}
		asked := e.Time
		for k := range j.events {
			if a := &j.events[k]; a.Kind == history.KindProduceRequest && a.Op == e.Op && a.Record == e.Record {
				asked = a.Time
			}
		}
		if accepted(e) {
			if open {
				all[len(all)-1].to = e.Time
			}
			open, success = false, e.Time
			continue
		}
		if !open {
			one := outage{from: e.Time, to: e.Time, answered: -1, refused: -1}
			if asked > success {
				one.from = asked
			}
			all, open = append(all, one), true
		}
		last := &all[len(all)-1]
		last.to, last.records = e.Time, append(last.records, e.Record)
		if last.answered < 0 && !e.Flags.Has(history.Withheld) {
			last.answered = e.Time
		}
		if !e.Flags.Has(history.Withheld) {
			last.refused = e.Time
		}
	}
	return slices.DeleteFunc(all, func(o outage) bool { return o.to-o.from < outageLeast })
}

// planned lists the outages that faults make, from when they must be felt, but for those in which a dead letter got through.
func (j *judge) planned() []outage {
	var all []outage
	for op := range j.header.Faults {
		if !j.header.Faults[op].StopsDeadLetters {
			continue
		}
		one := outage{from: -1, to: -1}
		effect := false
		for i := range j.events {
			e := &j.events[i]
			if e.Op != int64(op) {
				continue
			}
			switch e.Kind {
			case history.KindFaultStart:
				one.from = e.Time + outageLeast
			case history.KindFaultEffect:
				effect = effect || e.N > 0
			case history.KindFaultEnd:
				one.to = e.Time
			}
		}
		leaky := slices.ContainsFunc(j.events, func(e history.Event) bool {
			return e.Kind == history.KindProduceResponse && j.role(e.Topic) == history.RoleDLQ && e.Instance >= 0 && accepted(&e) &&
				e.Time > one.from && e.Time < one.to
		})
		if one.from >= 0 && effect && !leaky && one.to-one.from >= outageLeast {
			all = append(all, one)
		}
	}
	return all
}

// downAt: no dead letter could be written at the time.
func (j *judge) downAt(at time.Duration) bool {
	return slices.ContainsFunc(slices.Concat(j.outages(), j.planned()), func(o outage) bool { return o.from <= at && at <= o.to })
}

// ill: an instance said that it is unhealthy, between the two times: at a moment before the end of it, and not healthy again or ended before its beginning.
func (j *judge) ill(from, to time.Duration) bool {
	for i := range j.events {
		bad := &j.events[i]
		if bad.Kind != history.KindSubjectHealth || bad.N > 0 || bad.Time > to {
			continue
		}
		over := slices.ContainsFunc(j.events[i:], func(e history.Event) bool {
			same := e.Instance == bad.Instance && e.Run == bad.Run
			well := e.Kind == history.KindSubjectHealth && e.N > 0 || e.Kind == history.KindInstanceExited
			return same && well && e.Time < from
		})
		if !over {
			return true
		}
	}
	return false
}

// mute: a process that was there between the two times wrote lines, and stated a level in none.
func (j *judge) mute(from, to time.Duration) bool {
	return slices.ContainsFunc(j.events, func(end history.Event) bool {
		if end.Kind != history.KindSubjectLog || end.N <= 0 || end.Aux != 0 || end.Time < from {
			return false
		}
		return !slices.ContainsFunc(j.events, func(e history.Event) bool {
			return e.Kind == history.KindInstanceStarting && e.Instance == end.Instance && e.Run == end.Run && e.Time > to
		})
	})
}

// surfaced: "the failure is surfaced (exit code, error log, health)", once errors have come for longer than three seconds and twice all waits of a
// series, or, where none came, nothing was heard for half a minute.
func (j *judge) surfaced() {
	j.decide(OfPartition(halting, history.None, history.None))
	b := j.header.Contract.Backoff
	waits := time.Duration(0)
	for k := 1; k < max(j.header.Contract.MaxAttempts, 3); k++ {
		waits += b.Wait(k) + b.Jitter + b.Late
	}
	for _, o := range j.outages() {
		known, needed := o.refused-o.answered, max(3*time.Second, 2*waits)
		if o.answered < 0 || known < needed {
			known, needed = j.owed(&o)-o.from, 30*time.Second
		}
		if known < needed {
			continue
		}
		j.judged(halting)
		shown := slices.ContainsFunc(j.events, func(e history.Event) bool {
			failed := e.Kind == history.KindInstanceExited && (e.Code > 0 || e.Code < 0 && !e.Flags.Has(history.Expected))
			return (failed || e.Kind == history.KindSubjectError) && e.Time >= o.from && e.Time <= o.to+2*time.Second
		})
		if !shown && !j.ill(o.from, o.to+2*time.Second) && !j.mute(o.from, o.to+2*time.Second) {
			j.sawPartition(halting, "failure-not-surfaced", history.None, history.None)
		}
	}
}

// owed is until when, in the outage, one of the records had not come to its end.
func (j *judge) owed(o *outage) time.Duration {
	c := &j.header.Contract
	until := time.Duration(0)
	for _, number := range o.records {
		last := o.to
		for i := range j.events {
			e := &j.events[i]
			ends := e.Kind == history.KindAttemptEnd && (e.Outcome == history.OutcomeSuccess || j.is(c.Logical, e.Outcome) && !c.LogicalDeadLetters) ||
				e.Kind == history.KindProduceResponse && e.Instance >= 0 && j.role(e.Topic) == history.RoleDLQ && accepted(e)
			if ends && e.Record == number && e.Time >= o.from && e.Time <= o.to {
				last = e.Time
			}
		}
		until = max(until, last)
	}
	return until
}
