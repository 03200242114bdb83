package assertions

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// changed is a history of a dead-lettered record whose dead letter was modified by change.
func changed(name string, want string, change func(*history.Event)) testCase {
	return testCase{name, []string{want}, func(b *builder) history.Source {
		b.begin().send(0).success(0).send(1).fails(1, 3).letter(1).commit(2)
		change(&b.inTopics[len(b.inTopics)-1])
		return b.drain().done()
	}}
}

// letterOfNone is a history of two records, and a dead letter with the flags that is of neither.
func (b *builder) letterOfNone(flags history.Flags) *builder {
	b.begin().send(0).success(0).send(1).fails(1, 3).letter(1).commit(2)
	one := b.inDLQ(1)
	one.Record, one.KeyHash, one.ValueHash, one.Claim.Offset = history.None, 1, 1, 5
	one.Flags |= flags
	return b
}

func letterCases() []testCase {
	return []testCase{
		changed("the value is changed", "payload-changed", func(e *history.Event) { e.ValueHash++ }),
		changed("the key is changed", "key-changed", func(e *history.Event) { e.KeyHash = 99 }),
		changed("a header is lost", "headers-lost", func(e *history.Event) { e.HeadersHash++ }),
		changed("a field is missing", "metadata-missing", func(e *history.Event) {
			e.Claim.Missing, e.Claim.Attempts = "x-retry-attempt", 0
		}),
		changed("the offset is not true", "metadata-wrong", func(e *history.Event) { e.Claim.Offset++ }),
		changed("the partition is not true", "metadata-wrong", func(e *history.Event) { e.Claim.Partition++ }),
		changed("the topic is not one of the run's", "metadata-wrong", func(e *history.Event) {
			e.Claim.Topic = history.None
		}),
		changed("the number of attempts is not true", "metadata-wrong", func(e *history.Event) { e.Claim.Attempts = 4 }),
		changed("the topic is one of the run's, but not the record's, and the dialect names no more", "metadata-wrong",
			func(e *history.Event) {
				e.Claim.Topic, e.Claim.Partition, e.Claim.Offset, e.Claim.Attempts = dlq, history.None, history.None, history.None
			}),
		{"the dialect names the topic and no more", nil, func(b *builder) history.Source {
			b.h.Contract().Envelope = "hexkit"
			b.begin().send(0).fails(0, 3).letter(0).commit(1)
			claim := b.inTopics[len(b.inTopics)-1].Claim
			claim.Partition, claim.Offset, claim.Attempts = history.None, history.None, history.None
			return b.drain().done()
		}},
		{"the value is changed in a dialect that is not plain", []string{"payload-changed"}, func(b *builder) history.Source {
			b.h.Contract().Envelope = "spring"
			b.begin().send(0).fails(0, 3).letter(0).commit(1)
			b.inTopics[len(b.inTopics)-1].ValueHash++
			return b.drain().done()
		}},
		changed("the id is gone with the value", "payload-changed", func(e *history.Event) {
			e.Record, e.KeyHash, e.ValueHash = history.None, 10, 5
		}),
		{"a transaction marker has a dead letter", []string{"marker-dead-lettered"}, func(b *builder) history.Source {
			return b.letterOfNone(history.Marker).drain().done()
		}},
		{"a dead letter of no record of the run", nil, func(b *builder) history.Source {
			return b.letterOfNone(0).drain().done()
		}},
		{"headers are not promised", nil, func(b *builder) history.Source {
			b.h.Contract().KeepsHeaders = false
			b.begin().send(0).fails(0, 3).letter(0).commit(1)
			b.inTopics[len(b.inTopics)-1].HeadersHash++
			return b.drain().done()
		}},
		{"the same partition is promised and kept", nil, func(b *builder) history.Source {
			b.h.Contract().SamePartition = true
			b.begin().sendTo(0, 2, 0).fails(0, 3).letter(0).commitAll()
			return b.drain().done()
		}},
		{"the same partition is promised and not kept", []string{"metadata-wrong"}, func(b *builder) history.Source {
			b.h.Contract().SamePartition = true
			b.begin().sendTo(0, 2, 0).fails(0, 3).letter(0).commitAll()
			b.inTopics[len(b.inTopics)-1].Partition = 1
			return b.drain().done()
		}},
		{"the same partition is promised and kept, by a record that was never acknowledged, is not in the topic any more, " +
			"and went back to another partition", nil, func(b *builder) history.Source {
			return b.backElsewhere(func() {
				b.handOver(0, history.None, 0, 0) // the producer chose the partition, and never received the answer
				b.inInput(0, 0)
				b.fetch(0)
				b.inTopics = nil
				b.h.Contract().Envelope = "hexkit" // its dead letters name only the topic
			}, 0)
		}},
		{"the same partition is promised and kept, by a record that went back to another partition", nil,
			func(b *builder) history.Source {
				return b.backElsewhere(func() { b.send(0) }, 0)
			}},
		{"the same partition is promised and not kept, by a record that went back to another partition",
			[]string{"metadata-wrong"}, func(b *builder) history.Source {
				return b.backElsewhere(func() { b.send(0) }, 1)
			}},
		{"more attempts than the downstream saw, with its link broken", nil, func(b *builder) history.Source {
			f := b.fault("network", "downstream", "downstream down")
			b.begin().send(0).breaks(f).wait(300*ms).heals(f).fails(0, 1).letter(0).commit(1)
			b.inTopics[len(b.inTopics)-1].Claim.Attempts = 3
			return b.drain().done()
		}},
		{"dead-lettered twice", []string{"dlq-duplicate"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).letter(0).letter(0).commit(1)
			return b.drain().done()
		}},
		{"an idempotent producer's repeat is one write", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			first := b.askLetter(0)
			again := b.askLetter(0)
			again.Sequence = first.Sequence
			b.events[len(b.events)-1].Sequence = first.Sequence
			b.answerLetter(first, 0, 0).answerLetter(again, 0, 0).commit(1)
			b.inTopics = b.inTopics[:len(b.inTopics)-1]
			return b.drain().done()
		}},
		{"dead-lettered twice, as the first acknowledgement was lost", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			b.askLetter(0)
			b.inDLQ(0)
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"dead-lettered twice, as the first acknowledgement came too late", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			first := b.askLetter(0)
			b.wait(5 * 1000 * ms)
			second := b.askLetter(0)
			b.answerLetter(first, 0, 0).answerLetter(second, 0, 0).commit(1)
			return b.drain().done()
		}},
		{"dead-lettered twice after a refusal that left no copy", []string{"dlq-duplicate"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), 19, history.Forged).letter(0).letter(0).commit(1)
			return b.drain().done()
		}},
		{"dead-lettered once, after as many refusals as a client manages in half a minute", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).refuseLetters(0, 400).letter(0).commit(1)
				return b.drain().done()
			}},
		{"dead-lettered twice, after as many refusals as a client manages in half a minute", []string{"dlq-duplicate"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).refuseLetters(0, 400).letter(0).letter(0).commit(1)
				return b.drain().done()
			}},
		{"dead-lettered twice after a refusal that may have left a copy", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), 19, 0)
			b.inDLQ(0)
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"dead-lettered twice around a stop", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).letter(0).signal("STOP").wait(50 * ms).signal("CONT").letter(0).commit(1)
			return b.drain().done()
		}},
		{"dead-lettered twice around a rebalance", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).letter(0).revoke(0).as(1, 0).up().assign(0).fetch(0).wait(105*ms).fails(0, 3)
			b.tries[0] = 3
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"two dead letters that differ", []string{"dlq-duplicate", "payload-changed", "two-payloads-one-source"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).letter(0).letter(0).commit(1)
				b.inTopics[len(b.inTopics)-1].ValueHash++
				return b.drain().done()
			}},
		{"two dead letters that differ, which the contract allows", []string{"dlq-duplicate"},
			func(b *builder) history.Source {
				b.h.Contract().ChangesValue = true
				b.begin().send(0).fails(0, 3).letter(0).letter(0).commit(1)
				b.inTopics[len(b.inTopics)-1].ValueHash++
				return b.drain().done()
			}},
	}
}

// replayed is a history of a selected dead letter, the tool's actions, and the events after them.
func replayed(name string, want []string, tool func(*builder), after func(*builder)) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.h.Replay = true
		b.begin().send(0).success(0).send(1).fails(1, 3).letter(1).commit(2).drain()
		b.phase(history.PhaseReplay).audit(dlq)
		selected := b.event(history.KindReplaySelected)
		selected.Record, selected.Topic, selected.Partition, selected.Offset = 1, dlq, 0, 0
		b.put(selected)
		tool(b)
		after(b)
		b.wait(b.h.Expect.DrainLimit)
		return b.done()
	}}
}

// unplacedReplay is a history of a tombstone whose producer got no answer. The instance that dead-letters it does not
// hear of that, and is killed. The next one makes this number of attempts, and commits it. Its dead letter is
// replayed.
func unplacedReplay(b *builder, attempts int) history.Source {
	b.h.Replay = true
	b.begin().handOver(0, 0, 0, history.Tombstone)
	b.inInput(0, 0)
	b.fetch(0)
	if attempts > 0 {
		b.unnamed(history.None, history.None, history.None)
	}
	b.answerLetter(b.askLetter(0), 0, history.Withheld).inDLQ(0)
	b.kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0)
	for range attempts {
		b.unnamed(history.None, history.None, history.None)
	}
	b.commit(1).drain().phase(history.PhaseReplay).audit(dlq)
	selected := b.event(history.KindReplaySelected)
	selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, 0
	b.put(selected)
	b.goBack(0, input)
	b.success(0).commitAll().wait(b.h.Expect.DrainLimit)
	return b.done()
}

// backElsewhere is a history of a record that sent puts into partition 0. Its dead letter lies in the partition, goes
// back to partition 2 and succeeds there.
func (b *builder) backElsewhere(sent func(), partition int32) history.Source {
	b.h.Contract().SamePartition, b.h.Replay = true, true
	b.begin()
	sent()
	b.fails(0, 3).letter(0).commit(1)
	found := &b.inTopics[len(b.inTopics)-1]
	if found.Partition = partition; b.h.Contract().Envelope == "hexkit" {
		found.Claim.Partition, found.Claim.Offset = history.None, history.None
	}
	b.drain().phase(history.PhaseReplay).audit(dlq)
	selected := b.event(history.KindReplaySelected)
	selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, partition, 0
	b.put(selected)
	b.goBackTo(0, input, 2)
	b.success(0).commitAll().wait(b.h.Expect.DrainLimit)
	return b.done()
}

// goBack writes a record as the replay tool does, and adds what the audit will find.
func (b *builder) goBack(number int32, topic int16) *history.Event {
	return b.goBackTo(number, topic, 0)
}

func (b *builder) goBackTo(number int32, topic int16, partition int32) *history.Event {
	b.op++
	e := b.event(history.KindProduceRequest)
	e.Instance, e.Op, e.Record, e.Topic, e.Partition = history.Replayer, b.op, number, topic, partition
	b.put(e)
	e.Kind, e.Time, e.Offset = history.KindProduceResponse, b.tick(), b.next[partition]
	if topic != input {
		e.Offset = b.nextDLQ
		b.nextDLQ++
		b.put(e)
		return &history.Event{}
	}
	b.put(e)
	b.inInput(number, partition)
	b.fetch(number)
	return &b.inTopics[len(b.inTopics)-1]
}

// attemptedBeforeAnswer is a history of a dead letter of instance 0 that is written back to a partition of instance 1.
// That instance fetches it, fails with it for the first of attempts times, and only then the replay tool is answered.
func attemptedBeforeAnswer(attempts int) func(*builder) history.Source {
	return func(b *builder) history.Source {
		b.h.Replay, b.h.Contract().Ordering = true, ""
		b.phase(history.PhaseSetup).up().assign(0, 1).as(1, 0).up().assign(2, 3).as(0, 0)
		b.phase(history.PhaseWarmup).phase(history.PhaseSteady)
		b.send(0).fails(0, 3).letter(0).commit(1).drain()
		b.phase(history.PhaseReplay).audit(dlq)
		selected := b.event(history.KindReplaySelected)
		selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, 0
		b.put(selected)
		before := len(b.events)
		b.goBackTo(0, input, 2)
		answer := b.events[before+1]
		b.events = append(b.events[:before+1], b.events[before+2:]...)
		b.as(1, 0).tries[0] = 0
		b.fails(0, 1)
		answer.Time = b.tick()
		b.put(answer)
		for k := 1; k < attempts; k++ {
			b.wait(b.h.Contract().Backoff.Wait(k)+5*ms).attempt(0, history.OutcomeTransient)
		}
		return b.letter(0).commitAll().wait(b.h.Expect.DrainLimit).done()
	}
}

// numberedAsFirst writes the record's dead letter with the sequence of the first one, the given number of producer
// epochs later.
func (b *builder) numberedAsFirst(number int32, later int16) *builder {
	var first history.Event
	for _, e := range b.events {
		if e.Kind == history.KindProduceRequest && e.Record == number && e.Topic == dlq {
			first = e
			break
		}
	}
	asked := b.askLetter(number)
	asked.Sequence, asked.ProducerEpoch = first.Sequence, first.ProducerEpoch+later
	last := &b.events[len(b.events)-1]
	last.Sequence, last.ProducerEpoch = asked.Sequence, asked.ProducerEpoch
	return b.answerLetter(asked, 0, 0)
}

// ownNames covers dead letters with a header that the replay does not remove, because it does not know it.
func ownNames(name, envelope string) testCase {
	return testCase{name, nil, func(b *builder) history.Source {
		b.h.Contract().Envelope, b.h.Contract().DeadLetters = envelope, true
		return replayed(name, nil, func(b *builder) { b.goBack(1, input) }, func(b *builder) {
			b.tries[1] = 0
			b.fails(1, 3).letter(1).commitAll()
			b.inTopics[len(b.inTopics)-1].HeaderCount++
		}).tell(b)
	}}
}

func replayCases() []testCase {
	once := func(b *builder) { b.goBack(1, input) }
	succeeds := func(b *builder) { b.success(1).commitAll() }
	return []testCase{
		replayed("a replay that heals", nil, once, succeeds),
		{"a tombstone is replayed whose place only the audit shows, and whose second attempt may have ended it", nil,
			func(b *builder) history.Source { return unplacedReplay(b, 1) }},
		{"it had no second attempt", []string{"commit-past-unfinished"},
			func(b *builder) history.Source { return unplacedReplay(b, 0) }},
		replayed("a replay that fails again", nil, once, func(b *builder) {
			b.tries[1] = 0
			b.fails(1, 3).letter(1).commitAll()
		}),
		// Its producer has begun a new epoch since, as after an error, and restarted its sequence numbers.
		replayed("a replay that fails again, whose dead letter has the number of the first one in another epoch", nil, once,
			func(b *builder) {
				b.tries[1] = 0
				b.fails(1, 3)
				b.numberedAsFirst(1, 1).commitAll()
			}),
		replayed("a replay that fails again, and only the first dead letter is asked for once more",
			[]string{"commit-past-unfinished", "lost", "replay-lost"}, once, func(b *builder) {
				b.tries[1] = 0
				b.fails(1, 3)
				b.numberedAsFirst(1, 0).commitAll()
				b.inTopics = b.inTopics[:len(b.inTopics)-1]
			}),
		replayed("a replay that fails again and grows", []string{"envelope-grew"}, once, func(b *builder) {
			b.tries[1] = 0
			b.fails(1, 3).letter(1).commitAll()
			b.inTopics[len(b.inTopics)-1].HeaderCount += 6
		}),
		ownNames("a replay that fails again with a header more, of which the contract says nothing", "headers:topic=x-topic"),
		ownNames("a replay that fails again with a header more, where no metadata is promised", ""),
		replayed("a replay that fails again with a longer text", []string{"envelope-grew"}, once, func(b *builder) {
			b.tries[1] = 0
			b.fails(1, 3).letter(1).commitAll()
			b.inTopics[len(b.inTopics)-1].HeaderBytes += 16 << 10
		}),
		replayed("a replay that fails again with another text", nil, once, func(b *builder) {
			b.tries[1] = 0
			b.fails(1, 3).letter(1).commitAll()
			b.inTopics[len(b.inTopics)-1].HeaderBytes += 4 << 10
		}),
		replayed("a replay that fails again and grows while a fault changes texts", []string{"envelope-grew"}, once,
			func(b *builder) {
				b.fault("downstream", "downstream", "error texts hostile")
				b.tries[1] = 0
				b.fails(1, 3).letter(1).commitAll()
				b.inTopics[len(b.inTopics)-1].HeaderCount++
			}),
		// The second copy is one too many, but neither is retried: each is attempted once, and dead-lettered.
		replayed("two copies are written back, and each fails for good", []string{"replay-duplicated"}, func(b *builder) {
			once(b)
			once(b)
		}, func(b *builder) {
			b.tries[1] = 0
			for range 2 {
				b.attempt(1, history.OutcomePermanent).letter(1)
			}
			b.commitAll()
		}),
		replayed("two copies are written back, and fail for good at once", []string{"replay-duplicated"}, func(b *builder) {
			once(b)
			once(b)
		}, func(b *builder) {
			b.tries[1] = 0
			b.attempt(1, history.OutcomePermanent).attempt(1, history.OutcomePermanent).letter(1).letter(1).commitAll()
		}),
		// Once tries[1] is 0, the attempts of a copy start over: the first is attempted once before the second is
		// written back.
		replayed("a copy is attempted before the next is written back", []string{"replay-duplicated"}, once,
			func(b *builder) {
				b.tries[1] = 0
				b.attempt(1, history.OutcomeTransient)
				b.goBack(1, input)
				b.wait(b.h.Contract().Backoff.Wait(1)+5*ms).attempt(1, history.OutcomeTransient).wait(
					b.h.Contract().Backoff.Wait(2)+5*ms).attempt(1, history.OutcomeTransient)
				b.letter(1)
				b.tries[1] = 0
				b.fails(1, 3).letter(1).commitAll()
			}),
		// The second copy is requested between the first one's attempt and its dead letter.
		replayed("a copy is dead-lettered after the next was written back", []string{"replay-duplicated"}, once,
			func(b *builder) {
				b.tries[1] = 0
				b.attempt(1, history.OutcomePermanent)
				b.goBack(1, input)
				b.letter(1)
				b.tries[1] = 0
				b.attempt(1, history.OutcomePermanent).letter(1).commitAll()
			}),
		replayed("a copy is dead-lettered after the next was written back, and that one succeeds",
			[]string{"replay-duplicated"}, once, func(b *builder) {
				b.tries[1] = 0
				b.fails(1, 3)
				b.goBack(1, input)
				b.letter(1).success(1).commitAll()
			}),
		// The second copy is requested while the first one is being attempted, or its dead letter is under way. The
		// operation that was begun belongs to the first copy.
		replayed("a copy is committed that succeeded while the next was written back", []string{"replay-duplicated"}, once,
			func(b *builder) {
				op := b.start(1)
				b.goBack(1, input)
				b.end(op, 1, history.OutcomeSuccess)
				b.commit(3).success(1).commitAll()
			}),
		replayed("a copy is committed whose dead letter was acknowledged while the next was written back",
			[]string{"replay-duplicated"}, once, func(b *builder) {
				b.tries[1] = 0
				b.attempt(1, history.OutcomePermanent)
				asked := b.askLetter(1)
				b.goBack(1, input)
				b.answerLetter(asked, 0, 0).commit(3)
				b.tries[1] = 0
				b.attempt(1, history.OutcomePermanent).letter(1).commitAll()
			}),
		replayed("the next copy is passed unprocessed", []string{"commit-past-unfinished", "lost", "replay-duplicated",
			"replay-lost"}, once, func(b *builder) {
			op := b.start(1)
			b.goBack(1, input)
			b.end(op, 1, history.OutcomeSuccess)
			b.commitAll()
		}),
		replayed("a copy succeeds after the next was written back", []string{"replay-duplicated"}, once, func(b *builder) {
			b.goBack(1, input)
			b.success(1).success(1).commitAll()
		}),
		replayed("a copy is given up after the next was written back", []string{"replay-duplicated"}, once, func(b *builder) {
			b.tries[1] = 0
			b.fails(1, 3)
			b.goBack(1, input)
			b.letter(1)
			b.tries[1] = 0
			b.fails(1, 3).letter(1).commitAll()
		}),
		replayed("two copies are written back, and both succeed", []string{"replay-duplicated"}, func(b *builder) {
			once(b)
			once(b)
		}, func(b *builder) {
			b.success(1).success(1).commitAll()
		}),
		replayed("two copies are written back, and each is retried by itself", []string{"replay-duplicated"},
			func(b *builder) { once(b); once(b) }, func(b *builder) {
				b.tries[1] = 0
				for range 3 {
					b.attempt(1, history.OutcomeTransient).attempt(1, history.OutcomeTransient).wait(
						b.h.Contract().Backoff.Wait(3) + 5*ms)
				}
				b.letter(1).letter(1).commitAll()
			}),
		replayed("nothing is written back", []string{"replay-lost"}, func(*builder) {}, func(*builder) {}),
		{"nothing is written back before the user interrupts", nil, func(b *builder) history.Source {
			b.h.Replay = true
			b.begin().send(0).success(0).send(1).fails(1, 3).letter(1).commit(2).drain()
			b.phase(history.PhaseReplay).audit(dlq)
			selected := b.event(history.KindReplaySelected)
			selected.Record, selected.Topic, selected.Partition, selected.Offset = 1, dlq, 0, 0
			b.put(selected)
			return history.FromEvents(b.h, b.events) // never sealed
		}},
		replayed("written back and passed unprocessed", []string{"commit-past-unfinished", "lost", "replay-lost"}, once,
			func(b *builder) { b.commitAll() }),
		replayed("written back twice", []string{"replay-duplicated"}, func(b *builder) { once(b); once(b) }, succeeds),
		replayed("written back twice, as the first acknowledgement was lost", nil, func(b *builder) {
			b.goBack(1, input)
			b.events = b.events[:len(b.events)-2] // the acknowledgement and the fetch
			b.goBack(1, input)
		}, succeeds),
		replayed("written back with the failure headers", []string{"replay-altered"},
			func(b *builder) { b.goBack(1, input).Flags = history.FailureHeaders }, succeeds),
		replayed("written back with another value", []string{"replay-altered"},
			func(b *builder) { b.goBack(1, input).ValueHash++ }, succeeds),
		replayed("written back without its headers", []string{"replay-altered"},
			func(b *builder) { b.goBack(1, input).HeadersHash++ }, succeeds),
		replayed("written to another topic", []string{"replay-wrong-topic"}, func(b *builder) {
			b.goBack(1, retry)
		}, func(*builder) {}),
		replayed("another record is written back too", []string{"selected-wrong"}, func(b *builder) {
			once(b)
			b.goBack(0, input)
		},
			func(b *builder) { b.success(1).success(0).commitAll() }),
		replayed("the copy is committed before its second dead letter", []string{"commit-before-dlq"}, once,
			func(b *builder) {
				b.tries[1] = 0
				b.fails(1, 3)
				asked := b.askLetter(1)
				b.commitAll().answerLetter(asked, 0, 0)
			}),
		{"written back to another instance, which attempts it before the tool has its answer", nil,
			attemptedBeforeAnswer(3)},
		{"written back to another instance, which attempts it before the tool has its answer, and gives up early",
			[]string{"under-retried"}, attemptedBeforeAnswer(2)},
		{"a commit before the first dead letter is not forgotten by the replay", []string{"commit-before-dlq"},
			func(b *builder) history.Source {
				b.h.Replay = true
				b.begin().send(0).success(0).send(1).fails(1, 3)
				asked := b.askLetter(1)
				b.commit(2).answerLetter(asked, 0, 0).drain()
				b.phase(history.PhaseReplay).audit(dlq)
				selected := b.event(history.KindReplaySelected)
				selected.Record, selected.Topic, selected.Partition, selected.Offset = 1, dlq, 0, 0
				b.put(selected)
				b.goBack(1, input)
				b.success(1).commitAll().wait(b.h.Expect.DrainLimit)
				return b.done()
			}},
	}
}

// early has a record committed before its attempt; the link to the downstream fails before the commit, or a second after
// it.
func early(b *builder, before bool) history.Source {
	b.h.Contract().Envelope = ""
	f := b.fault("network", "downstream", "downstream down")
	b.begin().send(0)
	if before {
		b.breaks(f).wait(300 * ms).heals(f)
	}
	b.commit(1).wait(time.Second)
	if !before {
		b.breaks(f).wait(300 * ms).heals(f)
	}
	return b.wait(2 * time.Second).success(0).drain().done()
}

func envelopeless() []testCase {
	return []testCase{
		{"without a dead-letter topic, given up after all attempts", nil, func(b *builder) history.Source {
			b.h.Contract().Envelope = ""
			b.begin().send(0).fails(0, 3).commit(1)
			return b.drain().done()
		}},
		{"without a dead-letter topic, tried once more after the last attempt", []string{"over-retried"},
			func(b *builder) history.Source {
				b.h.Contract().Envelope = ""
				b.begin().send(0).fails(0, 4).commit(1)
				return b.drain().done()
			}},
		{"without a dead-letter topic, committed before the first attempt, and the link fails later",
			[]string{"commit-past-unfinished"}, func(b *builder) history.Source { return early(b, false) }},
		{"without a dead-letter topic, committed before the first attempt, after the link failed", nil,
			func(b *builder) history.Source { return early(b, true) }},
		// A process that keeps the records of an earlier delivery of a partition finishes them while it processes the
		// new delivery (pyrallel-consumer, on a busy machine).
		{"without a dead-letter topic, given up by a delivery of before while the new one is at it", nil,
			func(b *builder) history.Source {
				b.h.Contract().Envelope = ""
				b.begin().send(0).fails(0, 2).revoke(0).assign(0).fetch(0).wait(1100*ms).fails(0, 1).fails(0, 1).commit(1)
				b.wait(105*ms).fails(0, 1).wait(205*ms).fails(0, 1)
				return b.drain().done()
			}},
		{"without a dead-letter topic, given up by a delivery of before while nobody has the partition", nil,
			func(b *builder) history.Source {
				b.h.Contract().Envelope = ""
				b.begin().send(0).fails(0, 2).revoke(0).fails(0, 1).assign(0).fetch(0).commit(1).fails(0, 3)
				return b.drain().done()
			}},
		{"without a dead-letter topic, given up too soon by either delivery",
			[]string{"commit-past-unfinished", "lost", "under-retried"},
			func(b *builder) history.Source {
				b.h.Contract().Envelope = ""
				b.begin().send(0).fails(0, 1).revoke(0).assign(0).fetch(0).wait(1100*ms).fails(0, 1).commit(1)
				return b.drain().done()
			}},
		{"without a dead-letter topic, given up too soon", []string{"commit-past-unfinished", "lost", "under-retried"},
			func(b *builder) history.Source {
				b.h.Contract().Envelope = ""
				b.begin().send(0).fails(0, 2).commit(1)
				return b.drain().done()
			}},
	}
}

// leastCases: an envelope governs metadata alone. All other promises apply to a contract without an envelope.
func leastCases() []testCase {
	least := func(b *builder) *builder {
		b.h.Contract().DeadLetters, b.h.Contract().Envelope = true, ""
		return b.begin().send(0).fails(0, 3)
	}
	silent := func(b *builder, edit func(e *history.Event)) *builder { // no dialect, so no claim is read from it
		found := &b.inTopics[len(b.inTopics)-1]
		found.Claim = nil
		edit(found)
		return b
	}
	same := func(*history.Event) {}
	other := func(e *history.Event) { e.ValueHash++ }
	return []testCase{
		{"without an envelope: all is well", nil, func(b *builder) history.Source {
			return silent(least(b).letter(0).commit(1), same).drain().done()
		}},
		{"without an envelope: committed first", []string{"commit-before-dlq"}, func(b *builder) history.Source {
			asked := least(b).askLetter(0)
			return silent(b.commit(1).answerLetter(asked, 0, 0), same).drain().done()
		}},
		{"without an envelope: committed, and no dead letter", []string{"lost", "commit-past-unfinished"},
			func(b *builder) history.Source {
				return least(b).commit(1).drain().done()
			}},
		{"without an envelope: two dead letters", []string{"dlq-duplicate"}, func(b *builder) history.Source {
			silent(least(b).letter(0), same)
			return silent(b.letter(0).commit(1), same).drain().done()
		}},
		{"without an envelope: another value", []string{"payload-changed"}, func(b *builder) history.Source {
			return silent(least(b).letter(0).commit(1), other).drain().done()
		}},
		{"without an envelope: another value, as the contract says", nil, func(b *builder) history.Source {
			b.h.Contract().ChangesValue = true
			return silent(least(b).letter(0).commit(1), other).drain().done()
		}},
		{"Retry-After is not waited for, and nobody promised to", nil, func(b *builder) history.Source {
			b.h.Contract().IgnoresRetryAfter = true
			b.begin().send(0)
			b.end(b.start(0), 0, history.OutcomeRateLimited).Aux = int64(time.Second)
			return b.wait(105 * ms).success(0).commit(1).drain().done()
		}},
	}
}

// A group whose subscription matches the dead-letter topic, too, processes its dead letters as records. That explains
// what is named of them.
func TestAGroupThatReadsItsDeadLettersIsTold(t *testing.T) {
	for _, reads := range []bool{true, false} {
		b := newBuilder()
		b.begin().send(0).fails(0, 3).letter(0).commit(1)
		for _, kind := range []history.Kind{history.KindAssigned, history.KindFetched} {
			e := b.of(kind)
			e.Topic, e.Partition, e.N, e.Offset = dlq, 0, 1, 0
			if kind == history.KindFetched {
				e.Aux = 0
			}
			if reads {
				b.put(e)
			}
		}
		b.letter(0)
		found := resultOf(t, judged(t, b.drain().done()), "dlq-once").Anomalies
		if len(found) != 1 || found[0].Name != "dlq-duplicate" {
			t.Fatalf("found %+v", found)
		}
		one := found[0].Counterexamples[0]
		if strings.HasSuffix(one.Summary, "; instance 0 reads the dead-letter topic, too") != reads {
			t.Errorf("summary %q", one.Summary)
		}
		if slices.ContainsFunc(one.Trace, func(line Line) bool {
			return line.Text == "instance 0 fetches in.dlq-0 offsets 0 to 0"
		}) != reads {
			t.Errorf("trace %+v", one.Trace)
		}
	}
}
