package naive

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const (
	graceful = "graceful-stop"
	// noticed is how late a process's end may be noticed.
	noticed = 250 * time.Millisecond
)

// stopping is the signal that first told the event's process to stop, by the event's time; nil if none did.
func (j *judge) stopping(of *history.Event) *history.Event {
	for i := range j.events {
		e := &j.events[i]
		if e.Time > of.Time {
			break
		}
		if e.Kind == history.KindInstanceSignal && (e.Text == "TERM" || e.Text == "INT") && by(e, of) {
			return e
		}
	}
	return nil
}

// stops: "on TERM the subject ends in its grace period". One that was frozen in between, or killed before its grace was
// over, can't be blamed; a stall may be why.
func (j *judge) stops() {
	run := OfPartition(graceful, history.None, history.None)
	j.decide(run)
	for i := range j.events {
		term := &j.events[i]
		if term.Kind != history.KindInstanceSignal || j.stopping(term) != term {
			continue
		}
		end, killed := j.endOf(term)
		if end < 0 || j.header.Contract().StopGrace <= 0 {
			continue
		}
		over := end - term.Time - j.header.Contract().StopGrace
		late := killed && over >= 0 || !killed && over > noticed
		if !late || j.stoodStill(term, end, "STOP") {
			j.judged(graceful)
			continue
		}
		if j.stoodStill(term, end, "") {
			j.opinion.Open[Finding{run, "stop-timeout"}] = true
			continue
		}
		j.judged(graceful)
		j.sawPartition(graceful, "stop-timeout", history.None, history.None)
	}
}

// endOf is the end of a process that was told to stop: that it was killed, or that it ended; negative if that was not
// seen. It may be heard of late.
func (j *judge) endOf(term *history.Event) (end time.Duration, killed bool) {
	end = -1
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Time < term.Time || !by(e, term):
		case e.Kind == history.KindInstanceSignal && e.Text == "KILL" && !killed:
			end, killed = e.Time, true
		case e.Kind == history.KindInstanceExited:
			if ended := e.Time - time.Duration(e.Aux); !killed || ended <= end {
				return ended, false
			}
			return end, true
		}
	}
	return end, killed
}

// stoodStill: between the two the process was frozen by the signal, or, where that is "", something stood still.
func (j *judge) stoodStill(from *history.Event, to time.Duration, signal string) bool {
	frozen := time.Duration(-1)
	for i := range j.events {
		e := &j.events[i]
		switch {
		case e.Kind == history.KindStall && signal == "" && e.Time >= from.Time && e.Time-time.Duration(e.Aux) <= to:
			return true
		case e.Kind == history.KindInstanceSignal && e.Instance == from.Instance && e.Text == "STOP":
			frozen = e.Time
		case e.Kind == history.KindInstanceSignal && e.Instance == from.Instance && e.Text == "CONT":
			if frozen >= 0 && frozen <= to && e.Time >= from.Time {
				return true
			}
			frozen = -1
		}
	}
	return frozen >= 0 && frozen <= to
}

// atStop: what a process "still had to retry is left to whoever comes after it: neither committed past nor
// dead-lettered before its time", once it was told to stop.
func (j *judge) atStop(s *trace) {
	limit := j.header.Contract().MaxAttempts
	hidden := j.mayMiss()
	for i := range s.letters {
		ask := s.letters[i].ask
		count, last := s.before(ask.Time)
		if j.stopping(ask) == nil || limit == 0 || count == 0 || count >= limit || last.end < 0 ||
			last.end > ask.Time || !j.retryable(last.outcome) {
			continue
		}
		if hidden || s.astray > 0 {
			j.open(graceful, "premature-dead-letter", s.record)
			continue
		}
		j.saw(graceful, "premature-dead-letter", s.record)
	}
	c := j.passing(s)
	if c == nil || !c.took() || len(s.letters)+len(s.found) > 0 || s.last == nil || j.finished(s) >= 0 ||
		!j.retryable(s.last.Outcome) {
		return
	}
	stop := j.stopping(c.ask)
	if stop == nil || !by(s.last, c.ask) || limit > 0 && j.ofAssignment(s) >= limit || !j.committed(s.record) {
		return
	}
	if s.astray > 0 {
		j.open(graceful, "lost", s.record)
		return
	}
	j.saw(graceful, "lost", s.record)
}

// ofAssignment is how many attempts there were since the partition was last assigned before the last of them.
func (j *judge) ofAssignment(s *trace) int {
	since := time.Duration(0)
	for i := range j.events {
		e := &j.events[i]
		if e.Kind == history.KindAssigned && e.Topic == s.topic && e.Partition == s.partition && e.Time <= s.lastStart {
			since = e.Time
		}
	}
	n := 0
	for i := range s.attempts {
		if s.attempts[i].start >= since {
			n++
		}
	}
	return n
}

// committed: the audit found the record's offset committed.
func (j *judge) committed(r *record) bool {
	return slices.ContainsFunc(j.events, func(e history.Event) bool {
		return e.Kind == history.KindAuditOffsets && e.Topic == r.topic && e.Partition == r.partition && e.Aux > r.offset
	})
}
