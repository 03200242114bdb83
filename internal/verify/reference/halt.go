package reference

import (
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	halting = "halt-on-dlq-failure"
	// outageLeast is the minimum length of an outage. Single failures among successes are not an outage.
	outageLeast = 200 * time.Millisecond
)

// outage is a period in which every produce of a dead letter failed. failed holds the indexes of the answers to those
// produces; next is the index of the success that ended the outage, or -1.
type outage struct {
	from, to time.Duration
	failed   []int
	next     int
}

// asked is the time of the produce request that the event answers.
func (j *judge) asked(answer *history.Event) time.Duration {
	asked := answer.Time
	for k := range j.events {
		if a := &j.events[k]; a.Kind == history.KindProduceRequest && a.Op == answer.Op && a.Record == answer.Record {
			asked = a.Time
		}
	}
	return asked
}

// outages implements "a window begins with the first dead-letter write that fails after the last that succeeded, and
// ends with the next that succeeds". A produce requested before the last success may fail after it; the window then
// begins with its failure.
func (j *judge) outages() []outage {
	var all []outage
	open := false
	success := time.Duration(-1)
	for i := range j.events {
		e := &j.events[i]
		if e.Kind != history.KindProduceResponse || j.role(e.Topic) != history.RoleDLQ || e.Instance < 0 {
			continue
		}
		if accepted(e) {
			if open {
				all[len(all)-1].to, all[len(all)-1].next = e.Time, i
			}
			open, success = false, e.Time
			continue
		}
		if !open {
			one := outage{from: e.Time, next: -1}
			if asked := j.asked(e); asked > success {
				one.from = asked
			}
			all, open = append(all, one), true
		}
		last := &all[len(all)-1]
		last.to, last.failed = e.Time, append(last.failed, i)
	}
	return slices.DeleteFunc(all, func(o outage) bool { return o.to-o.from < outageLeast })
}

// planned lists the outages that faults cause, from the time at which they must have an effect. It omits those in which
// a dead letter got through.
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
			return e.Kind == history.KindProduceResponse && j.role(e.Topic) == history.RoleDLQ &&
				e.Instance >= 0 && accepted(&e) &&
				e.Time > one.from && e.Time < one.to
		})
		if one.from >= 0 && effect && !leaky && one.to-one.from >= outageLeast {
			all = append(all, one)
		}
	}
	return all
}

// downAt reports whether no dead letter could be written at the time.
func (j *judge) downAt(at time.Duration) bool {
	return slices.ContainsFunc(slices.Concat(j.outages(), j.planned()), func(o outage) bool {
		return o.from <= at && at <= o.to
	})
}

// ill reports whether an instance was unhealthy between the two times: it reported bad health before the end of the
// interval, and neither recovered nor exited before its beginning.
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

// mute reports whether a report may have been in a log that does not show it: the log is not seen at all, or a process
// that ran between the two times wrote lines but gave a level in none.
func (j *judge) mute(from, to time.Duration) bool {
	return j.header.Contract().ProcessUnseen || slices.ContainsFunc(j.events, func(end history.Event) bool {
		if end.Kind != history.KindSubjectLog || end.N <= 0 || end.Aux != 0 || end.Time < from {
			return false
		}
		return !slices.ContainsFunc(j.events, func(e history.Event) bool {
			return e.Kind == history.KindInstanceStarting && e.Instance == end.Instance && e.Run == end.Run && e.Time > to
		})
	})
}

// surfaced implements "the failure is surfaced (exit code, error log, health)", once a process has known of it for long
// enough.
func (j *judge) surfaced() {
	j.decide(OfPartition(halting, history.None, history.None))
	for _, o := range j.outages() {
		if !slices.ContainsFunc(o.failed, func(i int) bool { return j.knows(&o, j.events[i].Instance, j.events[i].Run) }) {
			continue
		}
		j.judged(halting)
		shown := slices.ContainsFunc(j.events, func(e history.Event) bool {
			failed := e.Kind == history.KindInstanceExited && (e.Code > 0 || e.Code < 0 && !e.Flags.Has(history.Expected))
			return (failed || e.Kind == history.KindSubjectError && j.concerns(&o, &e)) && e.Time >= o.from &&
				e.Time <= o.to+2*time.Second
		})
		if !shown && !j.ill(o.from, o.to+2*time.Second) && !j.mute(o.from, o.to+2*time.Second) {
			j.sawPartition(halting, "failure-not-surfaced", history.None, history.None)
		}
	}
}

// knows implements "three seconds, or twice all the waits of a series" after an error at which clients give up at once;
// otherwise the time in the contract, or five minutes. The time counts from the process's first failed produce to its
// last observed retry, without the time for which a signal had stopped it.
func (j *judge) knows(o *outage, instance int16, run uint16) bool {
	b := j.header.Contract().Backoff
	waits, unsaid := time.Duration(0), j.header.Contract().SurfacedWithin
	for k := 1; k < max(j.header.Contract().MaxAttempts, 3); k++ {
		waits += b.Wait(k) + b.Jitter + b.Late
	}
	if unsaid == 0 {
		unsaid = 5 * time.Minute
	}
	first, refused, last := time.Duration(-1), time.Duration(-1), time.Duration(-1)
	for _, i := range o.failed {
		e := &j.events[i]
		if e.Instance != instance || e.Run != run {
			continue
		}
		asked := max(j.asked(e), o.from)
		if first < 0 || asked < first {
			first = asked
		}
		last = max(last, asked)
		if !e.Flags.Has(history.Withheld) {
			last = max(last, e.Time)
			if refused < 0 && final(e.Code) {
				refused = e.Time
			}
		}
		if o.next >= 0 && j.events[o.next].Record == e.Record && j.events[o.next].Instance == instance &&
			j.events[o.next].Run == run {
			last = max(last, j.asked(&j.events[o.next]))
		}
	}
	return last-first-j.stopped(instance, first, last) >= unsaid ||
		refused >= 0 && last-refused-j.stopped(instance, refused, last) >= max(3*time.Second, 2*waits)
}

// final reports whether the code is a protocol error that Kafka does not call retriable and that does not concern the
// producer's own state. It covers the codes that occur in histories.
func final(code int16) bool { return slices.Contains([]int16{-1, 10, 17, 29, 87}, code) }

// stopped is the time for which signals had stopped the instance between the two times.
func (j *judge) stopped(instance int16, from, to time.Duration) time.Duration {
	total, since := time.Duration(0), time.Duration(-1)
	until := func(at time.Duration) {
		if since >= 0 {
			total += max(min(at, to)-max(since, from), 0)
		}
		since = -1
	}
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Instance != instance:
		case e.Kind == history.KindInstanceSignal && e.Text == "STOP":
			since = e.Time
		case e.Kind == history.KindInstanceSignal && e.Text == "CONT", e.Kind == history.KindInstanceExited:
			until(e.Time)
		}
	}
	until(to)
	return total
}

// concerns reports whether "a line that is known for an error only by the name of one of Kafka's" is about dead letters
// that were answered with that error, or names the dead-letter topic.
func (j *judge) concerns(o *outage, line *history.Event) bool {
	return line.Code == 0 ||
		slices.ContainsFunc(o.failed, func(i int) bool {
			return !j.events[i].Flags.Has(history.Withheld) && j.events[i].Code == line.Code
		}) ||
		slices.ContainsFunc(j.header.Topics, func(t history.Topic) bool {
			return t.Role == history.RoleDLQ && strings.Contains(line.Text, t.Name)
		})
}
