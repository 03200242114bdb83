package assertions

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// callTimeoutsCases are about calls that are left unanswered: who ends them, and after how long.
func callTimeoutsCases() []testCase {
	hangs := func(waited time.Duration, flags history.Flags) func(*builder) history.Source {
		return func(b *builder) history.Source {
			op := b.begin().send(0).start(0)
			b.wait(waited).end(op, 0, history.OutcomeTimeout)
			b.events[len(b.events)-1].Flags |= flags
			return b.wait(b.h.Contract().Backoff.Wait(1) + 5*ms).success(0).commit(1).drain().done()
		}
	}
	return []testCase{
		{"a client waits until its connection is closed", []string{"never-given-up"}, hangs(unanswered, 0)},
		{"a client gives the call up", nil, hangs(2*unanswered, history.ClientGone)},
		{"a fault that left the call unanswered is lifted", nil, hangs(unanswered-time.Second, 0)},
		{"a link may have hidden that the client left", nil, func(b *builder) history.Source {
			op := b.begin().send(0).start(0)
			f := b.fault("network", "downstream link", "downstream link down")
			b.breaks(f).wait(unanswered).heals(f).end(op, 0, history.OutcomeTimeout)
			return b.wait(b.h.Contract().Backoff.Wait(1) + 5*ms).success(0).commit(1).drain().done()
		}},
		{"the process could not run meanwhile", nil, func(b *builder) history.Source {
			op := b.begin().send(0).start(0)
			b.wait(unanswered).stall(0, time.Second).end(op, 0, history.OutcomeTimeout)
			return b.wait(b.h.Contract().Backoff.Wait(1) + 5*ms).success(0).commit(1).drain().done()
		}},
	}
}
