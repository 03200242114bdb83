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
	"cmp"
	"context"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// change is one change by a fault: exactly one of answer, slow and text is set.
type change struct {
	// answer returns the outcome of an attempt, OutcomeNone for the planned one, and the wait that a rate-limited
	// answer asks for.
	answer func(record, attempt int32) (history.Outcome, time.Duration)
	slow   time.Duration
	text   string
	// seen is called for every attempt that slow or text changes.
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
func (a *Attempts) Answer(rule func(record, attempt int32) (history.Outcome, time.Duration)) (end func()) {
	return a.change(&change{answer: rule})
}

// Slow delays the answer to every attempt of a known record until end is called. Attempts that still wait are then
// answered at once. seen is called, concurrently, for every attempt that waits.
func (a *Attempts) Slow(by time.Duration, seen func()) (end func()) {
	return a.change(&change{slow: by, seen: seen})
}

// ErrorText changes the text of failures until end is called. kind is plain, non-ascii, long, hostile, outage or page.
// seen is called, concurrently, for every failure with the changed text.
func (a *Attempts) ErrorText(kind string, seen func()) (end func(), err error) {
	if _, err := dress("", kind); err != nil {
		return nil, err
	}
	return a.change(&change{text: kind, seen: seen}), nil
}

// textKind returns the kind of a failure's text: that of the first change, or else the plan's.
func (a *Attempts) textKind() string {
	for _, c := range a.inForce() {
		if c.text != "" {
			c.seen()
			return c.text
		}
	}
	return a.cfg.Plan.ErrorText
}

// FailureText returns the text of a failure with this outcome, of the kind that is in force. usual replaces the stub's
// text if it is not empty.
func (a *Attempts) FailureText(outcome history.Outcome, usual string) string {
	text, err := dress(cmp.Or(usual, failures()[outcome].text), a.textKind())
	if err != nil {
		return usual // the plan's kind was checked when the run was prepared
	}
	return text
}

// change brings a change into force. The list is never altered, only replaced, so attempts read it without a lock.
func (a *Attempts) change(c *change) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	a.mu.Lock()
	defer a.mu.Unlock()
	set := append(slices.Clone(a.inForce()), c)
	a.changes.Store(&set)
	return func() {
		a.mu.Lock()
		set := slices.DeleteFunc(slices.Clone(a.inForce()), func(other *change) bool { return other == c })
		a.changes.Store(&set)
		a.mu.Unlock()
		// Cancel last, so that a released attempt does not find the change again.
		cancel()
	}
}

func (a *Attempts) inForce() []*change {
	if list := a.changes.Load(); list != nil {
		return *list
	}
	return nil
}

// delay makes an attempt wait for the changes that slow it.
func (a *Attempts) delay(caller Caller) Waited {
	for _, c := range a.inForce() {
		if c.slow <= 0 {
			continue
		}
		c.seen()
		if ended := caller.Wait(c.ctx, c.slow); ended != Elapsed {
			return ended
		}
	}
	return Elapsed
}

// Ruling is the answer decided for an attempt.
type Ruling struct {
	Outcome history.Outcome
	// retryAfter is the wait that a change asks for; 0 stands for the plan's.
	retryAfter time.Duration
	// hang delays the missing answer: there is none until that time has passed (0 for no limit) or ctx has ended.
	hang time.Duration
	ctx  context.Context
}

// Hang makes the caller of an attempt that is left unanswered wait.
func (r Ruling) Hang(caller Caller) Waited { return caller.Wait(r.ctx, r.hang) }

// rule decides the answer to an attempt of a known record.
func (a *Attempts) rule(record, attempt int32) Ruling {
	if ruling, changed := a.ruleChanged(record, attempt); changed {
		return ruling
	}
	if a.cfg.Other > 0 {
		return Ruling{Outcome: history.OutcomeSuccess}
	}
	return plannedRuling(a.decide(record, a.count(record), a.records[record].replayed.Load()))
}

// ruleChanged returns the answer of the first change that has one.
func (a *Attempts) ruleChanged(record, attempt int32) (ruling Ruling, changed bool) {
	for _, c := range a.inForce() {
		if c.answer == nil {
			continue
		}
		if outcome, retryAfter := c.answer(record, attempt); outcome != history.OutcomeNone {
			return Ruling{Outcome: outcome, retryAfter: retryAfter, ctx: c.ctx}, true
		}
	}
	return Ruling{}, false
}

func plannedRuling(outcome history.Outcome) Ruling {
	return Ruling{Outcome: outcome, hang: hangLimit, ctx: context.Background()}
}

// response returns the HTTP response to an attempt.
func (s *Stub) response(r Ruling) answer {
	chosen := s.answers[s.cfg.Plan.ErrorText][r.Outcome]
	if r.Outcome != history.OutcomeSuccess && chosen.status != 0 {
		chosen = s.answers[s.textKind()][r.Outcome]
	}
	if r.Outcome == history.OutcomeRateLimited && r.retryAfter > 0 {
		chosen.retryIn(r.retryAfter)
	}
	return chosen
}
