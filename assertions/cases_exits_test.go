package assertions

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// exiting is a history of a subject without dead letters that promises to end when a record has failed for good.
func exiting(name string, want []string, tell func(*builder)) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.h.Contract().Envelope, b.h.Contract().KeepsHeaders, b.h.Contract().ExitsExhausted = "", false, true
		b.begin()
		tell(b)
		return b.drain().done()
	}}
}

// again starts the next process of instance 0, which finishes record 0.
func again(b *builder) *builder {
	return b.as(0, b.run+1).up().assign(0, 1, 2, 3).fetch(0).success(0).commitAll()
}

func exitCases() []testCase {
	return []testCase{
		exiting("it ends with an error and comes back", nil, func(b *builder) { again(b.send(0).fails(0, 3).exit(1)) }),
		exiting("it ends twice because of one record", nil, func(b *builder) {
			b.send(0).fails(0, 3).exit(1).as(0, 1).up().assign(0, 1, 2, 3).fetch(0).fails(0, 3).exit(1)
			again(b)
		}),
		exiting("it goes on", []string{"failure-not-surfaced"}, func(b *builder) {
			again(b.send(0).fails(0, 3).wait(6*time.Second).sendTo(1, 1, 1).success(1).exit(1))
		}),
		exiting("it ends as if nothing had happened", []string{"failure-not-surfaced"}, func(b *builder) {
			again(b.send(0).fails(0, 3).exit(0))
		}),
		exiting("it was told to end meanwhile", nil, func(b *builder) {
			again(b.send(0).fails(0, 3).signal("TERM").exit(0))
		}),
		exiting("it gives the record up", []string{"commit-past-unfinished", "failure-not-surfaced", "lost"},
			func(b *builder) {
				b.send(0).fails(0, 3).commit(1).wait(6*time.Second).sendTo(1, 1, 1).success(1).commitAll()
			}),
		exiting("it commits past the record, and ends", []string{"commit-past-unfinished", "lost"}, func(b *builder) {
			b.send(0).sendTo(1, 0, 1).success(1).fails(0, 3).commit(2).exit(1).as(0, 1).up().assign(0, 1, 2, 3)
		}),
		exiting("a permanent failure ends it, too", nil, func(b *builder) {
			again(b.send(0).attempt(0, history.OutcomePermanent).exit(1))
		}),
		exiting("a call for several records that is refused ends nothing", nil, func(b *builder) {
			b.send(0).send(1).bulk(history.OutcomePermanent, 0, 1).success(0).success(1).commit(2).wait(6 * time.Second)
			b.sendTo(2, 1, 1).success(2).commitAll()
		}),
		exiting("what has attempts left ends nothing", nil, func(b *builder) {
			b.send(0).fails(0, 2).wait(205 * ms).success(0).commit(1)
		}),
		attemptsInOrder("the next begins while the dead letter of the one before is outstanding", nil, true),
		attemptsInOrder("the same, where the order is that of outcomes", []string{"reordered"}, false),
		{"the next begins after the last attempt of the one before that reached the downstream", nil,
			func(b *builder) history.Source {
				b.h.Contract().OrderOfAttempts = true
				f := b.fault("network", "downstream", "downstream down")
				b.begin().send(0).send(1).breaks(f).wait(300*ms).heals(f).fails(0, 1)
				asked := b.askLetter(0)
				b.success(1).answerLetter(asked, 0, 0).commit(2)
				b.inTopics[len(b.inTopics)-1].Claim.Attempts = 3
				return b.drain().done()
			}},
		{"the order is that of attempts, and the one before has some left", []string{"reordered"},
			func(b *builder) history.Source {
				b.h.Contract().OrderOfAttempts = true
				b.begin().send(0).send(1).fails(0, 2).success(1).wait(205 * ms).success(0).commit(2)
				return b.drain().done()
			}},
	}
}

// foreignCases cover a dead-letter topic that also holds dead letters of another service.
func foreignCases() []testCase {
	stranger := func(b *builder) {
		b.goBack(1, input)
		b.op++
		e := b.event(history.KindProduceRequest)
		e.Instance, e.Op, e.Record, e.Topic, e.Partition = history.Replayer, b.op, history.None, input, 0
		b.put(e)
	}
	with := func(foreign int, tool func(*builder)) func(*builder) {
		return func(b *builder) { b.h.Foreign = foreign; tool(b) }
	}
	succeeds := func(b *builder) { b.success(1).commitAll() }
	return []testCase{
		replayed("a dead letter of another service is put back", []string{"selected-wrong"}, with(3, stranger), succeeds),
		replayed("dead letters of another service stay where they are", nil, with(3, func(b *builder) {
			b.goBack(1, input)
		}), succeeds),
		replayed("a record without an id is put back where there is no other service's", nil, with(0, stranger), succeeds),
	}
}

func attemptsInOrder(name string, want []string, promised bool) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.h.Contract().OrderOfAttempts = promised
		b.begin().send(0).send(1).fails(0, 3)
		asked := b.askLetter(0)
		b.success(1).answerLetter(asked, 0, 0).commit(2)
		return b.drain().done()
	}}
}
