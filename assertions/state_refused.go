package assertions

// State: what processes do after a dead letter was refused to them. Contracts tell three answers apart:
//
//	on_failure: halt     the process stays, and commits nothing past the record; whether it tries on meanwhile is its own
//	                     affair
//	on_failure: retry    it stays, too, and tries on
//	on_failure: crash    it ends with a code above 0, and is started again
//
// What a consumer knows of a refusal is its client's to say. Most errors are tried again by the client itself, for up
// to five minutes (librdkafka's message.timeout.ms), and only then is the consumer told. So crash is held against a
// process only after an error that no client tries again (final). And a loop that has hundreds of records of other
// partitions to go through first has not stopped trying: retry is held against a process only when it did nothing at
// all, neither an attempt nor a write.
//
// All this is over for a record when it comes to its end or leaves the process, and for a process when it ends or is
// told to.

import (
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// refusal is a record whose dead letter was refused to a process, and is outstanding.
type refusal struct {
	// last is when it was refused, first when it was for the first time with an error that no client tries again, never
	// if it wasn't.
	last, first time.Duration
	code        int16
}

// unkept is a stretch in which a process did not do what its contract says of refusals.
type unkept struct {
	by       holder
	number   int32
	from, to time.Duration
	// refused is when the dead letter was refused that shows it.
	refused time.Duration
	code    int16
	// ended: the process ended as if all were well; crashes: it was to end.
	ended, crashes bool
}

// refusals notes what an event says of dead letters that were refused to the process, or of what it does about them.
func (w *state) refusals(l *life, e *history.Event) {
	switch e.Kind {
	case history.KindAttemptStart, history.KindAttemptEnd, history.KindProduceRequest, history.KindProduceResponse:
		w.endIdle(l, e.Time)
	case history.KindRevoked:
		for number := range l.refused {
			if r := w.record(number); r != nil && w.lies(number, r) == (place{e.Topic, e.Partition, 0}) {
				w.settleRefusal(l, number, e.Time)
			}
		}
	case history.KindInstanceSignal:
		w.leaveRefusals(l, e.Time)
	case history.KindInstanceExited:
		w.exitRefused(l, e)
	}
	switch one := w.write; {
	case e.Kind == history.KindAttemptEnd && w.attempt != nil && w.finishes(w.attempt.outcome):
		w.finishRefusal(w.attempt.number, e.Time)
	case e.Kind != history.KindProduceResponse || one == nil || !one.letter:
	case one.passed:
		w.finishRefusal(one.record, e.Time)
	case !one.silent && e.Code != 0:
		was, again := l.refused[one.record]
		if !again {
			was.first = never
		}
		if was.first == never && final(e.Code) {
			was.first = e.Time
		}
		was.last, was.code = e.Time, e.Code
		l.refused[one.record] = was
	}
}

// finishes reports whether an attempt with the outcome is its record's end.
func (w *state) finishes(outcome history.Outcome) bool {
	class := w.classes[outcome]
	return class == classSuccess || class == classLogical && !w.contract.LogicalDeadLetters
}

// lies is the partition that the record is in, without an offset.
func (w *state) lies(number int32, r *record) place {
	at := w.position(number, r)
	at.offset = 0
	return at
}

// endIdle ends a stretch in which the process did nothing.
func (w *state) endIdle(l *life, at time.Duration) {
	if len(l.refused) > 0 && w.contract.OnFailure == history.OnFailureRetry && at-l.idle > refusedLong+w.longestWait() {
		number, since := l.firstRefused()
		w.unkept = append(w.unkept, unkept{by: l.by, number: number, from: l.idle, to: at, refused: since.last,
			code: since.code})
	}
	l.idle = at
}

// firstRefused returns the record that was refused first, of those that are outstanding.
func (l *life) firstRefused() (number int32, first refusal) {
	number = none
	for one, r := range l.refused {
		if number == none || r.last < first.last || r.last == first.last && one < number {
			number, first = one, r
		}
	}
	return number, first
}

// settleRefusal forgets a refused record, and notes if the process was to have ended meanwhile.
func (w *state) settleRefusal(l *life, number int32, at time.Duration) {
	w.endIdle(l, at)
	one := l.refused[number]
	limit := refusedLong + w.longestWait() + w.contract.StopGrace
	if w.contract.OnFailure == history.OnFailureCrash && one.first != never && at-one.first > limit {
		w.unkept = append(w.unkept, unkept{by: l.by, number: number, from: one.first, to: at, refused: one.first,
			code: one.code, crashes: true})
	}
	delete(l.refused, number)
}

// finishRefusal forgets a record that has come to its end, whoever it was refused to.
func (w *state) finishRefusal(number int32, at time.Duration) {
	for _, l := range w.lives {
		if _, known := l.refused[number]; known {
			w.settleRefusal(l, number, at)
		}
	}
}

// leaveRefusals forgets them all: the process ends, or is told to.
func (w *state) leaveRefusals(l *life, at time.Duration) {
	for len(l.refused) > 0 {
		number, _ := l.firstRefused()
		w.settleRefusal(l, number, at)
	}
}

// exitRefused notes that a process ended which had been refused dead letters.
func (w *state) exitRefused(l *life, e *history.Event) {
	number, one := l.firstRefused()
	asked := e.Flags.Has(history.Expected) || l.asked != never || l.killed != never
	if number != none && !asked {
		l.refusal, l.over = number, one
		if w.contract.OnFailure == history.OnFailureCrash && one.first != never && e.Code == 0 {
			w.unkept = append(w.unkept, unkept{by: l.by, number: number, from: one.first, to: e.Time, refused: one.first,
				code: one.code, ended: true, crashes: true})
			delete(l.refused, number)
		}
	}
	w.leaveRefusals(l, e.Time)
}

// judgeUnkept judges what processes did after refusals, against what their contract says of them.
func (c *halt) judgeUnkept(u *unkept) {
	other := func(f *history.PlannedFault) bool { return f.Kind != "kafka" || !f.StopsDeadLetters }
	switch {
	case c.w.share:
		c.remark("what a process of a share group does after a refusal is not told apart")
		return
	case !u.ended && c.w.faulted(other, u.from, u.to):
		c.remark("another fault was in force after a refusal")
		return
	case !u.ended && c.w.tookTime(u.by.instance, u.from, u.to):
		c.remark("stall after a refusal")
		return
	}
	name, did := "stopped-trying", fmt.Sprintf("did nothing for %s, neither an attempt nor a write",
		units.Text(u.to-u.from))
	if u.crashes {
		name, did = "did-not-crash", fmt.Sprintf("still ran %s later", units.Text(u.to-u.from))
	}
	if u.ended {
		did = fmt.Sprintf("ended %s later as if all were well (exit code 0)", units.Text(u.to-u.from))
	}
	s := c.w.about(u.number, 0, u.to, func() string {
		return fmt.Sprintf(
			"a dead letter was refused to instance %d with %s. Its contract promises on_failure: %s, but it %s", u.by.instance,
			errorName(u.code), c.w.contract.OnFailure, did)
	}, moment{history.KindProduceResponse, u.refused})
	if u.ended {
		s.marks = append(s.marks, moment{history.KindInstanceExited, u.to})
	}
	c.saw(name, s)
}
