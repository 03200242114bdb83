package assertions

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// triesWith makes attempts, each with that many calls 10 ms apart that are answered transient, and with the promised
// waits before each attempt but the first.
func (b *builder) triesWith(number int32, attempts, calls int) *builder {
	for k := range attempts {
		if k > 0 {
			b.wait(b.h.Contract().Backoff.Wait(k) + 5*ms)
		}
		for i := range calls {
			if i > 0 {
				b.wait(10 * ms)
			}
			b.attempt(number, history.OutcomeTransient)
		}
	}
	return b
}

// limited has a call answered with a 429 that tells to wait for 50 ms, and makes the next call after the wait.
func limited(b *builder, wait time.Duration) history.Source {
	b.end(b.start(0), 0, history.OutcomeRateLimited).Aux = int64(50 * ms)
	return b.wait(wait).success(0).commit(1).drain().done()
}

// clientRepeatCases are of subjects whose client repeats a call by itself.
func clientRepeatCases() []testCase {
	open := func(b *builder) *builder {
		b.h.Contract().Calls = 3
		return b.begin().send(0)
	}
	end := func(b *builder) history.Source { return b.commit(1).drain().done() }
	// lettered dead-letters the record with a count of attempts.
	lettered := func(b *builder, attempts int32) history.Source {
		b.tries[0] = attempts
		return end(b.letter(0))
	}
	return []testCase{
		{"three attempts of three calls", nil, func(b *builder) history.Source {
			return lettered(open(b).triesWith(0, 3, 3), 3)
		}},
		{"three attempts of two calls", nil, func(b *builder) history.Source {
			return lettered(open(b).triesWith(0, 3, 2), 3)
		}},
		{"three attempts of three calls, and the dead letter counts the calls", []string{"metadata-wrong"},
			func(b *builder) history.Source { return lettered(open(b).triesWith(0, 3, 3), 9) }},
		{"two attempts of three calls", []string{"under-retried"}, func(b *builder) history.Source {
			return lettered(open(b).triesWith(0, 2, 3), 2)
		}},
		{"four attempts of three calls", []string{"over-retried"}, func(b *builder) history.Source {
			return lettered(open(b).triesWith(0, 4, 3), 4)
		}},
		{"a delay on the machine parts the calls of an attempt", nil, func(b *builder) history.Source {
			open(b).attempt(0, history.OutcomeTransient).wait(110*ms).triesWith(0, 1, 2).wait(105 * ms)
			b.triesWith(0, 1, 3).wait(205 * ms)
			return lettered(b.triesWith(0, 1, 3), 3)
		}},
		{"four calls in an attempt", []string{"backoff-early", "over-retried"}, func(b *builder) history.Source {
			return lettered(open(b).triesWith(0, 3, 4), 6)
		}},
		{"a commit passes it between the calls of its last attempt", []string{"commit-past-unfinished", "commit-before-dlq"},
			func(b *builder) history.Source {
				open(b).triesWith(0, 3, 2).wait(5 * ms).commit(1).wait(5 * ms)
				return lettered(b.attempt(0, history.OutcomeTransient), 3)
			}},
		{"the client's second call succeeds", nil, func(b *builder) history.Source {
			open(b).attempt(0, history.OutcomeTransient).wait(10 * ms)
			return end(b.success(0))
		}},
		{"a permanent failure is called again", []string{"permanent-retried"}, func(b *builder) history.Source {
			open(b).attempt(0, history.OutcomePermanent).wait(10 * ms)
			return lettered(b.attempt(0, history.OutcomePermanent), 2)
		}},
		{"a call without an answer may be repeated by either", nil, func(b *builder) history.Source {
			open(b).attempt(0, history.OutcomeTimeout).wait(10*ms).triesWith(0, 1, 2).wait(105 * ms)
			b.triesWith(0, 1, 3).wait(205 * ms)
			return lettered(b.triesWith(0, 1, 3), 3)
		}},
		{"a success after a call without an answer is repeated", []string{"duplicate"}, func(b *builder) history.Source {
			open(b).attempt(0, history.OutcomeTimeout).wait(10 * ms)
			return end(b.success(0).success(0))
		}},
		{"a permanent failure is called again, and that gets no answer", []string{"permanent-retried"},
			func(b *builder) history.Source {
				open(b).attempt(0, history.OutcomePermanent).wait(105*ms).attempt(0, history.OutcomeTimeout).wait(10 * ms)
				return end(b.success(0))
			}},
		{"a client repeats a call after the wait that a 429 tells", nil, func(b *builder) history.Source {
			return limited(open(b), 55*ms)
		}},
		{"a client repeats a call before the wait that a 429 tells is over", []string{"backoff-early"},
			func(b *builder) history.Source { return limited(open(b), 20*ms) }},
		{"a client repeats a call after a 429 at once, which the contract allows", nil, func(b *builder) history.Source {
			b.h.Contract().IgnoresRetryAfter = true
			return limited(open(b), 20*ms)
		}},
		{"a stall may part the calls of an attempt", nil, func(b *builder) history.Source {
			open(b).attempt(0, history.OutcomeTransient).wait(300*ms).stall(0, 290*ms)
			return lettered(b.triesWith(0, 3, 3), 3)
		}},
		{"the waits between attempts are kept", []string{"backoff-late"}, func(b *builder) history.Source {
			open(b).triesWith(0, 1, 3).wait(300 * ms)
			return end(b.success(0))
		}},
		{"another process makes the next call", nil, func(b *builder) history.Source {
			open(b).attempt(0, history.OutcomeTransient).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0)
			return lettered(b.triesWith(0, 3, 3), 3)
		}},
	}
}

// Without the promise, each call is an attempt.
func TestEachCallIsAnAttempt(t *testing.T) {
	b := newBuilder().begin().send(0).triesWith(0, 3, 3)
	v := judged(t, b.letter(0).commit(1).drain().done())
	if got := named(v); len(got) != 2 || got[0] != "backoff-early" || got[1] != "endless-redelivery" {
		t.Errorf("anomalies %v", got)
	}
}
