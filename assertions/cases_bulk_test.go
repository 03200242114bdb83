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

// withoutLetters makes the subject one that has no dead-letter topic.
func (b *builder) withoutLetters() *builder {
	b.h.Contract().DeadLetters, b.h.Contract().Envelope = false, ""
	return b
}

// left makes the client leave before the answers to the calls.
func (b *builder) left(call func()) *builder {
	from := len(b.events)
	call()
	for i := from; i < len(b.events); i++ {
		if b.events[i].Kind == history.KindAttemptEnd {
			b.events[i].Flags |= history.ClientGone
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
		{"it fails and is committed, without a dead-letter topic", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				b.withoutLetters()
				return b.begin().send(0).send(1).bulk(fails, 0, 1).bulk(fails, 0, 1).commit(2).drain().done()
			}},
		{"its client left and commits, without a dead-letter topic", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				b.withoutLetters()
				b.begin().send(0).send(1).left(func() { b.bulk(rejected, 0, 1) })
				return b.commit(2).drain().done()
			}},
		{"its records fail alone after it, as often as promised with it, without a dead-letter topic", nil,
			func(b *builder) history.Source {
				b.withoutLetters()
				b.begin().send(0).send(1).bulk(fails, 0, 1)
				for number := range int32(2) {
					b.attempt(number, fails).wait(b.h.Contract().Backoff.Wait(2)+5*ms).attempt(number, fails)
				}
				return b.commit(2).drain().done()
			}},
		{"it fails as often as promised and is given up, without a dead-letter topic", nil,
			func(b *builder) history.Source {
				b.withoutLetters()
				b.begin().send(0).send(1).bulk(fails, 0, 1).bulk(fails, 0, 1).bulk(fails, 0, 1)
				return b.commit(2).drain().done()
			}},
		{"it is refused for good and given up, without a dead-letter topic", nil, func(b *builder) history.Source {
			b.withoutLetters()
			return b.begin().send(0).send(1).bulk(rejected, 0, 1).commit(2).drain().done()
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
			b.left(func() { b.bulk(history.OutcomeSuccess, 0, 1) })
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

// refusedCallCases are about calls for several records that were refused as a whole, or got no answer. They say nothing
// about any of their records.
func refusedCallCases() []testCase {
	const success, fails, rejected = history.OutcomeSuccess, history.OutcomeTransient, history.OutcomePermanent
	const result = history.OutcomeLogical
	return []testCase{
		{"a call fails once, and all of its records are dead-lettered", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).bulk(fails, 0, 1)
			return b.letter(0).letter(1).commit(2).drain().done()
		}},
		{"it is refused with what is a result for one record", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				return b.begin().send(0).send(1).bulk(result, 0, 1).commit(2).drain().done()
			}},
		{"one with such a result is alone in its call", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).bulk(result, 0, 1).bulk(result, 0).bulk(success, 1)
			return b.commit(2).drain().done()
		}},
		{"records are given up after a refused call, without a dead-letter topic", nil, func(b *builder) history.Source {
			b.h.Contract().Envelope = ""
			b.begin().send(0).send(1)
			for range 3 {
				b.bulk(fails, 0, 1)
			}
			return b.commit(2).drain().done()
		}},
		{"a record alone in its call, after others, is tried again", []string{"permanent-retried"},
			func(b *builder) history.Source {
				b.begin().send(0).send(1).bulk(success, 0, 1).send(2).bulk(rejected, 2)
				return b.bulk(rejected, 2).letter(2).commit(3).drain().done()
			}},
		{"a call for others is refused between a record's own attempts", []string{"over-retried"},
			func(b *builder) history.Source {
				b.begin().send(0).sendTo(1, 0, 1).sendTo(2, 0, 2).fails(0, 2).bulk(fails, 1, 2)
				b.wait(b.h.Contract().Backoff.Wait(2)).attempt(0, fails)
				b.wait(b.h.Contract().Backoff.Wait(3)+5*ms).attempt(0, fails)
				return b.letter(0).success(1).success(2).commit(3).drain().done()
			}},
		{"its record waits for as long as after all of its attempts, in another process", nil,
			func(b *builder) history.Source {
				b.begin().send(0).send(1).attempt(0, fails).revoke(0).as(1, 0).up().assign(0).fetch(0).fetch(1)
				b.bulk(fails, 0, 1).attempt(0, fails).wait(b.h.Contract().Backoff.Wait(2) + 10*ms).success(0).success(1)
				return b.commit(2).drain().done()
			}},
		{"a client leaves a call for several records, and counts anew", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).left(func() { b.items(fails, fails) })
			return b.fails(0, 3).letter(0).success(1).commit(2).drain().done()
		}},
		{"it is on its way in a broken link, and its record counted anew", nil, func(b *builder) history.Source {
			fault := b.fault("network", "downstream", "link cut")
			b.begin().send(0).send(1).fails(0, 2).breaks(fault).heals(fault)
			b.wait(b.h.Contract().Backoff.Wait(2)).fails(0, 3).letter(0).bulk(fails, 1, none).success(1)
			return b.commit(2).drain().done()
		}},
		{"its record was tried together with the one before it, which is not finished", nil,
			func(b *builder) history.Source {
				b.begin().send(0).send(1).items(fails, fails).sendTo(2, 1, 2).wait(150*ms).bulk(fails, 1, 2)
				b.bulk(success, 1, 2).success(0).commitAll()
				return b.drain().done()
			}},
		{"its records are tried alone, the later one first", []string{"reordered"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).bulk(fails, 0, 1)
			return b.success(1).success(0).commit(2).drain().done()
		}},
		{"a record is never tried, and a value without an id is in call after call",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				b.h.Contract().Envelope = ""
				b.begin().send(0).garbage(1).send(2)
				for range 5 {
					b.bulk(fails, 0, none)
				}
				return b.success(0).commit(3).drain().done()
			}},
		{"a process that lost a record dead-letters it, with a count of its own", nil,
			func(b *builder) history.Source {
				b.begin().send(0).attempt(0, rejected).signal("STOP").as(1, 0).up().assign(0).fetch(0)
				b.left(func() { b.attempt(0, rejected) }).wait(105*ms).attempt(0, rejected).letter(0)
				b.as(0, 0).signal("CONT").letter(0)
				b.inTopics[len(b.inTopics)-2].Claim.Attempts, b.inTopics[len(b.inTopics)-1].Claim.Attempts = 2, 1
				return b.as(1, 0).commit(1).drain().done()
			}},
		{"a client leaves its last attempt, without a dead-letter topic", nil, func(b *builder) history.Source {
			b.h.Contract().Envelope = ""
			b.begin().send(0).fails(0, 2).wait(b.h.Contract().Backoff.Wait(2) + 5*ms)
			return b.left(func() { b.success(0) }).commit(1).drain().done()
		}},
		{"a client leaves before it is told how long to wait", nil, func(b *builder) history.Source {
			b.begin().send(0).left(func() {
				b.end(b.start(0), 0, history.OutcomeRateLimited).Aux = int64(time.Second)
			})
			return b.wait(105 * ms).success(0).commit(1).drain().done()
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
