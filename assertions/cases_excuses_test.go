package assertions

// Histories of correct consumers whose behaviour would be reported but for one circumstance, and their counterparts.

import (
	"slices"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func excuseCases() []testCase {
	return slices.Concat(effectExcuses(), endingExcuses(), byTimeCases(), unnumberedCases(),
		neverGivesUpCases(), replayExcuses(), letterExcuses())
}

func effectExcuses() []testCase {
	atLeast := history.Effects{}
	slow := func(b *builder, fault bool) history.Source {
		f := b.withSink(atLeast).fault("downstream", "downstream", "every attempt answered 2s late")
		b.begin().send(0)
		if fault {
			b.breaks(f)
		}
		op := b.start(0)
		b.wait(2 * time.Second)
		b.end(op, 0, history.OutcomeSuccess)
		if fault {
			b.heals(f)
		} else {
			b.h.Faults = nil
		}
		return b.commit(1).drain().sinkHas(0).done()
	}
	return []testCase{
		{"a slow downstream answers when the client may have given up, and there is no effect", nil,
			func(b *builder) history.Source { return slow(b, true) }},
		{"an attempt takes long, and there is no effect", []string{"effect-missing"},
			func(b *builder) history.Source { return slow(b, false) }},
		{"the link to the downstream is broken in the attempt, and there is no effect", nil,
			func(b *builder) history.Source {
				f := b.withSink(atLeast).fault("network", "downstream", "downstream resets its connections")
				b.begin().send(0).breaks(f).success(0).heals(f)
				return b.commit(1).drain().sinkHas(0).done()
			}},
		{"commits follow time, and a kill comes before the result", nil, func(b *builder) history.Source {
			b.withSink(atLeast).h.Contract().AutoCommit = true
			b.begin().send(0).success(0).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).commit(1)
			return b.drain().sinkHas(0).done()
		}},
		{"a commit is never answered, and the result is there twice", nil, func(b *builder) history.Source {
			b.withSink(atLeast).begin().send(0).success(0).result(0)
			b.askCommit(0, 1)
			return b.result(0).commit(1).drain().sinkHas(2).done()
		}},
		{"three successes before a replay that nothing follows have an effect each", nil,
			func(b *builder) history.Source {
				b.h.Expect.Invariants = []string{"effects"}
				b.withSink(atLeast).h.Replay = true
				b.begin().send(0).success(0).success(0).success(0).attempt(0, history.OutcomePermanent).letter(0).commit(1)
				b.drain().phase(history.PhaseReplay).audit(dlq)
				b.goBack(0, input)
				return b.sinkHas(3).done()
			}},
		{"the sink has an effect of no record", nil, func(b *builder) history.Source {
			b.withSink(atLeast).begin().send(0).success(0).result(0).commit(1).drain().sinkHas(1)
			e := b.event(history.KindEffect)
			e.N = 1
			b.put(e)
			return b.done()
		}},
	}
}

// endingExcuses are of processes that end, or of whose end nothing is known.
func endingExcuses() []testCase {
	stopped := func(b *builder) *builder {
		b.h.Contract().StopGrace = time.Second
		return b.begin().send(0).success(0).commit(1).drain().phase(history.PhaseAudit).signal("TERM")
	}
	permanent := history.OutcomePermanent
	unended := func(name string, want []string, tell func(*builder)) testCase {
		one := exiting(name, want, tell)
		one.tell = func(b *builder) history.Source {
			exitingFirst(b)
			tell(b)
			return b.source()
		}
		return one
	}
	return []testCase{
		{"it ends by itself long after its grace, and could not run", nil, func(b *builder) history.Source {
			return stopped(b).wait(1500*ms).stall(0, 400*ms).exit(0).sealed()
		}},
		{"it ends by itself long after its grace, and could not run for a moment", []string{"stop-timeout"},
			func(b *builder) history.Source {
				return stopped(b).wait(1800*ms).stall(0, 400*ms).exit(0).sealed()
			}},
		afterAll("the signal ends it while a fault is in force", nil, func(b *builder) {
			f := b.fault("kafka", "broker", "requests delayed")
			b.breaks(f).signal("TERM").endsBy("TERM").heals(f)
		}),
		afterAll("the signal ends it after a fault", []string{"unclean-exit"}, func(b *builder) {
			f := b.fault("kafka", "broker", "requests delayed")
			b.breaks(f).heals(f).wait(10 * time.Second).signal("TERM").endsBy("TERM")
		}),
		unended("the run ends just after its attempts", nil, func(b *builder) { b.send(0).fails(0, 3) }),
		exiting("an attempt of before ends when the partition is back, and the record succeeds", nil, func(b *builder) {
			b.send(0).fails(0, 1).revoke(0).assign(0).attempt(0, permanent).wait(1100 * ms)
			b.fetch(0).success(0).commit(1).wait(6 * time.Second)
		}),
		exiting("one of two copies of a record fails for good, and then the other succeeds", nil, func(b *builder) {
			b.sendTwice(0).attempt(0, permanent).success(0).commit(2).wait(6 * time.Second)
		}),
	}
}

func exitingFirst(b *builder) {
	b.h.Contract().Envelope, b.h.Contract().KeepsHeaders, b.h.Contract().ExitsExhausted = "", false, true
	b.begin()
}

// endsAfterAnother ends a run in which the partitions of a process that ends go to another one, which ends after it.
func endsAfterAnother(b *builder) history.Source {
	b.phase(history.PhaseAudit).signal("TERM").revoke(0).exit(0)
	return b.as(1, 0).up().assign(0, 1, 2, 3).signal("TERM").exit(0).sealed()
}

// unnumberedCases are of subjects without a dead-letter topic that promise no number of attempts: after any attempt they
// may have given the record up, but not before the first.
func unnumberedCases() []testCase {
	unnumbered := func(b *builder) *builder {
		b.withoutLetters().h.Contract().MaxAttempts = 0
		return b.begin().send(0)
	}
	return []testCase{
		{"committed after an attempt that failed", nil, func(b *builder) history.Source {
			return unnumbered(b).fails(0, 1).commit(1).drain().done()
		}},
		{"committed before the first attempt, which then fails", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				return unnumbered(b).commit(1).wait(100*ms).fails(0, 1).drain().done()
			}},
		{"committed before the first attempt that has its id", nil, func(b *builder) history.Source {
			unnumbered(b).end(b.start(history.None), history.None, history.OutcomeUnknownID)
			return b.commit(1).wait(100*ms).fails(0, 1).drain().done()
		}},
		{"committed before the first attempt, while the way to the downstream is broken", nil,
			func(b *builder) history.Source {
				f := b.fault("network", "downstream", "downstream resets its connections")
				unnumbered(b).breaks(f).commit(1).wait(100 * ms).heals(f)
				return b.fails(0, 1).drain().done()
			}},
	}
}

// Why such a record is not judged says what promise is missing.
func TestWhyNoLossIsUnknownWithoutANumberOfAttempts(t *testing.T) {
	b := newBuilder()
	b.withoutLetters().h.Contract().MaxAttempts = 0
	v := judged(t, b.begin().send(0).fails(0, 1).sendTo(1, 1, 1).success(1).commit(1).drain().done())
	why := "the contract names no number of attempts, so that it may have been given up"
	if got := resultOf(t, v, "no-loss"); got.NotJudged[why] != 1 {
		t.Errorf("no-loss: %s %v", got.Status, got.NotJudged)
	}
}

// neverGivesUpCases are of subjects that promise to try a record until it succeeds.
func neverGivesUpCases() []testCase {
	never := func(b *builder) *builder {
		b.h.Contract().MaxAttempts, b.h.Contract().Unlimited = 0, true
		return b.begin().send(0)
	}
	without := func(b *builder) *builder { return never(b.withoutLetters()) }
	const fails, rejected = history.OutcomeTransient, history.OutcomePermanent
	return []testCase{
		{"it never gives up, and commits after a failure", []string{"commit-past-unfinished", "lost", "under-retried"},
			func(b *builder) history.Source { return without(b).fails(0, 1).commit(1).drain().done() }},
		{"it never gives up, and commits after a call that is no longer waited for",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				without(b).left(func() { b.attempt(0, history.OutcomeTimeout) })
				return b.commit(1).drain().done()
			}},
		{"it never gives up, and succeeds at the twelfth attempt", nil, func(b *builder) history.Source {
			return without(b).fails(0, 11).wait(b.h.Contract().Backoff.Wait(11) + 5*ms).success(0).commit(1).drain().done()
		}},
		{"it never gives up, but for a record that is refused for good", nil, func(b *builder) history.Source {
			return without(b).attempt(0, rejected).commit(1).drain().done()
		}},
		{"it never gives up, and commits after the link hid a call", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				f := b.fault("network", "downstream", "downstream resets its connections")
				return without(b).fails(0, 1).breaks(f).commit(1).wait(100 * ms).heals(f).drain().done()
			}},
		{"it never gives up, and commits before its first call, while the link could hide one",
			[]string{"commit-past-unfinished"}, func(b *builder) history.Source {
				f := b.fault("network", "downstream", "downstream resets its connections")
				return without(b).breaks(f).commit(1).wait(100 * ms).heals(f).success(0).drain().done()
			}},
		{"it gives up only after a call without an answer, and the link hid one", nil, func(b *builder) history.Source {
			f := b.fault("network", "downstream", "downstream resets its connections")
			b.h.Contract().Retryable = []history.Outcome{fails}
			return without(b).fails(0, 1).breaks(f).commit(1).wait(100 * ms).heals(f).drain().done()
		}},
		{"it never gives up, and commits after a failure, long after the link could hide a call",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				f := b.fault("network", "downstream", "downstream resets its connections")
				without(b).breaks(f).wait(100 * ms).heals(f).wait(time.Second)
				return b.fails(0, 1).commit(1).drain().done()
			}},
		{"it never gives up, and commits after a failure, long before the link could hide a call",
			[]string{"commit-past-unfinished", "lost", "under-retried"}, func(b *builder) history.Source {
				f := b.fault("network", "downstream", "downstream resets its connections")
				without(b).fails(0, 1).commit(1).wait(5 * time.Second).breaks(f).wait(100 * ms)
				return b.heals(f).drain().done()
			}},
		{"it gives up long after a failure, when another process was handed the record and the link could hide calls", nil,
			func(b *builder) history.Source {
				f := b.withoutLetters().fault("network", "downstream", "downstream resets its connections")
				b.begin().send(0).fails(0, 1).wait(5*time.Second).revoke(0).as(1, 0).up().assign(0).fetch(0).breaks(f)
				return b.wait(time.Second).heals(f).commit(1).drain().done()
			}},
		{"giving up is the end, and a process that has lost the partition goes on after its commit",
			[]string{"commit-past-unfinished"}, func(b *builder) history.Source {
				b.withoutLetters().begin().send(0).fails(0, 1).commit(1).revoke(0).as(1, 0).up().assign(0)
				return b.as(0, 0).wait(105 * ms).success(0).drain().done()
			}},
		{"it gives up after a call that never ended, and later the link could hide calls", nil,
			func(b *builder) history.Source {
				f := b.withoutLetters().fault("network", "downstream", "downstream resets its connections")
				b.begin().send(0).start(0)
				return b.wait(5 * time.Second).breaks(f).wait(time.Second).heals(f).commit(1).drain().done()
			}},
		{"it gives up long after it wrote a copy, and the link could hide calls for that", nil,
			func(b *builder) history.Source {
				f := hops(b).withoutLetters().fault("network", "downstream", "downstream resets its connections")
				b.send(0).fails(0, 1).retryCopy(0).commit(1).wait(5 * time.Second).breaks(f).wait(time.Second)
				return b.heals(f).commitCopies(0).drain().done()
			}},
		{"it gives up after a failure, and before it was handed the record the link could hide a call",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				f := b.withoutLetters().fault("network", "downstream", "downstream resets its connections")
				b.begin().handOver(0, 0, 0, 0).acked(0, 0).breaks(f).wait(100 * ms).heals(f).wait(2 * time.Second)
				return b.fetch(0).fails(0, 1).commit(1).drain().done()
			}},
		{"it gives up after a failure, and after it was handed the record the link could hide a call", nil,
			func(b *builder) history.Source {
				f := b.withoutLetters().fault("network", "downstream", "downstream resets its connections")
				b.begin().send(0).breaks(f).wait(100 * ms).heals(f).wait(2 * time.Second)
				return b.fails(0, 1).commit(1).drain().done()
			}},
		{"it gives up after a failure, and the link could hide those of a process whose count goes on", nil,
			func(b *builder) history.Source {
				b.h.Contract().Counter = history.CounterStore
				f := b.withoutLetters().fault("network", "downstream", "downstream resets its connections")
				b.begin().send(0).breaks(f).wait(100 * ms).heals(f).kill().wait(2 * time.Second)
				return b.as(1, 0).up().assign(0).fetch(0).fails(0, 1).commit(1).drain().done()
			}},
		{"it commits what another process tries again, and the link could hide that it had succeeded", nil,
			func(b *builder) history.Source {
				f := b.withoutLetters().fault("network", "downstream", "downstream resets its connections")
				b.begin().send(0).fails(0, 1).breaks(f).wait(100 * ms).heals(f).wait(2 * time.Second)
				b.as(1, 0).up().assign(0).fetch(0).fails(0, 1)
				return b.as(0, 0).commit(1).drain().done()
			}},
		{"it never gives up, and dead-letters the record after three failures", []string{"under-retried"},
			func(b *builder) history.Source { return never(b).fails(0, 3).letter(0).commit(1).drain().done() }},
		{"it never gives up, and dead-letters the record at once", []string{"premature-dead-letter", "under-retried"},
			func(b *builder) history.Source { return never(b).fails(0, 1).letter(0).commit(1).drain().done() }},
		{"it never gives up, and dead-letters what is refused for good", nil, func(b *builder) history.Source {
			return never(b).attempt(0, rejected).letter(0).commit(1).drain().done()
		}},
		{"it never gives up, and commits after a call for several records", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				return without(b).send(1).bulk(fails, 0, 1).bulk(fails, 0, 1).commit(2).drain().done()
			}},
		{"it never gives up, and such a call is refused for good", nil, func(b *builder) history.Source {
			return without(b).send(1).bulk(rejected, 0, 1).commit(2).drain().done()
		}},
	}
}

// A stop is no reason to dead-letter a record that is to be tried until it succeeds.
func TestAStopCutsNoUnlimitedAttemptsShort(t *testing.T) {
	b := newBuilder()
	b.h.Contract().MaxAttempts, b.h.Contract().Unlimited = 0, true
	b.begin().send(0).fails(0, 2).signal("TERM").letter(0).commit(1).exit(0)
	v := judged(t, b.as(0, 1).up().drain().done())
	if got := resultOf(t, v, "graceful-stop"); got.Status != Fail || got.Anomalies[0].Name != "premature-dead-letter" {
		t.Errorf("graceful-stop: %s %v", got.Status, got.Anomalies)
	}
}

// byTimeCases are of subjects that commit by time, whatever has become of the records.
func byTimeCases() []testCase {
	byTime := func(b *builder) *builder {
		b.h.Contract().AutoCommit, b.h.Contract().StopGrace = true, time.Second
		return b.begin().send(0)
	}
	return []testCase{
		{"commits follow time, and a kill comes before the outcome", nil, func(b *builder) history.Source {
			byTime(b).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).commit(1)
			return b.drain().done()
		}},
		{"commits follow time, and nothing comes before the outcome", []string{"lost"}, func(b *builder) history.Source {
			return byTime(b).commit(1).drain().done()
		}},
		{"commits follow time, and the dead letter is refused", []string{"lost"}, func(b *builder) history.Source {
			byTime(b).fails(0, 3).refuseLetters(0, 1)
			return b.commit(1).drain().done()
		}},
		{"commits follow time, the dead letter is refused, and the partition is lost at the end", []string{"lost"},
			func(b *builder) history.Source {
				byTime(b).fails(0, 3).refuseLetters(0, 1).commit(1).drain().wait(5 * time.Second)
				return endsAfterAnother(b)
			}},
		{"commits follow time, nothing comes before the outcome, and the partition is lost at the end", []string{"lost"},
			func(b *builder) history.Source {
				byTime(b).commit(1).drain().wait(5 * time.Second)
				return endsAfterAnother(b)
			}},
		{"commits follow time, and the partition is lost at the end, in a backoff", nil, func(b *builder) history.Source {
			byTime(b).commit(1).phase(history.PhaseHeal).phase(history.PhaseDrain).fails(0, 1)
			return endsAfterAnother(b)
		}},
		{"commits follow time, and a kill comes between the commit and the outcome", nil,
			func(b *builder) history.Source {
				byTime(b).fails(0, 1).commit(1).kill().as(0, 1).up().assign(0, 1, 2, 3)
				return b.drain().done()
			}},
		{"commits follow time, a kill comes in a backoff, and giving up is the end", nil, func(b *builder) history.Source {
			byTime(b.withoutLetters()).fails(0, 1).commit(1).kill().as(0, 1).up().assign(0, 1, 2, 3)
			return b.drain().done()
		}},
		{"commits follow time, giving up is the end, and a process goes on that has lost the partition", nil,
			func(b *builder) history.Source {
				byTime(b.withoutLetters()).fails(0, 1).commit(1).revoke(0).as(1, 0).up().assign(0)
				b.as(0, 0).wait(105 * ms).success(0)
				return b.drain().done()
			}},
		{"commits follow time, giving up is the end, and it is tried after its place is known", []string{"lost"},
			func(b *builder) history.Source {
				b.withoutLetters().h.Contract().AutoCommit = true
				b.begin().handOver(0, 0, 0, 0).fetch(0).commit(1).acked(0, 0).fails(0, 1)
				return b.drain().done()
			}},
		{"commits follow time, giving up is the end, and it comes too early", []string{"lost", "under-retried"},
			func(b *builder) history.Source {
				return byTime(b.withoutLetters()).fails(0, 1).commit(1).drain().done()
			}},
		{"commits follow time, and a stop comes in a backoff", nil, func(b *builder) history.Source {
			byTime(b).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).fails(0, 1).signal("TERM").commit(1).exit(0)
			return b.as(0, 2).up().assign(0, 1, 2, 3).drain().done()
		}},
	}
}

func replayExcuses() []testCase {
	return []testCase{
		{"replayed to a retry topic that has a copy of unknown place", nil, func(b *builder) history.Source {
			b.h.Replay, b.h.Consumers[0].ReplayTo, b.h.Contract().MaxAttempts = true, "in.retry", 2
			hops(b).send(0).attempt(0, transient).askCopy(0)
			b.kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0)
			b.answerCopy(b.askCopy(0), 0, 0).commit(1)
			b.h.Expect.Invariants = []string{"replay-round-trip"}
			b.wait(98*ms).attempt(0, transient).letter(0).commitCopies(0).drain()
			b.phase(history.PhaseReplay).audit(dlq)
			selected := b.event(history.KindReplaySelected)
			selected.Record, selected.Topic, selected.Partition, selected.Offset = 0, dlq, 0, 0
			b.put(selected)
			for _, kept := range []bool{false, true} {
				from := len(b.events)
				b.retryCopy(0)
				for i := from; i < len(b.events); i++ {
					b.events[i].Instance, b.events[i].Run = history.Replayer, 0
				}
				written := &b.inTopics[len(b.inTopics)-1]
				written.ValueHash, written.KeyHash, written.HeadersHash = 1000, 10, 77
				if !kept {
					b.events = b.events[:from] // only the audit shows it: the killed process wrote it
				}
			}
			b.fetch(0).success(0).commitCopies(0).wait(b.h.Expect.DrainLimit)
			return b.done()
		}},
		{"never finished, in a topic that is not read at the end", nil, func(b *builder) history.Source {
			b.begin().send(0).drain().done()
			b.unaudited(input)
			return b.source()
		}},
		{"committed past by a commit that nobody saw, after a fault", []string{"lost"}, func(b *builder) history.Source {
			f := b.fault("broker", "broker 0", "broker stopped")
			b.begin().breaks(f).send(0).heals(f)
			b.commits[0] = 1
			return b.drain().done()
		}},
		{"replayed, and the topic is not read at the end", nil, func(b *builder) history.Source {
			replayed("", nil, func(b *builder) { b.goBack(1, input) }, func(b *builder) { b.success(1).commitAll() }).tell(b)
			b.unaudited(input)
			return b.source()
		}},
		{"replayed, and its dead letter states a place that nobody read", nil, func(b *builder) history.Source {
			replayed("", nil, func(b *builder) { b.goBack(1, input) }, func(b *builder) { b.success(1).commitAll() }).tell(b)
			for i := range b.events {
				if e := &b.events[i]; e.Kind == history.KindAuditRecord && e.Topic == dlq && e.Claim != nil {
					e.Claim.Offset = 9
				}
			}
			b.unaudited(input)
			return b.source()
		}},
		{"replayed, and its dead letter states a place where it never was", []string{"metadata-wrong"},
			func(b *builder) history.Source {
				replayed("", nil, func(b *builder) { b.goBack(1, input) }, func(b *builder) { b.success(1).commitAll() }).tell(b)
				for i := range b.events {
					if e := &b.events[i]; e.Kind == history.KindAuditRecord && e.Topic == dlq && e.Claim != nil {
						e.Claim.Offset = 9
					}
				}
				return b.source()
			}},
	}
}

// unaudited leaves a topic out of the audits so far: they began, and did not come to an end.
func (b *builder) unaudited(topic int16) {
	b.events = slices.DeleteFunc(b.events, func(e history.Event) bool {
		return (e.Kind == history.KindAuditRecord || e.Kind == history.KindAuditOffsets) && e.Topic == topic
	})
}

func letterExcuses() []testCase {
	longTime := 40 * time.Second
	halts := func(name string, want []string, meanwhile func(*builder)) testCase {
		return promising(name, history.OnFailureRetry, want, func(b *builder) {
			b.refusedLetter(fewer).logError()
			meanwhile(b)
			b.letter(0).commitAll()
		})
	}
	return []testCase{
		changed("the topic is missing", "metadata-missing", func(e *history.Event) {
			e.Claim.Topic, e.Claim.Missing = history.None, "x-original-topic"
		}),
		{"dead-lettered without a try that names the record, where attempts name none", nil,
			func(b *builder) history.Source {
				b.begin().send(0).unnamed(input, 0, history.None).letter(0).commit(1)
				b.h.Expect.Invariants = []string{"classification"}
				return b.drain().done()
			}},
		halts("it promised to try on, and halts while a broker is down", nil, func(b *builder) {
			f := b.fault("broker", "broker 0", "broker stopped")
			b.breaks(f).wait(longTime).heals(f)
		}),
		halts("it promised to try on, and stands still", nil, func(b *builder) { b.wait(longTime).stall(0, longTime) }),
		{"calls of one attempt look like four in a stall", nil, func(b *builder) history.Source {
			b.h.Contract().Calls = 3
			b.begin().send(0).triesWith(0, 2, 3).wait(205*ms).stall(history.None, 205*ms).triesWith(0, 2, 3)
			b.tries[0] = 3
			return b.letter(0).commit(1).drain().done()
		}},
	}
}

// A stop whose end was not seen proves nothing.
func TestAStopWhoseEndIsNotSeen(t *testing.T) {
	b := newBuilder()
	b.h.Contract().StopGrace = time.Second
	b.begin().send(0).success(0).commit(1).signal("TERM")
	if r := resultOf(t, judged(t, b.source()), "graceful-stop"); r.Judged != 0 || r.Status == Pass {
		t.Errorf("%s of %d", r.Status, r.Judged)
	}
}
