package assertions

// A consumer that promises to halt at records that it can't read.

import (
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// toldToHalt is a history of such a consumer: a record that it finished and committed, the unreadable one at offset 1
// of partition 0, and what tell has happen. The drain follows.
func toldToHalt(name string, want []string, tell func(*builder)) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.h.Contract().Poison = history.PoisonHalt
		b.begin().send(0).success(0).commit(1).garbage(1)
		tell(b)
		return b.drain().done()
	}}
}

// endingAlready is a history of such a consumer whose process ends with code 1 after TERM, and what happened before.
func endingAlready(name string, want []string, tell func(*builder)) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.h.Contract().Poison = history.PoisonHalt
		b.begin().send(0).success(0).commit(1)
		tell(b)
		b.drain().phase(history.PhaseAudit)
		b.signal("TERM").exit(1)
		return b.sealed()
	}}
}

// meetsAgain has the next process of instance 0 come up and get the unreadable record.
func (b *builder) meetsAgain() *builder { return b.as(0, b.run+1).up().assign(0, 1, 2, 3).fetch(1) }

func poisonCases() []testCase {
	return append(haltedCases(), []testCase{
		toldToHalt("it goes past the record", []string{"commit-past-unfinished", "lost"}, func(b *builder) { b.commit(2) }),
		toldToHalt("it goes on behind the record, which is lost", []string{"commit-past-unfinished", "lost", "reordered"},
			func(b *builder) { b.send(2).success(2).commit(3) }),
		toldToHalt("it tries the record and goes past it", []string{"commit-past-unfinished", "lost"},
			func(b *builder) { b.unnamed(input, 0, 1).commit(2) }),
		toldToHalt("it dead-letters the record and goes past it", []string{"commit-past-unfinished", "premature-dead-letter"},
			func(b *builder) { b.letter(1).commit(2) }),
		toldToHalt("it dead-letters the record and goes past it, with the link to the downstream broken",
			[]string{"commit-past-unfinished", "premature-dead-letter"}, func(b *builder) {
				b.breaks(b.fault("network", "downstream", "downstream down")).wait(300 * ms).letter(1).commit(2)
			}),
		toldToHalt("it goes past the record before its dead letter is there",
			[]string{"commit-past-unfinished", "premature-dead-letter"}, func(b *builder) {
				asked := b.askLetter(1)
				b.commit(2).answerLetter(asked, 0, 0)
			}),
		toldToHalt("it dead-letters the record, and stops", []string{"premature-dead-letter"},
			func(b *builder) { b.letter(1) }),
		toldToHalt("it ends, and its next process goes past the record", []string{"commit-past-unfinished", "lost"},
			func(b *builder) { b.falls(1, "").meetsAgain().commit(2) }),
		toldToHalt("it never commits past the record, but processes its key", []string{"reordered"},
			func(b *builder) { b.send(2).success(2) }),
		{"it leaves out a record before it", []string{"stalled"}, func(b *builder) history.Source {
			b.h.Contract().Poison = history.PoisonHalt
			return b.begin().send(0).garbage(1).drain().done()
		}},
		{"it leaves out a record before it, and others because of one in another partition", nil,
			func(b *builder) history.Source {
				b.h.Contract().Poison = history.PoisonHalt
				b.begin().send(0).garbage(1).handOver(5, 1, 1, history.Garbage).acked(5, 1).fetch(5)
				return b.drain().done()
			}},
		toldToHalt("an instance that has not met the record leaves out one of another partition",
			[]string{"stalled"}, func(b *builder) {
				b.revoke(3).as(1, 0).up().assign(3).sendTo(2, 3, 1).as(0, 0)
			}),
		endingAlready("it ends at the record, and is told to stop meanwhile", nil, func(b *builder) { b.garbage(1) }),
		endingAlready("it has met no such record, and ends with an error when it is told to stop",
			[]string{"unclean-exit"}, func(*builder) {}),
		toldToHalt("it ends before it has met the record of the next partition", nil,
			func(b *builder) { b.unread(2, 1, 1).falls(1, "") }),
		{"a process ends by itself that has met no such record", []string{"crashed"}, func(b *builder) history.Source {
			b.h.Contract().Poison = history.PoisonHalt
			return b.begin().send(0).success(0).commit(1).falls(1, "").as(0, 1).up().assign(0, 1, 2, 3).drain().done()
		}},
		toldToHalt("it is killed at the record, and the process that gets its partitions does nothing",
			[]string{"paused-partition", "stalled"}, func(b *builder) {
				b.unread(3, 1, 1).kill().as(1, 0).up().assign(0, 1, 2, 3)
			}),
		{"it stops, but was never handed the record", []string{"paused-partition", "stalled"}, func(b *builder,
		) history.Source {
			b.h.Contract().Poison = history.PoisonHalt
			b.begin().send(0).success(0).commit(1).handOver(1, 0, 0, history.Garbage).acked(1, 0)
			return b.drain().done()
		}},
		{"observed on the wire alone, it goes past the record", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				c := b.h.Contract()
				c.Poison, c.WireOnly, c.Ordering = history.PoisonHalt, true, history.OrderingNone
				return b.begin().send(0).commit(1).garbage(1).send(2).commit(3).drain().done()
			}},
		{"observed on the wire alone, it goes past a record that must be dead-lettered",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				b.wireLetters()
				return b.begin().send(0).commit(1).garbage(1).send(2).commit(3).drain().done()
			}},
		{"observed on the wire alone, it dead-letters the record", nil, func(b *builder) history.Source {
			b.wireLetters()
			return b.begin().send(0).commit(1).garbage(1).letter(1).send(2).commit(3).drain().done()
		}},
		{"observed on the wire alone, it goes past a record of which nothing is promised", nil,
			func(b *builder) history.Source {
				b.wireLetters().Poison = ""
				return b.begin().send(0).commit(1).garbage(1).send(2).commit(3).drain().done()
			}},
	}...)
}

// wireLetters is the contract of a subject whose calls are not seen, and that dead-letters what it can't read.
func (b *builder) wireLetters() *history.Contract {
	c := b.h.Contract()
	c.Poison, c.WireOnly, c.Ordering = history.PoisonDeadLetter, true, history.OrderingNone
	return c
}

// haltedCases are the ways in which it may stop.
func haltedCases() []testCase {
	return []testCase{
		toldToHalt("it pauses the partition and goes on with the others", nil,
			func(b *builder) { b.unread(2, 0, 0).sendTo(3, 1, 1).success(3).commitAllBut(0) }),
		toldToHalt("its loop fails at the record again, and nothing else goes on", nil,
			func(b *builder) { b.unread(2, 0, 0).unread(3, 1, 1) }),
		toldToHalt("it tries the record, and stops", nil, func(b *builder) { b.unnamed(input, 0, 1).unread(2, 0, 0) }),
		toldToHalt("it ends each time it meets the record", nil, func(b *builder) {
			b.unread(2, 0, 0).unread(3, 1, 1)
			for range 4 {
				b.falls(1, "").meetsAgain()
			}
		}),
		toldToHalt("it ends without an error, and stays down", nil, func(b *builder) { b.unread(3, 1, 1).falls(0, "") }),
		toldToHalt("it meets the record before the workload knows its offset, and ends", nil, func(b *builder) {
			b.handOver(2, 1, 1, history.Garbage)
			e := b.of(history.KindFetched)
			e.Topic, e.Partition, e.Offset, e.Aux = input, 1, 0, 0
			b.put(e)
			b.falls(1, "").acked(2, 1)
		}),
		toldToHalt("what it had processed is delivered again, because it ended before it committed", nil,
			func(b *builder) {
				b.sendTo(2, 1, 1).success(2).falls(1, "").meetsAgain().fetch(2).success(2).falls(1, "").meetsAgain()
			}),
		toldToHalt("it leaves its group and lives on", nil, func(b *builder) {
			b.h.Expect.DrainLimit = 4 * settling
			b.members(1, "").unread(3, 1, 1).members(0, "")
		}),
		toldToHalt("its client leaves the group and joins it again, for ever", nil, func(b *builder) {
			b.ready().members(1, "").members(0, "").wait(2*settling).rebalances(6, settling/10)
		}),
		toldToHalt("its client is made anew without leaving the group, for ever", nil, func(b *builder) {
			b.ready().members(1, "").unread(3, 0, 0).members(2, "").wait(2*settling).rebalances(6, settling/10)
		}),
		{"its client is made anew for ever, and has met no such record", []string{"rebalance-storm"},
			func(b *builder) history.Source {
				b.h.Contract().Poison = history.PoisonHalt
				b.begin().send(0).success(0).commit(1)
				b.ready().members(1, "").members(2, "").wait(2*settling).rebalances(6, settling/10)
				return b.drain().done()
			}},
		toldToHalt("it ends at the record, and its next process has not come to it yet", nil, func(b *builder) {
			b.unread(3, 1, 1).falls(1, "").as(0, 1).up().assign(0, 1, 2, 3)
		}),
		toldToHalt("it leaves its group, and the process that gets its partitions does nothing", nil,
			func(b *builder) {
				b.unread(3, 1, 1).members(1, "").members(0, "")
				b.as(1, 0).up().members(1, "").assign(0, 1, 2, 3)
			}),
		toldToHalt("it goes back to its last commit each time it meets the record", nil, func(b *builder) {
			b.sendTo(2, 0, 1).sendTo(3, 1, 1).success(3)
			b.fetch(3).success(3).fetch(3).success(3)
		}),
		toldToHalt("a process was killed, and the next one meets the record, too", nil,
			func(b *builder) { b.unread(2, 0, 0).kill().meetsAgain() }),
		backBehind("a dead letter goes back behind the record", nil,
			func(b *builder) { b.fails(0, 3).letter(0).commit(1) }),
		backBehind("a dead letter goes back behind the record, after a retry copy of which no answer came", nil,
			func(b *builder) {
				headerCounter(b)
				b.fails(0, 1).answerCopy(b.askCopy(0), 0, 0)
				b.events = b.events[:len(b.events)-1]
				b.retryCopy(0).fails(0, 2)
				b.where[0] = place{input, 0, 0} // its dead letter names the source
				b.letter(0).commit(1).commitCopies(0)
			}),
	}
}

// backBehind is a history of such a consumer in which record 0, for which fail tells how it failed, is written back
// behind the unreadable record.
func backBehind(name string, want []string, fail func(*builder)) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.h.Contract().Poison, b.h.Replay = history.PoisonHalt, true
		b.begin().send(0)
		fail(b)
		b.garbage(1).drain()
		b.phase(history.PhaseReplay).audit(dlq)
		selected := b.event(history.KindReplaySelected)
		selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, 0
		b.put(selected)
		b.goBack(0, input)
		return b.wait(b.h.Expect.DrainLimit).done()
	}}
}

// commitAllBut commits every partition to its end but one.
func (b *builder) commitAllBut(but int32) *builder {
	for partition, end := range b.next {
		if end > 0 && int32(partition) != but {
			b.answerCommit(b.askCommit(int32(partition), end), 0, 0)
		}
	}
	return b
}

// What is held is counted, and is neither unfinished nor judged.
func TestLedgerOfAHaltedConsumer(t *testing.T) {
	b := newBuilder()
	source := toldToHalt("", nil, func(b *builder) { b.unread(2, 0, 0).unread(3, 0, 0) }).tell(b)
	v := judged(t, source)
	if v.Verdict == Fail || v.Ledger.Held != 3 || v.Ledger.Unfinished != 0 || !v.Drain.Drained {
		t.Errorf("%s, held %d, unfinished %d, drained %t", v.Verdict, v.Ledger.Held, v.Ledger.Unfinished, v.Drain.Drained)
	}
	for _, r := range v.Invariants {
		if r.Name == "no-loss" && (r.Judged != 2 || r.NotJudged[heldBack] != 2) {
			t.Errorf("no-loss judged %s and left out %v", units.Count(r.Judged), r.NotJudged)
		}
	}
}
