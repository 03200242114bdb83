package verify

import (
	"maps"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/verify/planted"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Every anomaly that a verdict can name must have been found in a real run of a consumer that has the bug.
func TestEveryAnomalyHasAPlantedBug(t *testing.T) {
	named := map[string]bool{}
	for _, bug := range planted.All() {
		named[bug.Invariant+": "+bug.Anomaly] = true
		if _, err := aimed.ReadFile("testdata/" + bug.Scenario + ".yaml"); err != nil {
			t.Errorf("%s is aimed at a scenario that is not there: %v", bug.Name, err)
		}
	}
	for _, bugs := range strangersBugs() { // the reference consumer has no sink
		for _, bug := range bugs {
			named[bug.want] = true
		}
	}
	for _, invariant := range assertions.Deciding() {
		about := assertions.Explain(invariant)[0]
		if len(about.Anomalies) == 0 {
			t.Errorf("%s names no anomaly", invariant)
		}
		for _, anomaly := range about.Anomalies {
			if name := invariant + ": " + anomaly.Name; !named[name] {
				t.Errorf("no planted bug shows %s", name)
			}
		}
	}
	if n := len(planted.All()); n < 40 {
		t.Errorf("%d planted bugs, at least 40 are promised", n)
	}
}

func TestAimedScenariosAreValid(t *testing.T) {
	entries := must.Get(aimed.ReadDir("testdata"))(t)
	aim := map[string]bool{}
	for _, bug := range planted.All() {
		aim[bug.Scenario+".yaml"] = true
	}
	for _, entry := range entries {
		text := must.Get(aimed.ReadFile("testdata/" + entry.Name()))(t)
		if _, err := scenarios.Parse(entry.Name(), text); err != nil {
			t.Error(err)
		}
		if !aim[entry.Name()] {
			t.Errorf("no planted bug is aimed at %s", entry.Name())
		}
	}
}

// The situation of a seed is valid and reproducible. Over the seeds, everything comes up: each fault of the catalogue
// alone and in pairs, in each mode of the consumer, of a dead-letter store and of a graph.
func TestDrawnSituationsCoverEverything(t *testing.T) {
	alone, paired, seen := map[string]int{}, map[string]int{}, map[string]int{}
	for seed := range uint64(1600) {
		situation := Draw(seed)
		if again := Draw(seed); again.Scenario != situation.Scenario {
			t.Fatalf("seed %d draws two situations", seed)
		}
		if seed < 600 { // reading all of them would take long
			if _, err := scenarios.Parse("drawn", []byte(situation.Scenario)); err != nil {
				t.Fatalf("seed %d (%s): %v\n%s", seed, situation, err, situation.Scenario)
			}
		}
		counts := alone
		if len(situation.Faults) > 1 {
			counts = paired
		}
		for _, fault := range situation.Faults {
			name, _, _ := strings.Cut(fault, " ")
			counts[name]++
		}
		seen[situation.Mode]++
	}
	for _, part := range []string{"store: sqlite", "store: postgres", "graph: chain", "graph: branch"} {
		if !slices.ContainsFunc(slices.Sorted(maps.Keys(seen)),
			func(mode string) bool { return strings.HasPrefix(mode, part) }) {
			t.Errorf("no mode %s comes up", part)
		}
	}
	if len(seen) != len(modes()) {
		t.Errorf("%d modes of %d come up", len(seen), len(modes()))
	}
	for _, entry := range catalogue.Faults() {
		if entry.Kind() == "registry" {
			continue // the reference consumer asks none: such faults are run by the applications in examples/apps
		}
		if alone[entry.Name] == 0 || paired[entry.Name] == 0 && entry.Name != "network.slow_close" {
			t.Errorf("%s comes up %d times alone and %d times in pairs", entry.Name, alone[entry.Name], paired[entry.Name])
		}
	}
}

// A table must not hold if a bug was missed or if nothing was run.
func TestWhatDoesNotHold(t *testing.T) {
	caught := BugRow{Bug: "m", Invariant: "i", Anomaly: "a", Caught: 2, Seeds: 2,
		Named: map[string]int{"i: a": 2, "j: b": 1}}
	missed := caught
	missed.Caught = 1
	passed := ControlRow{Scenario: "s", Passed: 2, Seeds: 2}
	accused := ControlRow{Scenario: "s", Passed: 1, Seeds: 2}
	for name, c := range map[string]struct {
		result Result
		holds  bool
	}{
		"caught": {Result{Completeness: &Completeness{Bugs: []BugRow{caught},
			Controls: []ControlRow{passed}}}, true},
		"missed once": {Result{Completeness: &Completeness{Bugs: []BugRow{missed},
			Controls: []ControlRow{passed}}}, false},
		"control accused": {Result{Completeness: &Completeness{Bugs: []BugRow{caught},
			Controls: []ControlRow{accused}}}, false},
		"a run failed": {Result{Completeness: &Completeness{Bugs: []BugRow{caught},
			Errors: []string{"x"}}}, false},
		"no runs of a bug":      {Result{Completeness: &Completeness{Bugs: []BugRow{{Bug: "m"}}}}, false},
		"no bugs":               {Result{Completeness: &Completeness{}}, false},
		"sound":                 {Result{Soundness: &Soundness{Runs: 40, Passed: 38, Inconclusive: 2}}, true},
		"accused":               {Result{Soundness: &Soundness{Runs: 40, Passed: 39, Accused: 1}}, false},
		"too much inconclusive": {Result{Soundness: &Soundness{Runs: 100, Passed: 94, Inconclusive: 6}}, false},
		"few runs":              {Result{Soundness: &Soundness{Runs: 40, Passed: 37, Inconclusive: 3}}, true},
		"too much of few runs":  {Result{Soundness: &Soundness{Runs: 40, Passed: 36, Inconclusive: 4}}, false},
		"half of hardly any":    {Result{Soundness: &Soundness{Runs: 4, Passed: 2, Inconclusive: 2}}, false},
		"no runs":               {Result{Soundness: &Soundness{}}, false},
		"a stranger accused":    {Result{Strangers: &Soundness{Runs: 40, Passed: 39, Accused: 1}}, false},
		"one of two": {Result{Soundness: &Soundness{Runs: 1, Passed: 1}, Strangers: &Soundness{Runs: 1, Accused: 1}},
			false},
		"nine in ten of the default suite": {Result{Completeness: suiteOf(SuiteDefault, 9, 1)}, true},
		"all but one of a few of it":       {Result{Completeness: suiteOf(SuiteDefault, 3, 1)}, true},
		"two of three of it":               {Result{Completeness: suiteOf(SuiteDefault, 2, 1)}, false},
		"eight in ten of it":               {Result{Completeness: suiteOf(SuiteDefault, 8, 2)}, false},
		"nine in ten of the library":       {Result{Completeness: suiteOf(SuiteLibrary, 9, 1)}, false},
		"all of the library":               {Result{Completeness: suiteOf(SuiteLibrary, 10, 0)}, true},
	} {
		if got := c.result.Holds(); got != c.holds {
			t.Errorf("%s: holds %v, want %v", name, got, c.holds)
		}
	}
}

func TestSharesAreNeverRoundedUp(t *testing.T) {
	for _, c := range []struct {
		part, whole int
		want        string
	}{{0, 0, "0 of 0"}, {20, 20, "100%"}, {0, 20, "0.0% (0 of 20)"}, {99999, 100000, "99.9% (99999 of 100000)"}} {
		if got := share(c.part, c.whole); got != c.want {
			t.Errorf("%d of %d: %q, want %q", c.part, c.whole, got, c.want)
		}
	}
}

func TestTables(t *testing.T) {
	result := Result{
		Completeness: &Completeness{
			Bugs: []BugRow{
				{Bug: "eager", What: "it does not wait", Invariant: "commit-after-dlq", Anomaly: "commit-before-dlq", Caught: 1,
					Seeds: 2, Named: map[string]int{"commit-after-dlq: commit-before-dlq": 1, "no-loss: lost": 2,
						"dlq-once: dlq-duplicate": 1, "liveness: stalled": 2},
					Missed: []string{"dlqbench prove completeness --bug eager --first 7 --seeds 1"}},
			},
			Controls: []ControlRow{{Scenario: "mix", Passed: 2, Seeds: 2}},
		},
		Soundness: &Soundness{
			First: 10, Runs: 2, Passed: 1, Accused: 1, Modes: map[string]int{"key": 2}, Faults: map[string]int{"broker.kill": 2},
			Judged:   map[string]int{"no-loss": 2},
			Verdicts: map[string]map[assertions.Status]int{"key": {assertions.Pass: 1, assertions.Fail: 1}},
			Alarms: []Alarm{{Seed: 11, What: "key under broker.kill", Reasons: []string{"no-loss is violated"},
				Rerun: "dlqbench prove soundness --first 11 --runs 1"}},
			Open: map[string]int{}, Skipped: map[string]int{"no PostgreSQL": 3},
		},
	}
	text := result.Markdown()
	for _, want := range []string{
		"| completeness | 1 planted bug in 2 runs; the correct consumer in 2 ",
		"50.0% (1 of 2) caught by name; the correct one passed 100%",
		"1 false alarm (0 runs inconclusive, 3 more SKIPPED)", "- skipped, 3×: no PostgreSQL\n",
		"| eager       | commit-after-dlq: commit-before-dlq | 1/2    | liveness: stalled 2/2, no-loss: lost 2/2, and 1 more |",
		"- missed, again with: dlqbench prove completeness --bug eager --first 7 --seeds 1\n",
		"- accused: key under broker.kill: no-loss is violated; again with: dlqbench prove soundness --first 11 --runs 1\n",
		"| 2    | 1      | 0            | 1       |",
		"## Soundness: the correct consumer, seeds 10 to 14\n",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("the tables lack %q:\n%s", want, text)
		}
	}
}
