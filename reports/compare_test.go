package reports

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"math/rand/v2"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/stats"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports/document"
)

// repeated returns n runs of a scenario as repetitions. change, if not nil, modifies each of them.
func repeated(scenario, side string, n int, change func(run *CompareRun)) []CompareRun {
	out := make([]CompareRun, n)
	for i := range out {
		random := rand.New(rand.NewPCG(uint64(len(side)), uint64(i)))
		near := func(v float64) float64 { return v * math.Exp(0.02*random.NormFloat64()) }
		out[i] = CompareRun{
			Case: scenario, RunID: fmt.Sprintf("%s-%s-%d", scenario, side, i), Label: fmt.Sprintf("runs/%s-%d", side, i),
			Subject: "reference", Seed: 42,
			Command: "dlqbench run " + scenario + " --seed 42", Verdict: assertions.Pass, Planned: 30012,
			Faults: []string{"DLQ refuses from 4s for 5s"},
			Environment: map[string]string{"kafka": "embedded, 3 brokers", "cpus": "2", "os": "linux", "arch": "amd64",
				"go": "go1.26.8", "dlqbench": "1.4.0", EnvironmentLoad: "9f86d081884c"},
			Invariants: []BenchInvariant{
				{Name: "no-loss", Verdict: assertions.Pass, Judged: 30000, Anomalies: map[string]int64{}},
				{Name: "backoff", Verdict: assertions.Pass, Judged: 4210, Anomalies: map[string]int64{}},
				{Name: "replay-round-trip", Verdict: assertions.NotApplicable, Anomalies: map[string]int64{},
					Why: "the scenario has no replay phase"},
			},
			Figures: map[string]float64{
				"throughput.processed": near(1996), "latency.success.p50": near(0.0042), "latency.success.p90": near(0.031),
				"latency.success.p99":  near(0.212),
				"latency.success.p999": near(0.9), "recovery.steady": near(1.4), "recovery.drain": near(2.8), "share.duplicates": 0,
				"share.dead_lettered": 890.0 / 30000, "count.attempts": 34518,
			},
		}
		if change != nil {
			change(&out[i])
		}
	}
	return out
}

func broken(invariant, anomaly string, n int64) func(*CompareRun) {
	return func(run *CompareRun) {
		run.Verdict = assertions.Fail
		for i := range run.Invariants {
			if run.Invariants[i].Name == invariant {
				run.Invariants[i].Verdict, run.Invariants[i].Anomalies = assertions.Fail, map[string]int64{anomaly: n}
			}
		}
	}
}

func times(figure string, factor float64) func(*CompareRun) {
	return func(run *CompareRun) { run.Figures[figure] *= factor }
}

func mustCompare(t *testing.T, before, after []CompareRun) Comparison {
	t.Helper()
	out, err := Compare(before, after, false)
	if err != nil {
		t.Fatalf("comparing: %v", err)
	}
	return out
}

// TestCompareFirstJudged: a violation that no run before could have seen is not called new, but it fails all the same.
func TestCompareFirstJudged(t *testing.T) {
	absent := func(run *CompareRun) { run.Invariants = run.Invariants[:2] }
	for before, change := range map[string]func(*CompareRun){"not applicable": nil, "absent": absent} {
		c := mustCompare(t, repeated("s", "a", 1, change), repeated("s", "bb", 1, broken("replay-round-trip", "lost", 3)))
		if got := changes(c)["replay-round-trip"]; got != InvariantFirstViolated || c.Verdict != CompareFirstViolated {
			t.Errorf("%s before: %s, %s", before, got, c.Verdict)
		}
		var out strings.Builder
		must.Do(t, CompareTerminal(&out, c, false))
		if !strings.Contains(out.String(), "Judged for the first time, and violated: replay-round-trip.") ||
			!strings.Contains(out.String(), "judged for the first time (not") ||
			strings.Contains(strings.ToLower(out.String()), "newly violated") {
			t.Errorf("%s before: %s", before, out.String())
		}
	}
	both := func(run *CompareRun) { broken("replay-round-trip", "lost", 3)(run); broken("no-loss", "lost", 1)(run) }
	if c := mustCompare(t, repeated("s", "a", 1, nil), repeated("s", "bb", 1, both)); c.Verdict != CompareViolated {
		t.Errorf("with a new violation beside it: %s", c.Verdict)
	}
}

func changes(c Comparison) map[string]InvariantChange {
	out := map[string]InvariantChange{}
	for _, invariant := range c.Cases[0].Invariants {
		out[invariant.Name] = invariant.Change
	}
	return out
}

func figureOf(c Comparison, name string) CompareFigure {
	for _, f := range c.Cases[0].Figures {
		if f.Name == name {
			return f
		}
	}
	return CompareFigure{}
}

func TestCompareInvariants(t *testing.T) {
	inconclusive := func(run *CompareRun) {
		run.Verdict = assertions.Inconclusive
		run.Invariants[0].Verdict, run.Invariants[0].Why = assertions.Inconclusive, "nothing was refused"
	}
	firstOnly := func(change func(*CompareRun)) func(*CompareRun) {
		return func(run *CompareRun) {
			if strings.HasSuffix(run.Label, "-0") {
				change(run)
			}
		}
	}
	tests := map[string]struct {
		before, after func(*CompareRun)
		want          InvariantChange
		verdict       CompareVerdict
	}{
		"newly":             {nil, broken("no-loss", "lost", 3), InvariantNewlyViolated, CompareViolated},
		"newly in one of 5": {nil, firstOnly(broken("no-loss", "lost", 3)), InvariantNewlyViolated, CompareViolated},
		"still":             {broken("no-loss", "lost", 3), broken("no-loss", "lost", 1), InvariantStill, CompareSame},
		"once before": {firstOnly(broken("no-loss", "lost", 3)), broken("no-loss", "lost", 1), InvariantStill,
			CompareSame},
		"another way": {broken("no-loss", "lost", 3), broken("no-loss", "stalled", 3), InvariantOtherwise,
			CompareViolated},
		"healed":             {broken("no-loss", "lost", 3), nil, InvariantHealed, CompareSame},
		"not shown":          {nil, inconclusive, InvariantUnproven, CompareUnproven},
		"not shown in one":   {nil, firstOnly(inconclusive), InvariantSame, CompareSame},
		"violated, unshown":  {broken("no-loss", "lost", 3), inconclusive, InvariantUnproven, CompareUnproven},
		"shown now":          {inconclusive, nil, InvariantShown, CompareSame},
		"unshown, violated":  {inconclusive, broken("no-loss", "lost", 3), InvariantNewlyViolated, CompareViolated},
		"inconclusive twice": {inconclusive, inconclusive, InvariantSame, CompareSame},
	}
	for name, test := range tests {
		c := mustCompare(t, repeated("s", "a", 5, test.before), repeated("s", "bb", 5, test.after))
		if got := changes(c); got["no-loss"] != test.want || got["backoff"] != InvariantSame ||
			got["replay-round-trip"] != InvariantSame {
			t.Errorf("%s: %v, want %s", name, got, test.want)
		}
		if c.Verdict != test.verdict {
			t.Errorf("%s: %s, want %s", name, c.Verdict, test.verdict)
		}
	}
}

func TestCompareFigures(t *testing.T) {
	tests := []struct {
		figure  string
		factor  float64
		want    FigureChange
		verdict CompareVerdict
	}{
		{"latency.success.p99", 1.4, FigureWorse, CompareRegressed},
		{"latency.success.p99", 0.7, FigureBetter, CompareSame},
		{"latency.success.p99", 1.004, FigureSame, CompareSame},
		{"throughput.processed", 0.7, FigureWorse, CompareRegressed},
		{"throughput.processed", 1.4, FigureBetter, CompareSame},
		{"recovery.drain", 2, FigureWorse, CompareRegressed},
		{"recovery.steady", 2, FigureWorse, CompareRegressed},
		{"latency.success.p999", 4, FigureShown, CompareSame}, // not watched
	}
	for _, test := range tests {
		c := mustCompare(t, repeated("s", "a", 6, nil), repeated("s", "bb", 6, times(test.figure, test.factor)))
		if got := figureOf(c, test.figure); got.Change != test.want || c.Verdict != test.verdict {
			t.Errorf("%s × %v: %s and %s, want %s and %s: %+v", test.figure, test.factor, got.Change, c.Verdict, test.want,
				test.verdict, got.Difference)
		}
	}
	c := mustCompare(t, repeated("s", "a", 6, nil), repeated("s", "bb", 6, func(run *CompareRun) {
		run.Figures["share.duplicates"] = 0.002
	}))
	if got := figureOf(c, "share.duplicates"); got.Change != FigureWorse || got.ChangeText() != "+0.2 %" {
		t.Errorf("duplicates where there were none: %s, told as %s", got.Change, got.ChangeText())
	}
}

// One run against one, however far apart, is no regression, but the report does not claim that there is none.
func TestCompareTooFew(t *testing.T) {
	for n := 1; n <= 4; n++ {
		c := mustCompare(t, repeated("s", "a", n, nil), repeated("s", "bb", n, times("latency.success.p99", 50)))
		if got := figureOf(c, "latency.success.p99"); got.Change != FigureTooFew ||
			got.Difference.Needed != 5 || c.Verdict != CompareTooFew {
			t.Errorf("%d against %d: %s, needed %d, %s", n, n, got.Change, got.Difference.Needed, c.Verdict)
		}
		if said := compareText(t, c); !strings.Contains(said, "Not enough repetitions") ||
			!strings.Contains(said, "5 runs on each side") {
			t.Errorf("it does not say how many it takes:\n%s", said)
		}
	}
	c := mustCompare(t, repeated("s", "a", 1, nil), repeated("s", "bb", 1, broken("no-loss", "lost", 1)))
	if c.Verdict != CompareViolated {
		t.Errorf("a violation needs no repetition, and it is %s", c.Verdict)
	}
}

// Many scenarios at once must not raise an alarm by chance.
func TestCompareDoesNotCryWolf(t *testing.T) {
	alarms, trials := 0, 60
	for trial := range trials {
		var before, after []CompareRun
		for s := range 15 {
			for side, runs := range map[string]*[]CompareRun{"a": &before, "bb": &after} {
				random := rand.New(rand.NewPCG(uint64(trial*100+s), uint64(len(side))))
				*runs = append(*runs, repeated(fmt.Sprint("scenario-", s), side, 8, func(run *CompareRun) {
					for figure := range maps.Keys(run.Figures) {
						run.Figures[figure] = 1
					}
					for _, figure := range []string{"throughput.processed", "latency.success.p50", "latency.success.p99",
						"recovery.drain"} {
						run.Figures[figure] = math.Exp(0.1 * random.NormFloat64())
					}
				})...)
			}
		}
		c := must.Get(Compare(before, after, false))(t)
		if slices.ContainsFunc(c.Cases, func(of CompareCase) bool {
			return slices.ContainsFunc(of.Figures, func(f CompareFigure) bool {
				return f.Change == FigureWorse || f.Change == FigureBetter
			})
		}) {
			alarms++
		}
	}
	if alarms > 9 { // 3 are expected; more than 9 occur less often than once in a thousand
		t.Errorf("an alarm in %d of %d comparisons of 60 figures that are the same", alarms, trials)
	}
}

func TestIncomparable(t *testing.T) {
	set := func(key, value string) func(*CompareRun) {
		return func(run *CompareRun) { run.Environment[key] = value }
	}
	tests := map[string]struct {
		after func(*CompareRun)
		want  string
	}{
		"scenario": {func(run *CompareRun) { run.Case = "other" }, "the before side has no runs of it, only of s"},
		"load":     {set(EnvironmentLoad, "other"), "another workload"},
		"kafka": {set("kafka", "process, Apache Kafka 4.1.0, 3 brokers"),
			"another Kafka: kafka embedded, 3 brokers and process, Apache Kafka 4.1.0, 3 brokers"},
		"os":         {set("os", "darwin"), "another operating system"},
		"processors": {set("cpus", "64"), "another number of processors: cpus 2 and 64"},
		"records": {func(run *CompareRun) { delete(run.Environment, EnvironmentLoad); run.Planned = 100 },
			"with seed 42, 30,012 records in runs/a-0 and 100 in runs/bb-0"},
		"faults": {func(run *CompareRun) { delete(run.Environment, EnvironmentLoad); run.Faults = nil }, "other faults"},
		"subjects": {func(run *CompareRun) {
			run.Subject = run.Label
		}, "not repetitions of each other, they are of runs/bb-0 and runs/bb-1"},
		"same run": {func(run *CompareRun) { run.RunID = "s-a-0" }, "are the same run"},
	}
	for name, test := range tests {
		_, err := Compare(repeated("s", "a", 2, nil), repeated("s", "bb", 2, test.after), false)
		var why *IncomparableError
		if !errors.As(err, &why) || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want it to say %q", name, err, test.want)
		}
	}
	if _, err := Compare(nil, repeated("s", "b", 1, nil), false); err == nil ||
		!strings.Contains(err.Error(), "no runs on the before side") {
		t.Errorf("nothing before: %v", err)
	}
	if _, err := Compare(repeated("s", "b", 1, nil), nil, false); err == nil ||
		!strings.Contains(err.Error(), "no runs on the after side") {
		t.Errorf("nothing after: %v", err)
	}
	c, err := Compare(repeated("s", "a", 2, nil), repeated("s", "bb", 2, set("kafka", "docker")), true)
	if err != nil || len(c.Notes) != 1 || !strings.Contains(c.Notes[0], "compared even so: they ran with another Kafka") {
		t.Errorf("even so: %v, notes %q", err, c.Notes)
	}
}

// Differences that do not prevent a comparison are reported.
func TestCompareNotes(t *testing.T) {
	c := mustCompare(t, slices.Concat(repeated("s", "a", 2, nil), repeated("t", "a", 1, nil)),
		repeated("s", "bb", 2, func(run *CompareRun) {
			run.Seed, run.Subject, run.Environment["dlqbench"] = 7, "mine", "1.5.0"
		}))
	said := compareText(t, c)
	for _, want := range []string{"not the same seeds", "before 42, after 7", "not the same dlqbench: 1.4.0 and 1.5.0",
		"no runs of it after: t", "2 runs of mine"} {
		if !strings.Contains(strings.Join(strings.Fields(said), " "), want) {
			t.Errorf("it does not say %q:\n%s", want, said)
		}
	}
}

func compareText(t *testing.T, c Comparison) string {
	t.Helper()
	var b strings.Builder
	must.Do(t, CompareTerminal(&b, c, false))
	return b.String()
}

// regressed is a comparison that contains everything.
func regressed(t *testing.T) Comparison {
	t.Helper()
	after := repeated("dlq-publish-failure", "change", 6, func(run *CompareRun) {
		times("latency.success.p99", 1.4)(run)
		times("recovery.drain", 0.6)(run)
		run.Figures["share.duplicates"] = 0.004
		run.Environment["dlqbench"] = "1.5.0"
	})
	broken("no-loss", "lost", 3)(&after[2])
	after[3].Invariants[1].Verdict, after[3].Invariants[1].Anomalies = assertions.Fail, map[string]int64{"backoff-late": 9}
	before := repeated("dlq-publish-failure", "main", 6, broken("backoff", "backoff-late", 4))
	before = append(before, repeated("smoke", "main", 1, nil)...)
	return mustCompare(t, before, append(after, repeated("smoke", "change", 1, times("latency.success.p50", 2))...))
}

func TestCompareGolden(t *testing.T) {
	c := regressed(t)
	for extension, to := range map[string]func(io.Writer, Comparison) error{
		"txt": func(w io.Writer, c Comparison) error {
			return CompareTerminal(w, c, false)
		}, "md": CompareMarkdown, "json": CompareJSON,
	} {
		var b strings.Builder
		must.Do(t, to(&b, c))
		golden.Check(t, filepath.Join("testdata", "compare."+extension), b.String())
	}
	var b strings.Builder
	if err := CompareTerminal(&b, c, true); err != nil || !strings.Contains(b.String(), "\x1b[") {
		t.Errorf("no colour: %v", err)
	} else if ansi.Strip(b.String()) != compareText(t, c) {
		t.Error("colour changes the words")
	}
	var narrow strings.Builder
	must.Do(t, document.Terminal(&narrow, compareDocument(c), 60, false))
	for line := range strings.Lines(narrow.String()) {
		if ansi.StringWidth(strings.TrimSuffix(line, "\n")) > 60 {
			t.Errorf("60 columns: a line is wider: %s", line)
		}
	}
	for line := range strings.SplitSeq(compareText(t, c), "\n") {
		if ansi.StringWidth(line) > screenWidth && !strings.Contains(line, "see: ") {
			t.Errorf("%d columns: %s", ansi.StringWidth(line), line)
		}
	}
}

// The figures of a verdict, of a baseline made from it, and of the baseline after reading it are the same.
func TestBaselineRoundTrip(t *testing.T) {
	run := passRun()
	v := *run.Verdict
	v.Drain = measure.Drain{Drained: true, Time: 2800 * ms}
	v.Faults = slices.Clone(v.Faults)
	v.Faults[0].Recovery.Steady = measure.Span{State: measure.SpanKnown, Time: 700 * ms}
	v.Faults[1].Recovery.Steady = measure.Span{State: measure.SpanUntold, Note: "too short"}
	one := must.Get(RunOfVerdict(&v, "runs/a"))(t)
	want := map[string]float64{
		"throughput.processed": 1996.2, "recovery.drain": 2.8, "recovery.steady": 0.7, "share.duplicates": 41.0 / 30000,
		"share.dead_lettered": 890.0 / 30000, "count.attempts": 34518,
		"latency.success.p99": v.Latency[measure.LatencySuccess].P99.Seconds(),
	}
	for figure, value := range want {
		if math.Abs(one.Figures[figure]-value) > 1e-9 {
			t.Errorf("%s is %v, want %v", figure, one.Figures[figure], value)
		}
	}
	v.Verdict = assertions.Inconclusive
	if vague, err := RunOfVerdict(&v, "runs/b"); err != nil || len(vague.Figures) != 0 || len(vague.Invariants) == 0 {
		t.Errorf("figures of a run that proved nothing are none of the consumer's: %v, %v", vague.Figures, err)
	}
	var b strings.Builder
	must.Do(t, WriteBaseline(&b, []CompareRun{one}, time.Date(2026, 3, 14, 0, 0, 0, 0, time.UTC)))
	back := must.Get(ReadCompared([]byte(b.String()), "main.json"))(t)
	left, _ := json.Marshal(back[0])
	right, _ := json.Marshal(one)
	if string(left) != string(right) {
		t.Errorf("read back:\n%s\nwant:\n%s", left, right)
	}
}

func TestReadCompared(t *testing.T) {
	verdict := render(t, passRun(), JSON)
	runs, err := ReadCompared([]byte(verdict), "runs/x")
	if err != nil || len(runs) != 1 || runs[0].Case != "dlq-publish-failure" || runs[0].Label != "runs/x" ||
		len(runs[0].Invariants) != 13 {
		t.Fatalf("a verdict: %+v, %v", runs, err)
	}
	bench := renderBench(t, searchBench(), BenchJSON)
	runs, err = ReadCompared([]byte(bench), "b")
	if err != nil || len(runs) != 27 || runs[0].Figures["rate.held"] != 500 || runs[0].Planned != 0 {
		t.Fatalf("a bench: %d runs, %v", len(runs), err)
	}
	for name, test := range map[string]struct{ data, want string }{
		"no JSON":        {"hello", "this is no JSON"},
		"something else": {`{"a": 1}`, "neither the verdict.json of a run"},
		"old verdict": {strings.Replace(verdict, fmt.Sprintf(`"schema": %d`, assertions.SchemaVersion), `"schema": 99`, 1),
			"schema 99, and this version of dlqbench reads"},
		"old baseline": {`{"baseline_schema": 7, "runs": [{"case": "s"}]}`, "has schema 7, and this version of dlqbench " +
			"reads 1: save it again with this version, dlqbench compare --save main.json RUN"},
		"empty baseline": {`{"baseline_schema": 1, "runs": []}`, "holds no runs"},
		"old bench":      {strings.Replace(bench, `"schema": 1`, `"schema": 99`, 1), "schema 99"},
		"bench of none":  {`{"schema": 1, "cells": []}`, "this bench has no runs"},
		"no scenario":    {fmt.Sprintf(`{"schema": %d, "run_id": "x"}`, assertions.SchemaVersion), "names no scenario"},
	} {
		if _, err := ReadCompared([]byte(test.data), "main.json"); err == nil || !strings.Contains(err.Error(), test.want) {
			t.Errorf("%s: %v, want it to say %q", name, err, test.want)
		}
	}
}

// Cells of two benches are the same case only with the same settings, mode and bound.
func TestCompareBenches(t *testing.T) {
	before, after := matrixBench(), matrixBench()
	for i := range after.Cells {
		for j := range after.Cells[i].Repetitions {
			after.Cells[i].Repetitions[j].Run.Dir += "-later"
			after.Cells[i].Repetitions[j].Run.Throughput.Processed *= 0.5
		}
	}
	c := mustCompare(t, RunsOfBench(before, "a"), RunsOfBench(after, "b"))
	if len(c.Cases) != 6 || c.Verdict != CompareTooFew {
		t.Errorf("%d cells, %s: 6 cells of 5 repetitions are many figures for so few", len(c.Cases), c.Verdict)
	}
	after.Cells, before.Cells = after.Cells[:1], before.Cells[:1]
	c = mustCompare(t, RunsOfBench(before, "a"), RunsOfBench(after, "b"))
	if got := figureOf(c, "throughput.processed"); got.Change != FigureWorse || c.Verdict != CompareRegressed {
		t.Errorf("half of the throughput: %+v", got)
	}
	after.Cells[0].Settings = []BenchSetting{{after.Axes[0].Path, "99"}, {after.Axes[1].Path, "key"}}
	if _, err := Compare(RunsOfBench(before, "a"), RunsOfBench(after, "b"), false); err == nil {
		t.Error("a cell with other settings under the same name was compared")
	}
}

func TestCompareMakesHostileTextInert(t *testing.T) {
	dirty := func(run *CompareRun) {
		run.Case, run.Subject, run.Label, run.Environment = hostile, hostile, hostile, map[string]string{"kafka": hostile}
		run.Verdict = assertions.Status(hostile)
		run.Invariants = []BenchInvariant{{Name: hostile, Verdict: assertions.Fail, Anomalies: map[string]int64{hostile: 1},
			Why: hostile}, {Name: "x", Verdict: assertions.Inconclusive, Why: hostile}}
	}
	clean := func(run *CompareRun) {
		dirty(run)
		run.Invariants = []BenchInvariant{{Name: hostile, Verdict: assertions.Pass}, {Name: "x", Verdict: assertions.Pass}}
		run.Environment = map[string]string{"kafka": "other " + hostile, "dlqbench": hostile}
	}
	c := must.Get(Compare(repeated("s", "a", 2, clean), repeated("s", "bb", 2, dirty), true))(t)
	var markdown strings.Builder
	must.Do(t, CompareMarkdown(&markdown, c))
	for name, got := range map[string]string{"terminal": compareText(t, c), "Markdown": markdown.String(),
		"refusal": (&IncomparableError{Case: hostile}).Error()} {
		for _, live := range []string{"\x1b", "\x00", "\u202e", "\u009b", "\u200b"} {
			if strings.Contains(got, live) {
				t.Errorf("the %s holds %q", name, live)
			}
		}
	}
	if got := markdown.String(); strings.Contains(got, "<img") || strings.Contains(got, " @everyone") ||
		strings.Contains(got, "<script") {
		t.Errorf("the Markdown is alive:\n%s", got)
	}
}

// Any input is either rejected with an error, or compared and reported without any control sequences for a terminal.
func FuzzReadCompared(f *testing.F) {
	var baseline strings.Builder
	must.Do(f, WriteBaseline(&baseline, repeated("s", "a", 2, nil), time.Unix(0, 0)))
	f.Add([]byte(baseline.String()))
	f.Add(
		[]byte(
			`{"schema": 1, "cells": [{"number": 1, "repetitions": [{"number": 1, "run": {"verdict": "pass", "latency": ` +
				`{"success": {"count": 1}}}}]}]}`))
	f.Add(fmt.Appendf(nil,
		`{"schema": %d, "run_id": "a", "scenario": "s", "verdict": "pass", "throughput": {"offered_per_s": 1e308}}`,
		assertions.SchemaVersion))
	f.Fuzz(func(t *testing.T, data []byte) {
		runs, err := ReadCompared(data, "x")
		if err != nil || len(runs) > 50 {
			return
		}
		for i := range runs {
			runs[i].RunID = ""
		}
		c, err := Compare(runs, runs, true)
		if err != nil {
			return
		}
		if said := compareText(t, c); strings.ContainsAny(said, "\x1b\x00\u009b") {
			t.Errorf("it holds control characters: %q", said)
		}
		if err := CompareJSON(io.Discard, c); err != nil {
			t.Error(err)
		}
	})
}

// The reported rate of false alarms is the actual one.
func TestCompareTellsItsRate(t *testing.T) {
	if c := regressed(t); c.Alpha != stats.Alpha || !strings.Contains(compareText(t, c), "p is at most 0.05") {
		t.Error("another rate is told than is held")
	}
}
