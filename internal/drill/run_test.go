package drill

import (
	"compress/gzip"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// These tests are whole drills on the embedded Kafka, with the reference consumer as separate processes. They mostly
// wait, so they run in parallel.

func TestMain(m *testing.M) {
	code := programtest.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "after all tests:", err)
		code = 1
	}
	os.Exit(code)
}

const load = `
name: broken-letters
description: What a person may break.
topics: {input: {partitions: 3}}
subject: {reference: {instances: 2, max_retries: 2, retry_backoff_ms: 20, max_retry_backoff_ms: 50, retry_jitter_ms: 5}}
workload: {rate: 100/s, duration: 5m, warm_up: 100ms, outcomes: {success: 70, transient: 10, permanent: 20}}
expect: {max_slip: 10s, drain: 40s}
`

// going is a drill in progress.
type going struct {
	*Session
	t       *testing.T
	options run.Options
	cancel  context.CancelFunc
	ended   chan struct{}
	outcome *run.Outcome
	err     error
}

// start begins a drill and returns when its load is running.
func start(t *testing.T, text string, change func(*run.Options)) *going {
	t.Helper()
	t.Parallel()
	ctx, cancel := context.WithCancel(t.Context())
	g := &going{t: t, cancel: cancel, ended: make(chan struct{})}
	g.options = run.Options{
		Scenario: parse(t, text), Source: []byte(text), Out: filepath.Join(t.TempDir(), "runs"),
		Executable: programtest.Path(), Rerun: "rerun --seed %d", Version: "test", Log: zerolog.Nop(),
	}
	if change != nil {
		change(&g.options)
	}
	g.Session, g.options.Manual = New(Options{Scenario: g.options.Scenario, Source: g.options.Source,
		Rerun: "dlqbench run %s"})
	g.options.Watch = g.Watch
	go func() {
		defer close(g.ended)
		g.outcome, g.err = run.Run(ctx, g.options)
		if err := g.Finish(g.outcome, g.err); err != nil {
			t.Error(err)
		}
	}()
	t.Cleanup(func() { cancel(); <-g.ended })
	g.until("the load begins", func(s State) bool { return s.Stage != StageSetUp && s.Stage != StageWarm })
	return g
}

// until waits for a state.
func (g *going) until(what string, is func(State) bool) State {
	g.t.Helper()
	ctx, cancel := context.WithTimeout(g.t.Context(), 90*time.Second)
	defer cancel()
	for {
		state := g.State(RoleInjector)
		if is(state) {
			return state
		}
		if err := g.Next(ctx, state.Version); err != nil {
			g.t.Fatalf("waiting until %s: %v; the drill is at %s, %+v", what, err, state.Stage, state.Faults)
		}
	}
}

// hit waits until every fault in force has had an effect.
func (g *going) hit() {
	g.t.Helper()
	g.until("what is broken has an effect", func(s State) bool {
		if s.Live == nil {
			return false
		}
		open := 0
		for _, f := range s.Faults {
			if !f.Over() {
				open++
			}
		}
		return len(s.Live.ActiveFaults) == open && !slices.ContainsFunc(s.Live.ActiveFaults, func(f reports.FaultState) bool {
			return f.Effects == 0
		})
	})
}

// stays waits for two seconds of the drill, so that a fault in force lasts long enough to have an effect in the
// recording, too, where it meets other records.
func (g *going) stays() {
	g.t.Helper()
	until := g.State(RoleInjector).At + 2*time.Second
	g.until("it has lasted a while", func(s State) bool { return s.At > until })
}

// finish waits for the end and returns the verdict.
func (g *going) finish() *assertions.Verdict {
	g.t.Helper()
	select {
	case <-g.ended:
	case <-time.After(2 * time.Minute):
		g.t.Fatal("the drill does not end")
	}
	if g.err != nil {
		g.t.Fatal(g.err)
	}
	if g.outcome.Verdict == nil {
		g.t.Fatal("nothing was judged")
	}
	return g.outcome.Verdict
}

func (g *going) file(name string) []byte {
	g.t.Helper()
	data, err := os.ReadFile(filepath.Join(g.outcome.Dir, name))
	must.Do(g.t, err)
	return data
}

// rerun runs the recording and returns its outcome. Its plan must be that of the drill, byte for byte, except for the
// spare records at its end: the load of a drill has none, because a person ends it.
func (g *going) rerun() *run.Outcome {
	g.t.Helper()
	path := filepath.Join(g.outcome.Dir, "recorded.yaml")
	scenario, err := scenarios.Load(path)
	must.Do(g.t, err)
	options := g.options
	options.Manual, options.Watch, options.Scenario, options.Source = nil, nil, scenario, g.file("recorded.yaml")
	options.Out = filepath.Join(g.t.TempDir(), "again")
	again, err := run.Run(g.t.Context(), options)
	must.Do(g.t, err)
	planned, err := os.ReadFile(filepath.Join(again.Dir, plan.File))
	must.Do(g.t, err)
	spareLine := regexp.MustCompile(`\n  "spare": \d+,`)
	if planned := spareLine.ReplaceAllLiteralString(string(planned), ""); planned != string(g.file(plan.File)) {
		g.t.Errorf("the recording plans something else than was done:\n%s\nand\n%s", planned, g.file(plan.File))
	}
	records, done := g.recordsOf(again), g.recordsOf(g.outcome)
	if !strings.HasPrefix(records, done) {
		g.t.Errorf("the recording plans other records than were planned:\n%s\nand\n%s",
			records[:min(len(records), len(done))], done)
	}
	return again
}

// recordsOf returns the planned records of a run, as CSV.
func (g *going) recordsOf(run *run.Outcome) string {
	g.t.Helper()
	file, err := os.Open(filepath.Join(run.Dir, plan.RecordsFile))
	must.Do(g.t, err)
	defer func() { _ = file.Close() }()
	packed, err := gzip.NewReader(file)
	must.Do(g.t, err)
	text, err := io.ReadAll(packed)
	must.Do(g.t, err)
	return string(text)
}

func wantVerdict(t *testing.T, verdict *assertions.Verdict, want assertions.Status) {
	t.Helper()
	if verdict.Verdict != want {
		t.Errorf("the verdict is %s, want %s: %q", verdict.Verdict, want, verdict.Reasons)
	}
}

// TestDrill injects, notices, lifts and stops. The verdict is that of a whole run, the debrief has the figures, and the
// recording repeats all of it.
func TestDrill(t *testing.T) {
	g := start(t, load, nil)
	_, err := g.Break(t.Context(), ada, refusal())
	must.Do(t, err)
	g.hit()
	must.Do(t, g.Notice(bob, "no dead letters"))
	must.Do(t, g.Kill(t.Context(), ada, 1))
	g.hit()
	g.stays()
	must.Do(t, g.HealAll(t.Context(), bob))
	g.until("it is healed", func(s State) bool { return s.Faults[0].Healed != nil && s.Faults[1].Healed != nil })
	g.until("the lag is back", func(s State) bool { return s.Live.Lag < 100 })
	scaled := g.State(RoleInjector).At
	must.Do(t, g.Scale(t.Context(), ada, 3))
	g.hit()
	// In the recording the instance exists for as long as here, including its start. If the start takes longer, the
	// instance has no effect, so the test keeps it for a while.
	until := scaled + 4*(g.State(RoleInjector).At-scaled)
	g.until("the new instance has been there for a while", func(s State) bool { return s.At > until })
	must.Do(t, g.Restart(t.Context(), ada, 0))
	_, err = g.Break(t.Context(), ada, map[string]any{"broker": map[string]any{"broker": 3, "kill": true}})
	wants(t, err, ErrRefused)
	must.Do(t, g.Stop(ada))
	wantVerdict(t, g.finish(), assertions.Pass)
	if len(g.outcome.Verdict.Faults) != 4 || g.outcome.Judged.Header.Records >= 5*60*100 ||
		g.outcome.Judged.Header.Instances != 3 {
		t.Errorf("the header has %+v", g.outcome.Judged.Header)
	}
	figures := g.State(RoleResponder).Result.Figures
	if figures.Faults != 2 || figures.Noticed != 1 || figures.Healed != 2 || figures.ToNotice.Max <= 0 ||
		figures.ToHeal.Max <= figures.ToNotice.Max {
		t.Errorf("figures %+v", figures)
	}
	for _, word := range []string{"produce-error", "no dead letters", "kill-instance-1", "Bob (responder)", "pass",
		"recorded.yaml"} {
		if !strings.Contains(string(g.file(FileHTML)), word) || !strings.Contains(string(g.file(FileMarkdown)), word) {
			t.Errorf("the debrief does not have %q", word)
		}
	}
	var record Record
	must.Do(t, json.Unmarshal(g.file(FileJSON), &record))
	if len(record.Faults) != 4 || record.Result.Verdict != assertions.Pass ||
		!strings.HasSuffix(record.Result.Replay, "recorded.yaml") {
		t.Errorf("drill.json has %+v", record.Result)
	}
	wantVerdict(t, g.rerun().Verdict, assertions.Pass)
}

// TestStoppedInMidFault checks that a drill stopped while faults are in force is a whole run.
func TestStoppedInMidFault(t *testing.T) {
	g := start(t, load, nil)
	_, err := g.Break(t.Context(), ada, refusal())
	must.Do(t, err)
	must.Do(t, g.Pause(t.Context(), ada, 0))
	g.hit()
	g.until("there is something to judge", func(s State) bool { return s.Live.Totals.Processed > 300 })
	must.Do(t, g.Stop(bob))
	wantVerdict(t, g.finish(), assertions.Pass)
	for _, f := range g.State(RoleInjector).Faults {
		if f.Healed == nil || f.HealedBy != nil {
			t.Errorf("not healed by itself: %+v", f)
		}
	}
}

// TestInterruptedInMidFault checks that an interrupted drill lifts all faults, seals the history and is judged, but
// does not count as a whole run.
func TestInterruptedInMidFault(t *testing.T) {
	g := start(t, load, nil)
	_, err := g.Break(t.Context(), ada, refusal())
	must.Do(t, err)
	must.Do(t, g.Pause(t.Context(), ada, 0))
	g.hit()
	g.cancel()
	verdict := g.finish()
	wantVerdict(t, verdict, assertions.Inconclusive)
	if !g.outcome.Interrupted || !g.State(RoleInjector).Result.Interrupted {
		t.Error("it is not said to be interrupted")
	}
	for _, f := range verdict.Faults {
		if !f.Observed.Injected || !f.Observed.Healed {
			t.Errorf("%s was not healed: %+v", f.Name, f.Observed)
		}
	}
	if _, err := history.Open(filepath.Join(g.outcome.Dir, "history")); err != nil {
		t.Errorf("the history is not sealed: %v", err)
	}
	if _, err := scenarios.Load(filepath.Join(g.outcome.Dir, "recorded.yaml")); err != nil {
		t.Error(err)
	}
}

// TestPlantedBug checks that a bug that only a manual fault reveals is found, and that its counterexample names the
// fault.
func TestPlantedBug(t *testing.T) {
	g := start(t, load, func(o *run.Options) {
		o.ReferenceCommand = []string{o.Executable, "bug", "consume", "ignore-dlq-error"}
	})
	_, err := g.Break(t.Context(), ada, refusal())
	must.Do(t, err)
	g.hit()
	time.Sleep(500 * time.Millisecond) // so that it also commits past the refused records
	must.Do(t, g.HealAll(t.Context(), ada))
	must.Do(t, g.Stop(ada))
	verdict := g.finish()
	wantVerdict(t, verdict, assertions.Fail)
	for _, one := range verdict.Invariants {
		if one.Name != "commit-after-dlq" {
			continue
		}
		if one.Status != assertions.Fail || len(one.Anomalies) == 0 || len(one.Anomalies[0].Counterexamples) == 0 {
			t.Fatalf("%+v", one)
		}
		if text, _ := json.Marshal(one.Anomalies[0].Counterexamples[0]); !strings.Contains(string(text),
			"NOT_ENOUGH_REPLICAS") {
			t.Errorf("the counterexample does not tell what was broken: %s", text)
		}
	}
	if !strings.Contains(string(g.file(FileMarkdown)), "commit-without-dlq") {
		t.Error("the debrief does not tell what was violated")
	}
}

// TestReplayByHand checks that dead letters replayed during the load are judged like any others.
func TestReplayByHand(t *testing.T) {
	g := start(t, load+"replay: {rate: 500/s, healed: 100%, fail_again: 20%}\n", nil)
	_, err := g.Break(t.Context(), ada, refusal())
	must.Do(t, err)
	g.hit()
	wants(t, g.Replay(t.Context(), ada), ErrRefused)
	must.Do(t, g.HealAll(t.Context(), ada))
	replayed := func(least int64) {
		g.until("letters are put back", func(s State) bool {
			return s.Live.Totals.Replayed >= least || g.Replay(t.Context(), ada) == nil && s.Live.Totals.Replayed >= least
		})
	}
	replayed(20)
	replayed(60) // a second time
	must.Do(t, g.Kill(t.Context(), ada, 0))
	g.hit()
	must.Do(t, g.Stop(ada))
	verdict := g.finish()
	wantVerdict(t, verdict, assertions.Pass)
	for _, one := range verdict.Invariants {
		if one.Name == "replay-round-trip" && (one.Status != assertions.Pass || one.Judged < 60) {
			t.Errorf("%+v", one)
		}
	}
}

// TestScripted checks that scripted faults are not announced, and that a responder is not told when they begin.
func TestScripted(t *testing.T) {
	text := strings.Replace(load, "duration: 5m", "duration: 6s", 1) + `
drill:
  pick: 1
  faults:
    - {from: 500ms, to: 1s, for: 3s, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}
    - {from: 500ms, to: 1s, for: 3s, downstream: {outage: true}}
`
	g := start(t, text, nil)
	g.hit()
	g.until("it was broken", func(s State) bool { return len(s.Faults) == 1 })
	broken := g.State(RoleInjector).Faults[0]
	seen, err := json.Marshal(g.State(RoleResponder))
	must.Do(t, err)
	for _, word := range append(strings.Fields(broken.What), broken.Name, "broken-letters") {
		if len(word) > 3 && strings.Contains(string(seen), word) {
			t.Errorf("a responder reads %q: %s", word, seen)
		}
	}
	must.Do(t, g.Notice(bob, ""))
	wantVerdict(t, g.finish(), assertions.Pass)
	state := g.State(RoleResponder)
	if len(state.Faults) != 1 || state.Faults[0].By != nil || state.Faults[0].Noticed == nil ||
		state.Ending != "planned time over" {
		t.Errorf("%+v, %q", state.Faults, state.Ending)
	}
	wantVerdict(t, g.rerun().Verdict, assertions.Pass)
}
