package assertions

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// falls has the process end by itself.
func (b *builder) falls(code int16, signal string) *builder {
	e := b.of(history.KindInstanceExited)
	e.Code, e.Text = code, signal
	b.put(e)
	return b
}

// endsBy has the process end by a signal that it was sent.
func (b *builder) endsBy(signal string) *builder {
	e := b.of(history.KindInstanceExited)
	e.Code, e.Text, e.Flags = -1, signal, history.Expected
	b.put(e)
	return b
}

// members notes the present number of group members of the process.
func (b *builder) members(count int32, why string) *builder {
	e := b.of(history.KindMembership)
	e.N, e.Text = count, why
	b.put(e)
	return b
}

// used reads the resource usage of the process.
func (b *builder) used() *builder {
	e := b.of(history.KindSample)
	e.Text, e.Aux = history.SampleInstanceRSS, 1<<20
	b.put(e)
	return b
}

// restarts tells the process to end because it is unhealthy.
func (b *builder) restarts() *builder {
	b.signal("TERM")
	b.events[len(b.events)-1].N = 1
	return b
}

func (b *builder) logs(line string) *builder {
	e := b.of(history.KindSubjectError)
	e.Text = line
	b.put(e)
	return b
}

// afterAll is a history with additional events after an otherwise correct run.
func afterAll(name string, want []string, tell func(*builder)) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.begin().send(0).success(0).commitAll().phase(history.PhaseHeal).phase(history.PhaseDrain)
		b.wait(b.h.Expect.DrainLimit).phase(history.PhaseAudit)
		tell(b)
		return b.sealed()
	}}
}

// falling is a history of a process that ends by itself, and of the next one, which finds everything done.
func falling(name string, want []string, tell func(*builder)) testCase {
	return testCase{name, want, func(b *builder) history.Source {
		b.begin()
		tell(b)
		b.as(0, b.run+1).up().assign(0, 1, 2, 3)
		return b.drain().done()
	}}
}

func stayCases() []testCase {
	done := func(b *builder) *builder { return b.send(0).success(0).commitAll() }
	cases := []testCase{
		falling("a process panics", []string{"crashed"}, func(b *builder) { done(b).logs("panic: boom").falls(2, "") }),
		falling("a process ends as if all were well", []string{"crashed"}, func(b *builder) { done(b).falls(0, "") }),
		falling("the system kills a process", []string{"crashed"}, func(b *builder) { done(b).falls(-1, "KILL") }),
		falling("the harness kills a process", nil, func(b *builder) { done(b).kill() }),
		falling("its contract says that it ends with errors, and it ends without", []string{"crashed"}, func(b *builder) {
			b.h.Contract().ExitsOnError = true
			done(b).falls(0, "")
		}),
		falling("Kafka tells a client that it can't go on", nil, func(b *builder) {
			done(b).answerCommit(b.askCommit(0, 1), 82, 0).falls(1, "")
		}),
		falling("Kafka tells a client to wait", []string{"crashed"}, func(b *builder) {
			done(b).answerCommit(b.askCommit(0, 1), 14, 0).falls(1, "")
		}),
		falling("a process does not come up while a broker is down", nil, func(b *builder) {
			f := b.fault("broker", "broker 0", "broker stopped")
			done(b).kill().breaks(f).as(0, 1).up().falls(1, "").heals(f)
		}),
		falling("a process ends while a broker is down", []string{"crashed"}, func(b *builder) {
			f := b.fault("broker", "broker 0", "broker stopped")
			done(b).breaks(f).falls(1, "").heals(f)
		}),
	}
	cases = append(cases, errorCases()...)
	return append(append(append(cases, repeatingCases()...), refusedCases()...),
		append(append(stopCodeCases(), leavingCases()...), desertedCases()...)...)
}

// startsInVain has a process end by itself so often before it is up, after the first one was killed.
func (b *builder) startsInVain(times int) {
	b.kill()
	for range times {
		b.as(0, b.run+1).up().falls(1, "")
	}
	b.as(0, b.run+1).up()
}

// errorCases: with on_error: exit, a process may end after an error that it met, and not without one. tell is what
// happens after its first record, and leaves the second, if there is one, to the next process.
func errorCases() []testCase {
	ends := func(name string, want []string, tell func(*builder)) testCase {
		return testCase{"ends with errors by contract: " + name, want, func(b *builder) history.Source {
			b.h.Contract().ExitsOnError = true
			tell(b.begin().send(0).success(0).commitAll())
			b.falls(1, "").as(0, b.run+1).up().assign(0, 1, 2, 3)
			if b.sent > 1 && b.commits[0] < 2 {
				b.fetch(1).success(1).commitAll()
			}
			return b.drain().done()
		}}
	}
	faulty := func(b *builder) {
		f := b.fault("broker", "broker 0", "broker stopped")
		b.breaks(f).heals(f)
	}
	crashed := []string{"crashed"}
	return []testCase{
		ends("it met none", crashed, func(*builder) {}),
		ends("its calls are not seen", nil, func(b *builder) { b.h.Contract().WireOnly = true }),
		ends("an attempt failed", nil, func(b *builder) { b.send(1).fails(1, 1) }),
		ends("an attempt failed, and the next one was a success", nil, func(b *builder) {
			b.send(1).fails(1, 1).wait(110 * ms).success(1)
		}),
		ends("an attempt failed, and its record was finished and committed", crashed, func(b *builder) {
			b.send(1).fails(1, 1).wait(110 * ms).success(1).commitAll()
		}),
		ends("a dead letter was written and committed", crashed, func(b *builder) {
			b.send(1).fails(1, 3).letter(1).commitAll()
		}),
		ends("a business failure, which is a result", crashed, func(b *builder) {
			b.send(1).attempt(1, history.OutcomeLogical).commitAll()
		}),
		ends("a call takes long", nil, func(b *builder) { b.send(1).start(1); b.wait(2 * longCall) }),
		ends("a call has just begun", crashed, func(b *builder) { b.send(1).start(1) }),
		ends("a call took long, and was committed", crashed, func(b *builder) {
			op := b.send(1).start(1)
			b.wait(2*longCall).end(op, 1, history.OutcomeSuccess)
			b.commitAll()
		}),
		ends("a call to another downstream failed", nil, func(b *builder) {
			b.withOthers().send(1).call(ledger, 1, history.OutcomeTransient, 0).call(ledger, 1, history.OutcomeSuccess, 0)
			b.success(1).commitAll()
		}),
		ends("a commit was refused", nil, func(b *builder) { b.answerCommit(b.askCommit(0, 1), 25, 0) }),
		ends("a write was not answered", nil, func(b *builder) {
			b.send(1).fails(1, 3).answerLetter(b.askLetter(1), 0, history.Withheld)
		}),
		ends("its group was rebalanced", nil, func(b *builder) { b.revoke(1).assign(1) }),
		ends("its session ended", nil, func(b *builder) { b.members(0, "silent").members(1, "") }),
		ends("it left its group", crashed, func(b *builder) { b.members(1, "").members(0, "leave") }),
		ends("a broker had failed", nil, faulty),
		ends("a broker had failed shortly before it was started", nil, func(b *builder) {
			faulty(b)
			b.wait(afterFault/2).kill().as(0, 1).up().assign(0, 1, 2, 3)
		}),
		ends("a broker had failed long before it was started", crashed, func(b *builder) {
			faulty(b)
			b.wait(2*afterFault).kill().as(0, 1).up().assign(0, 1, 2, 3)
		}),
		ends("it never came up", nil, func(b *builder) { b.kill().as(0, 1).up() }),
		ends("it never came up, time after time", crashed, func(b *builder) { b.startsInVain(startsInVain) }),
		ends("it never came up, a few times", nil, func(b *builder) { b.startsInVain(startsInVain - 1) }),
		ends("it never came up, time after time beside a fault", nil, func(b *builder) {
			f := b.fault("broker", "broker 0", "broker stopped")
			b.breaks(f).startsInVain(startsInVain)
			b.heals(f)
		}),
		ends("it never came up, after many that were ended before they did", nil, func(b *builder) {
			for range startsInVain + 1 {
				b.kill().as(0, b.run+1).up()
			}
		}),
		ends("it never came up, a few times before and after it did", nil, func(b *builder) {
			b.startsInVain(startsInVain - 1)
			b.assign(0, 1, 2, 3).startsInVain(startsInVain - 1)
		}),
		ends("there are records that it may not be able to read", nil, func(b *builder) {
			b.garbage(1).unnamed(input, 0, 1).letter(1).commitAll()
		}),
	}
}

// desertedCases: standing still is proven at once when no process is left that could move.
func desertedCases() []testCase {
	soon := func(tell func(*builder)) func(*builder) history.Source {
		return func(b *builder) history.Source {
			b.begin().send(0)
			tell(b)
			return b.phase(history.PhaseHeal).phase(history.PhaseDrain).wait(100 * ms).done()
		}
	}
	return []testCase{
		{"all processes fall", []string{"crashed", "stalled"}, soon(func(b *builder) {
			b.as(1, 0).up().falls(1, "").as(0, 0).falls(1, "").as(0, 1).up().falls(1, "")
		})},
		{"one of two falls", []string{"crashed"}, soon(func(b *builder) { b.as(1, 0).up().as(0, 0).falls(1, "") })},
		{"one falls, and the harness ended the other", []string{"crashed"}, soon(func(b *builder) {
			b.as(1, 0).up().kill().as(0, 0).falls(1, "")
		})},
		{"all fall, as their contract says, and would be started again", nil, soon(func(b *builder) {
			b.h.Contract().ExitsOnError = true
			b.fails(0, 1).falls(1, "")
		})},
		{"the last falls after the drain", []string{"crashed"}, func(b *builder) history.Source {
			b.begin().send(0).phase(history.PhaseHeal).phase(history.PhaseDrain).wait(100 * ms)
			return b.phase(history.PhaseAudit).falls(1, "").sealed()
		}},
	}
}

// A stall of the machine takes no time from processes that have ended.
func TestNoProcessIsLeftInAStall(t *testing.T) {
	b := newBuilder()
	b.begin().send(0).falls(1, "").phase(history.PhaseHeal).phase(history.PhaseDrain)
	b.wait(time.Second).stall(none, time.Second).stall(0, time.Second)
	v := judged(t, b.done())
	for _, name := range []string{"no-loss", "liveness"} {
		if got := resultOf(t, v, name); got.Status != Fail {
			t.Errorf("%s is %s: %s", name, got.Status, got.Why)
		}
	}
}

// repeatingCases: a process that ends by itself excuses no redelivery.
func repeatingCases() []testCase {
	again := func(b *builder) *builder { return b.as(0, 1).up().assign(0, 1, 2, 3).fetch(0) }
	begin := func(tell func(*builder)) func(*builder) history.Source {
		return func(b *builder) history.Source {
			b.begin().send(0)
			tell(b)
			return b.commitAll().drain().done()
		}
	}
	return []testCase{
		{"after a crash a record succeeds again", []string{"crashed", "duplicate"}, begin(func(b *builder) {
			again(b.success(0).falls(1, "")).success(0)
		})},
		{"after a kill a record succeeds again", nil, begin(func(b *builder) { again(b.success(0).kill()).success(0) })},
		{"after a crash a record is dead-lettered again", []string{"crashed", "dlq-duplicate"}, begin(func(b *builder) {
			again(b.fails(0, 3).letter(0).falls(1, "")).fails(0, 3).letter(0)
		})},
	}
}

// refusedCases: a process ends when a dead letter cannot be written.
func refusedCases() []testCase {
	crashing := func(name string, want []string, tell func(*builder)) testCase {
		return falling(name, want, func(b *builder) {
			b.h.Contract().OnFailure = history.OnFailureCrash
			tell(b)
			b.as(0, b.run+1).up().assign(0, 1, 2, 3).fetch(0).fails(0, 3).letter(0).commitAll().kill()
		})
	}
	refused := func(b *builder) *builder { return b.send(0).fails(0, 3).answerLetter(b.askLetter(0), 19, 0) }
	return []testCase{
		crashing("a dead letter is refused, and the process ends by contract", nil, func(b *builder) {
			refused(b).falls(1, "")
		}),
		crashing("no dead letter was due", []string{"crashed"}, func(b *builder) { b.send(0).fails(0, 1).falls(1, "") }),
		crashing("a business failure, which is a result", []string{"crashed"}, func(b *builder) {
			b.send(0).attempt(0, history.OutcomeLogical).falls(1, "")
		}),
		crashing("a business failure, of which the contract says nothing", nil, func(b *builder) {
			b.h.Contract().LogicalEither = true
			b.send(0).attempt(0, history.OutcomeLogical).falls(1, "")
		}),
		crashing("a dead letter too large for its client", nil, func(b *builder) { b.send(0).fails(0, 3).falls(1, "") }),
	}
}

// silenced makes an instance silent from a fault on, for the given time after the fault.
func silenced(b *builder, lasts time.Duration) {
	f := b.joining(6*time.Second).fault("network", "link 0", "connections cut")
	b.breaks(f).wait(time.Second).heals(f).members(0, "silent").wait(lasts)
}

func stopCodeCases() []testCase {
	bad := []string{"unclean-exit"}
	coded := func(codes ...int) func(*builder) *builder {
		return func(b *builder) *builder { b.h.Contract().StopCodes = codes; return b }
	}
	return []testCase{
		afterAll("TERM ends it with code 1", bad, func(b *builder) { b.signal("TERM").exit(1) }),
		afterAll("an error ends it, and it is told to stop meanwhile", nil, func(b *builder) {
			b.h.Contract().ExitsOnError = true
			b.logs("ERROR connection refused").signal("TERM").exit(1)
		}),
		afterAll("it fails to stop long after an error", bad, func(b *builder) {
			b.h.Contract().ExitsOnError = true
			b.logs("ERROR connection refused").wait(2 * lookBack).signal("TERM").exit(1)
		}),
		afterAll("a JVM ends", nil, func(b *builder) { b.signal("TERM").exit(143) }),
		afterAll("INT ends it as TERM would", bad, func(b *builder) { b.signal("INT").exit(143) }),
		afterAll("the signal's default action", bad, func(b *builder) { b.signal("TERM").endsBy("TERM") }),
		afterAll("it leaves its group and sends the signal to itself", nil, func(b *builder) {
			b.signal("TERM").members(0, "leave").endsBy("TERM")
		}),
		afterAll("it falls silent after the signal, which ends it", bad, func(b *builder) {
			b.signal("TERM").members(0, "silent").endsBy("TERM")
		}),
		afterAll("it looks for its group after the signal, which ends it", bad, func(b *builder) {
			b.signal("TERM").members(0, "seeks").endsBy("TERM")
		}),
		afterAll("it has nothing and the signal ends it", nil, func(b *builder) {
			b.revoke(0, 1, 2, 3).signal("TERM").endsBy("TERM")
		}),
		afterAll("a segmentation fault at its end", bad, func(b *builder) { b.signal("TERM").endsBy("SEGV") }),
		afterAll("a thread dies of an exception at its end", bad, func(b *builder) {
			b.signal("TERM").logs(`Exception in thread "shutdown" java.lang.IllegalStateException`).exit(143)
		}),
		afterAll("its contract names the code", nil, func(b *builder) { coded(0, 1)(b).signal("TERM").exit(1) }),
		afterAll("its contract says that the signal ends it", nil, func(b *builder) {
			coded(143)(b).signal("TERM").endsBy("TERM")
		}),
		afterAll("its contract names another code", bad, func(b *builder) { coded(0)(b).signal("TERM").exit(143) }),
		afterAll("it is killed when its grace is over", nil, func(b *builder) {
			b.signal("TERM").wait(6 * time.Second).kill()
		}),
	}
}

// leavingCases: an instance leaves its group; another continues with its partitions.
func leavingCases() []testCase {
	late := false
	leaving := func(name string, want []string, tell func(*builder)) testCase {
		return testCase{name, want, func(b *builder) history.Source {
			late = false
			b.begin().members(1, "").send(0).success(0).commitAll()
			tell(b)
			last := b.run
			b.as(1, 0).up().members(1, "").assign(0, 1, 2, 3).sendTo(1, 0, 1).success(1).commitAll()
			b.drain().phase(history.PhaseAudit)
			b.as(0, last).signal("TERM")
			if late {
				b.start(1)
			}
			b.exit(0).as(1, 0).signal("TERM").exit(0)
			return b.sealed()
		}}
	}
	leaves := func(b *builder) *builder {
		return b.partitions(history.KindRevoked, "leave", []int32{0, 1, 2, 3}).members(0, "leave")
	}
	sick := func(b *builder) { leaves(b).health(1).health(0).wait(4 * time.Second) }
	return []testCase{
		leaving("an instance leaves its group for good, and says that it is unhealthy", []string{"gave-up"}, sick),
		leaving("an unhealthy instance is restarted", nil, func(b *builder) {
			b.h.Contract().RestartsUnhealthy = true
			sick(b)
			b.restarts().exit(0).wait(time.Second).as(0, 1).up().members(1, "")
		}),
		leaving("an unhealthy instance is restarted, and leaves its group again", []string{"gave-up"}, func(b *builder) {
			b.h.Contract().RestartsUnhealthy = true
			sick(b)
			b.restarts().exit(0).as(0, 1).up().members(1, "").members(0, "leave").wait(4 * time.Second)
		}),
		leaving("an unhealthy instance ends with an error when it is restarted", []string{"unclean-exit"},
			func(b *builder) {
				b.h.Contract().RestartsUnhealthy = true
				sick(b)
				b.restarts().exit(1).as(0, 1).up().members(1, "")
			}),
		leaving("an unhealthy instance ends by itself", []string{"crashed"}, func(b *builder) {
			b.h.Contract().RestartsUnhealthy = true
			b.health(1).health(0).falls(1, "").as(0, 1).up().members(1, "")
		}),
		leaving("an instance leaves its group for good", []string{"gave-up"}, func(b *builder) {
			leaves(b).wait(4 * time.Second)
		}),
		leaving("an instance leaves its group for good, and stirs when it is told to stop", []string{"gave-up"},
			func(b *builder) {
				leaves(b).wait(4 * time.Second)
				late = true
			}),
		leaving("what an instance uses that left its group is read all along", []string{"gave-up"}, func(b *builder) {
			for leaves(b); b.now < 8*time.Second; {
				b.wait(time.Second).used()
			}
		}),
		leaving("an instance leaves its group, and the drain ends sooner than it may come back", nil, func(b *builder) {
			leaves(b.joining(30 * time.Second)).wait(4 * time.Second)
		}),
		leaving("an instance leaves its group and comes back without a partition", nil, func(b *builder) {
			leaves(b).wait(2*time.Second).members(1, "").wait(4 * time.Second)
		}),
		leaving("an instance leaves its group for good in a fault that is never lifted", nil, func(b *builder) {
			b.breaks(b.fault("broker", "broker 0", "broker stopped"))
			leaves(b).wait(4 * time.Second)
		}),
		leaving("an instance left its group just now", nil, func(b *builder) { leaves(b) }),
		leaving("an instance falls silent", []string{"gave-up"}, func(b *builder) {
			b.wait(4*time.Second).members(0, "silent").wait(4 * time.Second)
		}),
		leaving("an instance falls silent, and is heard of again", nil, func(b *builder) {
			b.members(0, "silent").wait(4*time.Second).members(1, "").wait(4 * time.Second)
		}),
		leaving("an instance is silent in its group, but works", nil, func(b *builder) {
			b.members(0, "silent").wait(4*time.Second).sendTo(2, 0, 2).success(2).commitAll()
		}),
		leaving("an instance that was put out of its group looks for it in vain", nil, func(b *builder) {
			for b.members(0, "fenced"); b.now < 8*time.Second; {
				b.wait(time.Second).members(0, "seeks")
			}
		}),
		leaving("an instance that fell silent looks for its group in vain", nil, func(b *builder) {
			for b.members(0, "silent"); b.now < 8*time.Second; {
				b.wait(time.Second).members(0, "seeks")
			}
		}),
		leaving("an instance looks for its group in vain, and gives up", []string{"gave-up"}, func(b *builder) {
			b.members(0, "fenced").wait(time.Second).members(0, "seeks").wait(4 * time.Second)
		}),
		leaving("one of the members that an instance is falls silent", nil, func(b *builder) {
			b.members(2, "").members(1, "silent").wait(4 * time.Second)
		}),
		leaving("a fault silences an instance, and less than its session has passed since", nil, func(b *builder) {
			silenced(b, 4*time.Second)
		}),
		leaving("a fault silences an instance for good", []string{"gave-up"}, func(b *builder) {
			silenced(b, 10*time.Second)
		}),
		leaving("a stall silences an instance", nil, func(b *builder) {
			b.joining(6*time.Second).members(0, "silent").wait(4*time.Second).stall(0, 4*time.Second)
		}),
		leaving("one of the members that an instance is leaves", nil, func(b *builder) {
			b.members(2, "").members(1, "leave").wait(4 * time.Second)
		}),
	}
}

// What a process logged just before it left its group for good is the reason, and in the trace.
func TestWhyAMemberLeft(t *testing.T) {
	t.Parallel()
	b := newBuilder()
	b.shares(inMemory).members(1, "").share(0).success(0).accept(0)
	b.logs("ERROR Crash: Cannot read properties of null").members(0, "leave").wait(4 * time.Second)
	b.as(1, 0).up().members(1, "").share(1).success(1).accept(1).drain().phase(history.PhaseAudit)
	verdict, _, err := Judge(b.as(0, 0).signal("TERM").exit(0).as(1, 0).signal("TERM").exit(0).sealed())
	if err != nil {
		t.Fatal(err)
	}
	for _, invariant := range verdict.Invariants {
		for _, one := range invariant.Anomalies {
			if one.Name == "gave-up" && slices.ContainsFunc(one.Counterexamples[0].Trace, func(l Line) bool {
				return strings.Contains(l.Text, "Cannot read properties of null")
			}) {
				return
			}
		}
	}
	t.Errorf("it is not in the trace: %+v", verdict.Roots)
}

// What an end by the signal itself lacked is told in the terms of the contract: who keeps its offsets elsewhere has none
// to commit.
func TestAnUncleanEndOfWhoCommitsNothing(t *testing.T) {
	t.Parallel()
	for outside, want := range map[bool]string{
		true: "nothing about the signal, and did not leave its group", false: "the signal, neither committed nor left its group",
	} {
		b := newBuilder()
		b.h.Contract().OffsetsOutside = outside
		b.begin().members(0, "join").send(0).success(0).phase(history.PhaseHeal).phase(history.PhaseDrain)
		b.wait(b.h.Expect.DrainLimit).phase(history.PhaseAudit).signal("TERM").endsBy("TERM")
		r := resultOf(t, judged(t, b.sealed()), "stays-up")
		if len(r.Anomalies) != 1 || !strings.Contains(r.Anomalies[0].Counterexamples[0].Summary, want) {
			t.Errorf("outside %v: %+v", outside, r)
		}
	}
}
