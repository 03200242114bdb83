package assertions

import (
	"github.com/dlqbench/dlqbench/history"
)

// items is a call for several records, from 0 on, whose answer has an item for each: their outcomes in this order.
// OutcomeNone stands for a record that is not in the call, and OutcomeUnknownID for one without an id.
func (b *builder) items(outcomes ...history.Outcome) *builder {
	from, ops := len(b.events), map[int]int64{}
	b.inTxn(0, func() {
		for number, outcome := range outcomes {
			switch outcome {
			case history.OutcomeNone:
			case history.OutcomeUnknownID:
				ops[number] = b.start(none)
			default:
				ops[number] = b.start(int32(number))
			}
		}
		for number, outcome := range outcomes {
			switch op := ops[number]; {
			case outcome == history.OutcomeUnknownID:
				b.end(op, none, outcome)
			case op != 0:
				b.end(op, int32(number), outcome)
			}
		}
	})
	b.answerEnd(b.askEnd(0, 1), 0, 0)
	for i := from; i < len(b.events); i++ {
		b.events[i].ProducerID = history.FirstBatch
	}
	return b
}

// itemsCases are about consumers whose calls are for several records, with an answer that says of each what became of
// it: their attempts count like those of calls for one record.
func itemsCases() []testCase {
	const good, fails, rejected, absent = history.OutcomeSuccess, history.OutcomeTransient, history.OutcomePermanent,
		history.OutcomeNone
	wait := func(b *builder, attempt int) *builder { return b.wait(b.h.Contract().Backoff.Wait(attempt) + 5*ms) }
	return []testCase{
		{"what failed for a while is repeated, and what failed for good is dead-lettered", nil,
			func(b *builder) history.Source {
				b.begin().send(0).send(1).send(2).items(good, fails, rejected).letter(2)
				return wait(b, 1).items(absent, good).commit(3).drain().done()
			}},
		{"an item fails to the end, and is dead-lettered", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).items(good, fails)
			wait(b, 1).items(absent, fails)
			return wait(b, 2).items(absent, fails).letter(1).commit(2).drain().done()
		}},
		{"a value without an id is in the call", nil, func(b *builder) history.Source {
			b.begin().send(0).garbage(1).items(good, history.OutcomeUnknownID).letter(1)
			return b.commit(2).drain().done()
		}},
		{"a call is refused as a whole, and repeated", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).bulk(fails, 0, 1)
			return b.items(good, good).commit(2).drain().done()
		}},
		{"the items are not read", []string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
			return b.begin().send(0).send(1).items(good, rejected).commit(2).drain().done()
		}},
		{"the wrong record is dead-lettered", []string{"commit-past-unfinished", "dual-terminal", "lost"},
			func(b *builder) history.Source {
				b.begin().send(0).send(1).items(good, rejected)
				return b.letter(0).commit(2).drain().done()
			}},
		{"the whole call is repeated because of one record", []string{"duplicate"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).items(good, fails)
			return wait(b, 1).items(good, good).commit(2).drain().done()
		}},
		{"what failed for good is repeated", []string{"permanent-retried"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).items(good, rejected)
			return wait(b, 1).items(absent, rejected).letter(1).commit(2).drain().done()
		}},
		{"an item is repeated too often", []string{"over-retried"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).items(good, fails)
			for k := range b.h.Contract().MaxAttempts {
				wait(b, k+1).items(absent, fails)
			}
			return b.letter(1).commit(2).drain().done()
		}},
		{"an item is given up too early", []string{"under-retried"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).items(good, fails)
			return wait(b, 1).items(absent, fails).letter(1).commit(2).drain().done()
		}},
		{"a result is one for its item alone", nil, func(b *builder) history.Source {
			return b.begin().send(0).send(1).items(history.OutcomeLogical, good).commit(2).drain().done()
		}},
		{"an item is repeated without a wait", []string{"backoff-early"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).items(good, fails)
			return b.items(absent, good).commit(2).drain().done()
		}},
	}
}
