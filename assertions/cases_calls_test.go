package assertions

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// withOthers adds downstreams that do not decide: a ledger, an optional mailer, and an output topic.
func (b *builder) withOthers() *builder {
	b.h.Downstreams = []history.Downstream{{Name: "payments"}, {Name: "ledger"}, {Name: "mailer", Optional: true},
		{Name: "results", Topic: true}}
	return b
}

const ledger, mailer, resultsTopic = 1, 2, 3

// call makes a call of another downstream for the record.
func (b *builder) call(downstream, number int32, outcome history.Outcome, flags history.Flags) *builder {
	return b.slowCall(downstream, number, outcome, flags, 0)
}

func (b *builder) slowCall(downstream, number int32, outcome history.Outcome, flags history.Flags,
	took time.Duration) *builder {
	b.op++
	e := b.of(history.KindCallStart)
	e.Op, e.Record, e.N, e.Sequence, e.Text = b.op, number, downstream, 1, "POST /entries"
	b.put(e)
	b.wait(took)
	e.Kind, e.Time, e.Outcome, e.Flags, e.Text = history.KindCallEnd, b.tick(), outcome, flags, ""
	b.put(e)
	return b
}

// callCases are of subjects that call several downstreams.
func callCases() []testCase {
	const transient, permanent, logical, well = history.OutcomeTransient, history.OutcomePermanent, history.OutcomeLogical,
		history.OutcomeSuccess
	open := func(b *builder) *builder { return b.withOthers().begin().send(0) }
	end := func(b *builder) history.Source { return b.commit(1).drain().done() }
	return append([]testCase{
		{"another downstream fails after the attempt, which is made again", nil, func(b *builder) history.Source {
			open(b).success(0).call(ledger, 0, transient, 0).wait(105 * ms)
			return end(b.success(0).call(ledger, 0, well, 0))
		}},
		{"another downstream fails after the attempt, and is called again", nil, func(b *builder) history.Source {
			return end(open(b).success(0).call(ledger, 0, transient, 0).wait(105*ms).call(ledger, 0, well, 0))
		}},
		{"another downstream fails, and the record is dead-lettered", nil, func(b *builder) history.Source {
			return end(open(b).success(0).call(ledger, 0, permanent, 0).letter(0))
		}},
		{"another downstream fails before any attempt", nil, func(b *builder) history.Source {
			return end(open(b).call(ledger, 0, permanent, 0).letter(0))
		}},
		{"another downstream fails after the first of three attempts", nil, func(b *builder) history.Source {
			return end(open(b).fails(0, 1).wait(105*ms).call(ledger, 0, permanent, 0).letter(0))
		}},
		{"another downstream fails for another record", []string{"premature-dead-letter", "under-retried"},
			func(b *builder) history.Source {
				open(b).send(1).fails(0, 1).call(ledger, 1, permanent, 0).letter(0).letter(1)
				return b.commit(2).drain().done()
			}},
		{"another downstream's failure is ignored", []string{"lost"}, func(b *builder) history.Source {
			return end(open(b).success(0).call(ledger, 0, transient, 0))
		}},
		{"another downstream's failure before the attempt is ignored", []string{"lost"}, func(b *builder) history.Source {
			return end(open(b).call(ledger, 0, permanent, 0).success(0))
		}},
		{"an optional downstream's failure is ignored", nil, func(b *builder) history.Source {
			return end(open(b).success(0).call(mailer, 0, transient, 0).call(ledger, 0, well, 0))
		}},
		{"another downstream's answer is missing", nil, func(b *builder) history.Source {
			return end(open(b).success(0).call(ledger, 0, history.OutcomeTimeout, history.ClientGone))
		}},
		{"another downstream fails after a success, and the next success is repeated after a kill", nil,
			func(b *builder) history.Source { return end(succeedsAgain(open(b), true)) }},
		{"a success is repeated, and repeated again after a kill", []string{"duplicate"},
			func(b *builder) history.Source { return end(succeedsAgain(open(b), false)) }},
		{"an attempt succeeds twice", []string{"duplicate"}, func(b *builder) history.Source {
			return end(open(b).success(0).call(ledger, 0, well, 0).success(0).call(ledger, 0, well, 0))
		}},
		{"an output topic's failure may fail other writes with it", nil, func(b *builder) history.Source {
			open(b).send(1).success(0).call(resultsTopic, 1, transient, 0).letter(1).success(0)
			return b.commit(2).drain().done()
		}},
		{"a ledger's failure fails no other call with it", []string{"duplicate"}, func(b *builder) history.Source {
			open(b).send(1).success(0).call(ledger, 1, transient, 0).letter(1).success(0)
			return b.commit(2).drain().done()
		}},
		{"another downstream answers a logical failure, by a fault", nil, func(b *builder) history.Source {
			return end(open(b).call(ledger, 0, logical, history.Forged))
		}},
		{"another downstream answers a logical failure by itself", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source { return end(open(b).call(ledger, 0, logical, 0)) }},
	}, append(callFaultCases(), failedTogetherCases()...)...)
}

// failedTogetherCases are of records that a client fails in its memory together with a write to an output topic that
// was refused. They were neither attempted nor called for.
func failedTogetherCases() []testCase {
	const permanent, logical, well = history.OutcomePermanent, history.OutcomeLogical, history.OutcomeSuccess
	batches := func(b *builder) *builder {
		e := b.of(history.KindUnreadable)
		e.Code, e.N, e.Text = history.None, ledger, "INSERT"
		b.put(e)
		return b
	}
	second := func(b *builder) *builder { // instance 1 has the partition
		b.withOthers().begin().as(1, 0).up()
		return b.as(0, 0).revoke(0).as(1, 0).assign(0)
	}
	return []testCase{
		{"a record is dead-lettered for the reason of the write that failed with its own", nil,
			func(b *builder) history.Source {
				second(b).send(0).send(1).call(resultsTopic, 0, permanent, 0).letter(0).quotes(permanent)
				b.tries[1] = 1 // counted, and never seen
				return b.letter(1).quotes(permanent).commit(2).drain().done()
			}},
		{"a record is dead-lettered for a reason that no write had", []string{"metadata-wrong"},
			func(b *builder) history.Source {
				second(b).send(0).send(1).call(resultsTopic, 0, permanent, 0).letter(0).letter(1)
				return b.quotes(history.OutcomeTransient).commit(2).drain().done()
			}},
		{"a record is given up with the write of another, without a dead-letter topic", nil,
			func(b *builder) history.Source {
				second(b).h.Contract().Envelope = ""
				b.send(0).send(1).call(resultsTopic, 0, permanent, 0)
				return b.commit(2).drain().done()
			}},
		{"a logical failure of a write, by a fault, ends another record, too", nil, func(b *builder) history.Source {
			second(b).send(0).send(1).call(resultsTopic, 0, logical, history.Forged)
			return b.commit(2).drain().done()
		}},
		{"a logical failure of a ledger, by a fault, ends no other record", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				second(b).send(0).send(1).call(ledger, 0, logical, history.Forged)
				return b.commit(2).drain().done()
			}},
		{"a logical failure of calls for several records, by a fault, may end any of them", nil,
			func(b *builder) history.Source {
				batches(second(b).send(0).send(1))
				return b.call(ledger, 0, logical, history.Forged).commit(2).drain().done()
			}},
		{"such a failure ends a record that another instance, since killed, had tried", nil,
			func(b *builder) history.Source {
				b.withOthers().begin().send(0).send(1).fails(0, 1).kill()
				batches(b.as(1, 0).up().assign(0, 1, 2, 3).fetch(0).fetch(1))
				return b.call(ledger, 1, logical, history.Forged).commit(2).drain().done()
			}},
		{"such a failure of an instance that never had the record does not end it",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				b.withOthers().begin().as(1, 0).up().as(0, 0).revoke(1).as(1, 0).assign(1).sendTo(1, 1, 1)
				batches(b).call(ledger, 1, logical, history.Forged).commitAll()
				return b.as(0, 0).send(0).commit(1).drain().done()
			}},
		{"a logical failure, by a fault, ends a record whose dead letter was not acknowledged", nil,
			func(b *builder) history.Source {
				b.withOthers().begin().send(0).call(ledger, 0, permanent, 0).askLetter(0)
				b.kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).call(ledger, 0, logical, history.Forged)
				return b.commit(1).drain().done()
			}},
		{"a logical failure, by a fault, ends a record whose dead letter can't be written", nil,
			func(b *builder) history.Source {
				b.withOthers().begin().send(0).call(ledger, 0, permanent, 0).answerLetter(b.askLetter(0), 29, 0)
				b.revoke(0).assign(0).fetch(0).call(ledger, 0, logical, history.Forged).commit(1)
				b.send(1).call(ledger, 1, permanent, 0).answerLetter(b.askLetter(1), 29, 0).logError()
				return b.letter(1).commit(2).drain().done()
			}},
		{"a frozen instance dead-letters a record that it called for elsewhere, and whose acknowledgement was lost", nil,
			func(b *builder) history.Source {
				b.withOthers().begin().send(0).unacknowledged(0).as(1, 0).up().assign(0, 1, 2, 3).fetch(0)
				b.call(ledger, 0, permanent, 0).letter(0).commit(1).as(0, 0)
				return b.call(ledger, 0, permanent, 0).letter(0).drain().done()
			}},
		{"two copies fail elsewhere, and both succeed at the second attempt", nil, func(b *builder) history.Source {
			return copiesFailElsewhere(b, true)
		}},
		{"two copies succeed twice", []string{"duplicate"}, func(b *builder) history.Source {
			return copiesFailElsewhere(b, false)
		}},
	}
}

// succeedsAgain makes two attempts that succeed, between which a call of the ledger fails if fails is set, and a third
// one after a kill.
func succeedsAgain(b *builder, fails bool) *builder {
	b.success(0)
	if fails {
		b.call(ledger, 0, history.OutcomeTransient, 0).wait(105 * ms)
	}
	b.success(0).call(ledger, 0, history.OutcomeSuccess, 0)
	b.kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0)
	return b.success(0).call(ledger, 0, history.OutcomeSuccess, 0)
}

// copiesFailElsewhere replays two dead letters of a record. Each copy is attempted twice with success, and if fails is
// set, the calls after the first attempts fail.
func copiesFailElsewhere(b *builder, fails bool) history.Source {
	first := history.OutcomeSuccess
	if fails {
		first = history.OutcomeTransient
	}
	b.h.Replay = true
	b.withOthers().begin().send(0).attempt(0, history.OutcomePermanent)
	b.answerLetter(b.askLetter(0), 0, history.Withheld).letter(0).commit(1).drain().phase(history.PhaseReplay).audit(dlq)
	for offset := range int64(2) {
		selected := b.event(history.KindReplaySelected)
		selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, offset
		b.put(selected)
	}
	b.goBackTo(0, input, 0)
	b.goBackTo(0, input, 0)
	for _, outcome := range []history.Outcome{first, history.OutcomeSuccess} {
		for range 2 {
			b.success(0).call(ledger, 0, outcome, 0)
		}
		b.wait(105 * ms)
	}
	return b.commitAll().done()
}

func callFaultCases() []testCase {
	twice := func(b *builder, kind, target string) history.Source {
		f := b.withOthers().fault(kind, target, "broken")
		b.begin().send(0).breaks(f).success(0).wait(20 * ms).success(0).heals(f)
		return b.commit(1).drain().done()
	}
	late := func(b *builder, call bool) history.Source {
		b.withOthers().begin().send(0).fails(0, 1).wait(105 * ms)
		if call {
			b.slowCall(ledger, 0, history.OutcomeSuccess, 0, 200*ms)
		} else {
			b.wait(200 * ms)
		}
		return b.success(0).commit(1).drain().done()
	}
	return []testCase{
		{"another downstream is unreachable", nil, func(b *builder) history.Source {
			return twice(b, "network", "downstream ledger")
		}},
		{"another downstream fails by a fault", nil, func(b *builder) history.Source {
			return twice(b, "downstream", "downstream ledger")
		}},
		{"a broker of the output topic is unreachable", nil, func(b *builder) history.Source {
			return twice(b, "network", "broker 1")
		}},
		{"the deciding downstream fails by a fault with its name", []string{"duplicate"}, func(b *builder) history.Source {
			return twice(b, "downstream", "downstream payments")
		}},
		{"another downstream is slow before the next attempt", nil, func(b *builder) history.Source {
			return late(b, true)
		}},
		{"nothing takes the time before the next attempt", []string{"backoff-late"}, func(b *builder) history.Source {
			return late(b, false)
		}},
		{"another downstream is called for several records at once", nil, func(b *builder) history.Source {
			b.withOthers().begin().send(0).success(0)
			e := b.of(history.KindUnreadable)
			e.Code, e.N, e.Text = history.None, ledger, "INSERT"
			b.put(e)
			return b.call(ledger, 0, history.OutcomeTransient, 0).commit(1).drain().done()
		}},
	}
}

// A record's trace tells what it called, and what decides by its name.
func TestTracesTellOfCalls(t *testing.T) {
	b := newBuilder().withOthers().begin().send(0).success(0).call(ledger, 0, history.OutcomeTransient, 0)
	told, err := Trace(b.commit(1).drain().done(), 0)
	if err != nil {
		t.Fatal(err)
	}
	want := map[string]Line{
		"attempt-start": {To: "payments"},
		"call-start":    {To: "ledger", Label: "call", Text: "instance 0 calls ledger with POST /entries"},
		"call-end": {From: "ledger", Label: "transient", Failed: true,
			Text: "instance 0: the call of ledger is answered transient"},
	}
	for _, line := range told.Trace {
		expected, known := want[line.Kind]
		if !known {
			continue
		}
		delete(want, line.Kind)
		if expected.Text != "" && line.Text != expected.Text || expected.Label != "" && line.Label != expected.Label ||
			expected.To != "" && line.To != expected.To || expected.From != "" && line.From != expected.From ||
			line.Failed != expected.Failed {
			t.Errorf("told as %+v, want %+v", line, expected)
		}
	}
	if len(want) > 0 {
		t.Errorf("not told: %v", want)
	}
}
