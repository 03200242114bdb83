// Package downstream breaks what the subject calls: while a fault is in force the oracle answers late, otherwise than
// planned, or not at all. The package decides what becomes of an attempt; how the oracle does it, and everything else
// about the oracle, is none of its business.
package downstream

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// Oracle is the downstream as a fault changes it. Each method returns what ends the change and lets go what it holds.
// Functions given to it are called concurrently.
type Oracle interface {
	// Answer makes rule answer attempts: the attempt-th (from 1) of record. OutcomeNone leaves it to rules that were
	// added later, and then to the plan; OutcomeTimeout leaves it unanswered until the change ends. The duration is the
	// wait that OutcomeRateLimited asks for.
	Answer(rule func(record, attempt int32) (history.Outcome, time.Duration)) (end func())
	// Slow makes every attempt wait; seen is called for each.
	Slow(by time.Duration, seen func()) (end func())
	// ErrorText makes failures say something else; seen is called for each.
	ErrorText(kind string, seen func()) (end func(), err error)
}

// Injector makes the faults of kind "downstream". It implements faults.Injector. Faults may overlap: delays add up, and
// of those that answer attempts the first that wants to does, in the order in which they began.
//
// Effects, the first of a kind as it happens and the others at heal, by what happened to attempts: "attempts answered
// 503" (400, 422, 429), "attempts left unanswered", "attempts reset", "answers delayed", "error texts changed". What
// did not happen is not reported.
type Injector struct{ oracle Oracle }

// NewInjector returns an injector for the oracle.
func NewInjector(oracle Oracle) *Injector { return &Injector{oracle: oracle} }

// Inject starts a fault; healing ends it, lets go what it holds and reports what it did.
func (i *Injector) Inject(_ context.Context, active faults.Active) (faults.Heal, error) {
	spec := active.Spec.Downstream
	if spec == nil {
		return nil, errors.New("breaking the downstream: the fault has no downstream part")
	}
	if given := given(spec); given != 1 {
		return nil, fmt.Errorf(
			"breaking the downstream: exactly one of outage, slow, hang, rate_limit, errors and error_text must be given, "+
				"found %d of them", given)
	}
	counts := &tally{active: active}
	end, err := i.start(spec, active.Seed, counts)
	if err != nil {
		return nil, fmt.Errorf("breaking the downstream: %w", err)
	}
	return func(context.Context) error {
		end()
		counts.report()
		return nil
	}, nil
}

func given(spec *faults.Downstream) int {
	count := 0
	for _, is := range []bool{
		spec.Outage, spec.Slow > 0, spec.Hang, spec.RateLimit != nil, spec.Errors != nil, spec.ErrorText != "",
	} {
		if is {
			count++
		}
	}
	return count
}

func (i *Injector) start(spec *faults.Downstream, seed uint64, counts *tally) (end func(), err error) {
	switch {
	case spec.Slow > 0:
		return i.oracle.Slow(spec.Slow.D(), counts.delay), nil
	case spec.ErrorText != "":
		return i.oracle.ErrorText(spec.ErrorText, counts.reword)
	}
	rule, err := ruleOf(spec, seed)
	if err != nil {
		return nil, err
	}
	return i.oracle.Answer(func(record, attempt int32) (history.Outcome, time.Duration) {
		outcome, wait := rule(record, attempt)
		counts.answer(outcome)
		return outcome, wait
	}), nil
}
