package downstream

import (
	"sync/atomic"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// tally counts a fault's effects on attempts. The first effect of each kind is reported immediately, so that the
// history shows when the fault was first felt. The others are reported at the end of the fault, because one event per
// effect would overload the history.
type tally struct {
	active faults.Active
	// answered counts by outcome. Attempts left to other rules count under OutcomeNone and are not reported.
	answered          [history.OutcomeExhausted]atomic.Int64
	delayed, reworded atomic.Int64
}

// The names of the effects.
const (
	answersDelayed = "answers delayed"
	textsChanged   = "error texts changed"
)

// answeredWords returns the name of the effect, "" if the fault left the answer to other rules.
func answeredWords(outcome history.Outcome) string {
	switch outcome {
	case history.OutcomePermanent:
		return "attempts answered 400"
	case history.OutcomeLogical:
		return "attempts answered 422"
	case history.OutcomeRateLimited:
		return "attempts answered 429"
	case history.OutcomeTransient:
		return "attempts answered 503"
	case history.OutcomeTimeout:
		return "attempts left unanswered"
	case history.OutcomeReset:
		return "attempts reset"
	}
	return ""
}

// answer counts an answer.
func (t *tally) answer(outcome history.Outcome) { t.add(&t.answered[outcome], answeredWords(outcome)) }

func (t *tally) delay()  { t.add(&t.delayed, answersDelayed) }
func (t *tally) reword() { t.add(&t.reworded, textsChanged) }

func (t *tally) add(count *atomic.Int64, what string) {
	if count.Add(1) == 1 && what != "" {
		t.active.Effect(what, 1, 0, history.None)
	}
}

// report records all effects other than the first of each kind. It may miss an attempt that is being answered now.
func (t *tally) report() {
	rest := func(count *atomic.Int64, what string) {
		if more := count.Load() - 1; more > 0 && what != "" {
			t.active.Effect(what, int(more), 0, history.None)
		}
	}
	rest(&t.delayed, answersDelayed)
	for outcome := range t.answered {
		rest(&t.answered[outcome], answeredWords(history.Outcome(outcome)))
	}
	rest(&t.reworded, textsChanged)
}
