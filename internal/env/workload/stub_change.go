package workload

// Changes that faults make to the downstream stub's answers. Any number of changes may be in force. All delays add
// up. Of the changes that answer in the plan's place, the first that has an answer applies. Of those that set error
// texts, the first applies.
//
//	read ── start ── slow, slow … ── answer by a change, or as planned ── (hang) ── end ── write
//
// The answer to an attempt is decided after its wait. So a client that left in the meantime has used up no planned
// failure, and a fault that began in the meantime applies.

import (
	"context"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// change is one change by a fault: exactly one of answer, slow and texts is set.
type change struct {
	// answer returns the outcome of an attempt, OutcomeNone for the planned one, and the wait that a rate-limited
	// answer asks for.
	answer func(record, attempt int32) (history.Outcome, time.Duration)
	slow   time.Duration
	texts  map[history.Outcome]answer
	// seen is called for every attempt that slow or texts changes.
	seen func()
	// ctx ends with the change; held attempts are then released.
	ctx context.Context
}

// Answer makes rule answer attempts in the plan's place until end is called. rule is called concurrently, for every
// attempt of a known record, with the number of the attempt as the stub sees it (from 1). It returns the outcome,
// and for OutcomeRateLimited the wait to ask for, which is rounded up to whole seconds. OutcomeNone leaves the
// attempt to the rules that were added later, and then to the plan. An attempt answered by a rule uses up no planned
// failure.
//
// OutcomeTimeout leaves the attempt without an answer until its client leaves. end closes the connections of the
// attempts that still wait, without an answer.
func (s *Stub) Answer(rule func(record, attempt int32) (history.Outcome, time.Duration)) (end func()) {
	return s.change(&change{answer: rule})
}

// Slow delays the answer to every attempt of a known record until end is called. Attempts that still wait are then
// answered at once. seen is called, concurrently, for every attempt that waits.
func (s *Stub) Slow(by time.Duration, seen func()) (end func()) {
	return s.change(&change{slow: by, seen: seen})
}

// ErrorText changes the text of failures until end is called. kind is plain, non-ascii, long, hostile or outage.
// seen is called, concurrently, for every failure with the changed text.
func (s *Stub) ErrorText(kind string, seen func()) (end func(), err error) {
	texts, err := newAnswers(s.calls.Answers, kind, s.cfg.Plan.RetryAfter)
	if err != nil {
		return nil, err
	}
	return s.change(&change{texts: texts, seen: seen}), nil
}

// change brings a change into force. The list is never altered, only replaced, so attempts read it without a lock.
func (s *Stub) change(c *change) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	s.mu.Lock()
	defer s.mu.Unlock()
	s.setChanges(append(slices.Clone(s.inForce()), c))
	return func() {
		s.mu.Lock()
		s.setChanges(slices.DeleteFunc(slices.Clone(s.inForce()), func(other *change) bool { return other == c }))
		s.mu.Unlock()
		// Cancel last, so that a released attempt does not find the change again.
		cancel()
	}
}

func (s *Stub) setChanges(list []*change) {
	if len(list) == 0 {
		s.changes.Store(nil)
		return
	}
	s.changes.Store(&list)
}

func (s *Stub) inForce() []*change {
	if list := s.changes.Load(); list != nil {
		return *list
	}
	return nil
}

// delay makes an attempt wait for the changes that slow it.
func (s *Stub) delay(client patient) waited {
	for _, c := range s.inForce() {
		if c.slow <= 0 {
			continue
		}
		c.seen()
		if ended := client.wait(c.ctx, c.slow); ended != elapsed {
			return ended
		}
	}
	return elapsed
}

// ruling is the answer decided for an attempt.
type ruling struct {
	outcome history.Outcome
	// retryAfter is the wait that a change asks for; 0 stands for the plan's.
	retryAfter time.Duration
	// hang delays the missing answer: there is none until that time has passed (0 for no limit) or ctx has ended.
	hang time.Duration
	ctx  context.Context
}

// rule decides the answer to an attempt of a known record.
func (s *Stub) rule(record, attempt int32) ruling {
	for _, c := range s.inForce() {
		if c.answer == nil {
			continue
		}
		if outcome, retryAfter := c.answer(record, attempt); outcome != history.OutcomeNone {
			return ruling{outcome: outcome, retryAfter: retryAfter, ctx: c.ctx}
		}
	}
	state := &s.records[record]
	outcome := decide(&s.cfg.Plan.Records[record], state.planned.Add(1), state.replayed.Load())
	return ruling{outcome: outcome, hang: hangLimit, ctx: context.Background()}
}

// response returns the HTTP response to an attempt.
func (s *Stub) response(r ruling) answer {
	chosen := s.answers[r.outcome]
	if r.outcome != history.OutcomeSuccess && chosen.status != 0 {
		for _, c := range s.inForce() {
			if c.texts != nil {
				chosen = c.texts[r.outcome]
				c.seen()
				break
			}
		}
	}
	if r.outcome == history.OutcomeRateLimited && r.retryAfter > 0 {
		chosen.retryIn(r.retryAfter)
	}
	return chosen
}
