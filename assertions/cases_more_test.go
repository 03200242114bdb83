package assertions

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// commitNaming commits the offset with metadata.
func (b *builder) commitNaming(offset int64, metadata string) *builder {
	asked := b.askCommit(0, offset)
	b.events[len(b.events)-1].Text = metadata
	asked.Text = metadata
	return b.answerCommit(asked, 0, 0)
}

func metadataCases() []testCase {
	begin := func(b *builder) *builder {
		b.h.Contract().OffsetMetadata = history.MetadataRanges
		b.h.Contract().Ordering = history.OrderingNone
		return b.begin()
	}
	three := func(b *builder) *builder { return begin(b).send(0).send(1).send(2) }
	restart := func(b *builder) *builder { return b.kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0) }
	return []testCase{
		{"what the metadata names is skipped after a restart", nil, func(b *builder) history.Source {
			three(b).success(1).fails(2, 3).letter(2).commitNaming(0, "1-2")
			restart(b).success(0).commit(3)
			return b.drain().done()
		}},
		{"what the metadata names is processed again after a restart", []string{"duplicate"},
			func(b *builder) history.Source {
				three(b).success(1).success(2).commitNaming(0, "1-2")
				restart(b).success(0).success(1).commit(3)
				return b.drain().done()
			}},
		{"without the metadata it may be", nil, func(b *builder) history.Source {
			three(b).success(1).success(2)
			restart(b).success(0).success(1).success(2).commit(3)
			return b.drain().done()
		}},
		{"what the last commit no longer names may be processed again", nil, func(b *builder) history.Source {
			three(b).success(1).success(2).commitNaming(0, "1-2").commitNaming(0, "2")
			restart(b).success(0).success(1).commit(3)
			return b.drain().done()
		}},
		{"what a commit that goes back names is processed again in each process", []string{"duplicate"},
			func(b *builder) history.Source {
				three(b).success(0).success(1).success(2).revoke(0).as(1, 0).up().assign(0).fetch(0).fetch(1).fetch(2)
				b.as(0, 0).commit(3).as(1, 0).success(0).success(2).commitNaming(1, "1").success(1).revoke(0)
				b.as(0, 0).assign(0).fetch(1).fetch(2).wait(1100 * ms).success(1).success(2).commit(3)
				return b.drain().done()
			}},
		{"an unfinished record is named and lost", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				three(b).fails(1, 1).success(2).commitNaming(0, "1,2")
				restart(b).success(0).commit(1)
				b.commitNaming(1, "0-1")
				return b.drain().done()
			}},
		{"a record is named before its dead letter is acknowledged", []string{"commit-before-dlq"},
			func(b *builder) history.Source {
				three(b).fails(1, 3)
				asked := b.askLetter(1)
				b.commitNaming(0, "1").answerLetter(asked, 0, 0).success(0).success(2).commit(3)
				return b.drain().done()
			}},
		{"metadata that can't be read means nothing", nil, func(b *builder) history.Source {
			three(b).fails(1, 1).success(2).commitNaming(0, "1-,x").wait(105 * ms).success(1).success(0).commit(3)
			return b.drain().done()
		}},
		{"metadata means nothing where the contract gives it no meaning", nil, func(b *builder) history.Source {
			b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).fails(1, 1).commitNaming(0, "1").wait(105 * ms).success(1).success(
				0).commit(2)
			return b.drain().done()
		}},
	}
}

// hops begins the run of a consumer that passes failed records on to a retry topic.
func hops(b *builder) *builder {
	b.h.Contract().Counter, b.h.Contract().Retry, b.h.Contract().Ordering = history.CounterHeader, history.RetryTopics,
		history.OrderingNone
	return b.begin()
}

// handsOn makes one attempt that fails, and passes the record on.
func (b *builder) handsOn(number int32) *builder {
	return b.attempt(number, history.OutcomeTransient).retryCopy(number)
}

func hopCases() []testCase {
	passedOn := func(b *builder, stall time.Duration) history.Source {
		hops(b).send(0).handsOn(0).commit(1).wait(98*ms).as(1, 0).up()
		if stall > 0 {
			b.wait(stall).stall(1, stall)
		}
		b.wait(200*ms).retryCopy(0).as(0, 0).wait(400*ms).attempt(0, history.OutcomeTransient).letter(0).commitCopies(0)
		return b.drain().done()
	}
	elsewhere := func(b *builder) *builder {
		hops(b).send(0).handsOn(0).commit(1).wait(98*ms).attempt(0, history.OutcomePermanent).letter(0).commitCopies(0)
		b.inTopics[len(b.inTopics)-1].Claim.Offset = 7
		b.drain().done()
		return b
	}
	return []testCase{
		{"another instance has a copy, and hands it on without an attempt", []string{"under-retried"},
			func(b *builder) history.Source { return passedOn(b, 0) }},
		{"another instance has a copy, and stands still while its attempt times out", nil,
			func(b *builder) history.Source { return passedOn(b, 2*time.Second) }},
		{"no connection to a broker can carry the copy, and the record is tried at once", nil,
			func(b *builder) history.Source {
				f := b.fault("network", "broker 1", "it is silent")
				hops(b).breaks(f).send(0).attempt(0, history.OutcomeTransient).attempt(0, history.OutcomeTransient).heals(f)
				b.retryCopy(0).commit(1).wait(98 * ms).success(0).commitCopies(0)
				return b.drain().done()
			}},
		{"its first place is committed before its copy is written, and the last while no dead letter can be written",
			[]string{"commit-advanced-while-dlq-down", "commit-before-dlq", "commit-past-unfinished"},
			func(b *builder) history.Source {
				hops(b).send(0).fails(0, 1).commit(1).retryCopy(0).wait(98*ms).handsOn(0).wait(199*ms).fails(0, 1)
				f := b.fault("kafka", "dlq", "Produce to dlq answered with an error")
				b.breaks(f)
				for range 5 {
					b.answerLetter(b.askLetter(0), 29, history.Forged).wait(400 * ms)
				}
				b.logError().commitCopies(0).answerLetter(b.askLetter(0), 29, history.Forged).heals(f).letter(0)
				return b.drain().done()
			}},
		{"through retry topics to the dead-letter topic", nil, func(b *builder) history.Source {
			hops(b).send(0).handsOn(0).commit(1).wait(98*ms).handsOn(0).wait(199*ms).attempt(0, history.OutcomeTransient).
				letter(0)
			b.commitCopies(0)
			return b.drain().done()
		}},
		{"the copy is tried before its wait is over", []string{"backoff-early"}, func(b *builder) history.Source {
			hops(b).send(0).handsOn(0).commit(1).wait(40 * ms).success(0).commitCopies(0)
			return b.drain().done()
		}},
		{"the copy is tried too late", []string{"backoff-late"}, func(b *builder) history.Source {
			hops(b).send(0).handsOn(0).commit(1).wait(400 * ms).success(0).commitCopies(0)
			return b.drain().done()
		}},
		{"the copy is tried too late, while a dead letter's acknowledgement is withheld", nil,
			func(b *builder) history.Source {
				f := b.fault("kafka", "dlq", "Produce to dlq: the answer is withheld")
				hops(b).send(0).breaks(f).handsOn(0).commit(1).wait(400 * ms).heals(f).success(0).commitCopies(0)
				return b.drain().done()
			}},
		{"the source is committed before the copy is acknowledged", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				hops(b).send(0).attempt(0, history.OutcomeTransient).commit(1).retryCopy(0).wait(98 * ms).success(0).commitCopies(0)
				return b.drain().done()
			}},
		{"the retry topic is committed past the copy in its wait", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				hops(b).send(0).handsOn(0).commit(1).commitCopies(0).wait(98 * ms).success(0)
				return b.drain().done()
			}},
		{"the retry topic is committed before the dead letter is acknowledged", []string{"commit-before-dlq"},
			func(b *builder) history.Source {
				hops(b).send(0).handsOn(0).commit(1).wait(98*ms).handsOn(0).wait(199*ms).attempt(0, history.OutcomeTransient)
				asked := b.askLetter(0)
				b.commitCopies(0).answerLetter(asked, 0, 0)
				return b.drain().done()
			}},
		{"the copy is never taken up", []string{"stalled"}, func(b *builder) history.Source {
			hops(b).send(0).handsOn(0).commit(1)
			return b.drain().done()
		}},
		{"the copy is passed and lost", []string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
			hops(b).send(0).handsOn(0).commit(1).commitCopies(0)
			return b.drain().done()
		}},
		{"a stop between the copy's acknowledgement and the commit makes two of it, each with attempts of its own", nil,
			twoCopies(false)},
		{"two copies by one stop, and one of them is processed twice", []string{"duplicate"}, twoCopies(true)},
		{"two copies, one of which fails for good while the other succeeds", nil, func(b *builder) history.Source {
			hops(b).send(0).handsOn(0).kill().as(0, 1).up().assign(0, 1, 2, 3)
			b.where[0] = place{input, 0, 0}
			b.fetch(0).handsOn(0).commit(1).wait(98 * ms)
			b.attempt(0, history.OutcomePermanent).success(0).letter(0).commitCopies(0)
			b.inTopics[len(b.inTopics)-1].Claim.Attempts = 2
			b.inTopics[len(b.inTopics)-1].Claim.Offset, b.inTopics[len(b.inTopics)-1].Claim.Topic = 0, retry
			return b.drain().done()
		}},
		{"the dead letter of a copy names an offset of the retry topic at which no copy is", []string{"metadata-wrong"},
			func(b *builder) history.Source { return elsewhere(b).source() }},
		{"the dead letter of a copy names an offset of the retry topic, which is not read at the end", nil,
			func(b *builder) history.Source {
				elsewhere(b).unaudited(retry)
				return b.source()
			}},
		{"a retry copy's repeat by an idempotent producer is one write", nil, repeatedCopy(true)},
		{"a retry copy's repeat that is never finished", []string{"commit-past-unfinished", "lost"}, repeatedCopy(false)},
		{"a rebalance hands out every copy that is not committed", nil, func(b *builder) history.Source {
			hops(b).send(0).handsOn(0).commit(1).wait(98 * ms).handsOn(0).wait(199 * ms).success(0)
			moved := func(kind history.Kind) {
				e := b.of(kind)
				e.Topic, e.Partition, e.N = retry, 0, 1
				b.put(e)
			}
			moved(history.KindRevoked)
			b.as(1, 0).up()
			moved(history.KindAssigned)
			b.fetch(0).wait(299 * ms).success(0).success(0).commitCopies(0)
			return b.drain().done()
		}},
		{"an original that only the audit places may be handed out again", nil, func(b *builder) history.Source {
			hops(b).handOver(0, 0, 0, 0)
			b.inInput(0, 0)
			b.fetch(0).handsOn(0).wait(98 * ms).success(0).commitCopies(0)
			b.where[0] = place{input, 0, 0}
			b.revoke(0).assign(0).fetch(0).wait(199 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"a replay to the retry topic finds the retry copy of before there", nil, replayToRetry(1)},
		{"a replay to the retry topic writes twice", []string{"replay-duplicated"}, replayToRetry(2)},
		{"a copy is dead-lettered after one attempt too few", []string{"under-retried"}, func(b *builder) history.Source {
			hops(b).send(0).handsOn(0).commit(1).wait(98*ms).attempt(0, history.OutcomeTransient).letter(0).commitCopies(0)
			return b.drain().done()
		}},
		{"a copy that goes round once more than it may", []string{"over-retried"}, func(b *builder) history.Source {
			hops(b).send(0).handsOn(0).commit(1).wait(98*ms).handsOn(0).wait(199*ms).handsOn(0).wait(299*ms).attempt(0,
				history.OutcomeTransient)
			b.letter(0).commitCopies(0)
			return b.drain().done()
		}},
	}
}

// repeatedCopy is a history of a retry copy whose acknowledgement never arrives. The copy is processed, and then
// requested again with the same sequence number. Later answers concern the copy that existed all along.
func repeatedCopy(finished bool) func(*builder) history.Source {
	return func(b *builder) history.Source {
		b.h.Contract().Backoff = history.Backoff{}
		hops(b).send(0).attempt(0, history.OutcomeTransient)
		b.op++
		ask := b.of(history.KindProduceRequest)
		ask.Op, ask.Record, ask.Topic, ask.Partition, ask.ProducerID, ask.ProducerEpoch, ask.Sequence = b.op, 0, retry, 0,
			1, 0, 0
		b.put(ask)
		b.where[0] = place{retry, 0, 0}
		b.fetch(0)
		if finished {
			b.success(0)
		}
		b.op++
		ask.Op, ask.Time = b.op, b.tick()
		b.put(ask)
		ask.Kind, ask.Time, ask.Offset = history.KindProduceResponse, b.tick(), 0
		b.put(ask)
		b.next[7]++
		audit := history.New(history.KindAuditRecord, 0)
		audit.Record, audit.Topic, audit.Partition, audit.Offset = 0, retry, 0, 0
		b.inTopics = append(b.inTopics, audit)
		b.commit(1).commitCopies(0)
		return b.drain().done()
	}
}

// replayToRetry is a history of a record that was dead-lettered after a hop, and is written back to the retry topic.
func replayToRetry(times int) func(*builder) history.Source {
	return func(b *builder) history.Source {
		b.h.Replay, b.h.Consumers[0].ReplayTo, b.h.Contract().MaxAttempts = true, "in.retry", 2
		hops(b).send(0).handsOn(0).commit(1).wait(98*ms).attempt(0, history.OutcomeTransient).letter(0).commitCopies(
			0).drain()
		b.phase(history.PhaseReplay).audit(dlq)
		selected := b.event(history.KindReplaySelected)
		selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, 0
		b.put(selected)
		for range times {
			b.retryCopy(0)
			for i := range b.events {
				if e := &b.events[i]; e.Op == b.op &&
					(e.Kind == history.KindProduceRequest || e.Kind == history.KindProduceResponse) {
					e.Instance, e.Run = history.Replayer, 0
				}
			}
			written := &b.inTopics[len(b.inTopics)-1]
			written.ValueHash, written.HeadersHash = 1000, 77
		}
		b.success(0).commitCopies(0).wait(b.h.Expect.DrainLimit)
		return b.done()
	}
}

// twoCopies is a history of a process that is killed when its copy is acknowledged and its source is not committed.
// Both copies then succeed.
func twoCopies(again bool) func(*builder) history.Source {
	return func(b *builder) history.Source {
		hops(b).send(0).handsOn(0).kill().as(0, 1).up().assign(0)
		b.where[0] = place{input, 0, 0}
		b.fetch(0).handsOn(0).commit(1).wait(98 * ms).success(0).success(0)
		if again { // the topics of both copies changed hands, so two more are justified
			b.success(0).success(0)
		}
		b.commitCopies(0)
		return b.drain().done()
	}
}

func memberCases() []testCase {
	return []testCase{
		{"a static member comes back to its partitions with no word of it", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).fails(0, 0).kill().as(0, 1).up().fetch(0).success(0).commit(1)
			return b.drain().done()
		}},
		{"a static member counts anew after its restart", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 2).kill().as(0, 1).up().fetch(0).fails(0, 3).letter(0).commit(1)
			return b.drain().done()
		}},
		{"a static member has no reason to count anew without a restart", []string{"over-retried"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 2).fetch(0).wait(205*ms).attempt(0, history.OutcomeTransient).wait(305*ms).attempt(0,
					history.OutcomeTransient)
				b.letter(0).commit(1)
				return b.drain().done()
			}},
		{"a member leaves without a goodbye, and its partitions go to another when its session is over", nil,
			func(b *builder) history.Source {
				b.begin().send(0).success(0).send(1).fails(1, 1).kill()
				b.as(1, 0).up().wait(6*time.Second).assign(0, 1, 2, 3).fetch(0).success(0).fails(1, 3).letter(1).commit(2)
				return b.drain().done()
			}},
		{"a cooperative rebalance that leaves the partition where it is justifies nothing", []string{"duplicate"},
			func(b *builder) history.Source {
				b.begin().send(0).success(0).as(1, 0).up()
				b.as(0, 0).revoke(3).as(1, 0).assign(3)
				b.as(0, 0).success(0).commit(1)
				return b.drain().done()
			}},
		{"a cooperative rebalance that takes it away and gives it back", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).revoke(0).assign(0).fetch(0).success(0).commit(1)
			return b.drain().done()
		}},
		{"fetched, taken away and given back before its first attempt, and processed in both deliveries", nil,
			func(b *builder) history.Source {
				b.begin().send(0).revoke(0).assign(0).fetch(0)
				return b.success(0).success(0).commit(1).drain().done()
			}},
		{"given back before it was fetched, and processed twice", []string{"duplicate"}, func(b *builder) history.Source {
			b.begin().unread(0, 0, 0).revoke(0).assign(0).fetch(0)
			return b.success(0).success(0).commit(1).drain().done()
		}},
		{"fetched before the workload heard where it is, taken away and given back, and processed in both deliveries", nil,
			func(b *builder) history.Source {
				b.begin().handOver(0, 0, 0, 0)
				b.where[0] = place{input, 0, 0}
				b.fetch(0).acked(0, 0).revoke(0).assign(0).fetch(0)
				return b.success(0).success(0).commit(1).drain().done()
			}},
		{"the same assignment told again changes nothing", []string{"duplicate"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).assign(0, 1, 2, 3).success(0).commit(1)
			return b.drain().done()
		}},
	}
}

// aloneCases cover consumers that take partitions without a group: the history has no assignments.
func aloneCases() []testCase {
	begin := func(b *builder) *builder {
		return b.phase(history.PhaseSetup).up().phase(history.PhaseWarmup).phase(history.PhaseSteady)
	}
	return []testCase{
		{"without a group, a record is processed twice", []string{"duplicate"}, func(b *builder) history.Source {
			begin(b).send(0).fetch(0).success(0).fetch(0).success(0).commit(1)
			return b.drain().done()
		}},
		{"without a group, it goes back to what it had not committed when it was killed", nil,
			func(b *builder) history.Source {
				begin(b).send(0).fetch(0).success(0).kill().as(0, 1).up().fetch(0).success(0).commit(1)
				return b.drain().done()
			}},
		{"without a group, the next process tries a record too often", []string{"over-retried"},
			func(b *builder) history.Source {
				begin(b).send(0).fetch(0).fails(0, 2).kill().as(0, 1).up().fetch(0).fails(0, 4).letter(0).commit(1)
				return b.drain().done()
			}},
		{"without a group, it commits past what it has not finished", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				begin(b).sendTo(0, 0, 0).sendTo(1, 0, 1).fetch(0).fetch(1).fails(0, 1).success(1).commit(2)
				return b.drain().done()
			}},
		{"without a group, one that another took over from commits late", nil, func(b *builder) history.Source {
			begin(b).sendTo(0, 0, 0).sendTo(1, 0, 1).fetch(0).fetch(1).success(0)
			b.as(1, 0).up().fetch(0).fetch(1).success(0).success(1).commit(2).wait(100*ms).as(0, 0).commit(1)
			return b.as(1, 0).commit(2).drain().done()
		}},
	}
}

// outsideCases cover consumers that keep their offsets outside Kafka: nothing is committed.
func outsideCases() []testCase {
	begin := func(b *builder) *builder {
		b.h.Contract().OffsetsOutside = true
		b.phase(history.PhaseSetup).up().phase(history.PhaseWarmup).phase(history.PhaseSteady)
		return b.sendTo(0, 0, 0).sendTo(1, 0, 1)
	}
	return []testCase{
		{"offsets are outside, and each record is finished", nil, func(b *builder) history.Source {
			return begin(b).success(0).fails(1, 3).letter(1).drain().done()
		}},
		{"offsets are outside, and a record that was handed out is left", []string{"stalled"},
			func(b *builder) history.Source { return begin(b).fails(0, 1).success(1).drain().done() }},
		{"offsets are outside, and the last record is never handed out", []string{"paused-partition", "stalled"},
			func(b *builder) history.Source {
				return begin(b).success(0).success(1).handOver(2, 0, 2, 0).acked(2, 0).drain().done()
			}},
		{"offsets are outside, and the drain ended early", nil, func(b *builder) history.Source {
			return begin(b).fails(0, 1).success(1).phase(history.PhaseDrain).phase(history.PhaseAudit).done()
		}},
		{"offsets are outside, and the next process repeats what the one before had not stored", nil,
			func(b *builder) history.Source {
				begin(b).success(0).success(1).kill().as(0, 1).up().fetch(0).fetch(1).success(0).success(1)
				return b.drain().done()
			}},
		{"offsets are outside, and it goes back to the one that it stored", nil, func(b *builder) history.Source {
			return begin(b).success(0).success(1).fetch(1).success(1).drain().done()
		}},
		{"offsets are outside, and a record is processed twice without going back", []string{"duplicate"},
			func(b *builder) history.Source { return begin(b).success(0).success(0).success(1).drain().done() }},
		{"offsets are outside, and a record is tried too often", []string{"over-retried"},
			func(b *builder) history.Source { return begin(b).success(0).fails(1, 4).letter(1).drain().done() }},
		{"offsets are outside, and a value that can't be read is skipped by contract", nil, func(b *builder) history.Source {
			b.h.Contract().Poison = history.PoisonSkip
			begin(b).success(0).success(1).handOver(2, 0, 2, history.Garbage).acked(2, 0)
			return b.fetch(2).sendTo(3, 0, 3).fetch(3).success(3).drain().done()
		}},
		{"offsets are outside, and a call without an id may be of a value that can't be read", nil,
			func(b *builder) history.Source {
				begin(b).success(0).success(1).handOver(2, 0, 2, history.Garbage).acked(2, 0).fetch(2)
				return b.unnamed(none, none, none).sendTo(3, 0, 3).success(3).drain().done()
			}},
		{"offsets are outside, and a call names the place of a value that can't be read", nil,
			func(b *builder) history.Source {
				begin(b).success(0).success(1).handOver(2, 0, 2, history.Garbage).acked(2, 0).fetch(2)
				return b.unnamed(input, 0, 2).sendTo(3, 0, 3).success(3).drain().done()
			}},
		{"offsets are outside, and an answer has no class in the contract", nil, func(b *builder) history.Source {
			b.h.Contract().Logical = nil
			return begin(b).attempt(0, history.OutcomeLogical).success(1).drain().done()
		}},
		{"offsets are outside, and a value that can't be read is never handed out", []string{"paused-partition", "stalled"},
			func(b *builder) history.Source {
				begin(b).success(0).success(1).handOver(2, 0, 2, history.Garbage).acked(2, 0)
				return b.drain().done()
			}},
		{"offsets are outside, and a success has no effect", []string{"effect-missing"}, func(b *builder) history.Source {
			return begin(b.withSink(history.Effects{})).success(0).success(1).drain().sinkHas(0).done()
		}},
		{"offsets are outside, and a success has no effect in a drain that ended early", nil,
			func(b *builder) history.Source {
				begin(b.withSink(history.Effects{})).success(0).success(1)
				return b.phase(history.PhaseDrain).phase(history.PhaseAudit).sinkHas(0).done()
			}},
	}
}

func hiddenCases() []testCase {
	slow := func(b *builder, took time.Duration, flags history.Flags, outcome history.Outcome) *builder {
		op := b.start(0)
		b.wait(took)
		b.end(op, 0, outcome).Flags = flags
		return b
	}
	return []testCase{
		{"a slow downstream answers just when the client gives up", nil, func(b *builder) history.Source {
			f := b.fault("downstream", "downstream", "every attempt answered 2s late")
			slow(b.begin().send(0).breaks(f), 2*time.Second, 0, history.OutcomeSuccess).heals(f).wait(105 * ms).success(
				0).commit(1)
			return b.drain().done()
		}},
		{"its request waited while the harness stood still, and its client had given up", nil,
			func(b *builder) history.Source {
				b.begin().send(0).wait(600*ms).stall(history.None, 600*ms).wait(50 * ms)
				return b.success(0).wait(105 * ms).success(0).commit(1).drain().done()
			}},
		// pyrallel-consumer beside seven others on two cores: it reads a success too late, after its own time limit for
		// the task.
		{"the process hardly got a processor, though it never waited for long at once", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0)
			for range 6 {
				b.wait(15*ms).stall(0, 85*ms)
			}
			b.success(0).commit(1)
			return b.drain().done()
		}},
		{"the process got most of a processor", []string{"duplicate"}, func(b *builder) history.Source {
			b.begin().send(0).success(0)
			for range 6 {
				b.wait(60*ms).stall(0, 40*ms)
			}
			b.success(0).commit(1)
			return b.drain().done()
		}},
		{"the harness stood still long before its request", []string{"duplicate"}, func(b *builder) history.Source {
			b.begin().send(0).wait(600*ms).stall(history.None, 600*ms).wait(1200 * ms)
			return b.success(0).wait(105 * ms).success(0).commit(1).drain().done()
		}},
		{"a downstream that answers errors in time hides nothing", []string{"duplicate"}, func(b *builder) history.Source {
			f := b.fault("downstream", "downstream", "a tenth of the attempts answered 503")
			b.begin().send(0).breaks(f).success(0).wait(105 * ms).success(0).heals(f).commit(1)
			return b.drain().done()
		}},
		{"a hanging downstream hides nothing: too few attempts are too few", []string{"under-retried"},
			func(b *builder) history.Source {
				f := b.fault("downstream", "downstream", "no attempt is answered")
				slow(b.begin().send(0).breaks(f), 2*time.Second, history.ClientGone, history.OutcomeTimeout).heals(f)
				b.wait(105*ms).attempt(0, history.OutcomeTransient).letter(0).commit(1)
				return b.drain().done()
			}},
		{"a permanent failure that came too late for the client is tried again", nil, func(b *builder) history.Source {
			f := b.fault("downstream", "downstream", "every attempt answered 2s late")
			slow(b.begin().send(0).breaks(f), 2*time.Second, 0, history.OutcomePermanent).heals(f).wait(105 * ms)
			b.attempt(0, history.OutcomePermanent).letter(0).commit(1)
			return b.drain().done()
		}},
		{"a link that loses its data in the middle of messages hides answers", nil, func(b *builder) history.Source {
			f := b.fault("network", "downstream", "responses on downstream closed after 100 bytes")
			b.begin().send(0).breaks(f).success(0).wait(105 * ms).success(0).heals(f).commit(1)
			return b.drain().done()
		}},
		{"a link to a broker hides no answer of the downstream", []string{"duplicate"}, func(b *builder) history.Source {
			f := b.fault("network", "broker 1", "broker 1 closes its connections late")
			b.begin().send(0).breaks(f).success(0).wait(105 * ms).success(0).heals(f).commit(1)
			return b.drain().done()
		}},
		{"attempts of garbage, whose id nobody can find, excuse no other record", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				b.begin().handOver(0, 0, 0, history.Garbage).acked(0, 0).fetch(0).send(1)
				b.end(b.start(history.None), history.None, history.OutcomeUnknownID)
				b.letter(0).commit(2)
				return b.drain().done()
			}},
		{"attempts without an id excuse a record where there is nothing else that they could be of", nil,
			func(b *builder) history.Source {
				b.begin().send(0)
				b.end(b.start(history.None), history.None, history.OutcomeUnknownID)
				b.commit(1)
				return b.drain().done()
			}},
	}
}

// A record that is committed before its only attempt was not attempted before.
func TestACommitBeforeTheFirstAttempt(t *testing.T) {
	for attempts, want := range map[int]string{1: "it was attempted after that, and never finished",
		2: "it was attempted again after that"} {
		b := newBuilder()
		b.begin().send(0)
		if attempts > 1 {
			b.attempt(0, history.OutcomeTransient)
		}
		b.commit(1).wait(105*ms).attempt(0, history.OutcomeTransient)
		found := resultOf(t, judged(t, b.drain().done()), "commit-after-outcome").Anomalies
		if len(found) != 1 || !strings.HasSuffix(found[0].Counterexamples[0].Summary, want) {
			t.Errorf("%d attempts: %+v, want %q", attempts, found, want)
		}
	}
}
