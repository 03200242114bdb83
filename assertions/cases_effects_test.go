package assertions

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const results = int16(3)

// withSink adds an output topic, and the promise.
func (b *builder) withSink(promised history.Effects) *builder {
	b.h.Topics = append(b.h.Topics, history.Topic{Name: "results", Role: history.RoleSink, Partitions: 4})
	b.h.Contract().Effects = &promised
	return b
}

func (b *builder) askResult(number int32) history.Event {
	b.op++
	e := b.of(history.KindProduceRequest)
	e.Op, e.Record, e.Topic, e.Partition = b.op, number, results, 0
	return *b.put(e)
}

func (b *builder) answerResult(asked history.Event, code int16, flags history.Flags) *builder {
	e := asked
	e.Kind, e.Time, e.Code, e.Flags = history.KindProduceResponse, b.tick(), code, flags
	b.put(e)
	return b
}

// result writes the result of a record and has it accepted.
func (b *builder) result(number int32) *builder { return b.answerResult(b.askResult(number), 0, 0) }

// sinkHas is the reading of the sink, in which record 0 has the number of effects.
func (b *builder) sinkHas(effects int32) *builder {
	b.put(b.event(history.KindEffectsRead))
	if effects > 0 {
		e := b.event(history.KindEffect)
		e.Record, e.N = 0, effects
		b.put(e)
	}
	return b
}

// replayedAfter is a record that a slow downstream processed several times for a client that had given up. It is then
// dead-lettered, replayed and processed once more.
func replayedAfter(b *builder, successes int) *builder {
	f := b.fault("downstream", "downstream", "every attempt answered 2s late")
	b.h.Replay = true
	b.begin().send(0).breaks(f)
	for range successes {
		op := b.start(0)
		b.wait(2 * time.Second)
		b.end(op, 0, history.OutcomeSuccess)
		b.wait(105 * ms)
	}
	b.heals(f).attempt(0, history.OutcomePermanent).letter(0).commit(1).drain().phase(history.PhaseReplay).audit(dlq)
	selected := b.event(history.KindReplaySelected)
	selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, 0
	b.put(selected)
	b.goBackTo(0, input, 0)
	return b.success(0).commitAll()
}

// calledTwice calls a ledger, which is the sink, twice with success, while a link is broken.
func calledTwice(b *builder, target string, promised history.Effects) history.Source {
	b.withOthers().h.Contract().Effects = &promised
	f := b.fault("network", target, "down")
	b.begin().send(0).success(0).breaks(f)
	for range 2 {
		b.call(ledger, 0, history.OutcomeSuccess, 0)
	}
	return b.heals(f).commit(1).drain().sinkHas(2).done()
}

func effectCases() []testCase {
	atLeast, once, atomic := history.Effects{}, history.Effects{Once: true}, history.Effects{Atomic: true}
	killed := func(b *builder) *builder {
		return b.begin().send(0).success(0).result(0).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(0).result(0)
	}
	return []testCase{
		{"a success has its effect", nil, func(b *builder) history.Source {
			return b.withSink(atLeast).begin().send(0).success(0).result(0).commit(1).drain().sinkHas(1).done()
		}},
		{"the answer to its commit is lost, and the subject finds its row", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			b.end(b.start(0), 0, history.OutcomeTimeout).Flags = history.Withheld
			return b.success(1).commit(2).drain().done()
		}},
		{"the answer to its commit is lost, and the subject tries again", nil, func(b *builder) history.Source {
			b.begin().send(0)
			b.end(b.start(0), 0, history.OutcomeTimeout).Flags = history.Withheld
			return b.wait(105*ms).attempt(0, history.OutcomeLogical).commit(1).drain().done()
		}},
		{"its statement is not answered, and the subject goes on", []string{"commit-past-unfinished", "lost", "reordered"},
			func(b *builder) history.Source {
				b.begin().send(0).send(1)
				b.end(b.start(0), 0, history.OutcomeTimeout)
				return b.success(1).commit(2).drain().done()
			}},
		{"a success has no effect", []string{"effect-missing"}, func(b *builder) history.Source {
			return b.withSink(atLeast).begin().send(0).success(0).commit(1).drain().sinkHas(0).done()
		}},
		{"what an earlier reading found does not count", []string{"effect-missing"}, func(b *builder) history.Source {
			return b.withSink(atLeast).begin().send(0).success(0).commit(1).drain().sinkHas(1).sinkHas(0).done()
		}},
		{"a dead letter needs no effect", nil, func(b *builder) history.Source {
			return b.withSink(atomic).begin().send(0).attempt(0, history.OutcomePermanent).letter(0).commit(1).drain().
				sinkHas(0).done()
		}},
		{"a logical failure needs no effect", nil, func(b *builder) history.Source {
			return b.withSink(atomic).begin().send(0).attempt(0, history.OutcomeLogical).commit(1).drain().sinkHas(0).done()
		}},
		{"the result is written before each attempt", []string{"effect-doubled"}, func(b *builder) history.Source {
			b.withSink(atLeast).begin().send(0).result(0).fails(0, 1).wait(105 * ms)
			return b.result(0).success(0).commit(1).drain().sinkHas(2).done()
		}},
		{"a kill repeats it", nil, func(b *builder) history.Source {
			return killed(b.withSink(atLeast)).commit(1).drain().sinkHas(2).done()
		}},
		{"a replay comes after two successes", nil, func(b *builder) history.Source {
			return replayedAfter(b.withSink(atLeast), 2).sinkHas(3).done()
		}},
		{"a replay comes after two successes, and there are four effects", []string{"effect-doubled"},
			func(b *builder) history.Source { return replayedAfter(b.withSink(atLeast), 2).sinkHas(4).done() }},
		{"a kill repeats it, against repeats: never", []string{"effect-doubled"}, func(b *builder) history.Source {
			return killed(b.withSink(once)).commit(1).drain().sinkHas(2).done()
		}},
		{"a kill does not repeat it twice", []string{"effect-doubled"}, func(b *builder) history.Source {
			return killed(b.withSink(atLeast)).commit(1).drain().sinkHas(4).done()
		}},
		{"the answer to the first write is lost", nil, func(b *builder) history.Source {
			b.withSink(atLeast).begin().send(0).success(0)
			b.answerResult(b.askResult(0), 0, history.Withheld)
			return b.result(0).commit(1).drain().sinkHas(2).done()
		}},
		{"the first write is never answered", nil, func(b *builder) history.Source {
			b.withSink(atLeast).begin().send(0).success(0)
			b.askResult(0)
			return b.result(0).commit(1).drain().sinkHas(2).done()
		}},
		{"the first write is refused before the broker saw it", []string{"effect-doubled"}, func(b *builder) history.Source {
			b.withSink(atLeast).begin().send(0).success(0)
			b.answerResult(b.askResult(0), 29, history.Forged)
			return b.result(0).commit(1).drain().sinkHas(2).done()
		}},
		{"a dead-lettered record left an effect", []string{"effect-partial"}, func(b *builder) history.Source {
			b.withSink(atomic).begin().send(0).result(0).attempt(0, history.OutcomePermanent)
			return b.letter(0).commit(1).drain().sinkHas(1).done()
		}},
		{"a dead-lettered record left an effect, which the contract allows", nil, func(b *builder) history.Source {
			b.withSink(atLeast).begin().send(0).result(0).attempt(0, history.OutcomePermanent)
			return b.letter(0).commit(1).drain().sinkHas(1).done()
		}},
		{"an attempt without an answer may have left it", nil, func(b *builder) history.Source {
			b.withSink(atomic).begin().send(0).attempt(0, history.OutcomeTimeout).wait(105*ms).
				attempt(0, history.OutcomePermanent)
			return b.letter(0).commit(1).drain().sinkHas(1).done()
		}},
		{"another downstream failed, and the record was given up without a dead-letter topic", nil,
			func(b *builder) history.Source {
				b.withOthers().h.Contract().Envelope = ""
				b.h.Contract().Effects = &atLeast
				b.begin().send(0).success(0).call(ledger, 0, history.OutcomePermanent, 0)
				return b.commit(1).drain().sinkHas(0).done()
			}},
		{"the answer to a call is lost on the link to another downstream, and the call is made again", nil,
			func(b *builder) history.Source { return calledTwice(b, "downstream ledger", atLeast) }},
		{"a call is made again when the link to the dead-letter store is broken", []string{"effect-doubled"},
			func(b *builder) history.Source { return calledTwice(b, "store", atLeast) }},
		{"the answer to a call is lost, and its repeat has an effect, against repeats: never", []string{"effect-doubled"},
			func(b *builder) history.Source { return calledTwice(b, "downstream ledger", once) }},
		{"a subject whose attempts are not seen lost a result", []string{"effect-missing"}, func(b *builder) history.Source {
			b.withSink(atLeast).h.Contract().WireOnly = true
			return b.begin().send(0).commit(1).drain().sinkHas(0).done()
		}},
		{"a subject whose attempts are not seen", nil, func(b *builder) history.Source {
			b.withSink(atomic).h.Contract().WireOnly = true
			return b.begin().send(0).result(0).commit(1).drain().sinkHas(1).done()
		}},
		{"a subject whose attempts are not seen left an effect", []string{"effect-partial"}, func(b *builder) history.Source {
			b.withSink(atomic).h.Contract().WireOnly = true
			return b.begin().send(0).result(0).letter(0).commit(1).drain().sinkHas(1).done()
		}},
	}
}

// outputCases are of subjects whose attempts are writes to an output topic.
func outputCases() []testCase {
	early := func(b *builder, several bool) *builder {
		b.h.Contract().OutputAttempts = true
		b.withSink(history.Effects{}).h.Contract().Effects = nil
		b.begin().send(0).send(1)
		other := b.askResult(1)
		if several {
			b.answerResult(b.askResult(0), -1, history.Forged)
			b.answerResult(other, -1, history.Forged)
		} else {
			b.answerResult(other, -1, history.Forged).answerResult(b.askResult(0), -1, history.Forged)
		}
		b.wait(105*ms).attempt(0, history.OutcomeTransient).wait(205*ms).attempt(0, history.OutcomeTransient)
		return b.letter(0).success(1).result(1).commit(2).drain()
	}
	return []testCase{
		{"a record is given up early, alone", []string{"under-retried", "backoff-late"}, func(b *builder) history.Source {
			return early(b, false).done()
		}},
		{"a record is given up early, and may have failed with another", nil, func(b *builder) history.Source {
			return early(b, true).done()
		}},
	}
}

// A sink that can't be read is told with the reason, and proves nothing.
func TestASinkThatCannotBeRead(t *testing.T) {
	b := newBuilder().withSink(history.Effects{})
	b.begin().send(0).success(0).commit(1).drain()
	e := b.event(history.KindEffectsRead)
	e.Code, e.Text = 1, "there is no table orders"
	b.put(e)
	if r := resultOf(t, judged(t, b.done()), "effects"); r.Status != Inconclusive || r.Why != e.Text {
		t.Errorf("%s: %s", r.Status, r.Why)
	}
}

// A sink that was not read proves nothing, and without a promise nothing is judged.
func TestEffectsThatAreNotRead(t *testing.T) {
	for status, promised := range map[Status]*history.Effects{Inconclusive: {}, NotApplicable: nil} {
		b := newBuilder()
		b.h.Contract().Effects = promised
		v := judged(t, b.begin().send(0).success(0).commit(1).drain().done())
		if r := resultOf(t, v, "effects"); r.Status != status {
			t.Errorf("promising %+v gave %s: %s", promised, r.Status, r.Why)
		}
	}
}
