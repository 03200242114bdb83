package assertions

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// inDatabase has a record dead-lettered after two attempts with a gap between them. The dead letter claims a number.
func inDatabase(name string, anomalies []string, gap time.Duration, claim int32) testCase {
	return testCase{name, anomalies, func(b *builder) history.Source {
		b.h.Contract().Database, b.h.Contract().Backoff.Late = true, time.Second
		b.begin().send(0).fails(0, 1).wait(gap).attempt(0, history.OutcomeTransient).letter(0).commit(1)
		b.inTopics[len(b.inTopics)-1].Claim.Attempts = claim
		return b.drain().done()
	}}
}

// A database hides attempts that never reached a statement, and a registry that denies schemas may make a record seem
// unreadable. They hide no answer, so whatever follows from one remains.
func TestWhatHidesAttemptsHidesNoAnswers(t *testing.T) {
	mayGo := []string{"under-retried", "premature-dead-letter", "metadata-wrong"}
	for _, one := range slices.Concat(
		plainCases(), commitCases(), lossCases(), haltCases(), retryCases(), classCases(), backoffCases(), letterCases(),
		orderCases(), memberCases(), stopCases(), livenessCases(),
	) {
		for what, hide := range map[string]func(*builder){
			"database": func(b *builder) { b.h.Contract().Database = true },
			"registry": func(b *builder) { f := unknownSchema(b); b.breaks(f).heals(f).wait(1100 * ms) },
		} {
			t.Run(one.name+", "+what, func(t *testing.T) {
				without, with := newBuilder(), newBuilder()
				hide(with)
				want, v := named(judged(t, one.tell(without))), judged(t, one.tell(with))
				compare(t, want, v, mayGo)
			})
		}
	}
}

// compare checks that a history shows the wanted anomalies, but perhaps those that may go, and no others.
func compare(t *testing.T, want []string, v *Verdict, mayGo []string) {
	t.Helper()
	got := named(v)
	for _, name := range want {
		if !slices.Contains(got, name) && !slices.Contains(mayGo, name) {
			t.Errorf("%s is gone\n%s", name, show(v))
		}
	}
	for _, name := range got {
		if !slices.Contains(want, name) {
			t.Errorf("%s is new\n%s", name, show(v))
		}
	}
}

func retryCases() []testCase {
	return []testCase{
		{"one attempt too many", []string{"over-retried"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 4).letter(0).commit(1)
			return b.drain().done()
		}},
		{"one attempt too few", []string{"under-retried"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 2).letter(0).commit(1)
			return b.drain().done()
		}},
		{"one attempt too few for the downstream, with its link broken", nil, func(b *builder) history.Source {
			f := b.fault("network", "downstream", "downstream down")
			b.begin().send(0).breaks(f).fails(0, 1).heals(f).wait(190*ms).attempt(0, history.OutcomeTransient).letter(
				0).commit(1)
			return b.drain().done()
		}},
		{"one attempt too few for the downstream, with the instance stopped meanwhile", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).signal("STOP").wait(time.Second).signal("CONT").attempt(0, history.OutcomeTransient).
				letter(0).commit(1)
			return b.drain().done()
		}},
		inDatabase("one attempt too few for a database, in which one may have failed before its statement", nil, 305*ms, 3),
		inDatabase("one attempt too few for a database, and no time for another", []string{"metadata-wrong", "under-retried"},
			105*ms, 3),
		inDatabase("one attempt too few for a database, as the dead letter says itself", []string{"under-retried"},
			305*ms, 2),
		{"one attempt too few after a restart, as the count can't have survived", []string{"under-retried"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 2).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).fails(0, 2).letter(0).commit(1)
				return b.drain().done()
			}},
		{"the count survives a rebalance, as it may", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 2).revoke(0).assign(0).wait(1100*ms).attempt(0, history.OutcomeTransient).letter(
				0).commit(1)
			return b.drain().done()
		}},
		{"a stopped instance goes on for an attempt after it has lost the partition", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 2).signal("STOP")
			b.as(1, 0).up().assign(0).fetch(0).fails(0, 2)
			b.as(0, 0).signal("CONT").attempt(0, history.OutcomeTransient)
			b.as(1, 0).wait(205*ms).attempt(0, history.OutcomeTransient).letter(0).commit(1)
			return b.drain().done()
		}},
		{"one attempt of before is still on its way when the partition comes back", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 2).revoke(0).assign(0).attempt(0, history.OutcomeTransient).wait(1100*ms).fails(0,
				3).letter(0).commit(1)
			b.inTopics[len(b.inTopics)-1].Claim.Attempts = 3
			return b.drain().done()
		}},
		{"a delivery of before is gone on with for long, beside the new one, by a process that has little time", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).revoke(0).assign(0).fetch(0).wait(1100 * ms)
				b.fails(0, 1).fails(0, 1).wait(105*ms).fails(0, 1).fails(0, 1).wait(205*ms).fails(0, 1).letter(0).commit(1)
				b.inTopics[len(b.inTopics)-1].Claim.Attempts = 3
				return b.drain().done()
			}},
		{"more attempts than both deliveries may have", []string{"over-retried"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).revoke(0).assign(0).fetch(0).wait(1100*ms).fails(0, 7).letter(0).commit(1)
			b.inTopics[len(b.inTopics)-1].Claim.Attempts = 3
			return b.drain().done()
		}},
		{"too many attempts of what was first fetched when the partition had come back", []string{"over-retried"},
			func(b *builder) history.Source {
				b.begin().revoke(0).assign(0).wait(1100*ms).send(0).fails(0, 5).letter(0).commit(1)
				return b.drain().done()
			}},
		{"one attempt too many at a record that was first fetched when the partition had come back", []string{"over-retried"},
			func(b *builder) history.Source {
				b.begin().revoke(0).assign(0).wait(1100*ms).send(0).fails(0, 4).letter(0).commit(1)
				return b.drain().done()
			}},
		{"one attempt too many, and the first one may belong to a fetch from before the partition came back", nil,
			func(b *builder) history.Source {
				b.begin().send(0).revoke(0).assign(0).fetch(0).wait(1100*ms).fails(0, 4).letter(0).commit(1)
				b.inTopics[len(b.inTopics)-1].Claim.Attempts = 3
				return b.drain().done()
			}},
		{"the last attempt of an instance ends when it has just given the partition back", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 2).revoke(0).as(1, 0).up().assign(0).fetch(0).fails(0, 2)
				b.revoke(0).wait(205*ms).attempt(0, history.OutcomeTransient).letter(0).commit(1)
				b.inTopics[len(b.inTopics)-1].Claim.Attempts = 3
				return b.drain().done()
			}},
		{"a late commit of the one that lost the partition is taken back by the one that has it, and that loses it, too", nil,
			func(b *builder) history.Source {
				b.begin().send(0).send(1).success(0).success(1).revoke(0).as(1, 0).up().assign(0).fetch(0).fetch(1)
				b.as(0, 0).commit(2).as(1, 0).success(0).commit(1).success(1).revoke(0)
				b.as(0, 0).assign(0).fetch(1).wait(1100 * ms).success(1).commit(2)
				return b.drain().done()
			}},
		{"so, too, by one that passes failed records on to a retry topic", nil, func(b *builder) history.Source {
			headerCounter(b)
			b.begin().send(0).send(1).success(0).success(1).revoke(0).as(1, 0).up().assign(0).fetch(0).fetch(1)
			b.as(0, 0).commit(2).as(1, 0).success(0).commit(1).success(1).revoke(0)
			b.as(0, 0).assign(0).fetch(1).success(1).commit(2)
			return b.drain().done()
		}},
		{"so, too, of a record whose copy has succeeded, and is committed", nil, func(b *builder) history.Source {
			headerCounter(b)
			b.begin().send(0).send(1).success(0).fails(1, 1).retryCopy(1).success(1).commitCopies(1).revoke(0)
			copied := b.where[1]
			b.as(1, 0).up().assign(0)
			b.where[1] = place{input, 0, 1}
			b.fetch(0).fetch(1).as(0, 0).commit(2).as(1, 0).success(0).commit(1).success(1).revoke(0)
			b.as(0, 0).assign(0).fetch(1).success(1).commit(2)
			b.where[1] = copied
			return b.drain().done()
		}},
		{"a failed dead letter justifies a new round", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), 19, 0).fails(0, 3).letter(0).commit(1)
			return b.drain().done()
		}},
		{"round after round with nothing to justify it", []string{"endless-redelivery"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 7)
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"a count in the header goes on in another process", nil, func(b *builder) history.Source {
			headerCounter(b)
			b.begin().send(0).fails(0, 1).retryCopy(0).commit(1)
			b.as(1, 0).up().wait(100*ms).attempt(0, history.OutcomeTransient).retryCopy(0)
			b.as(0, 0).wait(205*ms).attempt(0, history.OutcomeTransient).letter(0)
			b.commitCopies(1)
			b.as(1, 0).commitCopies(0)
			return b.drain().done()
		}},
		{"its retry copy was lost with the leader that alone acknowledged it", []string{"dropped-by-ack"},
			func(b *builder) history.Source {
				headerCounter(b)
				b.begin().send(0).fails(0, 1).answerCopy(b.askCopy(0), 0, history.Unreplicated).commit(1)
				return b.drain().done()
			}},
		{"its retry copy was lost with the leader, and written again", nil, func(b *builder) history.Source {
			headerCounter(b)
			b.begin().send(0).fails(0, 1).answerCopy(b.askCopy(0), 0, history.Unreplicated)
			b.retryCopy(0).commit(1).success(0).commitCopies(0)
			return b.drain().done()
		}},
		{"its retry copy was lost with the leader, written again, and committed untried",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				headerCounter(b)
				b.begin().send(0).fails(0, 1).answerCopy(b.askCopy(0), 0, history.Unreplicated)
				b.retryCopy(0).commit(1).commitCopies(0)
				return b.drain().done()
			}},
		{"its retry copy was lost with the leader, written again, and tried early", []string{"backoff-early"},
			func(b *builder) history.Source {
				headerCounter(b)
				b.h.Contract().Backoff = history.Backoff{Initial: 100 * ms, Multiplier: 2}
				b.begin().send(0).fails(0, 1).answerCopy(b.askCopy(0), 0, history.Unreplicated)
				b.retryCopy(0).commit(1).wait(50 * ms).placeless(0).commitCopies(0)
				return b.drain().done()
			}},
		{"its retry copy was lost with the leader, and it was handed out again", nil, func(b *builder) history.Source {
			headerCounter(b)
			b.begin().send(0).fails(0, 1).answerCopy(b.askCopy(0), 0, history.Unreplicated)
			b.kill().as(0, 1).up().assign(0).fetch(0).success(0).commit(1)
			return b.drain().done()
		}},
		{"a count in the header that is not kept", []string{"endless-redelivery"}, func(b *builder) history.Source {
			headerCounter(b)
			b.begin().send(0).fails(0, 1).retryCopy(0).commit(1)
			for range 6 {
				b.wait(305*ms).attempt(0, history.OutcomeTransient).retryCopy(0)
			}
			b.wait(305 * ms).success(0)
			b.commitCopies(0)
			return b.drain().done()
		}},
	}
}

func headerCounter(b *builder) {
	b.h.Contract().Counter, b.h.Contract().Retry, b.h.Contract().Ordering = history.CounterHeader, history.RetryTopics,
		history.OrderingNone
	b.h.Contract().Backoff = history.Backoff{}
}

// copiesTo is the topic that retry copies are written to, and the index of its partition 0 in next.
func (b *builder) copiesTo() (topic int16, next int) {
	if b.h.Topics[input].Retries {
		return input, 0
	}
	return retry, 7
}

// retryCopy writes the record to the retry topic, and fetches the copy.
func (b *builder) retryCopy(number int32) *builder {
	return b.answerCopy(b.askCopy(number), 0, 0).fetch(number)
}

// askCopy and answerCopy are the two halves of writing a retry copy.
func (b *builder) askCopy(number int32) history.Event {
	b.op++
	e := b.of(history.KindProduceRequest)
	e.Op, e.Record, e.Partition = b.op, number, 0
	e.Topic, _ = b.copiesTo()
	return *b.put(e)
}

func (b *builder) answerCopy(asked history.Event, code int16, flags history.Flags) *builder {
	e := asked
	e.Kind, e.Time, e.Code, e.Flags = history.KindProduceResponse, b.tick(), code, flags
	if code != 0 || flags.Has(history.Unreplicated) {
		b.put(e)
		return b
	}
	topic, next := b.copiesTo()
	e.Offset = b.next[next]
	b.next[next]++
	b.put(e)
	audit := history.New(history.KindAuditRecord, 0)
	audit.Record, audit.Topic, audit.Partition, audit.Offset = e.Record, topic, 0, e.Offset
	b.inTopics = append(b.inTopics, audit)
	b.where[e.Record] = place{topic, 0, e.Offset}
	return b
}

func (b *builder) commitCopies(int32) *builder { return b.answerCopies(b.askCopies()) }

// askCopies and answerCopies are the two halves of committing the retry topic.
func (b *builder) askCopies() history.Event {
	b.op++
	e := b.of(history.KindCommitRequest)
	e.Op, e.Topic, e.Partition, e.Offset = b.op, retry, 0, b.next[7]
	return *b.put(e)
}

func (b *builder) answerCopies(asked history.Event) *builder {
	e := asked
	e.Kind, e.Time = history.KindCommitResponse, b.tick()
	b.put(e)
	b.retryCommitted = e.Offset
	return b
}

// deniedLetter has record 0 fail for good and its dead letter refused. It is tried twice more, and only the first of
// these follows a write that is seen.
func (b *builder) deniedLetter(code int16, flags ...history.Flags) *builder {
	answer := history.Forged
	for _, flag := range flags {
		answer |= flag
	}
	b.begin().send(0).attempt(0, history.OutcomePermanent).answerLetter(b.askLetter(0), code, answer)
	b.wait(105*ms).attempt(0, history.OutcomePermanent)
	return b.wait(105*ms).attempt(0, history.OutcomePermanent)
}

// usedUpBeside has record 0 use up its attempts three times beside a fault, without a request for its dead letter.
func (b *builder) usedUpBeside(kind, target, api string) history.Source {
	f := b.fault(kind, target, "it is broken")
	b.h.Faults[f].API = api
	b.begin().breaks(f).send(0).fails(0, 3).wait(105*ms).fails(0, 3).wait(105*ms).fails(0, 3).heals(f)
	return b.letter(0).commit(1).drain().done()
}

func classCases() []testCase {
	return []testCase{
		{"a permanent failure is tried again", []string{"permanent-retried"}, func(b *builder) history.Source {
			b.begin().send(0).attempt(0, history.OutcomePermanent).wait(105*ms).attempt(0, history.OutcomePermanent).letter(
				0).commit(1)
			return b.drain().done()
		}},
		{"a permanent failure is tried again, as the client denies its dead letter without a request", nil,
			func(b *builder) history.Source {
				return b.deniedLetter(unauthorized).letter(0).commit(1).drain().done()
			}},
		{"a permanent failure is tried again, and the client denies nothing after such a refusal",
			[]string{"permanent-retried"}, func(b *builder) history.Source {
				return b.deniedLetter(tooLarge).letter(0).commit(1).drain().done()
			}},
		{"a permanent failure is tried again, and the client would have sent its dead letter",
			[]string{"permanent-retried"}, func(b *builder) history.Source {
				return b.deniedLetter(unauthorized, history.NotLibrdkafka).letter(0).commit(1).drain().done()
			}},
		{"a permanent failure is tried again, and the client was allowed to write meanwhile", []string{"permanent-retried"},
			func(b *builder) history.Source {
				b.deniedLetter(unauthorized).letter(0).commit(1).send(1).attempt(1, history.OutcomePermanent).wait(105 * ms)
				return b.attempt(1, history.OutcomePermanent).letter(1).commit(2).drain().done()
			}},
		{"a permanent failure is tried again, as its dead letter was denied just before another one was written", nil,
			func(b *builder) history.Source {
				b.deniedLetter(unauthorized).sendTo(1, 1, 1).attempt(1, history.OutcomePermanent).letter(1).wait(105 * ms)
				return b.attempt(0, history.OutcomePermanent).letter(0).commitAll().drain().done()
			}},
		{"attempts are used up again, as the client denies the dead letter without a request", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), unauthorized, history.Forged).wait(105 * ms)
				b.fails(0, 3).wait(105*ms).fails(0, 3).letter(0).commit(1)
				return b.drain().done()
			}},
		{"attempts are used up again and again, as no connection to a broker could carry the dead letter", nil,
			func(b *builder) history.Source { return b.usedUpBeside("network", "broker 1", "") }},
		{"attempts are used up again and again, as the broker was away", nil,
			func(b *builder) history.Source { return b.usedUpBeside("broker", "broker 1", "") }},
		{"attempts are used up again and again, as the client got no metadata", nil,
			func(b *builder) history.Source { return b.usedUpBeside("kafka", "brokers", "Metadata") }},
		{"attempts are used up again and again, and a fault would have shown the dead letter",
			[]string{"backoff-early", "backoff-not-growing", "endless-redelivery"},
			func(b *builder) history.Source { return b.usedUpBeside("kafka", "brokers", "OffsetCommit") }},
		{"attempts are used up again and again, and a fault was on another link",
			[]string{"backoff-early", "backoff-not-growing", "endless-redelivery"},
			func(b *builder) history.Source { return b.usedUpBeside("network", "registry", "") }},
		{"attempts are used up again and again, and the brokers were there by then",
			[]string{"backoff-early", "backoff-not-growing", "endless-redelivery"}, func(b *builder) history.Source {
				f := b.fault("network", "broker 1", "it is silent")
				b.begin().breaks(f).heals(f).wait(2*time.Second).send(0).fails(0, 3).wait(105*ms).fails(0, 3)
				return b.wait(105*ms).fails(0, 3).letter(0).commit(1).drain().done()
			}},
		{"a delivery of before is gone on with beside the new one, while dead letters could fail unseen", nil,
			func(b *builder) history.Source {
				f := b.fault("network", "broker 1", "it is silent")
				b.begin().breaks(f).send(0).fails(0, 1).revoke(0).assign(0).fetch(0).wait(1100 * ms)
				b.fails(0, 1).fails(0, 1).wait(105*ms).fails(0, 1).wait(205*ms).fails(0, 1).fails(0, 1).heals(f)
				b.letter(0).commit(1).inTopics[len(b.inTopics)-1].Claim.Attempts = 3
				return b.drain().done()
			}},
		{"attempts are used up again, as an idempotent producer has failed for good", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), forbidden, history.Forged).wait(105 * ms)
				b.fails(0, 3).wait(105*ms).fails(0, 3).letter(0).commit(1)
				return b.drain().done()
			}},
		{"attempts are used up again, and a producer that is not idempotent goes on",
			[]string{"backoff-early", "backoff-not-growing", "over-retried"}, func(b *builder) history.Source {
				asked := b.begin().send(0).fails(0, 3).askLetter(0)
				asked.ProducerID = history.None
				b.answerLetter(asked, forbidden, history.Forged).wait(105*ms).fails(0, 3).wait(105*ms).fails(0, 3)
				return b.letter(0).commit(1).drain().done()
			}},
		{"attempts are used up again, and the client denies nothing after such a refusal",
			[]string{"backoff-early", "backoff-not-growing", "over-retried"}, func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), tooLarge, history.Forged).wait(105 * ms)
				b.fails(0, 3).wait(105*ms).fails(0, 3).letter(0).commit(1)
				return b.drain().done()
			}},
		{"attempts are used up again, as the dead letter waited in the client behind one that was refused", nil,
			func(b *builder) history.Source {
				asked := b.begin().send(0).sendTo(1, 1, 1).attempt(0, history.OutcomePermanent).askLetter(0)
				b.fails(1, 3).answerLetter(asked, tooLarge, history.Forged).wait(105*ms).fails(1, 3).letter(1)
				return b.attempt(0, history.OutcomePermanent).letter(0).commitAll().drain().done()
			}},
		{"attempts are used up again, and a dead letter was refused before the last of them",
			[]string{"backoff-early", "backoff-not-growing", "over-retried"}, func(b *builder) history.Source {
				asked := b.begin().send(0).sendTo(1, 1, 1).attempt(0, history.OutcomePermanent).askLetter(0)
				b.answerLetter(asked, tooLarge, history.Forged).fails(1, 3).wait(105*ms).fails(1, 3).letter(1)
				return b.attempt(0, history.OutcomePermanent).letter(0).commitAll().drain().done()
			}},
		{"a permanent failure is tried again after a restart", nil, func(b *builder) history.Source {
			b.begin().send(0).attempt(0, history.OutcomePermanent).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0)
			b.attempt(0, history.OutcomePermanent).letter(0).commit(1)
			return b.drain().done()
		}},
		{"a permanent failure of before comes in when the partition is back, and is tried again", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).revoke(0).assign(0).attempt(0, history.OutcomePermanent).wait(1100 * ms)
				b.attempt(0, history.OutcomePermanent).letter(0).commit(1)
				b.inTopics[len(b.inTopics)-1].Claim.Attempts = 1
				return b.drain().done()
			}},
		{"a permanent failure is tried again, as its answer may have been lost", nil, func(b *builder) history.Source {
			f := b.fault("network", "downstream", "downstream resets its connections")
			b.begin().send(0).attempt(0, history.OutcomePermanent).breaks(f).wait(105*ms).attempt(0, history.OutcomePermanent).
				heals(f)
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"a permanent failure is tried again, after a stall that is noticed later", nil, func(b *builder) history.Source {
			b.begin().send(0).attempt(0, history.OutcomePermanent).wait(305*ms).attempt(0, history.OutcomePermanent)
			b.stall(0, 300*ms).letter(0).commit(1)
			return b.drain().done()
		}},
		{"a logical failure is tried again", []string{"permanent-retried"}, func(b *builder) history.Source {
			b.begin().send(0).attempt(0, history.OutcomeLogical).wait(105*ms).attempt(0, history.OutcomeLogical).commit(1)
			return b.drain().done()
		}},
		{"a logical failure is dead-lettered", []string{"logical-dead-lettered"}, func(b *builder) history.Source {
			b.begin().send(0).attempt(0, history.OutcomeLogical).letter(0).commit(1)
			return b.drain().done()
		}},
		{"a logical failure is dead-lettered by contract", nil, func(b *builder) history.Source {
			b.h.Contract().LogicalDeadLetters = true
			b.begin().send(0).attempt(0, history.OutcomeLogical).letter(0).commit(1)
			return b.drain().done()
		}},
		{"a logical failure is dead-lettered, of which the contract says nothing", nil, func(b *builder) history.Source {
			b.h.Contract().LogicalEither = true
			b.begin().send(0).attempt(0, history.OutcomeLogical).letter(0).commit(1)
			return b.drain().done()
		}},
		{"a logical failure is a result, of which the contract says nothing", nil, func(b *builder) history.Source {
			b.h.Contract().LogicalEither = true
			b.begin().send(0).attempt(0, history.OutcomeLogical).commit(1)
			return b.drain().done()
		}},
		{"dead-lettered without a try", []string{"premature-dead-letter"}, func(b *builder) history.Source {
			b.begin().send(0).letter(0).commit(1)
			return b.drain().done()
		}},
		{"dead-lettered without a try that the downstream saw, with its link down", nil, func(b *builder) history.Source {
			f := b.fault("network", "downstream", "downstream down")
			b.begin().send(0).breaks(f).wait(400 * ms).letter(0).commit(1).heals(f)
			return b.drain().done()
		}},
		{"dead-lettered without a try, as the registry is away", []string{"premature-dead-letter"},
			func(b *builder) history.Source {
				f := b.fault("registry", "registry", "every request answered 503")
				b.begin().send(0).breaks(f).wait(400 * ms).letter(0).commit(1).heals(f)
				return b.drain().done()
			}},
		{"dead-lettered without a try, as the registry does not know its schema", nil, func(b *builder) history.Source {
			f := unknownSchema(b)
			b.begin().send(0).send(1).breaks(f).wait(400 * ms).letter(0).heals(f).wait(5 * time.Second).letter(1).commit(2)
			return b.drain().done()
		}},
		{"dead-lettered after the first of three, as the registry does not know its schema", nil,
			func(b *builder) history.Source {
				f := unknownSchema(b)
				b.begin().send(0).fails(0, 1).breaks(f).wait(400 * ms).signal("TERM").letter(0).commit(1).exit(0).heals(f)
				b.as(0, 1).up()
				return b.drain().done()
			}},
		{"dead-lettered without a try, before the registry denies its schema", []string{"premature-dead-letter"},
			func(b *builder) history.Source {
				f := unknownSchema(b)
				b.begin().send(0).letter(0).commit(1).breaks(f).wait(400 * ms).heals(f)
				return b.drain().done()
			}},
		{"lost, as the registry does not know its schema", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				f := unknownSchema(b)
				b.begin().send(0).breaks(f).wait(400 * ms).commit(1).heals(f)
				return b.drain().done()
			}},
		{"dead-lettered after the first of three", []string{"premature-dead-letter", "under-retried"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).letter(0).commit(1)
				return b.drain().done()
			}},
		{"dead-lettered at a stop", []string{"premature-dead-letter", "under-retried"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 2).signal("TERM").letter(0).commit(1).exit(0)
			b.as(0, 1).up()
			return b.drain().done()
		}},
		{"succeeded and dead-lettered", []string{"dual-terminal"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).letter(0).commit(1)
			return b.drain().done()
		}},
		{"dead-lettered, and then it succeeds", []string{"dual-terminal"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).letter(0).wait(305 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"dead-lettered, and it succeeds when it is delivered again after a restart", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).letter(0).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(0).commit(1)
			return b.drain().done()
		}},
	}
}

func backoffCases() []testCase {
	// unanswered makes an attempt that got no answer: the client gave up after the wait.
	unanswered := func(b *builder, outcome history.Outcome, waited time.Duration) *builder {
		op := b.start(0)
		b.wait(waited)
		b.end(op, 0, outcome).Flags = history.ClientGone
		return b
	}
	// stamped makes an attempt that fails, with an end that the harness stamps late because it is stalled.
	stamped := func(b *builder, number int32, late time.Duration) *builder {
		op := b.start(number)
		b.wait(late).stall(history.None, late).end(op, number, history.OutcomeTransient)
		return b
	}
	return []testCase{
		{"too early", []string{"backoff-early"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(87 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"just in time", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(88 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"too early by more than half of a short wait", []string{"backoff-early"}, func(b *builder) history.Source {
			b.h.Contract().Backoff.Initial = 10 * ms
			b.begin().send(0).fails(0, 1).wait(3 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"too early by half of a short wait", nil, func(b *builder) history.Source {
			b.h.Contract().Backoff.Initial = 10 * ms
			b.begin().send(0).fails(0, 1).wait(4 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"too early is never excused by a stall of the subject", []string{"backoff-early"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).stall(0, 30*ms).wait(50 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"too early, and the subject had no processor for seconds", []string{"backoff-early"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).wait(50*ms).stall(0, 3*time.Second).success(0).commit(1)
				return b.drain().done()
			}},
		{"too early by less than the harness stood still before it noted the end", nil, func(b *builder) history.Source {
			stamped(b.begin().send(0), 0, 60*ms).wait(50 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"too early by much more than the harness stood still", []string{"backoff-early"}, func(b *builder) history.Source {
			stamped(b.begin().send(0), 0, 20*ms).wait(40 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"after an attempt without an answer, counted from when the subject may have given up", nil,
			func(b *builder) history.Source {
				unanswered(b.begin().send(0), history.OutcomeTimeout, 500*ms).wait(10 * ms).success(0).commit(1)
				return b.drain().done()
			}},
		{"too early even after an attempt without an answer", []string{"backoff-early"}, func(b *builder) history.Source {
			unanswered(b.begin().send(0), history.OutcomeReset, 10*ms).wait(40 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"too early in one wait of a record, again and again just after the harness stood still",
			[]string{"backoff-not-growing"}, func(b *builder) history.Source {
				b.begin()
				for n := range int32(24) {
					stamped(b.send(n).fails(n, 1).wait(105*ms), n, 60*ms)
					b.wait(105 * ms).success(n).commit(int64(n) + 1)
				}
				return b.drain().done()
			}},
		{"too early in every wait, again and again just after the harness stood still", nil,
			func(b *builder) history.Source {
				b.begin()
				for n := range int32(24) {
					stamped(b.send(n), n, 60*ms)
					b.wait(50 * ms).success(n).commit(int64(n) + 1)
				}
				return b.drain().done()
			}},
		{"too late", []string{"backoff-late"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(180 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"late, but the harness stood still", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(180*ms).stall(history.None, 60*ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"late, and the harness stood still for less than that", []string{"backoff-late"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(250*ms).stall(history.None, 20*ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"late, no longer than two others that the machine held up", nil, func(b *builder) history.Source {
			return b.begin().late(0, 180*ms, 60*ms).late(1, 180*ms, 60*ms).late(2, 180*ms, 0).drain().done()
		}},
		{"late, and longer than two others that the machine held up", []string{"backoff-late"},
			func(b *builder) history.Source {
				return b.begin().late(0, 180*ms, 60*ms).late(1, 180*ms, 60*ms).late(2, 200*ms, 0).drain().done()
			}},
		{"late, and the machine held up no more than are late without it", []string{"backoff-late"},
			func(b *builder) history.Source {
				return b.begin().late(0, 180*ms, 60*ms).late(1, 180*ms, 0).drain().done()
			}},
		{"late as often as not held up, in one wait of a record at several times", []string{"backoff-late"},
			func(b *builder) history.Source {
				b.begin()
				for n := range int32(24) {
					b.lateSecond(n, 105*ms, time.Duration(1-n%2)*60*ms)
				}
				return b.lateSecond(24, 105*ms, 60*ms).drain().done()
			}},
		{"late as often as not held up, with no waits that are on time", nil, func(b *builder) history.Source {
			b.begin()
			for n := range int32(24) {
				b.late(n, 180*ms, time.Duration(1-n%2)*60*ms)
			}
			return b.late(24, 180*ms, 60*ms).drain().done()
		}},
		{"late as often as not held up, in one wait of a record, at one time", nil, func(b *builder) history.Source {
			b.begin()
			for n := range int32(24) {
				b.sendTo(n, 0, n).fails(n, 1)
			}
			b.wait(70 * ms)
			for n := range int32(24) {
				b.fails(n, 1)
			}
			b.wait(280 * ms)
			for n := range int32(24) {
				if n == 20 {
					b.stall(history.None, 36*ms)
				}
				b.success(n)
			}
			return b.commit(24).drain().done()
		}},
		{"late, and the harness starved", nil, func(b *builder) history.Source {
			return b.begin().send(0).fails(0, 1).starve(600 * ms).success(0).commit(1).drain().done()
		}},
		{"late, and longer than the harness starved", []string{"backoff-late"}, func(b *builder) history.Source {
			return b.begin().send(0).fails(0, 1).starve(600 * ms).wait(400 * ms).success(0).commit(1).drain().done()
		}},
		{"late, and its own stall is noticed with the next sample", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(210*ms).success(0).wait(50*ms).stall(0, 60*ms).commit(1)
			return b.drain().done()
		}},
		{"late, and stalled only after that", []string{"backoff-late"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(210*ms).success(0).wait(300*ms).stall(0, 60*ms).commit(1)
			return b.drain().done()
		}},
		{"late, while another partition was being given up", nil, func(b *builder) history.Source {
			b.begin().send(0).revoke(1).fails(0, 1).wait(180 * ms).success(0).commit(1)
			b.as(1, 0).up().assign(1)
			return b.drain().done()
		}},
		{"late, and another partition was given up in that time, and taken over", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(20*ms).revoke(1).wait(130*ms).as(1, 0).up().assign(1).as(0,
				0).wait(30 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"late, and another partition was given up and taken over before", []string{"backoff-late"},
			func(b *builder) history.Source {
				b.begin().send(0).revoke(1).as(1, 0).up().assign(1).as(0, 0).fails(0, 1).wait(180 * ms).success(0).commit(1)
				return b.drain().done()
			}},
		{"late, while another instance gives up a partition", []string{"backoff-late"}, func(b *builder) history.Source {
			b.begin().as(1, 0).up().assign(1).revoke(1).as(0, 0).send(0).fails(0, 1).wait(180 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"late, but the broker was stopped", nil, func(b *builder) history.Source {
			f := b.fault("broker", "broker 1", "broker 1 stopped")
			b.begin().send(0).fails(0, 1).breaks(f).wait(250 * ms).heals(f).success(0).commit(1)
			return b.drain().done()
		}},
		{"the second wait is as short as the first", []string{"backoff-not-growing"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 2).wait(105 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"every wait is too short", []string{"backoff-early"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).wait(70*ms).fails(0, 1).wait(140 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"beyond the cap", []string{"cap-exceeded"}, func(b *builder) history.Source {
			b.h.Contract().MaxAttempts = 4
			b.begin().send(0).fails(0, 3).wait(405 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"at the cap", nil, func(b *builder) history.Source {
			b.h.Contract().MaxAttempts = 4
			b.begin().send(0).fails(0, 3).wait(305 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"told to come back later, and does", nil, func(b *builder) history.Source {
			b.begin().send(0)
			b.end(b.start(0), 0, history.OutcomeRateLimited).Aux = int64(time.Second)
			b.wait(1005 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"told to come back later, and comes too soon", []string{"backoff-early"}, func(b *builder) history.Source {
			b.begin().send(0)
			b.end(b.start(0), 0, history.OutcomeRateLimited).Aux = int64(time.Second)
			b.wait(105 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"a wait that fits the count it brought along over a rebalance", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).revoke(0).assign(0).wait(1100*ms).attempt(0, history.OutcomeTransient).wait(
				205 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"after a rebalance the new owner tries at once, in a series of its own", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).revoke(0).as(1, 0).up().assign(0).fetch(0).fails(0, 1).wait(105 * ms).success(
				0).commit(1)
			return b.drain().done()
		}},
		{"after a rebalance the new owner comes too early in its own series", []string{"backoff-early"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).revoke(0).as(1, 0).up().assign(0).fetch(0).fails(0, 1).wait(40 * ms).success(
					0).commit(1)
				return b.drain().done()
			}},
		{"the same process tries what it had and what it is handed again, one right after the other", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).revoke(0).assign(0).fetch(0).wait(90*ms).fails(0, 1).wait(10 * ms).success(
					0).commit(1)
				return b.drain().done()
			}},
		{"too early in what the same process is handed again, long after the rebalance", []string{"backoff-early"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).revoke(0).assign(0).send(1).wait(1100 * ms).fetch(0)
				b.success(0).fails(1, 1).wait(40 * ms).success(1).commit(2)
				return b.drain().done()
			}},
		{"a wait that fits a smaller count than it can have", []string{"backoff-late"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0)
			b.attempt(0, history.OutcomeTransient).wait(205 * ms).success(0).commit(1)
			return b.drain().done()
		}},
		{"it gave up on an attempt that was read late, as the link was slow", nil, func(b *builder) history.Source {
			f := b.fault("network", "downstream", "downstream delayed by 2s")
			unanswered(b.begin().send(0).breaks(f), history.OutcomeReset, 10*ms).wait(40 * ms).success(0).heals(f).commit(1)
			return b.drain().done()
		}},
		{"the first attempt after a restart needs no wait", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(0).commit(1)
			return b.drain().done()
		}},
	}
}

func repeatCases() []testCase {
	return []testCase{
		{"processed twice", []string{"duplicate"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).success(0).commit(1)
			return b.drain().done()
		}},
		{"processed twice around a restart", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(0).commit(1)
			return b.drain().done()
		}},
		{"processed again after it was committed, then a restart", []string{"duplicate"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(1).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(0).commit(1)
			return b.drain().done()
		}},
		{"processed three times around one restart", []string{"duplicate"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(0).success(0).commit(1)
			return b.drain().done()
		}},
		{"processed twice around a failed commit", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).answerCommit(b.askCommit(0, 1), 16, 0).success(0).commit(1)
			return b.drain().done()
		}},
		{"processed twice around a stop", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).signal("STOP").wait(50 * ms).signal("CONT").success(0).commit(1)
			return b.drain().done()
		}},
		{"processed twice, as the first answer may have been lost", nil, func(b *builder) history.Source {
			f := b.fault("network", "downstream", "downstream delayed by 2s")
			b.begin().send(0).breaks(f).success(0).wait(105 * ms).success(0).heals(f).commit(1)
			return b.drain().done()
		}},
		{"processed twice by a stopped instance and its successor", nil, func(b *builder) history.Source {
			b.begin().send(0).signal("STOP").as(1, 0).up().assign(0).fetch(0).success(0)
			b.as(0, 0).signal("CONT").success(0)
			b.as(1, 0).commit(1)
			return b.drain().done()
		}},
	}
}

func orderCases() []testCase {
	return []testCase{
		{"the next of a key starts while the first is in backoff", []string{"reordered"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).fails(0, 1).success(1).wait(100 * ms).success(0).commit(2)
			return b.drain().done()
		}},
		{"another key starts while the first is in backoff", nil, func(b *builder) history.Source {
			b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).fails(0, 1).success(1).wait(100 * ms).success(0).commit(2)
			return b.drain().done()
		}},
		{"another key starts, but the partition's order is promised", []string{"reordered"}, func(b *builder) history.Source {
			b.h.Contract().Ordering = history.OrderingPartition
			b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).fails(0, 1).success(1).wait(100 * ms).success(0).commit(2)
			return b.drain().done()
		}},
		{"records without a key have no order", nil, func(b *builder) history.Source {
			b.begin().sendTo(0, 0, history.None).sendTo(1, 0, history.None).fails(0, 1).success(1).wait(100 * ms).success(
				0).commit(2)
			return b.drain().done()
		}},
		{"the next starts before the dead letter of the first is acknowledged", []string{"reordered"},
			func(b *builder) history.Source {
				b.begin().send(0).send(1).fails(0, 3)
				asked := b.askLetter(0)
				b.success(1).answerLetter(asked, 0, 0).commit(2)
				return b.drain().done()
			}},
		{"the next starts at the very time the first ends, recorded first", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1)
			first := b.start(0)
			second := b.start(1)
			b.now -= ms
			b.end(first, 0, history.OutcomeSuccess)
			b.end(second, 1, history.OutcomeSuccess)
			b.commit(2)
			return b.drain().done()
		}},
		{"after a restart the order begins anew", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0).success(1).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(0).success(
				1).commit(2)
			return b.drain().done()
		}},
		{"after a restart the next goes first", []string{"reordered"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0).success(1).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(1).success(
				0).commit(2)
			return b.drain().done()
		}},
		{"a successor begins while the first is in backoff elsewhere", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).fails(0, 1).signal("STOP").as(1, 0).up().assign(0).fetch(0).success(0).success(1).commit(2)
			b.as(0, 0).signal("CONT")
			return b.drain().done()
		}},
	}
}

// TestPairsHandedOutAgainAreCounted checks that pairs whose order is not judged, because their process got its
// partition back, are counted as such.
func TestPairsHandedOutAgainAreCounted(t *testing.T) {
	b := newBuilder().begin().send(0).send(1).send(2).success(0).commit(1)
	b.revoke(0).assign(0).fetch(0).success(1).success(2).wait(2 * time.Second).send(3).success(3).commit(4)
	r := resultOf(t, judged(t, b.drain().done()), "ordering")
	if r.Status != Pass || r.Judged != 1 || r.Open != 2 || r.NotJudged[handedAgain] != 2 {
		t.Errorf("%s, %d judged, %d not: %v", r.Status, r.Judged, r.Open, r.NotJudged)
	}
}

// late has a record fail and succeed after the gap, with a stall of the harness at its end.
func (b *builder) late(number int32, gap, stall time.Duration) *builder {
	b.send(number).fails(number, 1).wait(gap)
	if stall > 0 {
		b.stall(history.None, stall)
	}
	return b.success(number).commit(int64(number) + 1)
}

// lateSecond is a record whose first wait is that long, and whose second is late.
func (b *builder) lateSecond(number int32, first, stall time.Duration) *builder {
	b.send(number).fails(number, 1).wait(first).fails(number, 1).wait(280 * ms)
	if stall > 0 {
		b.stall(history.None, stall)
	}
	return b.success(number).commit(int64(number) + 1)
}

// starve makes the harness wait for a processor half of the time, in many short waits.
func (b *builder) starve(total time.Duration) *builder {
	for range total / (20 * ms) {
		b.wait(20*ms).stall(history.None, 12*ms)
	}
	return b
}

// TestEarlyGapsInStallsAreNoPass checks that backoff does not pass if stalls may explain most of the gaps.
func TestEarlyGapsInStallsAreNoPass(t *testing.T) {
	for records, want := range map[int32]Status{6: Pass, 7: Inconclusive} {
		b := newBuilder().begin()
		for n := range int32(12) {
			if b.send(n); n >= records {
				b.fails(n, 1).wait(105 * ms)
			} else {
				op := b.start(n)
				b.wait(60*ms).stall(history.None, 60*ms).end(op, n, history.OutcomeTransient)
				b.wait(50 * ms)
			}
			b.success(n).commit(int64(n) + 1)
		}
		verdict, _, err := Judge(b.drain().done())
		if err != nil {
			t.Fatal(err)
		}
		if got := resultOf(t, verdict, "backoff"); got.Status != want {
			t.Errorf("%d early gaps in stalls: %s (%s), want %s", records, got.Status, got.Why, want)
		}
	}
}

// unknownSchema plans a fault in which the registry does not know the schemas that records name.
func unknownSchema(b *builder) int64 {
	f := b.fault("registry", "registry", "no schema found by its id")
	b.h.Faults[f].HidesSchemas = true
	return f
}

// A client that repeats a call by itself is a likely cause of a short wait after a call that got no answer, and of no
// other.
func TestAShortWaitAfterNoAnswer(t *testing.T) {
	t.Parallel()
	for _, outcome := range []history.Outcome{history.OutcomeReset, history.OutcomeTransient} {
		b := newBuilder().begin().send(0)
		b.end(b.start(0), 0, outcome)
		verdict, _, err := Judge(b.wait(10 * ms).success(0).commit(1).drain().done())
		if err != nil {
			t.Fatal(err)
		}
		for _, one := range verdict.Invariants {
			if one.Name != "backoff" {
				continue
			}
			if len(one.Anomalies) != 1 || one.Anomalies[0].Name != "backoff-early" ||
				strings.Contains(one.Anomalies[0].Counterexamples[0].Summary, "calls: 2") != (outcome == history.OutcomeReset) {
				t.Errorf("%s: %+v", outcome, one.Anomalies)
			}
		}
	}
}
