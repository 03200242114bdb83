package assertions

// What the ledger counts as forfeited, under commits that follow time, and what it leaves open.

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

func TestALedgerBalancesWithWhatTimedCommitsForfeit(t *testing.T) {
	stops := func(b *builder, committed int64) *builder {
		b.signal("TERM").commit(committed).exit(0)
		return b.as(0, 1).up().assign(0, 1, 2, 3)
	}
	for name, test := range map[string]struct {
		forfeited, unfinished int64
		tell                  func(b *builder) *builder
	}{
		"committed at a stop, and never attempted": {2, 0, func(b *builder) *builder {
			return stops(b.send(0).success(0).send(1).send(2), 3)
		}},
		"committed at a stop, in a backoff": {1, 0, func(b *builder) *builder {
			return stops(b.send(0).fails(0, 1), 1)
		}},
		"committed when the partition is taken away, and never attempted": {1, 0, func(b *builder) *builder {
			b.send(0).commit(1).revoke(0)
			return b.as(1, 0).up().assign(0)
		}},
		"committed at a stop, in a backoff, and the next process takes its time": {1, 0, func(b *builder) *builder {
			b.send(0).fails(0, 1).signal("TERM").commit(1).exit(0).wait(10 * time.Second)
			return b.as(0, 1).up().assign(0, 1, 2, 3)
		}},
		"committed, and another process has the partition without a word": {1, 0, func(b *builder) *builder {
			return b.send(0).commit(1).as(1, 0).up().assign(0)
		}},
		"committed at a stop, and long before an earlier process went on to the next": {1, 0, func(b *builder) *builder {
			b.send(0).send(1).success(1).wait(10*time.Second).kill().as(0, 1).up().assign(0, 1, 2, 3).fetch(0).fetch(1)
			b.signal("TERM").commit(2).exit(0)
			return b.as(0, 2).up().assign(0, 1, 2, 3)
		}},
		"dropped before it was attempted, long before the stop": {0, 1, func(b *builder) *builder {
			return stops(b.send(0).send(1).success(1).commit(2).wait(10*time.Second), 2)
		}},
		"dropped long after a stop, and only the machine stands still later": {0, 1, func(b *builder) *builder {
			b.signal("STOP").wait(time.Second).signal("CONT").send(0).commit(1)
			return b.wait(10*time.Second).stall(0, time.Second)
		}},
		"dropped, and a process that was never handed it is stopped": {0, 1, func(b *builder) *builder {
			b.send(0).send(1).success(1).commit(2).wait(10*time.Second).revoke(0).as(1, 0).up().assign(0)
			return b.signal("TERM").exit(0).as(1, 1).up().assign(0)
		}},
		"attempted without an id": {0, 1, func(b *builder) *builder {
			b.send(0).end(b.start(history.None), history.None, history.OutcomeUnknownID)
			return stops(b, 1)
		}},
		"attempted, and the downstream stub can't tell which record it was": {0, 1, func(b *builder) *builder {
			b.handOver(0, 0, 0, history.Garbage).acked(0, 0).fetch(0).unnamed(input, 0, history.None)
			return stops(b, 1)
		}},
	} {
		t.Run(name, func(t *testing.T) {
			b := newBuilder()
			b.h.Contract().AutoCommit, b.h.Contract().StopGrace = true, time.Second
			b.h.Contract().Ordering = history.OrderingNone
			test.tell(b.begin())
			b.sendTo(8, 3, 1).success(8).sendTo(9, 3, 1).fails(9, 3).letter(9).answerCommit(b.askCommit(3, 2), 0, 0)
			v := judged(t, b.drain().done())
			if v.Verdict == Fail || v.Ledger.Forfeited != test.forfeited || v.Ledger.Unfinished != test.unfinished {
				t.Errorf("%s, forfeited %d, unfinished %d", v.Verdict, v.Ledger.Forfeited, v.Ledger.Unfinished)
			}
			unbalanced := slices.ContainsFunc(v.Open, func(one Open) bool {
				return strings.Contains(one.Why, "the ledger does not balance")
			})
			if unbalanced != (test.unfinished > 0) || v.Drain.Drained != (test.unfinished == 0) {
				t.Errorf("drained %t, %s, because %v", v.Drain.Drained, v.Verdict, v.Reasons)
			}
		})
	}
}

// A record that was attempted, and dropped long before its process was cut short, is lost. Nothing that comes later
// explains that.
func TestARecordThatRestedIsLost(t *testing.T) {
	f := int64(0) // a fault on the link to the downstream
	killed := func(b *builder) *builder { return b.kill().as(0, 1).up().assign(0, 1, 2, 3) }
	for name, test := range map[string]struct {
		lost bool
		tell func(b *builder) *builder
	}{
		"told to stop long after the attempt": {true, func(b *builder) *builder {
			return b.send(0).fails(0, 1).commit(1).wait(10*time.Second).signal("TERM").exit(0).as(0, 1).up().assign(0, 1, 2, 3)
		}},
		"killed long after the attempt": {true, func(b *builder) *builder {
			return killed(b.send(0).fails(0, 1).commit(1).wait(10 * time.Second))
		}},
		"killed within the wait": {false, func(b *builder) *builder { return killed(b.send(0).fails(0, 1).commit(1)) }},
		"delivered after a stop, and halted for a while long after the attempt": {true, func(b *builder) *builder {
			b.signal("TERM").exit(0).as(0, 1).up().assign(0, 1, 2, 3)
			b.send(0).fails(0, 1).commit(1).wait(10 * time.Second)
			return b.signal("STOP").wait(time.Second).signal("CONT")
		}},
		"delivered when its process had got the partition back": {true, func(b *builder) *builder {
			b.revoke(0).assign(0).send(0).fails(0, 1).commit(1)
			return b.wait(10*time.Second).stall(0, time.Second)
		}},
		"killed long after the attempt, but the link may have hidden others": {false, func(b *builder) *builder {
			b.send(0).fails(0, 1).breaks(f).commit(1).wait(10 * time.Second).heals(f)
			return killed(b)
		}},
		"killed long after the attempt, and longer after the link could hide others": {true, func(b *builder) *builder {
			b.breaks(f).wait(time.Second).heals(f).wait(5 * time.Second)
			return killed(b.send(0).fails(0, 1).commit(1).wait(10 * time.Second))
		}},
		"handed to another process long after the attempt, which is killed": {false, func(b *builder) *builder {
			b.send(0).fails(0, 1).wait(10*time.Second).revoke(0).as(1, 0).up().assign(0).fetch(0).commit(1).kill()
			return b.as(1, 1).up().assign(0)
		}},
		"handed to another process, which is killed long after its attempt": {true, func(b *builder) *builder {
			b.send(0).fails(0, 1).revoke(0).as(1, 0).up().assign(0).fetch(0).fails(0, 1).commit(1)
			b.wait(10 * time.Second).kill()
			return b.as(1, 1).up().assign(0)
		}},
		"killed long after the attempt, with its copy": {false, func(b *builder) *builder {
			headerCounter(b)
			return killed(b.send(0).fails(0, 1).retryCopy(0).commit(1).commitCopies(0).wait(10 * time.Second))
		}},
	} {
		b := newBuilder()
		b.h.Contract().AutoCommit, b.h.Contract().StopGrace = true, time.Second
		f = b.fault("network", "downstream", "downstream resets its connections")
		v := judged(t, test.tell(b.begin()).drain().done())
		if got := slices.Contains(named(v), "lost"); got != test.lost {
			t.Errorf("%s: lost %t\n%s", name, got, show(v))
		}
	}
}

// A record that no disruption explains, or that the group never passed, is unfinished.
func TestALedgerForfeitsOnlyWhatIsExplained(t *testing.T) {
	for name, tell := range map[string]func(b *builder) *builder{
		"committed, and dropped": func(b *builder) *builder {
			return b.send(0).commit(1).drain().wait(10 * time.Second).phase(history.PhaseAudit).signal("TERM").exit(0)
		},
		"committed, and the process ends by itself": func(b *builder) *builder {
			b.send(0).commit(1).falls(1, "")
			return b.as(0, 1).up().assign(0, 1, 2, 3).drain()
		},
		"stopped, and not committed": func(b *builder) *builder {
			return b.send(0).signal("TERM").exit(0).as(0, 1).up().assign(0, 1, 2, 3).drain()
		},
	} {
		b := newBuilder()
		b.h.Contract().AutoCommit = true
		v := judged(t, tell(b.begin()).done())
		if v.Verdict != Fail || v.Ledger.Forfeited != 0 || v.Ledger.Unfinished != 1 {
			t.Errorf("%s: %s, forfeited %d, unfinished %d", name, v.Verdict, v.Ledger.Forfeited, v.Ledger.Unfinished)
		}
	}
}

// Where no number of attempts is promised, a record has rested only after the wait that its own number gives. Until then
// the stop at the end of the run explains that it was lost.
func TestARecordRestsAfterItsOwnWait(t *testing.T) {
	told := func(b *builder, after time.Duration) *builder {
		b.end(b.start(0), 0, history.OutcomeRateLimited).Aux = int64(after)
		return b
	}
	for _, test := range []struct {
		name  string
		lost  bool
		waits time.Duration
		tell  func(b *builder) *builder
	}{
		{"within the wait after the eighth attempt", false, 12 * time.Second, func(b *builder) *builder {
			return b.fails(0, 8)
		}},
		{"long after the wait after the eighth attempt", true, 16 * time.Second, func(b *builder) *builder {
			return b.fails(0, 8)
		}},
		{"long after the wait after the first attempt", true, 12 * time.Second, func(b *builder) *builder {
			return b.fails(0, 1)
		}},
		{"never attempted", true, 9 * time.Second, func(b *builder) *builder { return b }},
		{"within the longest wait", false, 19 * time.Second, func(b *builder) *builder { return b.fails(0, 12) }},
		{"long after the longest wait", true, 24 * time.Second, func(b *builder) *builder { return b.fails(0, 12) }},
		{"within the time that a 429 gave", false, 9 * time.Second, func(b *builder) *builder {
			return told(b, 10*time.Second)
		}},
		{"long after the time that a 429 gave", true, 13 * time.Second, func(b *builder) *builder {
			return told(b, 10*time.Second)
		}},
		{"no wait is promised, and none is over", false, 29 * time.Second, func(b *builder) *builder {
			b.h.Contract().Backoff = history.Backoff{}
			return b.fails(0, 1)
		}},
		{"no wait is promised, and any is over", true, 33 * time.Second, func(b *builder) *builder {
			b.h.Contract().Backoff = history.Backoff{}
			return b.fails(0, 1)
		}},
	} {
		t.Run(test.name, func(t *testing.T) {
			b := newBuilder()
			b.h.Expect.Patience = time.Minute
			contract := b.h.Contract()
			contract.AutoCommit, contract.MaxAttempts, contract.StopGrace = true, 0, time.Second
			contract.Unlimited = true
			contract.Backoff = history.Backoff{Initial: 100 * ms, Multiplier: 2, Cap: 20 * time.Second, Late: 20 * ms}
			test.tell(b.begin().send(0)).commit(1).phase(history.PhaseHeal).phase(history.PhaseDrain)
			v := judged(t, b.wait(test.waits).done())
			if (v.Verdict == Fail) != test.lost {
				t.Errorf("%s: %v", v.Verdict, v.Reasons)
			}
		})
	}
}
