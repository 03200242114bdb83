package workload

// Attempts of several calls. The first call begins an attempt, and the answer to the last one ends it, or an answer
// before that which is not a success:
//
//	attempt 1: GET /customers/7 ─▶ 200, PUT /payments/7 ─▶ 503
//	attempt 2: GET /customers/7 ─▶ 200, PUT /payments/7 ─▶ 201, POST /audit ─▶ 204
//
// Over gRPC, calls are told by their methods.
//
// A process that makes the first call again has given up the attempt: it ends without an answer, as one whose client
// left. So do the attempts of a process that has ended. A process that goes on where it failed, with the last call or
// with the one that was refused, makes another attempt with it. Other calls outside of an attempt, such as one that
// undoes what was done, are none; they are answered well, even by faults, because nothing is judged by them.

import (
	"maps"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// CallRole is the role of a call in attempts of several calls.
type CallRole uint8

// The roles of calls.
const (
	CallAmong CallRole = iota
	CallFirst
	CallLast
)

// spans are the attempts of several calls.
type spans struct {
	mu   sync.Mutex
	open map[spanKey]*span
	// refused has, for each record whose latest attempt in a process was refused, the call that was.
	refused map[spanKey]string
	calls   map[int64]spanCall // those being answered, by operation
	roles   [CallLast + 1]int  // number of calls with each role
}

type spanKey struct {
	record   int32
	instance int16
	run      uint16
}

// span is an attempt under way. struck: the planned failure is the answer to one of its calls.
type span struct {
	start  history.Event
	calls  int32
	struck bool
}

// spanCall is a call that is being answered: the nth of the attempt, whose span is nil if it belongs to none.
type spanCall struct {
	span *span
	role CallRole
	nth  int32
	text string
}

// attempt is the number of the attempt, 0 for none.
func (c *spanCall) attempt() int64 {
	if c.span == nil {
		return 0
	}
	return int64(c.span.start.N)
}

func newSpans() *spans {
	return &spans{open: map[spanKey]*span{}, refused: map[spanKey]string{}, calls: map[int64]spanCall{}}
}

// BeginCall is Begin for a call with this role, where attempts may have several calls. The event has the text of the
// call.
func (a *Attempts) BeginCall(event *history.Event, seq int32, found bool, role CallRole) {
	if a.spans == nil || !found || int(seq) >= len(a.records) {
		a.Begin(event, seq, found)
		return
	}
	a.open.Add(1)
	s := a.spans
	s.mu.Lock()
	defer s.mu.Unlock()
	event.Record = seq
	s.roles[role]++
	key := keyOf(event)
	one := s.open[key]
	if one != nil && role == CallFirst {
		a.giveUp(one, event.Time)
		one = nil
	}
	if one == nil && (role != CallAmong || s.refused[key] == event.Text) {
		one = a.beginSpan(*event)
		s.open[key] = one
		delete(s.refused, key)
	}
	call := spanCall{span: one, role: role, text: event.Text}
	if one != nil {
		one.calls++
		call.nth = one.calls
	}
	event.Kind, event.Op, event.N, event.Sequence = history.KindCallStart, a.cfg.Ops.Add(1), 0, call.nth
	event.Aux = call.attempt()
	s.calls[event.Op] = call
	a.cfg.Sink.Record(*event)
}

// Missing reports whether there were calls of records in attempts of several calls, and none that began or ended an
// attempt.
func (a *Attempts) Missing() (first, last bool) {
	if a.spans == nil {
		return false, false
	}
	a.spans.mu.Lock()
	defer a.spans.mu.Unlock()
	roles := a.spans.roles
	called := roles[CallAmong]+roles[CallFirst]+roles[CallLast] > 0
	return called && roles[CallFirst] == 0, called && roles[CallLast] == 0
}

func keyOf(call *history.Event) spanKey { return spanKey{call.Record, call.Instance, call.Run} }

// beginSpan records the start of an attempt with the call that begins it.
func (a *Attempts) beginSpan(start history.Event) *span {
	start.Kind, start.Op, start.N = history.KindAttemptStart, a.cfg.Ops.Add(1), a.records[start.Record].all.Add(1)
	a.cfg.Sink.Record(start)
	start.Text = ""
	return &span{start: start}
}

// giveUp records that a process did not go on with an attempt. It stopped at an unknown moment before.
func (a *Attempts) giveUp(one *span, now time.Duration) {
	end := one.start
	end.Kind, end.Time, end.Outcome = history.KindAttemptEnd, max(now, end.Time), history.OutcomeTimeout
	end.Flags |= history.ClientGone
	a.cfg.Sink.Record(end)
}

// giveUpEarlier ends the attempts of the processes that an instance had before this one.
func (a *Attempts) giveUpEarlier(instance int, run uint16) {
	s, now := a.spans, a.cfg.Clock.Now()
	s.mu.Lock()
	defer s.mu.Unlock()
	earlier := func(key spanKey) bool { return int(key.instance) == instance && key.run != run }
	for key, one := range s.open {
		if earlier(key) {
			a.giveUp(one, now)
		}
	}
	maps.DeleteFunc(s.open, func(key spanKey, _ *span) bool { return earlier(key) })
	maps.DeleteFunc(s.refused, func(key spanKey, _ string) bool { return earlier(key) })
}

// ruleCall decides the answer to a call: what a fault says, or what is planned. A planned failure strikes the first
// call of an attempt, the second or the last one, in turn, but the last one in any case, and what its client repeats by
// itself. An attempt that is given up before has used up no failure.
func (a *Attempts) ruleCall(event *history.Event) Ruling {
	s := a.spans
	s.mu.Lock()
	defer s.mu.Unlock()
	call := s.calls[event.Op]
	if call.span == nil || s.open[keyOf(event)] != call.span {
		return Ruling{Outcome: history.OutcomeSuccess}
	}
	if ruling, changed := a.ruleChanged(event.Record, call.span.start.N); changed {
		return ruling
	}
	state := &a.records[event.Record]
	strikes := call.role == CallLast || call.nth == 1+(event.Record+state.planned.Load())%3 ||
		a.repeated(event.Record)
	if call.span.struck || !strikes {
		return Ruling{Outcome: history.OutcomeSuccess}
	}
	call.span.struck = true
	return plannedRuling(a.decide(event.Record, a.count(event.Record), state.replayed.Load()))
}

// endCall is End for a call that BeginCall began. It ends its attempt, too, unless another call is to come.
func (a *Attempts) endCall(event *history.Event) {
	s := a.spans
	s.mu.Lock()
	defer s.mu.Unlock()
	call, key := s.calls[event.Op], keyOf(event)
	delete(s.calls, event.Op)
	answered := *event
	answered.Kind, answered.Aux = history.KindCallEnd, call.attempt()
	a.cfg.Sink.Record(answered)
	well := event.Outcome == history.OutcomeSuccess && !event.Flags.Has(history.ClientGone)
	if call.span == nil || s.open[key] != call.span || well && call.role != CallLast {
		return
	}
	end := call.span.start
	end.Kind, end.Time, end.Outcome, end.Code = history.KindAttemptEnd, event.Time, event.Outcome, event.Code
	end.Aux, end.Flags = event.Aux, end.Flags|event.Flags
	if event.Outcome == history.OutcomeSuccess && call.role != CallLast {
		end.Outcome, end.Code = history.OutcomeTimeout, 0 // its client left before the answer to a call among others
	}
	a.cfg.Sink.Record(end)
	delete(s.open, key)
	if !well {
		s.refused[key] = call.text
	}
}
