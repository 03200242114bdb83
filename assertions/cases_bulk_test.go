package assertions

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// bulk is a call for several records that is not part of a transaction of Kafka: it takes effect for all of them, or for
// nothing. The record none is one without an id.
func (b *builder) bulk(outcome history.Outcome, numbers ...int32) *builder {
	from := len(b.events)
	b.inTxn(0, func() { b.together(outcome, numbers...) })
	how := int32(0)
	if outcome == history.OutcomeSuccess {
		how = 1
	}
	b.answerEnd(b.askEnd(0, how), 0, 0)
	for i := from; i < len(b.events); i++ {
		e := &b.events[i]
		if e.ProducerID = history.FirstBatch; e.Kind == history.KindAttemptEnd && e.Record == none {
			e.Outcome = history.OutcomeUnknownID
		}
	}
	return b
}

// bulkCases are about consumers whose calls are for several records.
func bulkCases() []testCase {
	const fails, rejected = history.OutcomeTransient, history.OutcomePermanent
	return []testCase{
		{"a call is refused for good, and each record gets one of its own", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).bulk(rejected, 0, 1)
			return b.attempt(0, rejected).letter(0).success(1).commit(2).drain().done()
		}},
		{"it is repeated until it succeeds", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			for range 5 {
				b.bulk(fails, 0, 1)
			}
			return b.bulk(history.OutcomeSuccess, 0, 1).commit(2).drain().done()
		}},
		{"it fails to the end, and all of its records are dead-lettered", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).bulk(fails, 0, 1).bulk(fails, 0, 1).bulk(fails, 0, 1)
			return b.letter(0).letter(1).commit(2).drain().done()
		}},
		{"it fails, and is committed", []string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
			return b.begin().send(0).send(1).bulk(fails, 0, 1).commit(2).drain().done()
		}},
		{"it fails, and only the first record is dead-lettered", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				return b.begin().send(0).send(1).bulk(rejected, 0, 1).letter(0).commit(2).drain().done()
			}},
		{"a record that failed alone is tried too often", []string{"over-retried"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).bulk(fails, 0, 1)
			return b.fails(0, 4).letter(0).success(1).commit(2).drain().done()
		}},
		{"it succeeds, and so does another for the same records", []string{"duplicate"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).bulk(history.OutcomeSuccess, 0, 1)
			return b.bulk(history.OutcomeSuccess, 0, 1).commit(2).drain().done()
		}},
		{"after one that failed, another begins with what had succeeded", []string{"duplicate"},
			func(b *builder) history.Source {
				b.begin().send(0).send(1).bulk(history.OutcomeSuccess, 0).bulk(fails, 1, none)
				return b.bulk(history.OutcomeSuccess, 0, 1).commit(2).drain().done()
			}},
		{"it is committed before its answer", []string{"commit-past-unfinished"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).inTxn(0, func() { b.together(history.OutcomeSuccess, 0, 1) })
			return b.commit(2).answerEnd(b.askEnd(0, 1), 0, 0).drain().done()
		}},
		{"its client left before the answer, and repeats it", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			from := len(b.events)
			b.bulk(history.OutcomeSuccess, 0, 1)
			for i := from; i < len(b.events); i++ {
				if b.events[i].Kind == history.KindAttemptEnd {
					b.events[i].Flags |= history.ClientGone
				}
			}
			return b.bulk(history.OutcomeSuccess, 0, 1).commit(2).drain().done()
		}},
		{"a value without an id is in it, too", nil, func(b *builder) history.Source {
			b.begin().send(0).garbage(1)
			b.bulk(rejected, 0, none).attempt(0, rejected)
			return b.letter(0).letter(1).commit(2).drain().done()
		}},
		{"it was alone in its call, and is tried again", []string{"permanent-retried"}, func(b *builder) history.Source {
			b.begin().send(0).bulk(history.OutcomeSuccess, 0).send(1).attempt(1, rejected)
			return b.attempt(1, rejected).letter(1).commit(2).drain().done()
		}},
		{"it is repeated for ever", []string{"stalled"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).phase(history.PhaseHeal).phase(history.PhaseDrain)
			for until := b.now + b.h.Expect.Patience + 10*time.Second; b.now < until; {
				b.bulk(fails, 0, 1).wait(100 * ms)
			}
			return b.done()
		}},
	}
}

// Waits between calls for several records are not judged, and the run is not inconclusive because of that. The trace says
// what such a call is.
func TestWaitsBetweenCallsForSeveralRecords(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).send(1)
	for range 2 {
		b.bulk(history.OutcomeTransient, 0, 1)
	}
	for i := range b.events {
		switch e := &b.events[i]; e.Kind {
		case history.KindSend:
			e.Outcome = history.OutcomeTransient
		case history.KindAttemptStart:
			e.Text = "POST /bulk"
		}
	}
	v := judged(t, b.commit(2).drain().done())
	if got := resultOf(t, v, "backoff"); got.Status != NotApplicable || !strings.Contains(got.Why, "several records") {
		t.Errorf("backoff is %s: %s", got.Status, got.Why)
	}
	trace := resultOf(t, v, "commit-after-outcome").Anomalies[0].Counterexamples[0].Trace
	if !slices.ContainsFunc(trace, func(l Line) bool {
		return strings.HasSuffix(l.Text, "attempt 1 starts with POST /bulk, for several records")
	}) || slices.ContainsFunc(trace, func(l Line) bool { return strings.Contains(l.Text, "takes effect") }) {
		t.Errorf("the trace is %+v", trace)
	}
}
