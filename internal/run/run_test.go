package run

import (
	"bytes"
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// wantFiles checks which files exist in a run directory.
func wantFiles(t *testing.T, dir string, there bool, names ...string) {
	t.Helper()
	for _, name := range names {
		if _, err := os.Stat(filepath.Join(dir, name)); (err == nil) != there {
			t.Errorf("%s is there: %v, want %v", name, err == nil, there)
		}
	}
}

// phases returns the phases that a history records, in order.
func phases(t *testing.T, dir string) (names []string) {
	t.Helper()
	reader, err := history.Open(filepath.Join(dir, dirHistory))
	if err != nil {
		t.Fatal(err)
	}
	err = reader.Each(func(event *history.Event) error {
		if event.Kind == history.KindPhase {
			names = append(names, event.Text)
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	return names
}

// A run goes through its phases in order, leaves everything that it should and nothing else, and reports the
// progress of its load to the live view.
func TestRun(t *testing.T) {
	t.Parallel()
	options := smallSlow(t)
	var (
		mu    sync.Mutex
		shown []reports.Snapshot
	)
	options.Watch = func(snapshot reports.Snapshot) {
		mu.Lock()
		defer mu.Unlock()
		shown = append(shown, snapshot)
	}
	outcome, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Verdict.Verdict != assertions.Pass || outcome.Interrupted {
		t.Errorf("the verdict is %s: %v", outcome.Verdict.Verdict, outcome.Verdict.Reasons)
	}
	want := []string{"setup", "warm-up", "steady", "fault", "heal", "drain", "replay", "audit", "seal"}
	if got := phases(t, outcome.Dir); !slices.Equal(got, want) {
		t.Errorf("the phases are %v, want %v", got, want)
	}
	if health := outcome.Verdict.Health; health.CPU <= 0 || health.CPUMax < health.CPU {
		t.Errorf("the harness did not look at itself: %+v", health)
	}
	wantFiles(t, outcome.Dir, true, "scenario.yaml", "plan.json", "verdict.json", "report.html", "junit.xml", "summary.md",
		"hdr", "history/sealed.json", "logs/instance-0.log", "logs/instance-1.log", "logs/replay.log")
	wantFiles(t, outcome.Dir, false, "kafka", "work", "processes.json")
	load := options.Scenario.Workload.WarmUp.D() + options.Scenario.Workload.Duration.D()
	for _, snapshot := range shown {
		if inSetup := snapshot.Phase == history.PhaseSetup; inSetup != (snapshot.Total == 0) &&
			snapshot.Phase != history.PhaseWarmup {
			t.Errorf("in %s the load's length is said to be %v", snapshot.Phase, snapshot.Total)
		}
		if snapshot.Total != 0 && (snapshot.Total != load || snapshot.Elapsed < 0) {
			t.Errorf("in %s it is %v of %v, want the load's length to be %v", snapshot.Phase, snapshot.Elapsed,
				snapshot.Total, load)
		}
	}
	if last := shown[len(shown)-1]; last.DeadLetters == 0 || last.Lag != 0 || last.RetriesInFlight != 0 ||
		len(last.ActiveFaults) != 0 {
		t.Errorf("the last thing shown is %+v", last)
	}
}

// A run can be interrupted in any phase. The recorded part is sealed and judged, and is never taken for a complete
// run.
func TestRunInterrupted(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{"setup", "warm-up", "steady", "fault", "heal", "drain", "replay", "audit", "seal"} {
		t.Run(phase, func(t *testing.T) {
			t.Parallel()
			options, want := small(t), assertions.Inconclusive
			if phase == "seal" { // then there is nothing left to interrupt
				options, want = smallSlow(t), assertions.Pass
			}
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			options.Log = onLog(`"phase":"`+phase+`"`, cancel)
			outcome, err := Run(ctx, options)
			if err != nil || !outcome.Interrupted || outcome.Verdict == nil {
				t.Fatalf("the outcome is %+v, %v", outcome, err)
			}
			if outcome.Verdict.Verdict != want {
				t.Errorf("the verdict is %s, want %s: %v", outcome.Verdict.Verdict, want, outcome.Verdict.Reasons)
			}
			if ended := slices.ContainsFunc(outcome.Verdict.Reasons, func(reason string) bool {
				return strings.Contains(reason, "ends before the run did")
			}); ended != (want != assertions.Pass) {
				t.Errorf("the reasons are %v", outcome.Verdict.Reasons)
			}
			wantFiles(t, outcome.Dir, true, "verdict.json", "report.html")
			wantFiles(t, outcome.Dir, phase != "setup", "history/sealed.json")
			wantFiles(t, outcome.Dir, false, "kafka", "work", "processes.json")
			again, err := JudgeRun(outcome.Dir)
			if err != nil || again.Verdict.Verdict != want {
				t.Errorf("judged again it is %v, %v", again.Verdict, err)
			}
		})
	}
}

// A failure before there is a load leaves no verdict and no running process.
func TestRunNotBegun(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		change func(*Options)
		want   string
	}{
		"no guard": {func(options *Options) {
			options.Executable = "/no/such/program"
		}, "starting the guard: starting the guard that ends the subject's processes"},
		"a subject that ends": {func(options *Options) {
			options.Subject, options.SubjectFile = subjectFile(t, "command: [sh, -c, 'echo no config; exit 7']")
		}, "setting up: instance 0 of subject tested ended with exit code 7 before it was ready; its last lines are:\n  no " +
			"config\n"},
		"a build that fails": {func(options *Options) {
			options.Subject, options.SubjectFile = subjectFile(t,
				"build: [sh, -c, 'echo no compiler; exit 2']\ncommand: [no-such-program]")
		}, "setting up: building subject tested: \"sh -c echo no compiler; exit 2\" ended with exit code 2; its last lines " +
			"are:\n  no compiler\n"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := small(t)
			test.change(&options)
			outcome, err := Run(t.Context(), options)
			var environment *EnvironmentError
			if !errors.As(err, &environment) || !strings.Contains(err.Error(), test.want) {
				t.Errorf("the error is %v, want %q", err, test.want)
			}
			if outcome == nil || outcome.Verdict != nil {
				t.Fatalf("the outcome is %+v, want a run directory without a verdict", outcome)
			}
			wantFiles(t, outcome.Dir, true, "scenario.yaml", "history/header.json")
			wantFiles(t, outcome.Dir, false, "verdict.json", "kafka", "work", "processes.json", "history/sealed.json")
		})
	}
}

// One that may end with errors is started again before there is a load, a few times.
func TestInitialInstancesAreStartedAgain(t *testing.T) {
	t.Parallel()
	for contract, want := range map[string]int{"{on_error: exit}": firstStarts, "{}": 1} {
		starts := filepath.Join(t.TempDir(), "starts")
		options := small(t)
		options.Subject, options.SubjectFile = subjectFile(t, "command: [sh, -c, 'echo {{.Instance}} >>"+starts+"; exit 7']\ncontract: "+
			contract)
		_, err := Run(t.Context(), options)
		made, _ := os.ReadFile(starts)
		if err == nil || !strings.Contains(err.Error(), "instance 0 of subject tested ended with exit code 7") ||
			strings.Count(string(made), "0") != want {
			t.Errorf("%s: %v, after the starts %q of 0, want %d", contract, err, made, want)
		}
	}
}

func subjectFile(t *testing.T, text string) (*scenarios.SubjectFile, string) {
	t.Helper()
	path := filepath.Join(t.TempDir(), "subject.yaml")
	if err := os.WriteFile(path, []byte("name: tested\nkind: process\n"+text+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	file, err := scenarios.LoadSubject(path)
	if err != nil {
		t.Fatal(err)
	}
	return file, path
}

// A run that cannot be prepared leaves nothing, not even its folder.
func TestRunNotPrepared(t *testing.T) {
	options := small(t)
	options.SubjectFile = "no/such/subject.yaml"
	outcome, err := Run(t.Context(), options)
	if err == nil || outcome != nil || !strings.Contains(err.Error(), "no/such/subject.yaml") {
		t.Errorf("got %v, %v", outcome, err)
	}
	if left, _ := os.ReadDir(options.Out); len(left) > 0 {
		t.Errorf("%v is left", left)
	}
	// A folder in the place of the link to the newest run.
	options = small(t)
	if err := os.MkdirAll(filepath.Join(options.Out, linkLatest), 0o755); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), options); err == nil ||
		!strings.Contains(err.Error(), "is there a folder of that name?") {
		t.Errorf("got %v", err)
	}
}

// A failure in the middle of a run is an error. The part recorded before is judged, never as a pass, and a later
// check gives the same verdict.
func TestRunFailsInTheMiddle(t *testing.T) {
	t.Parallel()
	options := small(t)
	options.ReplayCommand = []string{"sh", "-c", "echo no replay today; exit 5"}
	outcome, err := Run(t.Context(), options)
	var environment *EnvironmentError
	if !errors.As(err, &environment) || !strings.Contains(err.Error(), "no replay today") ||
		strings.Count(err.Error(), "replaying the dead letters") != 1 {
		t.Errorf("the error is %v", err)
	}
	if outcome == nil || outcome.Verdict == nil || outcome.Verdict.Verdict != assertions.Inconclusive {
		t.Fatalf("the outcome is %+v", outcome)
	}
	wantFiles(t, outcome.Dir, true, "verdict.json")
	wantFiles(t, outcome.Dir, false, "history/sealed.json", "kafka", "processes.json")
	again, err := JudgeRun(outcome.Dir)
	if err != nil || again.Verdict.Verdict != outcome.Verdict.Verdict {
		t.Errorf("judged again it is %v, %v", again.Verdict, err)
	}
}

// A session timeout that a member asked for extends the patience. A load that could not keep its schedule halves it,
// so that a subject that is behind is never taken for one that stalled.
func TestPatience(t *testing.T) {
	header := history.Header{Consumers: make([]history.Consumer, 1),
		Expect: history.Expect{MaxSlip: 250 * time.Millisecond, Patience: 10 * time.Second}}
	options := small(t)
	r := &run{options: options, scenario: options.Scenario, header: header, live: newLive(discard{}, &header)}
	want := func(patience time.Duration, when string) {
		t.Helper()
		if got := r.patience(); got != patience {
			t.Errorf("%s: %v, want %v", when, got, patience)
		}
	}
	sent := func(count int, late time.Duration) {
		for range count {
			event := history.New(history.KindSend, time.Second+late)
			event.Aux = int64(time.Second)
			r.live.Record(event)
		}
	}
	want(10*time.Second, "nobody has joined")
	if got := r.inGroup(); got != 0 {
		t.Errorf("without a group an instance may wait %v in it", got)
	}
	for _, session := range []time.Duration{45 * time.Second, 10 * time.Second} {
		event := history.New(history.KindJoining, time.Second)
		event.Aux = int64(session)
		r.live.Record(event)
	}
	want(55*time.Second, "the longest of two sessions")
	sent(990, 250*time.Millisecond)
	sent(10, 251*time.Millisecond)
	want(55*time.Second, "one in a hundred too late")
	sent(1, 251*time.Millisecond)
	want(55*time.Second/2, "more than one in a hundred too late")
	if got := r.inGroup(); got != 55*time.Second {
		t.Errorf("an instance may wait %v in its group, want what the drain would wait", got)
	}
}

func TestADrainGivesBackWhatTheMachineTook(t *testing.T) {
	r := &run{header: history.Header{Expect: history.Expect{Patience: 10 * time.Second}}, clock: history.NewClock(),
		live: newLive(discard{}, &history.Header{Consumers: make([]history.Consumer, 1)})}
	stall := func(instance int16, lasted time.Duration) {
		event := history.New(history.KindStall, time.Second)
		event.Instance, event.Aux = instance, int64(lasted)
		r.live.Record(event)
	}
	stall(0, time.Minute) // before the drain
	given := r.allow()
	back := func(want time.Duration, when string) {
		t.Helper()
		if got := given.back(); got != want {
			t.Errorf("%s: %v back, want %v", when, got, want)
		}
	}
	back(0, "nothing was taken")
	stall(0, 2*time.Second)
	stall(history.None, time.Second)
	back(3*time.Second, "the harness and an instance stood still")
	stall(1, time.Second)
	back(3*time.Second, "another instance stood still, for less than the first")
	stall(1, 40*time.Second)
	back(10*time.Second, "as much again, and no more")
}

// A process that is started again in the drain stands still until it is ready. A loop of processes that end before they
// are gets no more time than one start may take, and one of processes that end when they are no more than one start took.
func TestADrainGivesBackWhatStartsTook(t *testing.T) {
	live := newLive(discard{}, &history.Header{Instances: 2, Consumers: make([]history.Consumer, 1)})
	process := uint16(0)
	note := func(at time.Duration, kind history.Kind, instance int16) {
		if kind == history.KindInstanceStarting {
			process++
		}
		event := history.New(kind, at*time.Second)
		event.Instance, event.Run = instance, process
		live.Record(event)
	}
	note(1, history.KindInstanceStarting, 0)
	note(4, history.KindInstanceReady, 0)
	given := allowance{live: live, ready: 20 * time.Second, started: live.processes.startups(9 * time.Second)}
	want := func(now, want time.Duration, when string) {
		t.Helper()
		if got := given.startup(now * time.Second); got != want*time.Second {
			t.Errorf("%s: %v back, want %v", when, got, want*time.Second)
		}
	}
	want(9, 0, "it was ready before the drain")
	note(10, history.KindInstanceExited, 0)
	want(11, 0, "nothing is started yet")
	note(11, history.KindInstanceStarting, 0)
	want(14, 3, "it starts")
	note(16, history.KindInstanceReady, 0)
	want(30, 5, "it is ready")
	note(30, history.KindInstanceStarting, 1)
	want(37, 7, "another takes longer")
	note(39, history.KindInstanceExited, 1)
	note(40, history.KindInstanceStarting, 1)
	want(45, 14, "it ended before it was ready, and starts once more")
	want(99, 20, "as much as one start may take, and no more")
	given = allowance{live: live, ready: 20 * time.Second, started: live.processes.startups(99 * time.Second)}
	note(100, history.KindInstanceReady, 1)
	want(100, 1, "it is ready at last")
	for at := time.Duration(101); at < 200; at += 7 {
		note(at, history.KindInstanceExited, 1)
		note(at+1, history.KindInstanceStarting, 1)
		want(at+2, min(at-100, 5), "it starts")
		note(at+6, history.KindInstanceReady, 1)
		want(at+6, 5, "it is ready again")
	}
}

// Movement is not standing still: promised attempts until they are answered, records that are finished, commits.
// Endless attempts are standing still, whether or not the contract names a number of attempts.
func TestQuiet(t *testing.T) {
	for promised, beyond := range map[int]int32{2: 17, 0: 101} {
		synctest.Test(t, func(t *testing.T) {
			header := history.Header{Records: 10,
				Consumers: []history.Consumer{{Contract: history.Contract{MaxAttempts: promised}}},
				Topics: []history.Topic{{Name: "in", Role: history.RoleInput, Partitions: 1},
					{Name: "dead", Role: history.RoleDLQ, Partitions: 1}}}
			live, watch := newLive(discard{}, &header), newQuiet(history.NewClock())
			outcome := history.OutcomeTransient
			tell := func(kind history.Kind, n int32) {
				event := history.New(kind, 0)
				event.Record, event.N, event.Outcome = 1, n, outcome
				if kind == history.KindProduceResponse {
					event.Topic = 1
				}
				live.Record(event)
			}
			still := func(want time.Duration, when string) {
				t.Helper()
				if got := watch.still(live, live.figures()); got != want {
					t.Errorf("%d attempts promised, %s: still for %v, want %v", promised, when, got, want)
				}
			}
			time.Sleep(time.Second)
			still(time.Second, "nothing happens")
			tell(history.KindAttemptStart, 1)
			time.Sleep(time.Second)
			still(0, "an attempt is being answered")
			time.Sleep(time.Second)
			still(0, "it still is")
			tell(history.KindAttemptEnd, 1)
			still(0, "it has been answered")
			time.Sleep(time.Second)
			tell(history.KindProduceResponse, 0)
			still(0, "it is dead-lettered")
			time.Sleep(time.Second)
			tell(history.KindAttemptStart, beyond)
			still(time.Second, "an attempt far beyond any promise")
			tell(history.KindAttemptEnd, beyond)
			still(time.Second, "which has been answered")
			tell(history.KindProduceResponse, 0)
			still(time.Second, "it is dead-lettered again")
			outcome = history.OutcomeLogical
			tell(history.KindAttemptStart, beyond+1)
			tell(history.KindAttemptEnd, beyond+1)
			still(time.Second, "an answer that may end it, far beyond any promise")
		})
	}
}

// Faults wait for a subject that works off its prefetched records, as long as it moves. They do not wait for a
// subject that is not behind, nor for one that stands still, nor for one of which no process is left. One that stands
// still as it lacks a topic ends the wait.
func TestFaultsWaitForASubjectThatIsBehind(t *testing.T) {
	const sent, steady = 100, 10 * time.Second
	fake, _ := kafkatest.Start(t, &kafkatest.Log{}, 1, nil)
	lacking, subject := tapped(t, fake.ListenAddrs()[0], nil)
	if _, err := subject.Metadata(t.Context(), "outbox"); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		what     string
		finished int
		moves    time.Duration
		commits  time.Duration
		closed   time.Duration
		fallen   []int16 // instances of three whose process has ended by itself; instance 0 has one in any case
		lacking  bool    // it asked for a topic that does not exist
	}{
		{"it keeps up", sent - 20, time.Hour, 0, steady + meetingLeast, nil, false},
		{"it keeps up and commits every minute", sent - 20, time.Hour, time.Minute, steady + meetingLeast + 30*time.Second,
			nil, false},
		{"it is behind and moves for 5 min", 10, 5 * time.Minute, 0, 5*time.Minute + 40*time.Second + meetingLeast, nil,
			false},
		{"it is behind and moves without end", 10, time.Hour, 0, steady + meetingMost, nil, false},
		{"it is behind and stands still", 10, 0, 0, steady + 40*time.Second + meetingLeast, nil, false},
		{"a process of two is left", 10, 0, 0, steady + 40*time.Second + meetingLeast, []int16{1}, false},
		{"no process is left", 10, 0, 0, steady, []int16{0, 1}, false},
		{"it lacks a topic and stands still", 10, 0, 0, steady + lackingLeast, nil, true},
	} {
		t.Run(test.what, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				s := newShown(t)
				s.plan.Records, s.plan.Steady, s.header.Expect.Patience = s.plan.Records[:sent], steady, 40*time.Second
				if s.header.Contract().CommitInterval = test.commits; test.commits > 0 {
					s.plan.Faults = make([]faults.Planned, 1)
				}
				s.producer = &workload.Producer{}
				for record := range int32(sent) {
					s.tell(history.KindSend, record, nil)
					s.tell(history.KindAcked, record, nil)
					if int(record) < test.finished {
						s.tell(history.KindAttemptEnd, record, success)
					}
				}
				if s.tell(history.KindInstanceStarting, history.None, nil); test.lacking {
					s.tap = lacking
					s.tell(history.KindAttemptEnd, int32(test.finished), failing)
				}
				for _, instance := range test.fallen {
					for _, kind := range []history.Kind{history.KindInstanceStarting, history.KindInstanceExited} {
						s.tell(kind, history.None, func(e *history.Event) { e.Instance = instance })
					}
				}
				closed, stop := s.closing(t.Context(), 0)
				defer stop()
				for {
					select {
					case <-closed:
						if got := s.clock.Now(); got < test.closed-time.Second || got > test.closed+time.Second {
							t.Errorf("faults waited until %v, want %v", got, test.closed)
						}
						return
					case <-time.After(20 * time.Second):
						if s.clock.Now() <= test.moves {
							s.live.moved.Add(1)
						}
					}
				}
			})
		})
	}
}

type discard struct{}

func (discard) Record(history.Event) {}

// Work that must be done even after an interruption gets a few seconds, counted from the interruption.
func TestGraced(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	own, release := graced(ctx, time.Hour)
	defer release()
	if deadline, _ := own.Deadline(); time.Until(deadline) < 59*time.Minute {
		t.Errorf("without an interruption it may take until %v", deadline)
	}
	cancel()
	began := time.Now()
	if own.Err() != nil {
		t.Fatal("the interruption ended it at once")
	}
	<-own.Done()
	if took := time.Since(began); took < interruptedLimit-time.Second {
		t.Errorf("it was given %v after the interruption, want %v", took, interruptedLimit)
	}
	late, release := graced(ctx, time.Hour)
	if late.Err() != nil {
		t.Error("after the interruption it is given nothing")
	}
	release()
	if late.Err() == nil {
		t.Error("it outlives its release")
	}
}

// Ctrl-C in the middle of a fault that holds something back, or has added something: nothing hangs, and nothing is
// left behind.
func TestRunInterruptedInFaults(t *testing.T) {
	t.Parallel()
	for name, fault := range map[string]string{
		"paused broker": `{at: 50ms, for: 5s, broker: {broker: 1, pause: true}}`,
		"killed broker": `{at: 50ms, for: 5s, broker: {broker: 1, kill: true}}`,
		"scaled up":     `{at: 50ms, for: 5s, subject: {scale_up: 2}}`,
		"waiting":       `{at: 0s, when: lag > 1000000, for: 1s, broker: {broker: 1, pause: true}}`,
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			options := small(t, "faults=["+fault+"]", "workload.duration=8s")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			options.Log = onLog(`"phase":"steady"`, func() { time.AfterFunc(400*time.Millisecond, cancel) })
			outcome, err := Run(ctx, options)
			if err != nil || !outcome.Interrupted || outcome.Verdict == nil {
				t.Fatalf("the outcome is %+v, %v", outcome, err)
			}
			wantFiles(t, outcome.Dir, true, "verdict.json", "history/sealed.json")
			wantFiles(t, outcome.Dir, false, "kafka", "work", "processes.json")
			for _, fault := range outcome.Verdict.Faults {
				if fault.Observed.Injected != (name != "waiting") || fault.Observed.Healed != fault.Observed.Injected {
					t.Errorf("the fault was injected: %v, healed: %v", fault.Observed.Injected, fault.Observed.Healed)
				}
			}
		})
	}
}

// No file of the run directory contains a literal secret of the subject file, in any form, and other users may not
// read the directory.
func TestLiteralSecretsReachNoRunDirectory(t *testing.T) {
	options := small(t)
	options.Subject, options.SubjectFile = subjectFile(t, `
command: [sh, -c, 'env; cat "$0/client.properties"; echo "ERROR no way to jdbc:postgresql://me:canary-jdbc@db" >&2; exit 7', '{{.WorkDir}}', --password, canary-flag]
env: {DB_PASSWORD: canary-env, JDBC_URL: 'jdbc:postgresql://me:canary-jdbc@db/x',
  MONGO: 'mongodb+srv://me:canary-mongo@db', MQ: 'amqp://me:canary-amqp@mq/v', PG: 'postgres://me:canary-pg@db'}
files: {client.properties: 'sasl.jaas.config=PlainLoginModule required username="me" password="canary-jaas";'}`)
	outcome, err := Run(t.Context(), options)
	if err == nil || outcome == nil {
		t.Fatalf("%v, %v", outcome, err)
	}
	if info, err := os.Stat(outcome.Dir); err != nil || info.Mode().Perm() != 0o700 {
		t.Errorf("the run directory has mode %v, %v", info.Mode(), err)
	}
	seen := 0
	err = filepath.WalkDir(outcome.Dir, func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		text, err := os.ReadFile(path)
		if bytes.Contains(text, []byte("canary-")) {
			t.Errorf("%s holds a secret:\n%s", path, text)
		}
		if bytes.Contains(text, []byte("*****")) || bytes.Contains(text, []byte("MASKED")) {
			seen++
		}
		return err
	})
	if err != nil || seen < 2 {
		t.Errorf("%d files have something masked, want the log and the copy of the subject file; %v", seen, err)
	}
}
