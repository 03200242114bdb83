package generate

// This file simulates a consumer whose attempts have several calls of the downstream that decides.

import (
	"maps"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// Spans makes a correct history of a consumer whose attempts have several calls.
func Spans(c Choices) *History { return spans(c, false) }

// RepeatedSpans does so for one whose client repeats calls by itself.
func RepeatedSpans(c Choices) *History { return spans(c, true) }

func spans(c Choices, repeated bool) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}}
	s.calm = !chance(c, 2)
	s.h.Header = s.drawHeader()
	s.contract().FirstCall, s.contract().LastCall = "GET /customers/*", "POST /audit"
	if s.contract().Retry == history.RetryTopics { // a process may handle two copies of a record at once
		s.contract().Retry, s.contract().Counter = history.RetryInPlace, history.CounterMemory
	}
	s.spanned, s.resumes = 2+c.Intn(2), chance(c, 2)
	if repeated {
		s.repeatCalls()
		s.resumes = true // its client repeats the call that failed, not those before it
	}
	return s.run()
}

// span is an attempt of several calls, those from first to last. n is the number of times that the client has made the
// call that begins it.
type span struct {
	*work
	start       history.Event
	outcome     history.Outcome // of the last call
	first, last int
	n           int
}

// span makes an attempt, from the call at which the latest one was refused, or from the first.
func (w *work) span(start history.Event, n int, outcome history.Outcome) {
	p := w.process
	one := &span{w, start, outcome, max(w.resume, 1), p.spanned, n}
	if outcome != history.OutcomeSuccess {
		one.last = one.first + p.Intn(p.spanned-one.first+1)
	}
	if half, open := p.half[w.record.number]; open {
		p.giveUpHalf(half)
	}
	w.resume = 0
	p.half[w.record.number] = start
	p.put(start)
	one.call(one.first)
}

// call makes the nth call, and those after it. The process may fail by itself between two calls, or a call may be lost
// on its way; then it does not go on with the attempt.
func (s *span) call(nth int) {
	p, e := s.process, s.start
	e.Kind, e.Time, e.Op, e.N, e.Text = history.KindCallStart, p.now, p.nextOp(), 0, "PUT /payments/{id}"
	e.Sequence, e.Aux = int32(nth-s.first+1), int64(s.start.N)
	p.put(e)
	outcome := s.outcome
	if nth < s.last {
		outcome = history.OutcomeSuccess
	}
	p.simulation.after(p.took(outcome), func() {
		e.Kind, e.Time, e.Outcome, e.Text = history.KindCallEnd, p.now, outcome, ""
		left := p.dead || p.run != e.Run
		if left || outcome == history.OutcomeTimeout {
			e.Flags |= history.ClientGone
		}
		p.put(e)
		switch {
		case nth == s.last:
			s.end(outcome)
		case left:
			s.end(history.OutcomeTimeout)
		default:
			s.after(p.lag(), func() { s.goOn(nth + 1) })
		}
	})
}

// end is the downstream stub's side of the end of the attempt.
func (s *span) end(outcome history.Outcome) {
	p := s.process
	if half, open := p.half[s.record.number]; open && half.Op == s.start.Op {
		delete(p.half, s.record.number)
	}
	if outcome != history.OutcomeSuccess && p.resumes {
		s.resume = s.last
	}
	s.answered(s.start, s.n, outcome)
}

func (s *span) goOn(nth int) {
	p := s.process
	c := p.contract()
	fails := !p.calm && chance(p, 12) && (c.HasDLQ() || s.k < c.MaxAttempts) // no record is given up for that
	if p.linkDown && p.Intn(2) == 1 || fails {
		s.plan().tries-- // a planned failure comes later
		s.decide(history.OutcomeReset, 0)
		return
	}
	s.call(nth)
}

// giveUpHalf is the downstream stub's end of an attempt that its process did not go on with.
func (p *process) giveUpHalf(start history.Event) {
	start.Kind, start.Time, start.Outcome = history.KindAttemptEnd, p.now, history.OutcomeTimeout
	start.Flags |= history.ClientGone
	p.put(start)
	delete(p.half, start.Record)
}

// giveUpHalves ends the attempts of the process before this one.
func (p *process) giveUpHalves() {
	for _, record := range slices.Sorted(maps.Keys(p.half)) {
		p.giveUpHalf(p.half[record])
	}
	p.half = map[int32]history.Event{}
}
