package assertions

// Histories in which something beside the record matters: other calls of its consumer, transactions, signs of health.

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func elsewhereCases() []testCase {
	return slices.Concat(unansweredCallCases(), outputFaultCases(), joinedCases(), waitCases())
}

// asksFor makes a call of another downstream that never ends.
func (b *builder) asksFor(downstream, number int32) *builder {
	b.op++
	e := b.of(history.KindCallStart)
	e.Op, e.Record, e.N, e.Sequence, e.Text = b.op, number, downstream, 1, "POST /entries"
	b.put(e)
	return b
}

func unansweredCallCases() []testCase {
	open := func(b *builder) *builder { return b.withOthers().begin().send(0) }
	return []testCase{
		{"another downstream never answers after the first of three attempts, and the record is dead-lettered", nil,
			func(b *builder) history.Source {
				open(b).fails(0, 1).asksFor(ledger, 0).letter(0)
				return b.commit(1).drain().done()
			}},
		{"another downstream never answers for another record", []string{"premature-dead-letter", "under-retried"},
			func(b *builder) history.Source {
				open(b).send(1).fails(0, 1).asksFor(ledger, 1).letter(0).success(1)
				return b.commit(2).drain().done()
			}},
		{"another downstream fails, and never answers the next call", nil, func(b *builder) history.Source {
			open(b).success(0).call(ledger, 0, history.OutcomeTransient, 0).asksFor(ledger, 0)
			return b.commit(1).drain().done()
		}},
	}
}

func outputFaultCases() []testCase {
	early := func(kind, target string) func(*builder) history.Source {
		return func(b *builder) history.Source {
			f := b.withOthers().fault(kind, target, "out of order")
			b.begin().send(0).fails(0, 1).breaks(f).letter(0).heals(f)
			return b.commit(1).drain().done()
		}
	}
	premature := []string{"premature-dead-letter", "under-retried"}
	refused := func(api string) func(*builder) history.Source {
		return func(b *builder) history.Source {
			source := early("kafka", "in")(b)
			source.Header().Faults[0].API = api
			return source
		}
	}
	return []testCase{
		{"dead-lettered after the first of three, while writes of results are refused", nil, early("kafka", "results")},
		{"dead-lettered after the first of three, while metadata is refused", nil, refused("Metadata")},
		{"dead-lettered after the first of three, while commits are refused", premature, refused("OffsetCommit")},
		{"dead-lettered after the first of three, while heartbeats are refused", premature, refused("Heartbeat")},
		{"dead-lettered after the first of three, while the link to a broker is down", nil, early("network", "broker 0")},
		{"dead-lettered after the first of three, while a broker is down", nil, early("broker", "broker 0")},
		{"dead-lettered after the first of three, while the link to the registry is down", premature,
			early("network", "registry")},
		{"dead-lettered after the first of three, while the subject is disturbed", premature, early("store", "router")},
	}
}

// joinedCases are of transactions.
func joinedCases() []testCase {
	return []testCase{
		{"a transaction is committed past a record of it that failed", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				b.begin().send(0).sendTo(1, 0, 1)
				b.inTxn(0, func() { b.attempt(0, transient).success(1).commit(2) }).commitTxn(0)
				return b.drain().done()
			}},
		{"an offset is named again, and lower, in one transaction", nil, func(b *builder) history.Source {
			b.begin().send(0).sendTo(1, 0, 1).success(0)
			b.inTxn(0, func() { b.commit(2).commit(1) }).commitTxn(0)
			b.success(1).inTxn(0, func() { b.commit(2) }).commitTxn(0)
			return b.drain().done()
		}},
		{"a record waits in a retry topic that a transaction put it in", nil, func(b *builder) history.Source {
			hops(b).send(0).attempt(0, transient)
			b.inTxn(0, func() { b.retryCopy(0).commit(1) }).commitTxn(0)
			return b.wait(98 * ms).success(0).commitCopies(0).drain().done()
		}},
		{"a retry topic is committed past a record that a transaction put there", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				hops(b).send(0).attempt(0, transient)
				b.inTxn(0, func() { b.retryCopy(0).commit(1) }).commitTxn(0)
				return b.commitCopies(0).wait(98 * ms).success(0).drain().done()
			}},
	}
}

func waitCases() []testCase {
	counted := func(b *builder) *builder {
		b.h.Contract().Counter = history.CounterHeader
		return b.begin().send(0)
	}
	return []testCase{
		{"a count goes on in the next process, which does not know of the wait", nil, func(b *builder) history.Source {
			counted(b).fails(0, 1).kill().as(0, 1).up().assign(0, 1, 2, 3)
			return b.fetch(0).success(0).commit(1).drain().done()
		}},
		{"a count goes on after a refused commit, and the wait is long", nil, func(b *builder) history.Source {
			counted(b).fails(0, 1).answerCommit(b.askCommit(0, 1), 22, 0)
			return b.wait(2 * time.Second).success(0).commit(1).drain().done()
		}},
		{"the wait is long, and a partition is being given up", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).revoke(3).wait(400 * ms)
			return b.success(0).commit(1).drain().done()
		}},
		{"a lock is renewed, and the record never finished", []string{"stalled"}, func(b *builder) history.Source {
			const renew = 4 // KIP-1222
			asked := b.shares(inMemory).share(0).askAck(0, renew)
			asked.Kind, asked.Time = history.KindShareAckResponse, b.tick()
			b.put(asked)
			return b.drain().done()
		}},
		{"long calls of another downstream hold everybody up", nil, func(b *builder) history.Source {
			w := newTraffic(b.withOthers(), 1600)
			w.long, w.calls = true, true
			return w.atOnce().run(6)
		}},
	}
}

// A dead letter that was refused is not called one, whatever it is reported for.
func TestARefusedDeadLetterIsCalledRefused(t *testing.T) {
	t.Parallel()
	for name, one := range map[string]struct {
		tell    func(*builder)
		refused bool
	}{
		"it is acknowledged":            {func(b *builder) { b.success(0).letter(0).commit(1) }, false},
		"it is refused":                 {func(b *builder) { b.success(0).refuseLetters(0, 1).logError().commit(1) }, true},
		"it is refused, and not tried":  {func(b *builder) { b.refuseLetters(0, 1).logError().success(0).commit(1) }, true},
		"it is refused after a failure": {func(b *builder) { b.fails(0, 1).refuseLetters(0, 1).logError() }, true},
		"it is not answered":            {func(b *builder) { b.success(0).askLetter(0); b.commit(1) }, false},
	} {
		b := newBuilder().begin().send(0)
		one.tell(b)
		anomalies := resultOf(t, judged(t, b.drain().done()), "classification").Anomalies
		if len(anomalies) == 0 {
			t.Errorf("%s: nothing is reported", name)
			continue
		}
		summary := anomalies[0].Counterexamples[0].Summary
		if strings.Contains(summary, "refused") != one.refused {
			t.Errorf("%s: %s", name, summary)
		}
	}
}
