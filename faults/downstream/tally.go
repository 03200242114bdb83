package downstream

import (
	"sync/atomic"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// tally counts what a fault did to attempts. The first of each kind is reported as it happens, so that the history
// shows from when on the fault was felt; the others at its end, because each by itself would be more than the history
// is good for.
type tally struct {
	active faults.Active
	// answered by outcome; those left to others count under OutcomeNone and are not reported.
	answered          [history.OutcomeExhausted]atomic.Int64
	delayed, reworded atomic.Int64
}

// The names of what happened to attempts.
const (
	answersDelayed = "answers delayed"
	textsChanged   = "error texts changed"
)

// answeredWords names what was answered, "" where the fault left the answer to others.
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

// report writes down what happened besides the first of each kind. An attempt that is being answered just now may be
// missed.
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
