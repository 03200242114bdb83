package assertions

// For each anomaly the smallest history that shows it, and beside it the nearest correct behaviour, which must not.
// Every history is judged by all invariants: one defect must not be reported as another.

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// testCase is a history with the complete list of its expected anomalies.
type testCase struct {
	name string
	want []string
	tell func(*builder) history.Source
}

func TestCases(t *testing.T) {
	var all []testCase
	for _, some := range [][]testCase{
		plainCases(), commitCases(), lossCases(), haltCases(), retryCases(), rewindCases(), givenUpCases(),
		classCases(), backoffCases(),
		letterCases(), hurriedCases(), handedLateCases(), repeatCases(),
		orderCases(), replayCases(), envelopeless(), transactionCases(), batchCases(), bulkCases(),
		itemsCases(), refusedCallCases(), abortCases(),
		metadataCases(),
		hopCases(),
		memberCases(), aloneCases(), outsideCases(), hiddenCases(),
		stopCases(), livenessCases(), isolationCases(), shareCases(), storeCases(), exitCases(), foreignCases(), placeCases(),
		copyCases(), endOfInputCases(), secondGroupCases(), repeatedCases(), leastCases(), stayCases(), promiseCases(), unnamedCases(),
		busyCases(), threadCases(), effectCases(), callTimeoutsCases(),
		outputCases(), callCases(), spanCases(), clientRepeatCases(), poisonCases(), twiceCases(), refusableCases(),
		excuseCases(), elsewhereCases(),
	} {
		all = append(all, some...)
	}
	shown := map[string]bool{}
	for _, one := range all {
		t.Run(one.name, func(t *testing.T) {
			v := judged(t, one.tell(newBuilder()))
			want := append([]string{}, one.want...)
			slices.Sort(want)
			if got := named(v); !slices.Equal(got, want) {
				t.Fatalf("anomalies %v, want %v\n%s", got, want, show(v))
			}
			if len(want) > 0 && v.Verdict != Fail || len(want) == 0 && v.Verdict == Fail {
				t.Fatalf("verdict %s with anomalies %v", v.Verdict, want)
			}
			for _, r := range v.Invariants {
				checkCounterexamples(t, &r)
			}
		})
		for _, name := range one.want {
			shown[name] = true
		}
	}
	for _, one := range graphCases() {
		for _, want := range one.want {
			_, anomaly, _ := strings.Cut(want, ": ")
			shown[anomaly] = true
		}
	}
	for _, one := range servicesCases() {
		for _, want := range one.want {
			_, anomaly, _ := strings.Cut(want, ": ")
			shown[anomaly] = true
		}
	}
	// These have tests of their own: they take hundreds of gaps, or minutes, or several instances.
	elsewhere := []string{"no-jitter", "head-of-line-blocked", "paused-partition", "rebalance-storm", "stop-timeout"}
	for _, name := range AnomalyNames() {
		if !shown[name] && !slices.Contains(elsewhere, name) {
			t.Errorf("no case shows %s", name)
		}
	}
}

// checkCounterexamples checks that every anomaly has a counterexample, with the contradicting events if it concerns a
// record.
func checkCounterexamples(t *testing.T, r *Result) {
	t.Helper()
	for _, a := range r.Anomalies {
		if a.Count < 1 || len(a.Counterexamples) == 0 || len(a.Counterexamples) > MaxCounterexamples ||
			int64(len(a.Counterexamples)) > a.Count {
			t.Errorf("%s: count %d with %d counterexamples", a.Name, a.Count, len(a.Counterexamples))
		}
		for _, w := range a.Counterexamples {
			if w.Summary == "" || w.Record >= 0 && (len(w.Trace) == 0 || w.ID == "") {
				t.Errorf("%s: counterexample without a trace: %+v", a.Name, w)
			}
			if !slices.IsSortedFunc(w.Trace, func(a, b Line) int { return int(a.Time - b.Time) }) {
				t.Errorf("%s: trace out of order: %+v", a.Name, w.Trace)
			}
		}
	}
}

func plainCases() []testCase {
	return []testCase{
		{"everything goes well", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0).success(1).commit(2)
			b.send(2).fails(2, 2).wait(205 * ms).success(2).commit(3)
			b.send(3).fails(3, 3).letter(3).commit(4)
			b.send(4).attempt(4, history.OutcomePermanent).letter(4).commit(5)
			b.send(5).attempt(5, history.OutcomeLogical).commit(6)
			return b.drain().done()
		}},
		{"a restart in the middle", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0).fails(1, 2).kill()
			b.as(0, 1).up().assign(0, 1, 2, 3).fetch(0).success(0).fails(1, 3).letter(1).commit(2)
			return b.drain().done()
		}},
		{"a tombstone and garbage by contract", nil, func(b *builder) history.Source {
			b.h.Contract().SkipsTombstones = true
			b.begin().handOver(0, 0, 0, history.Tombstone).acked(0, 0).fetch(0)
			b.handOver(1, 0, 1, history.Garbage).acked(1, 0).fetch(1).letter(1).commit(2)
			return b.drain().done()
		}},
	}
}

func commitCases() []testCase {
	return []testCase{
		{"a commit that a fault says yes to moves nothing", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			asked := b.askLetter(0)
			b.answerCommit(b.askCommit(0, 1), 0, history.Forged).answerLetter(asked, 0, 0).commit(1)
			return b.drain().done()
		}},
		{"commit at the very time of the success, recorded first", nil, func(b *builder) history.Source {
			b.begin().send(0)
			op := b.start(0)
			commit := b.askCommit(0, 1)
			b.now = commit.Time - ms
			b.end(op, 0, history.OutcomeSuccess)
			b.answerCommit(commit, 0, 0)
			return b.drain().done()
		}},
		{"it loses the partition, gets it back, and commits less", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0).success(1).commit(2).revoke(0).assign(0).commit(1).commit(2)
			return b.drain().done()
		}},
		{"commit before the dead letter is acknowledged", []string{"commit-before-dlq"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			asked := b.askLetter(0)
			b.commit(1).answerLetter(asked, 0, 0)
			return b.drain().done()
		}},
		{"commit before the dead letter, and its answer is lost", []string{"commit-before-dlq"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				asked := b.askLetter(0)
				b.askCommit(0, 1)
				b.answerLetter(asked, 0, 0).commit(1)
				return b.drain().done()
			}},
		{"commit before the dead letter, but the broker refuses it", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			asked := b.askLetter(0)
			b.answerCommit(b.askCommit(0, 1), 22, 0).answerLetter(asked, 0, 0).commit(1)
			return b.drain().done()
		}},
		{"commit before the dead letter, answered by a fault in the broker's place", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			asked := b.askLetter(0)
			b.answerCommit(b.askCommit(0, 1), 16, history.Forged).answerLetter(asked, 0, 0).commit(1)
			return b.drain().done()
		}},
		{"commit at the very time of the acknowledgement, recorded first", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			asked := b.askLetter(0)
			commit := b.askCommit(0, 1)
			b.now = commit.Time - ms
			b.answerLetter(asked, 0, 0).answerCommit(commit, 0, 0)
			return b.drain().done()
		}},
		{"commit before the dead letter, and its acknowledgement is withheld", []string{"commit-before-dlq"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				asked := b.askLetter(0)
				b.answerCommit(b.askCommit(0, 1), 0, history.Withheld).answerLetter(asked, 0, 0)
				return b.drain().done()
			}},
		{"the acknowledgement of the dead letter is withheld, and the commit comes all the same",
			[]string{"commit-without-dlq"}, func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), 0, history.Withheld).commit(1)
				return b.drain().done()
			}},
		{"the acknowledgement of the dead letter is withheld, and it is written again", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), 0, history.Withheld).letter(0).commit(1)
			return b.drain().done()
		}},
		{"commit past a record in backoff", []string{"commit-past-unfinished"}, func(b *builder) history.Source {
			b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).fails(0, 1).success(1).commit(2).wait(100 * ms).success(0)
			return b.drain().done()
		}},
		{"commit up to a record in backoff", nil, func(b *builder) history.Source {
			b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).fails(1, 1).success(0).commit(1).wait(100 * ms).success(1).commit(2)
			return b.drain().done()
		}},
		{"commit past a record whose acknowledgement to the workload comes later", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				b.begin().handOver(0, 0, 0, 0)
				f := b.of(history.KindFetched)
				f.Topic, f.Partition, f.Offset, f.Aux = input, 0, 0, 0
				b.put(f)
				b.commit(1).acked(0, 0).wait(10 * ms).success(0)
				return b.drain().done()
			}},
		{"a record that is finished and committed before the workload hears of it", nil, func(b *builder) history.Source {
			b.begin().handOver(0, 0, 0, 0)
			f := b.of(history.KindFetched)
			f.Topic, f.Partition, f.Offset, f.Aux = input, 0, 0, 0
			b.put(f)
			b.success(0).commit(1).acked(0, 0)
			return b.drain().done()
		}},
		{"commit in a partition that it never had", []string{"commit-wrong-partition"}, func(b *builder) history.Source {
			b.begin().send(0).success(0)
			b.as(1, 0).up().revokeFrom(0, 1).assign(1).commit(1)
			return b.drain().done()
		}},
		{"commit in a partition that it just lost", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0)
			b.revoke(0).as(1, 0).up().assign(0).as(0, 0).commit(1)
			return b.drain().done()
		}},
		{"one that has lost the partition commits less than its owner has", []string{"commit-regressed"},
			func(b *builder) history.Source {
				b.begin().send(0).send(1).success(0).success(1).commit(1).revoke(0)
				b.as(1, 0).up().assign(0).commit(2).as(0, 0).commit(1).as(1, 0).commit(2)
				return b.drain().done()
			}},
		{"one that has lost the partition commits less than it had, before its owner has committed",
			[]string{"commit-regressed"}, func(b *builder) history.Source {
				b.begin().send(0).send(1).success(0).success(1).commit(2).revoke(0)
				b.as(1, 0).up().assign(0).as(0, 0).commit(1).as(1, 0).commit(2)
				return b.drain().done()
			}},
		{"one that has lost the partition commits less while its owner's commit is under way", nil,
			func(b *builder) history.Source {
				b.begin().send(0).send(1).success(0).success(1).commit(1).revoke(0)
				b.as(1, 0).up().assign(0)
				high := b.askCommit(0, 2)
				b.as(0, 0).commit(1).as(1, 0).answerCommit(high, 0, 0)
				return b.drain().done()
			}},
		{"one that is given the partition back commits less than the owner before it", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0).success(1).commit(1).revoke(0)
			b.as(1, 0).up().assign(0).commit(2).revoke(0).as(0, 0).assign(0).commit(1).commit(2)
			return b.drain().done()
		}},
		{"the next owner commits less, and has lost the partition when that is answered", nil,
			func(b *builder) history.Source {
				b.begin().send(0).send(1).success(0).success(1).commit(2).revoke(0)
				low := b.as(1, 0).up().assign(0).askCommit(0, 1)
				b.revoke(0).as(0, 0).assign(0).as(1, 0).answerCommit(low, 0, 0).as(0, 0).commit(2)
				return b.drain().done()
			}},
		{"commit beyond the end of the log", []string{"commit-past-end"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(7)
			b.commits[0] = 1
			return b.drain().done()
		}},
		{"commit past what nobody has fetched", []string{"commit-past-end"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).handOver(1, 0, 1, 0).acked(1, 0).commit(2).wait(10 * ms).fetch(1).success(1)
			return b.drain().done()
		}},
		{"commit goes back", []string{"commit-regressed"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0).success(1).commit(2).commit(1).commit(2)
			return b.drain().done()
		}},
		{"a commit without an answer is sent again behind a later one", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0)
			b.askCommit(0, 1)
			return b.success(1).commit(2).commit(1).commit(2).drain().done()
		}},
		{"a commit whose answer is withheld is sent again behind a later one", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0)
			b.answerCommit(b.askCommit(0, 1), 0, history.Withheld)
			return b.success(1).commit(2).commit(1).commit(2).drain().done()
		}},
		{"a client that repeats no commit by itself does so", []string{"commit-regressed"}, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0)
			b.answerCommit(b.askCommit(0, 1), 0, history.Withheld).success(1).commit(2)
			again := b.askCommit(0, 1)
			b.events[len(b.events)-1].Flags |= history.NotLibrdkafka
			return b.answerCommit(again, 0, 0).commit(2).drain().done()
		}},
		{"a commit that was refused is sent again behind a later one", []string{"commit-regressed"},
			func(b *builder) history.Source {
				b.begin().send(0).send(1).success(0)
				return b.answerCommit(b.askCommit(0, 1), 14, 0).success(1).commit(2).commit(1).commit(2).drain().done()
			}},
		{"two commits cross on the way", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0).success(1)
			high, low := b.askCommit(0, 2), b.askCommit(0, 1)
			b.answerCommit(high, 0, 0).answerCommit(low, 0, 0).commit(2)
			return b.drain().done()
		}},
		{"the next owner commits less", nil, func(b *builder) history.Source {
			b.begin().send(0).send(1).success(0).success(1).commit(2).revoke(0)
			b.as(1, 0).up().assign(0).commit(1).commit(2)
			return b.drain().done()
		}},
	}
}

// revokeFrom takes partitions from another instance.
func (b *builder) revokeFrom(instance int16, partitions ...int32) *builder {
	by, run := b.instance, b.run
	b.as(instance, 0).revoke(partitions...)
	return b.as(by, run)
}

func lossCases() []testCase {
	return []testCase{
		{"dropped at a stop", []string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 1).commit(1)
			return b.drain().done()
		}},
		{"garbage is dropped: committed, and nobody tried it", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source { return b.begin().garbage(0).commit(1).drain().done() }},
		{"a tombstone is dropped, and the contract does not say so", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				b.begin().handOver(0, 0, 0, history.Tombstone)
				return b.acked(0, 0).fetch(0).commit(1).drain().done()
			}},
		{"garbage is tried, and its attempt names its place", nil, func(b *builder) history.Source {
			return b.begin().handOver(0, 0, 0, history.Garbage).unnamed(input, 0, 0).acked(0, 0).fetch(0).commit(
				1).drain().done()
		}},
		{"garbage may have been tried by an attempt that names no place", nil, func(b *builder) history.Source {
			return b.begin().handOver(0, 0, 0, history.Garbage).acked(0, 0).fetch(0).unnamed(history.None, history.None,
				history.None).commit(1).drain().done()
		}},
		{"garbage may have a dead letter that tells nothing", nil, func(b *builder) history.Source {
			b.begin().handOver(0, 0, 0, history.Garbage).acked(0, 0).fetch(0).letter(0).commit(1)
			found := &b.inTopics[len(b.inTopics)-1]
			found.Record, found.Claim = history.None, nil
			b.events = slices.DeleteFunc(b.events, func(e history.Event) bool { // the written records carried no id either
				return e.Kind == history.KindProduceRequest || e.Kind == history.KindProduceResponse
			})
			return b.drain().done()
		}},
		{"nobody takes the record up", []string{"stalled"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(1).send(1).fails(1, 1)
			return b.drain().done()
		}},
		{"nobody takes the record up, but the drain was cut short", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(1).send(1).fails(1, 1)
			b.phase(history.PhaseHeal).phase(history.PhaseDrain).wait(100 * ms)
			return b.done()
		}},
		{"nobody takes the record up, but another is still being tried: the process may be at that one", nil,
			func(b *builder) history.Source {
				b.h.Contract().Ordering = history.OrderingNone
				b.begin().send(0).send(1).phase(history.PhaseHeal).phase(history.PhaseDrain).wait(900 * ms)
				return b.attempt(1, history.OutcomeTransient).wait(900 * ms).done()
			}},
		{"nobody takes the record up, while another is tried without end", []string{"endless-redelivery", "stalled"},
			func(b *builder) history.Source {
				b.h.Contract().Ordering = history.OrderingNone
				b.begin().send(0).send(1).fails(1, 3).phase(history.PhaseHeal).phase(history.PhaseDrain)
				for range 4 {
					b.wait(305*ms).attempt(1, history.OutcomeTransient)
				}
				return b.wait(305 * ms).done()
			}},
		{"nobody takes the record up, and the group may not have noticed yet that a member is gone", nil,
			func(b *builder) history.Source {
				return b.joining(45*time.Second).begin().send(0).success(0).commit(1).send(1).fails(1, 1).drain().done()
			}},
		{"nobody takes the record up, and every session is over", []string{"stalled"}, func(b *builder) history.Source {
			b.joining(45*time.Second).begin().send(0).success(0).commit(1).send(1).fails(1, 1)
			return b.drain().wait(45 * time.Second).done()
		}},
		// A run at nice 10 beside three busy loops: in 30 s of drain the consumer processed 24 records. liveness took
		// that into account, but no-loss did not.
		{"nobody takes the record up, but the machine stood still for much of the drain", nil,
			func(b *builder) history.Source {
				b.begin().send(0).success(0).commit(1).send(1).fails(1, 1)
				return b.drain().stall(history.None, 600*ms).done()
			}},
		{"nobody takes the record up, but the machine took the subject's time in many short waits, all through the drain",
			nil, func(b *builder) history.Source {
				b.begin().send(0).phase(history.PhaseHeal).phase(history.PhaseDrain)
				for range 10 {
					b.wait(15*ms).stall(0, 85*ms).wait(85 * ms)
				}
				return b.done()
			}},
		{"nobody takes the record up, and the drain gave back what the machine had taken", []string{"stalled"},
			func(b *builder) history.Source {
				b.begin().send(0).phase(history.PhaseHeal).phase(history.PhaseDrain).wait(900*ms).stall(0, 900*ms).wait(1100 * ms)
				return b.done()
			}},
		{"passed, but the machine stood still for much of the drain and its process may still be at it",
			[]string{"commit-past-unfinished"}, func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).commit(1)
				return b.drain().stall(history.None, 600*ms).phase(history.PhaseAudit).sealed()
			}},
		{"nobody takes the record up, but a fault was never healed", nil, func(b *builder) history.Source {
			b.begin().breaks(b.fault("broker", "broker 1", "stopped"))
			b.send(0).success(0).commit(1).send(1).fails(1, 1)
			return b.drain().done()
		}},
		{"passed, but the drain was cut short and its process may still be at it", []string{"commit-past-unfinished"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 1).commit(1)
				b.phase(history.PhaseHeal).phase(history.PhaseDrain).wait(100 * ms).phase(history.PhaseAudit)
				return b.sealed()
			}},
		{"passed, and its process was still for longer than its longest wait", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				b.h.Expect.DrainLimit = time.Minute
				b.begin().send(0).fails(0, 1).commit(1)
				b.phase(history.PhaseHeal).phase(history.PhaseDrain).wait(5 * time.Second).phase(history.PhaseAudit)
				return b.sealed()
			}},
		{"acknowledged to the workload and not there", []string{"dropped-by-ack"}, func(b *builder) history.Source {
			b.begin().send(0).success(0).send(1).success(1).commit(2)
			b.lost[1] = true
			return b.drain().done()
		}},
		{"its dead letter was acknowledged and is not there", []string{"dropped-by-ack"}, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).letter(0).commit(1)
			b.inTopics = slices.DeleteFunc(b.inTopics, func(e history.Event) bool { return e.Topic == dlq })
			return b.drain().done()
		}},
		{"its dead letter was lost with the leader that alone acknowledged it", []string{"dropped-by-ack"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3)
				return b.answerLetter(b.askLetter(0), 0, history.Unreplicated).commit(1).drain().done()
			}},
		{"its dead letter was lost with the leader, and written again", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), 0, history.Unreplicated)
			return b.letter(0).commit(1).drain().done()
		}},
		{"its dead letter was lost with the leader, and written again, in a topic that is not read at the end", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), 0, history.Unreplicated)
				b.letter(0).commit(1).drain().done()
				b.unaudited(dlq)
				return b.source()
			}},
		{"the producer gave up, and the record is not there", nil, func(b *builder) history.Source {
			b.begin().send(0).success(0).commit(1).handOver(1, 0, 0, 0)
			e := b.event(history.KindAcked)
			e.Record, e.Topic, e.Code = 1, input, 7
			b.put(e)
			return b.drain().done()
		}},
		{"the producer gave up, the record is there, and it is passed", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				b.begin().send(0).success(0).handOver(1, 0, 0, 0)
				e := b.event(history.KindAcked)
				e.Record, e.Topic, e.Partition, e.Code = 1, input, 0, 7
				b.put(e)
				b.inInput(1, 0)
				b.fetch(1).commit(2)
				return b.drain().done()
			}},
		{"the dead letter is there though its acknowledgement never came", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3)
			b.askLetter(0)
			b.inDLQ(0)
			b.commits[0] = 1
			return b.drain().done()
		}},
		{"the success was answered to a client that had gone", []string{"commit-past-unfinished", "lost"},
			func(b *builder) history.Source {
				b.begin().send(0)
				b.end(b.start(0), 0, history.OutcomeSuccess).Flags = history.ClientGone
				b.commit(1)
				return b.drain().done()
			}},
	}
}

func haltCases() []testCase {
	const final, passing, unrelated = 29, 19, 27 // TOPIC_AUTHORIZATION_FAILED, NOT_ENOUGH_REPLICAS, REBALANCE_IN_PROGRESS
	downWith := func(b *builder, code int16, between func()) {
		f := b.fault("kafka", "dlq", "Produce to dlq answered with an error")
		b.begin().send(0).fails(0, 3).breaks(f)
		for range 12 {
			b.answerLetter(b.askLetter(0), code, history.Forged).wait(400 * ms)
		}
		between()
		b.answerLetter(b.askLetter(0), code, history.Forged).heals(f)
	}
	down := func(b *builder, between func()) { downWith(b, final, between) }
	// denying is a client to which one dead letter is refused. It writes no others, and its process goes on.
	denying := func(b *builder, code int16, meanwhile func()) history.Source {
		b.h.Contract().Backoff.Late, b.h.Contract().SurfacedWithin = time.Second, 3*time.Second
		b.fault("kafka", "dlq", "Produce to dlq answered with an error")
		b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), code, history.Forged).commit(1)
		for number := int32(1); number < 8; number++ {
			b.send(number).fails(number, 3).wait(time.Second).commit(int64(number) + 1)
		}
		meanwhile()
		return b.drain().done()
	}
	// silently is an outage of five seconds that is never reported.
	silently := func(b *builder, code int16) history.Source {
		downWith(b, code, func() {})
		b.letter(0).commit(1)
		return b.drain().done()
	}
	return []testCase{
		{"commits stand still while no dead letter can be written", nil, func(b *builder) history.Source {
			down(b, func() { b.logError() })
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"commits go on while no dead letter can be written",
			[]string{"commit-advanced-while-dlq-down", "commit-before-dlq"}, func(b *builder) history.Source {
				down(b, func() { b.logError().commit(1) })
				b.letter(0)
				return b.drain().done()
			}},
		{"a failed dead letter is forgotten and passed",
			[]string{"commit-advanced-while-dlq-down", "commit-without-dlq", "lost"}, func(b *builder) history.Source {
				down(b, func() { b.logError().commit(1) })
				return b.drain().done()
			}},
		{"no word of it, and the client writes no more", []string{"commit-advanced-while-dlq-down", "commit-past-unfinished",
			"commit-without-dlq", "failure-not-surfaced", "lost"},
			func(b *builder) history.Source { return denying(b, final, func() {}) }},
		{"a word of it, and the client writes no more", []string{"commit-advanced-while-dlq-down", "commit-past-unfinished",
			"commit-without-dlq", "lost"},
			func(b *builder) history.Source { return denying(b, final, func() { b.logError() }) }},
		{"no word of a single refusal, and the record is passed late", []string{"commit-without-dlq", "lost"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), final, history.Forged).wait(6 * time.Second)
				return b.commit(1).drain().done()
			}},
		{"no word of an error that passes, after which no dead letter is asked for", []string{"commit-past-unfinished",
			"commit-without-dlq", "lost"}, func(b *builder) history.Source { return denying(b, passing, func() {}) }},
		{"no word of it", []string{"failure-not-surfaced"}, func(b *builder) history.Source {
			down(b, func() {})
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"no word of it, where attempts may be late", []string{"failure-not-surfaced"}, func(b *builder) history.Source {
			b.h.Contract().Backoff.Late = 2 * time.Second
			down(b, func() {})
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"no word of it, in a log that states levels", []string{"failure-not-surfaced"}, func(b *builder) history.Source {
			down(b, func() {})
			b.letter(0).commit(1)
			b.drain()
			return b.wrote(20, 1).done()
		}},
		{"no word of it, in a log without a line", []string{"failure-not-surfaced"}, func(b *builder) history.Source {
			down(b, func() {})
			b.letter(0).commit(1)
			b.drain()
			return b.wrote(0, 0).done()
		}},
		{"no word of it, in the log of a process that had ended before", []string{"failure-not-surfaced"},
			func(b *builder) history.Source {
				b.up().signal("TERM").wrote(3, 0).exit(0).as(0, 1)
				down(b, func() {})
				b.letter(0).commit(1)
				b.drain()
				return b.wrote(20, 20).done()
			}},
		{"the health turns bad because of it", nil, func(b *builder) history.Source {
			down(b, func() { b.health(0) })
			b.letter(0).health(1).commit(1)
			return b.drain().done()
		}},
		{"the health was bad before, and stays so", nil, func(b *builder) history.Source {
			b.health(1).health(0)
			down(b, func() {})
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"the health was bad before, and stays so, and the end of the process is not seen", nil,
			func(b *builder) history.Source {
				b.health(1).health(0)
				down(b, func() {})
				return b.letter(0).commit(1).drain().phase(history.PhaseAudit).sealed()
			}},
		{"the health is good all the time", []string{"failure-not-surfaced"}, func(b *builder) history.Source {
			b.health(1).health(0).health(1)
			down(b, func() {})
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"the process ends because of it", nil, func(b *builder) history.Source {
			down(b, func() { b.exit(3) })
			b.as(0, 1).up().assign(0).fetch(0).fails(0, 3).letter(0).commit(1)
			return b.drain().done()
		}},
		{"a commit passes a record while the link to the dead letters is down, and no write is even seen",
			[]string{"commit-advanced-while-dlq-down", "commit-before-dlq"}, func(b *builder) history.Source {
				f := b.fault("network", "dlq", "dlq down: connections closed and refused")
				b.begin().send(0).breaks(f).fails(0, 3).wait(200 * ms).commit(1).heals(f).letter(0)
				return b.drain().done()
			}},
		{"no commit passes while the link to the dead letters is down", nil, func(b *builder) history.Source {
			f := b.fault("network", "dlq", "dlq down: connections closed and refused")
			b.begin().send(0).breaks(f).fails(0, 3).heals(f).letter(0).commit(1)
			return b.drain().done()
		}},
		{"an unfinished record is passed during the outage, and never dead-lettered",
			[]string{"commit-past-unfinished", "lost"}, func(b *builder) history.Source {
				f := b.fault("network", "dlq", "dlq down: connections closed and refused")
				b.begin().sendTo(0, 0, 0).sendTo(1, 0, 1).breaks(f).fails(0, 1).fails(1, 3).commit(1).wait(time.Second).heals(
					f).letter(1).commit(2)
				return b.drain().done()
			}},
		{"dead letters fail one by one between others that succeed", nil, func(b *builder) history.Source {
			b.begin()
			for n := range int32(4) {
				b.send(n).fails(n, 3).answerLetter(b.askLetter(n), 19, history.Forged).wait(time.Second).letter(n).commit(
					int64(n) + 1)
			}
			return b.drain().done()
		}},
		{"a dead letter is refused once, and then the client finds no leader for it for a while", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), 19, 0).wait(6 * time.Second).letter(0).commit(1)
				return b.drain().done()
			}},
		{"librdkafka tries by itself what may pass, without a word", nil, func(b *builder) history.Source {
			return silently(b, passing)
		}},
		{"no word of what may pass, which the contract promises", []string{"failure-not-surfaced"},
			func(b *builder) history.Source {
				b.h.Contract().SurfacedWithin = 3 * time.Second
				return silently(b, passing)
			}},
		{"no word of what may pass, for longer than any client tries by default", []string{"failure-not-surfaced"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), passing, 0).wait(6 * time.Minute).letter(0).commit(1)
				return b.drain().done()
			}},
		{"a dead letter is refused once, and nothing is heard for a minute", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), passing, 0).wait(time.Minute).letter(0).commit(1)
			return b.drain().done()
		}},
		{"a dead letter is refused for good once, and nothing is heard for a minute", []string{"failure-not-surfaced"},
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), final, 0).wait(time.Minute).letter(0).commit(1)
				return b.drain().done()
			}},
		{"a dead letter is refused for good, then the process is stopped for a minute", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), final, 0).signal("STOP").wait(time.Minute).signal(
				"CONT").letter(0).commit(1)
			return b.drain().done()
		}},
		{"a dead letter is refused for good, the process is killed, and the next one writes it after a session", nil,
			func(b *builder) history.Source {
				b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), final, 0).kill().wait(time.Minute)
				b.as(0, 1).up().assign(0).fetch(0).fails(0, 3).letter(0).commit(1)
				return b.drain().done()
			}},
		{"a line without a level names another error of Kafka's", []string{"failure-not-surfaced"},
			func(b *builder) history.Source {
				down(b, func() { b.says("group: REBALANCE_IN_PROGRESS", unrelated) })
				b.letter(0).commit(1)
				return b.drain().done()
			}},
		{"a line without a level names the error of the write", nil, func(b *builder) history.Source {
			down(b, func() { b.says("TOPIC_AUTHORIZATION_FAILED", final) })
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"a line without a level names the dead-letter topic", nil, func(b *builder) history.Source {
			down(b, func() { b.says(b.h.Topics[dlq].Name+"-0: REBALANCE_IN_PROGRESS", unrelated) })
			b.letter(0).commit(1)
			return b.drain().done()
		}},
		{"the brokers are silent for a while", nil, func(b *builder) history.Source {
			b.begin().send(0).fails(0, 3).answerLetter(b.askLetter(0), 0, history.Withheld).wait(6 * time.Second).letter(
				0).commit(1)
			return b.drain().done()
		}},
	}
}

// TestAdviceLeavesOutWhatIsPromised checks that a contract is not advised to say what it says.
func TestAdviceLeavesOutWhatIsPromised(t *testing.T) {
	for name, test := range map[string]struct {
		contract      history.Contract
		wants, leaves []string
	}{
		"nothing is promised": {history.Contract{}, []string{"X-Kafka-Offset", "(skips: [tombstone], poison: dead-letter or halt)"},
			[]string{"to its dead letter"}},
		"poison": {history.Contract{Poison: history.PoisonDeadLetter, DeadLetters: true},
			[]string{"to its dead letter", "(skips: [tombstone])"}, []string{"poison"}},
		"both": {history.Contract{Poison: history.PoisonDeadLetter, SkipsTombstones: true}, []string{"X-Kafka-Offset"},
			[]string{"poison", "skips", "say what becomes"}},
		"no attempts are seen": {history.Contract{WireOnly: true}, []string{"headers to its result"}, []string{"X-Kafka"}},
	} {
		advice := unbalanced(2, &test.contract).Do
		for _, want := range test.wants {
			if !strings.Contains(advice, want) {
				t.Errorf("%s: %q lacks %q", name, advice, want)
			}
		}
		for _, not := range test.leaves {
			if strings.Contains(advice, not) {
				t.Errorf("%s: %q has %q", name, advice, not)
			}
		}
	}
}

// TestALedgerThatDoesNotBalanceIsNoPass checks that a record with an unknown end leaves the verdict open, and that the
// reason says what to do.
func TestALedgerThatDoesNotBalanceIsNoPass(t *testing.T) {
	for name, test := range map[string]struct {
		place  int64
		status Status
	}{"the attempt names its place": {0, Pass}, "it names none": {history.None, Inconclusive}} {
		b := newBuilder().begin()
		b.h.Contract().Ordering = history.OrderingNone
		b.handOver(0, 0, 0, history.Garbage).acked(0, 0).fetch(0).unnamed(input, 0, test.place).commit(1)
		v := judged(t, b.send(1).success(1).commit(2).drain().done())
		unbalanced := slices.ContainsFunc(v.Reasons, func(reason string) bool {
			return strings.Contains(reason, "X-Kafka-Offset")
		})
		if v.Verdict != test.status || unbalanced != (test.status == Inconclusive) {
			t.Errorf("%s: verdict %s, because %v", name, v.Verdict, v.Reasons)
		}
	}
}

// TestARegressedCommitNamesItsPartition checks that the text of a commit that goes back says in which topic it was.
func TestARegressedCommitNamesItsPartition(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).send(1).success(0).success(1).commit(2).commit(1)
	r := resultOf(t, judged(t, b.drain().done()), "commit-after-outcome")
	if len(r.Anomalies) == 0 || !strings.Contains(r.Anomalies[0].Counterexamples[0].Summary,
		"in-0: offset 1 was committed after offset 2") {
		t.Errorf("the anomalies are %+v", r.Anomalies)
	}
}
