package assertions

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// withSpans makes the contract say that an attempt has several calls.
func (b *builder) withSpans() *builder {
	b.h.Contract().FirstCall, b.h.Contract().LastCall = "GET /customers/*", "POST /audit"
	return b
}

// spanCall makes a call of an attempt of several calls, outside of an attempt if its number is 0.
func (b *builder) spanCall(number, nth int32, outcome history.Outcome) *builder {
	b.op++
	e := b.of(history.KindCallStart)
	e.Op, e.Record, e.N, e.Sequence, e.Text = b.op, number, 0, nth, "GET /customers/{id}"
	if nth > 0 {
		e.Aux = int64(b.tries[number])
	}
	b.put(e)
	e.Kind, e.Time, e.Outcome, e.Text = history.KindCallEnd, b.tick(), outcome, ""
	b.put(e)
	return b
}

// span makes an attempt with so many calls, the last of which is answered with the outcome.
func (b *builder) span(number, calls int32, outcome history.Outcome) *builder {
	op := b.start(number)
	for nth := range calls - 1 {
		b.spanCall(number, nth+1, history.OutcomeSuccess)
	}
	b.spanCall(number, calls, outcome)
	b.end(op, number, outcome)
	return b
}

// half makes an attempt that its process does not go on with, after so many calls. It is given up with givenUp.
func (b *builder) half(number, calls int32) int64 {
	op := b.start(number)
	for nth := range calls {
		b.spanCall(number, nth+1, history.OutcomeSuccess)
	}
	return op
}

// givenUp ends an attempt of a process, perhaps of one that has ended.
func (b *builder) givenUp(op int64, number int32, run uint16) *builder {
	e := b.end(op, number, history.OutcomeTimeout)
	e.Run, e.Flags = run, history.ClientGone
	return b
}

// spanCases are of subjects whose attempts have several calls.
func spanCases() []testCase {
	const transient, permanent, well = history.OutcomeTransient, history.OutcomePermanent, history.OutcomeSuccess
	open := func(b *builder) *builder { return b.withSpans().begin().send(0) }
	end := func(b *builder) history.Source { return b.commit(1).drain().done() }
	// failing makes attempts, each with one call more, with the promised waits.
	failing := func(b *builder, attempts int32) *builder {
		for k := range attempts {
			if k > 0 {
				b.wait(b.h.Contract().Backoff.Wait(int(k)) + 5*ms)
			}
			b.span(0, k+1, transient)
		}
		return b
	}
	return []testCase{
		{"an attempt of three calls", nil, func(b *builder) history.Source { return end(open(b).span(0, 3, well)) }},
		{"each call of an attempt is refused once", nil, func(b *builder) history.Source {
			return end(failing(open(b), 2).wait(205*ms).span(0, 3, well))
		}},
		{"attempts are refused until they are exhausted", nil, func(b *builder) history.Source {
			return end(failing(open(b), 3).letter(0))
		}},
		{"one attempt too many", []string{"over-retried"}, func(b *builder) history.Source {
			return end(failing(open(b), 4).letter(0))
		}},
		{"only the call that failed is made again", nil, func(b *builder) history.Source {
			return end(open(b).span(0, 3, transient).wait(105*ms).span(0, 1, well))
		}},
		{"only the call that failed is made again, at once", []string{"backoff-early"}, func(b *builder) history.Source {
			return end(open(b).span(0, 3, transient).wait(10*ms).span(0, 1, well))
		}},
		{"the call that failed for good is made again", []string{"permanent-retried"}, func(b *builder) history.Source {
			return end(open(b).span(0, 2, permanent).wait(105*ms).span(0, 1, permanent).letter(0))
		}},
		{"a call undoes what was done", nil, func(b *builder) history.Source {
			return end(open(b).span(0, 2, permanent).spanCall(0, 0, well).letter(0))
		}},
		{"the last call is not made", []string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
			open(b).half(0, 2)
			return end(b)
		}},
		{"the offset is committed before the last call", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				op := open(b).half(0, 2)
				b.commit(1).spanCall(0, 3, well).end(op, 0, well)
				return b.drain().done()
			}},
		{"a process is killed within an attempt", nil, func(b *builder) history.Source {
			op := open(b).half(0, 2)
			b.kill().as(0, 1).givenUp(op, 0, 0).up().assign(0, 1, 2, 3).fetch(0)
			return end(b.span(0, 3, well))
		}},
		{"a process is killed within an attempt, and another one takes over", nil, func(b *builder) history.Source {
			b.withSpans().begin().as(1, 0).up().as(0, 0).send(0).half(0, 2)
			b.kill().as(1, 0).assign(0, 1, 2, 3).fetch(0)
			return end(b.span(0, 3, well))
		}},
		{"a process is killed within an attempt, and its successor goes past it", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				op := open(b).half(0, 2)
				b.kill().as(0, 1).givenUp(op, 0, 0).up().assign(0, 1, 2, 3).fetch(0)
				return end(b)
			}},
		{"a process gives up an attempt, and makes another", nil, func(b *builder) history.Source {
			op := open(b).half(0, 1)
			return end(b.wait(105*ms).givenUp(op, 0, 0).span(0, 3, well))
		}},
		{"a process gives up each attempt that it may make", nil, func(b *builder) history.Source {
			return end(givingUp(open(b), 2).letter(0))
		}},
		{"a process gives up more attempts than it may make", []string{"over-retried"}, func(b *builder) history.Source {
			return end(givingUp(open(b), 4).letter(0))
		}},
		{"a record is processed twice", []string{"duplicate"}, func(b *builder) history.Source {
			return end(open(b).span(0, 3, well).span(0, 3, well))
		}},
	}
}

// givingUp makes attempts that are given up, each after the promised wait, and a last one that is refused.
func givingUp(b *builder, attempts int) *builder {
	for k := range attempts {
		op := b.half(0, 1)
		b.wait(b.h.Contract().Backoff.Wait(k+1)+5*ms).givenUp(op, 0, 0)
	}
	return b.span(0, 2, history.OutcomeTransient)
}

// The calls of an attempt are in the trace, and are those of the downstream that decides.
func TestTraceOfAnAttemptOfSeveralCalls(t *testing.T) {
	b := newBuilder().withSpans().begin().send(0).span(0, 2, history.OutcomeTransient).wait(105 * time.Millisecond)
	told, err := Trace(b.span(0, 3, history.OutcomeSuccess).commit(1).drain().done(), 0)
	if err != nil {
		t.Fatal(err)
	}
	var lines []string
	for _, line := range told.Trace {
		lines = append(lines, line.Text)
	}
	for _, want := range []string{"instance 0: attempt 1 starts", "instance 0 calls downstream with GET /customers/{id}",
		"instance 0: the call of downstream is answered transient", "instance 0: attempt 1 is answered transient"} {
		if !slices.Contains(lines, want) {
			t.Errorf("%q is not in the trace:\n%s", want, strings.Join(lines, "\n"))
		}
	}
}
