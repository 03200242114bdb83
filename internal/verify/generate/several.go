package generate

// This file simulates the other calls of a consumer: those of downstreams that do not decide, and those that its client
// repeats by itself.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// otherDownstream is a downstream that does not decide. The consumer calls all of them for each record, those marked
// before ahead of the attempt, in the order of the list.
type otherDownstream struct {
	history.Downstream
	number int32
	before bool
	// patient: a failed call is repeated by itself, without another attempt.
	patient bool
	// keyed: it refuses what it already has, which the consumer takes for done. batched: the consumer calls it for several
	// records at once, and the call is taken for one of the first.
	keyed, batched bool
	// down: calls, or their answers, are lost. broken: a fault answers in its place.
	down, broken bool
}

// plannedCalls are the calls of a record at one downstream that fail before one succeeds: how many, and how.
// has: one has been carried out.
type plannedCalls struct {
	outcome  history.Outcome
	failures int
	tries    int32
	has      bool
}

// Several makes a correct history of a consumer that calls several downstreams.
func Several(c Choices) *History { return several(c).run() }

// SeveralEffects makes a correct history of a consumer that calls several downstreams, one of which is the sink.
func SeveralEffects(c Choices) *History {
	s := several(c)
	h := s.run()
	s.drawEffects(h)
	return h
}

func several(c Choices) *simulation {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}}
	s.calm = !chance(c, 2)
	s.h.Header = s.drawHeader()
	s.drawOthers()
	return s
}

// drawEffects makes one of the other downstreams the sink, if it gets no further effect of a record that is attempted
// again: it is called after the attempt, or it is keyed. An output topic is none, because its effects are known by its
// writes, nor is one that is called for several records at once. Otherwise the downstream that decides is the sink.
func (s *simulation) drawEffects(h *History) {
	for _, of := range s.others {
		if of.Optional || of.Topic || of.batched || of.before && !of.keyed {
			continue
		}
		h.addEffects(history.Effects{Once: of.keyed, Atomic: !of.before}, func(e *history.Event) bool {
			return e.Kind == history.KindCallEnd && e.N == of.number && e.Outcome == history.OutcomeSuccess
		})
		return
	}
	h.addEffects(history.Effects{Atomic: true}, succeeds)
}

// Repeats makes a correct history of a consumer whose client repeats calls by itself. It may call several downstreams.
func Repeats(c Choices) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}}
	s.calm = !chance(c, 2)
	s.h.Header = s.drawHeader()
	s.repeatCalls()
	if chance(c, 2) {
		s.drawOthers()
	}
	return s.run()
}

// drawOthers draws one downstream or more that do not decide.
func (s *simulation) drawOthers() {
	s.h.Header.Downstreams = []history.Downstream{{Name: "payments"}}
	all := []history.Downstream{{Name: "ledger"}, {Name: "mailer", Optional: true}, {Name: "results", Topic: true}}
	for i, one := range all {
		if chance(s, 2) && (i < 2 || len(s.others) > 0) {
			continue
		}
		s.h.Header.Downstreams = append(s.h.Header.Downstreams, one)
		of := &otherDownstream{Downstream: one, number: int32(len(s.others) + 1), before: chance(s, 2),
			patient: chance(s, 2), keyed: !one.Topic && chance(s, 2)}
		of.batched = !one.Topic && !of.keyed && chance(s, 4)
		s.others = append(s.others, of)
	}
}

// repeatCalls makes the contract allow several calls in an attempt, which goes with retries in place and a wait.
func (s *simulation) repeatCalls() {
	c := s.contract()
	c.Calls = 2 + s.Intn(2)
	s.calls, s.made = c.Calls, 1+s.Intn(c.Calls)
	c.Retry, c.Counter = history.RetryInPlace, history.CounterMemory
	if c.Backoff.Initial == 0 {
		c.Backoff = history.Backoff{Initial: 100 * ms, Multiplier: 2, Late: 50 * ms}
	}
}

// planOthers draws the answers of the other downstreams.
func (s *simulation) planOthers(r *planned) {
	for range s.others {
		one := plannedCalls{outcome: history.OutcomeSuccess}
		if chance(s, 4) {
			one.outcome = pick(s, history.OutcomeTransient, history.OutcomePermanent, history.OutcomeTimeout,
				history.OutcomeReset)
			one.failures = 1 + s.Intn(2)
		}
		r.elsewhere = append(r.elsewhere, one)
	}
}

// callOthers calls the downstreams that come before or after the attempt, and continues when all calls have succeeded.
func (w *work) callOthers(before bool, then func()) {
	for i := len(w.process.others) - 1; i >= 0; i-- {
		if one, next := w.process.others[i], then; one.before == before {
			then = func() { w.callOther(one, 1, next) }
		}
	}
	then()
}

// callOther calls a downstream, for the n-th time in the attempt.
func (w *work) callOther(of *otherDownstream, n int, then func()) {
	p, plan := w.process, &w.record.elsewhere[of.number-1]
	if flight := p.flights[of.number]; flight != nil && (of.Topic || of.batched) && chance(p, 2) {
		flight.with = append(flight.with, func(outcome history.Outcome) {
			if outcome == history.OutcomeSuccess && of.Topic {
				w.after(0, func() { w.callOther(of, n, then) })
				return
			}
			w.after(0, func() { w.hearOther(of, n, outcome, then) })
		})
		p.batch(of)
		return
	}
	if of.down && p.Intn(2) == 1 {
		w.after(20*ms+p.lag(), func() { w.hearOther(of, n, history.OutcomeReset, then) })
		return
	}
	plan.tries++
	e := p.event(history.KindCallStart)
	e.Op, e.Record, e.N, e.Sequence, e.Text = p.nextOp(), w.record.number, of.number, plan.tries, "POST /entries"
	p.put(e)
	if p.flights[of.number] == nil {
		p.flights[of.number] = &flight{}
	}
	p.flights[of.number].open++
	outcome := of.answer(p.simulation, plan, &e)
	took := time.Duration(1+p.Intn(8)) * ms
	if outcome == history.OutcomeTimeout {
		took, e.Flags = 60*ms, history.ClientGone
	}
	if of.Topic && of.down && p.Intn(2) == 1 {
		outcome = history.OutcomeReset // the tap is on the client's side of the link, and does not see the answer either
	}
	p.simulation.after(took, func() { w.answeredOther(of, e, n, outcome, then) })
}

// answer is the downstream's answer to a record's latest call, or that of a fault in its place, which marks the event.
func (of *otherDownstream) answer(s *simulation, plan *plannedCalls, e *history.Event) history.Outcome {
	switch {
	case of.broken && s.Intn(3) > 0:
		e.Flags = history.Forged
		return pick(s, history.OutcomeTransient, history.OutcomePermanent, history.OutcomeLogical)
	case of.keyed && plan.has:
		return history.OutcomeLogical
	case int(plan.tries) <= plan.failures:
		return plan.outcome
	}
	plan.has = true
	return history.OutcomeSuccess
}

// answeredOther is the downstream's side of the end of a call.
func (w *work) answeredOther(of *otherDownstream, e history.Event, n int, outcome history.Outcome, then func()) {
	p := w.process
	e.Kind, e.Time, e.Outcome, e.Text = history.KindCallEnd, p.now, outcome, ""
	same := !p.dead && p.run == e.Run
	if !same {
		e.Flags |= history.ClientGone
	}
	p.put(e)
	if !same {
		return
	}
	known := of.keyed && w.record.elsewhere[of.number-1].has && e.Flags == 0 && outcome == history.OutcomeLogical
	switch {
	case of.down && !of.Topic && p.Intn(2) == 1:
		outcome = history.OutcomeReset
	case known:
		outcome = history.OutcomeSuccess
	}
	p.land(of.number, outcome)
	w.after(0, func() { w.hearOther(of, n, outcome, then) })
}

// flight is the calls of a downstream that a process has under way. with are those that the client has not sent: it
// sends them, or fails them, when one is answered. Those of a batch are carried out or fail with it.
type flight struct {
	open int
	with []func(history.Outcome)
}

// land ends a call.
func (p *process) land(downstream int32, outcome history.Outcome) {
	of := p.flights[downstream]
	if of.open--; of.open > 0 && outcome == history.OutcomeSuccess {
		return
	}
	with := of.with
	of.with = nil
	if of.open == 0 {
		delete(p.flights, downstream)
	}
	for _, one := range with {
		one(outcome)
	}
}

// batch records that the process calls a downstream for several records at once.
func (p *process) batch(of *otherDownstream) {
	if !of.batched || p.batches {
		return
	}
	p.batches = true
	e := p.event(history.KindUnreadable)
	e.Code, e.N, e.Text = history.None, of.number, "INSERT"
	p.put(e)
}

// hearOther acts on the answer to a call of another downstream.
func (w *work) hearOther(of *otherDownstream, n int, outcome history.Outcome, then func()) {
	retryable := outcome != history.OutcomePermanent && outcome != history.OutcomeLogical
	switch {
	case outcome == history.OutcomeSuccess, of.Optional:
		then()
	case of.patient && retryable && n < 3:
		w.after(time.Duration(5+w.process.Intn(100))*ms, func() { w.callOther(of, n+1, then) })
	default:
		w.decide(outcome, 0)
	}
}

// hear acts on an answer of the downstream that decides: the client repeats the call by itself, or the consumer
// decides.
func (w *work) hear(n int, outcome history.Outcome, told time.Duration) {
	p := w.process
	if n < p.made && retryable(outcome) && (told == 0 || p.contract().IgnoresRetryAfter) {
		longest := int(p.contract().Backoff.Initial/ms) - 10
		w.after(time.Duration(5+p.Intn(longest-5))*ms, func() { w.call(n + 1) })
		return
	}
	w.decide(outcome, told)
}

// disturbOther breaks a downstream that does not decide.
func (s *simulation) disturbOther(at, took time.Duration) {
	of := s.others[s.Intn(len(s.others))]
	switch {
	case chance(s, 2):
		fault := s.plan("downstream", history.TargetOther+of.Name, false)
		s.window(fault, at, took, func(on bool) { of.broken = on })
	case of.Topic:
		fault := s.plan("network", "broker 1", false)
		s.window(fault, at, took, func(on bool) { of.down = on })
	default:
		fault := s.plan("network", history.TargetOther+of.Name, false)
		s.window(fault, at, took, func(on bool) { of.down = on })
	}
}
