package assertions

// Records whose body the downstream cannot identify. They are known by their places only.

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func (b *builder) garbage(number int32) *builder {
	return b.handOver(number, 0, 0, history.Garbage).acked(number, 0).fetch(number)
}

// untold writes a dead letter without an id that names the place of its record.
func (b *builder) untold(number int32, flags history.Flags) *builder {
	b.answerLetter(b.askLetter(number), 0, flags)
	for i := range 2 {
		b.events[len(b.events)-1-i].Record = history.None
	}
	found := &b.inTopics[len(b.inTopics)-1]
	found.Record, found.KeyHash = history.None, 10
	return b
}

// refusedLetter is garbage that is attempted, and whose dead letter is refused.
func refusedLetter(b *builder) *builder {
	b.begin().garbage(0).unnamed(input, 0, 0)
	return b.answerLetter(b.askLetter(0), 19, 0)
}

// replayedGarbage is garbage whose dead letter is written back to offset 1, and the events after that.
func replayedGarbage(b *builder, after func()) history.Source {
	b.h.Replay = true
	b.begin().garbage(0).unnamed(input, 0, 0).letter(0).commit(1).drain()
	b.phase(history.PhaseReplay).audit(dlq)
	selected := b.event(history.KindReplaySelected)
	selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, 0
	b.put(selected)
	b.goBack(0, input)
	after()
	return b.commitAll().wait(b.h.Expect.DrainLimit).done()
}

// namesNothing writes a dead letter of a record that identifies no record.
func (b *builder) namesNothing(number int32) *builder {
	b.untold(number, 0)
	for i := range 2 {
		b.events[len(b.events)-1-i].Claim = nil
	}
	b.inTopics[len(b.inTopics)-1].Claim = nil
	return b
}

// TestGarbageThatIsNotCommittedMayBeDeadLettered checks that no loss is reported of garbage that is not committed, if a
// dead letter without an id may be its. That it is not committed is a finding all the same.
func TestGarbageThatIsNotCommittedMayBeDeadLettered(t *testing.T) {
	for name, one := range map[string]struct {
		tell func(b *builder) *builder
		want Status
	}{
		"a dead letter names nothing": {func(b *builder) *builder { return b.namesNothing(0) }, Inconclusive},
		"none is there":               {func(b *builder) *builder { return b }, Fail},
		"it is tried, and a dead letter names nothing": {func(b *builder) *builder {
			return b.namesNothing(0).unnamed(input, 0, 0)
		}, Fail},
		"it is tried somewhere, and a dead letter names nothing": {func(b *builder) *builder {
			return b.namesNothing(0).unnamed(none, none, none)
		}, Fail},
	} {
		b := newBuilder()
		b.begin().garbage(0)
		v := judged(t, one.tell(b).wait(3*time.Second).drain().done())
		if r := resultOf(t, v, "no-loss"); r.Status != one.want {
			t.Errorf("%s: no-loss is %s %v, want %s", name, r.Status, r.Anomalies, one.want)
		}
		if r := resultOf(t, v, "liveness"); r.Status != Fail {
			t.Errorf("%s: liveness is %s, want %s", name, r.Status, Fail)
		}
	}
}

func unnamedCases() []testCase {
	return []testCase{
		{"garbage is tried and committed, though it must be dead-lettered", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				b.h.Contract().Poison = history.PoisonDeadLetter
				return b.begin().garbage(0).unnamed(input, 0, 0).commit(1).drain().done()
			}},
		{"garbage is tried somewhere and committed, though it must be dead-lettered",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				b.h.Contract().Poison = history.PoisonDeadLetter
				return b.begin().garbage(0).unnamed(none, none, none).commit(1).drain().done()
			}},
		{"garbage that must be dead-lettered is tried in vain, and the process stops", []string{"stalled"},
			func(b *builder) history.Source {
				b.h.Contract().Poison = history.PoisonDeadLetter
				return b.begin().garbage(0).unnamed(input, 0, 0).wait(3 * time.Second).drain().done()
			}},
		{"garbage is dead-lettered at once, as it must be", nil, func(b *builder) history.Source {
			b.h.Contract().Poison = history.PoisonDeadLetter
			return b.begin().garbage(0).letter(0).commit(1).drain().done()
		}},
		{"garbage is skipped, as the contract has it", nil, func(b *builder) history.Source {
			b.h.Contract().Poison = history.PoisonSkip
			return b.begin().garbage(0).commit(1).drain().done()
		}},
		{"garbage is committed before it is tried", []string{"commit-past-unfinished"}, func(b *builder) history.Source {
			return b.begin().garbage(0).commit(1).unnamed(input, 0, 0).drain().done()
		}},
		{"garbage is tried before it is committed, and again after that", nil, func(b *builder) history.Source {
			return b.begin().garbage(0).unnamed(input, 0, 0).commit(1).unnamed(input, 0, 0).drain().done()
		}},
		{"garbage is committed while its dead letter is refused", []string{"commit-without-dlq"},
			func(b *builder) history.Source { return refusedLetter(b).commit(1).drain().done() }},
		{"garbage whose dead letter was refused is tried again, which may have been enough", nil,
			func(b *builder) history.Source { return refusedLetter(b).unnamed(input, 0, 0).commit(1).drain().done() }},
		{"garbage is committed in an outage of its dead letters",
			[]string{"commit-advanced-while-dlq-down", "commit-before-dlq"}, func(b *builder) history.Source {
				return refusedLetter(b).wait(300 * ms).commit(1).letter(0).drain().done()
			}},
		{"garbage is tried again in an outage of its dead letters, which may have been enough", nil,
			func(b *builder) history.Source {
				return refusedLetter(b).wait(300*ms).unnamed(input, 0, 0).commit(1).letter(0).drain().done()
			}},
		{"garbage is written back, and dropped", []string{"commit-past-unfinished", "lost", "replay-lost"},
			func(b *builder) history.Source { return replayedGarbage(b, func() { b.fetch(0) }) }},
		{"garbage is written back, and tried where it is now", nil, func(b *builder) history.Source {
			return replayedGarbage(b, func() { b.fetch(0).unnamed(input, 0, 1) })
		}},
		// The second copy's replay generation begins after the first copy was attempted, and a commit covers the first
		// copy alone.
		{"garbage is tried where it is now, written back again, committed, and tried there", []string{"replay-duplicated"},
			func(b *builder) history.Source {
				return replayedGarbage(b, func() {
					b.fetch(0).unnamed(input, 0, 1).goBack(0, input)
					b.commit(2).fetch(0).unnamed(input, 0, 2)
				})
			}},
		{"one copy of garbage is tried and committed, and another is dead-lettered", []string{"replay-duplicated"},
			func(b *builder) history.Source {
				return replayedGarbage(b, func() {
					b.goBack(0, input)
					b.unnamed(input, 0, 1)
					asked := b.askLetter(0)
					b.commit(2).answerLetter(asked, 0, 0)
				})
			}},
		{"a dead letter without an id is written twice", []string{"dlq-duplicate"}, func(b *builder) history.Source {
			return b.begin().garbage(0).unnamed(input, 0, 0).untold(0, 0).untold(0, 0).commit(1).drain().done()
		}},
		{"a dead letter without an id is written again, as its acknowledgement was withheld", nil,
			func(b *builder) history.Source {
				b.begin().garbage(0).unnamed(input, 0, 0)
				return b.untold(0, history.Withheld).untold(0, 0).commit(1).drain().done()
			}},
	}
}

// TestASkippedRecordHoldsNothingUp checks that a record that the contract skips counts as finished: the partition
// stands still, and none of its records is unfinished.
func TestASkippedRecordHoldsNothingUp(t *testing.T) {
	for _, skips := range []bool{false, true} {
		b := newBuilder().begin()
		b.h.Contract().SkipsTombstones = skips
		b.handOver(0, 0, 0, history.Tombstone).acked(0, 0).fetch(0)
		v := judged(t, b.drain().done())
		if n := len(resultOf(t, v, "liveness").Anomalies); n != 1 {
			t.Errorf("skipped by contract: %v: liveness names %d anomalies", skips, n)
		}
		if unfinished := len(resultOf(t, v, "no-loss").Anomalies) > 0; unfinished == skips {
			t.Errorf("skipped by contract: %v: no-loss says that a record is unfinished: %v", skips, unfinished)
		}
	}
}
