package downstream

import (
	"sync/atomic"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
)

// tally counts what a fault did to attempts.
type tally struct {
	// answered by outcome; those left to others count under OutcomeNone and are not reported.
	answered          [history.OutcomeExhausted]atomic.Int64
	delayed, reworded atomic.Int64
}

// report writes down what happened, and nothing of what did not. An attempt that is being answered just now may be missed.
func (t *tally) report(active faults.Active) {
	for _, one := range []struct {
		what  string
		count *atomic.Int64
	}{
		{"answers delayed", &t.delayed},
		{"attempts answered 400", &t.answered[history.OutcomePermanent]},
		{"attempts answered 422", &t.answered[history.OutcomeLogical]},
		{"attempts answered 429", &t.answered[history.OutcomeRateLimited]},
		{"attempts answered 503", &t.answered[history.OutcomeTransient]},
		{"attempts left unanswered", &t.answered[history.OutcomeTimeout]},
		{"attempts reset", &t.answered[history.OutcomeReset]},
		{"error texts changed", &t.reworded},
	} {
		if count := one.count.Load(); count > 0 {
			active.Effect(one.what, int(count), 0, history.None)
		}
	}
}
