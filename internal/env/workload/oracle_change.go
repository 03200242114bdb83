package workload

// What faults change in the oracle's answers. Any number of changes may be in force; those that make attempts wait all
// have their say, of those that answer in the plan's place the first one that wants to, of those that dress error texts
// the first.
//
//	read ── start ── slow, slow … ── answer by a change, or as planned ── (hang) ── end ── write
//
// What an attempt is answered is decided after its wait, so a client that went away in the meantime has used up no
// planned failure, and a fault that began in the meantime holds for it.

import (
	"context"
	"slices"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dlqbench/dlqbench/history"
)

// change is one thing that a fault changes: exactly one of answer, slow and texts is set.
type change struct {
	// answer returns what an attempt is answered, OutcomeNone for what is planned, and the wait that a rate-limited
	// answer asks for.
	answer func(record, attempt int32) (history.Outcome, time.Duration)
	slow   time.Duration
	texts  map[history.Outcome]answer
	// seen is called for every attempt that slow or texts change.
	seen func()
	// ctx ends with the change: what it holds is let go.
	ctx context.Context
}

// Answer makes rule answer attempts in the plan's place until end is called. It is asked about every attempt of a known
// record, the attempt-th that the oracle sees of it (from 1), and returns the outcome, and for OutcomeRateLimited the
// wait to ask for, which is rounded up to whole seconds; OutcomeNone leaves the attempt to the rules that were added
// later, and then to the plan. It is called concurrently. An attempt answered by a rule uses up no planned failure.
//
// OutcomeTimeout leaves the attempt without an answer until its client goes away; end closes the connections of those
// that still wait, without an answer.
func (o *Oracle) Answer(rule func(record, attempt int32) (history.Outcome, time.Duration)) (end func()) {
	return o.change(&change{answer: rule})
}

// Slow makes every attempt of a known record wait before it is answered, until end is called; those that still wait are
// then answered at once. seen is called, concurrently, for every attempt that waits.
func (o *Oracle) Slow(by time.Duration, seen func()) (end func()) {
	return o.change(&change{slow: by, seen: seen})
}

// ErrorText makes failures say something else until end is called: plain, non-ascii, long, hostile or outage. seen is
// called, concurrently, for every failure that says so.
func (o *Oracle) ErrorText(kind string, seen func()) (end func(), err error) {
	texts, err := newAnswers(kind, o.cfg.Plan.RetryAfter)
	if err != nil {
		return nil, err
	}
	return o.change(&change{texts: texts, seen: seen}), nil
}

// change brings a change into force; the list is never altered, only replaced, so attempts read it without a lock.
func (o *Oracle) change(c *change) (end func()) {
	ctx, cancel := context.WithCancel(context.Background())
	c.ctx = ctx
	o.mu.Lock()
	defer o.mu.Unlock()
	o.setChanges(append(slices.Clone(o.inForce()), c))
	return func() {
		o.mu.Lock()
		o.setChanges(slices.DeleteFunc(slices.Clone(o.inForce()), func(other *change) bool { return other == c }))
		o.mu.Unlock()
		// Only now: what is let go must not find the change again.
		cancel()
	}
}

func (o *Oracle) setChanges(list []*change) {
	if len(list) == 0 {
		o.changes.Store(nil)
		return
	}
	o.changes.Store(&list)
}

func (o *Oracle) inForce() []*change {
	if list := o.changes.Load(); list != nil {
		return *list
	}
	return nil
}

// delay makes an attempt wait as long as the changes say.
func (o *Oracle) delay(client patient) waited {
	for _, c := range o.inForce() {
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

// ruling is what an attempt is answered.
type ruling struct {
	outcome history.Outcome
	// retryAfter is the wait that a change asks for, 0: the plan's.
	retryAfter time.Duration
	// hang: there is no answer until that long has passed (0: no limit) or ctx has ended.
	hang time.Duration
	ctx  context.Context
}

// rule decides what an attempt of a known record is answered.
func (o *Oracle) rule(record, attempt int32) ruling {
	for _, c := range o.inForce() {
		if c.answer == nil {
			continue
		}
		if outcome, retryAfter := c.answer(record, attempt); outcome != history.OutcomeNone {
			return ruling{outcome: outcome, retryAfter: retryAfter, ctx: c.ctx}
		}
	}
	state := &o.records[record]
	outcome := decide(&o.cfg.Plan.Records[record], state.planned.Add(1), state.replayed.Load())
	return ruling{outcome: outcome, hang: hangLimit, ctx: context.Background()}
}

// response returns the HTTP response to an attempt.
func (o *Oracle) response(r ruling) answer {
	chosen := o.answers[r.outcome]
	if chosen.status != fasthttp.StatusOK && chosen.status != 0 {
		for _, c := range o.inForce() {
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
