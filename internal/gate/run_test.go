package gate

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports"
)

// suiteOf makes a suite with count runs.
func suiteOf(count int) *Suite {
	suite := &Suite{File: ConfigFile}
	for i := range count {
		name := fmt.Sprintf("scenario-%d", i+1)
		suite.Entries = append(suite.Entries, Entry{Number: i + 1, Scenario: name, Arg: name,
			Where: reports.SuitePlace{File: ConfigFile, Line: i + 2, Column: 5}})
	}
	return suite
}

// played simulates runs: each takes a given time, ends early with its context, and gets its verdict by number.
func played(takes time.Duration, verdicts map[int]verdict) func(context.Context, Entry) (Done, error) {
	return func(ctx context.Context, entry Entry) (Done, error) {
		timer := time.NewTimer(takes)
		defer timer.Stop()
		done := Done{Judged: reports.Run{Verdict: verdicts[entry.Number].make(entry.Scenario)}, Elapsed: takes}
		select {
		case <-timer.C:
		case <-ctx.Done():
			done.Interrupted = true
		}
		return done, nil
	}
}

func quiet(*reports.SuiteRun, *reports.Suite) error { return nil }

func standings(suite *reports.Suite) string {
	var all []string
	for _, run := range suite.Runs {
		word := string(run.Standing)
		if run.Missing {
			word = "missing"
		}
		all = append(all, word)
	}
	return strings.Join(all, " ")
}

func TestRun(t *testing.T) {
	lost, missed, open := verdict{failed: []string{"no-loss lost"}}, verdict{missed: 1}, verdict{invalid: []string{"x"}}
	for _, test := range []struct {
		name     string
		runs     int
		takes    time.Duration
		budget   time.Duration
		failFast bool
		verdicts map[int]verdict
		want     reports.Standing
		runsAre  string
		reason   string // of the last run
	}{
		{name: "all pass", runs: 3, want: reports.StandingPass, runsAre: "pass pass pass"},
		{name: "the worst decides", runs: 4, verdicts: map[int]verdict{1: missed, 2: lost, 3: open},
			want: reports.StandingFail, runsAre: "threshold fail inconclusive pass"},
		{name: "inconclusive before a threshold", runs: 2, verdicts: map[int]verdict{1: missed, 2: open},
			want: reports.StandingInconclusive, runsAre: "threshold inconclusive"},
		{name: "fail fast", runs: 3, failFast: true, verdicts: map[int]verdict{2: lost}, want: reports.StandingFail,
			runsAre: "pass fail not-run", reason: "--fail-fast"},
		{name: "fail fast at a threshold", runs: 3, failFast: true, verdicts: map[int]verdict{1: missed},
			want: reports.StandingThreshold, runsAre: "threshold not-run not-run"},
		{name: "without fail fast", runs: 3, verdicts: map[int]verdict{1: lost}, want: reports.StandingFail,
			runsAre: "fail pass pass"},
		{name: "enough time", runs: 3, takes: 10 * time.Second, budget: 31 * time.Second, want: reports.StandingPass,
			runsAre: "pass pass pass"},
		{name: "no time for what the last one takes at least", runs: 3, takes: 10 * time.Second, budget: 24 * time.Second,
			want: reports.StandingInconclusive, runsAre: "pass pass missing",
			reason: "4 s of the budget of 24 s are left, and the run takes about 9 s by estimate, at least 5 s: load 2 s, " +
				"drain 6 s"},
		{name: "the last one is cut short", runs: 3, takes: 10 * time.Second, budget: 27 * time.Second,
			want: reports.StandingInconclusive, runsAre: "pass pass inconclusive", reason: "cut short"},
		{name: "time is up", runs: 3, takes: 10 * time.Second, budget: 8 * time.Second, want: reports.StandingInconclusive,
			runsAre: "inconclusive missing missing", reason: "the budget of 8s is used up"},
		{name: "a failure stays one when time is up", runs: 2, takes: 10 * time.Second, budget: 12 * time.Second,
			verdicts: map[int]verdict{1: lost}, want: reports.StandingFail, runsAre: "fail missing"},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				suite := suiteOf(test.runs)
				suite.Budget = test.budget
				told := must.Get(suite.Run(t.Context(), Options{FailFast: test.failFast, Now: time.Now, Told: quiet,
					Forecast: func(Entry) Forecast {
						return Forecast{Least: 5 * time.Second, Usual: 9 * time.Second, Parts: "load 2 s, drain 6 s"}
					},
					Run: played(test.takes, test.verdicts)}))(t)
				if told.Verdict != test.want || standings(told) != test.runsAre {
					t.Errorf("it stands as %s: %s, want %s: %s", told.Verdict, standings(told), test.want, test.runsAre)
				}
				if last := told.Runs[len(told.Runs)-1]; test.reason != "" &&
					!strings.Contains(strings.Join(last.Reasons, "; "), test.reason) {
					t.Errorf("the last run's reasons are %q, want %q", last.Reasons, test.reason)
				}
			})
		})
	}
}

// An interruption ends the current run and prevents the others. It decides the result, whatever was found.
func TestRunInterrupted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 15*time.Second)
		defer cancel()
		suite := suiteOf(3)
		told, err := suite.Run(ctx,
			Options{Now: time.Now, Told: quiet,
				Run: played(10*time.Second, map[int]verdict{1: {failed: []string{"no-loss lost"}}})})
		if err != nil || told.Verdict != reports.StandingInterrupted || standings(told) != "fail inconclusive missing" {
			t.Errorf("it stands as %s: %s (%v)", told.Verdict, standings(told), err)
		}
		if why := told.Runs[2].Reasons[0]; !strings.Contains(why, "interrupted") {
			t.Errorf("the last was not run because %q", why)
		}
	})
}

// Each report of a run comes with the suite's current standing. If it cannot be stored, that is an error, and the runs
// go on.
func TestRunTells(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var seen []string
		told, err := suiteOf(2).Run(t.Context(), Options{Now: time.Now, Run: played(time.Second, nil),
			Told: func(run *reports.SuiteRun, suite *reports.Suite) error {
				seen = append(seen, fmt.Sprintf("%s: %s", run.Label, standings(suite)))
				return errors.New("no room for " + run.Label)
			}})
		if got := strings.Join(seen, "; "); got != "scenario-1: pass not-run; scenario-2: pass pass" {
			t.Errorf("told is %s", got)
		}
		if err == nil || !strings.Contains(err.Error(), "scenario-1") ||
			!strings.Contains(err.Error(), "scenario-2") || told.Verdict != reports.StandingPass {
			t.Errorf("the error is %v", err)
		}
	})
}

func TestParseShard(t *testing.T) {
	for text, want := range map[string]Shard{"": {}, "1/1": {1, 1}, "2/3": {2, 3}} {
		if got, err := ParseShard(text); err != nil || got != want {
			t.Errorf("%q is %v, %v", text, got, err)
		}
	}
	for _, text := range []string{"0/3", "4/3", "1", "a/b", "1/0", "-1/3", "1/3/5", " 1/3", "1/1001"} {
		if got, err := ParseShard(text); err == nil {
			t.Errorf("%q is %v", text, got)
		}
	}
}

// All shards together are the suite. Each run is in exactly one shard, the sizes of shards differ by at most one, and
// the order of the suite does not matter.
func TestPart(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		suite := suiteOf(rapid.IntRange(0, 40).Draw(t, "runs"))
		of := rapid.IntRange(1, 9).Draw(t, "shards")
		order := rapid.Permutation(suite.Entries).Draw(t, "order")
		other := &Suite{Entries: slices.Clone(order)}
		for i := range other.Entries {
			other.Entries[i].Number = i + 1
		}
		seen := map[string]int{}
		for index := 1; index <= of; index++ {
			part := suite.Part(Shard{index, of})
			var keys, again []string
			for i, entry := range part {
				seen[entry.Key()]++
				keys = append(keys, entry.Key())
				if i > 0 && part[i-1].Number >= entry.Number {
					t.Fatalf("part %d is out of order", index)
				}
			}
			if least := len(suite.Entries) / of; len(part) < least || len(part) > least+1 {
				t.Fatalf("part %d of %d has %d of %d runs", index, of, len(part), len(suite.Entries))
			}
			for _, entry := range other.Part(Shard{index, of}) {
				again = append(again, entry.Key())
			}
			slices.Sort(keys)
			slices.Sort(again)
			if !slices.Equal(keys, again) {
				t.Fatalf("in another order part %d is %v, not %v", index, again, keys)
			}
		}
		for _, entry := range suite.Entries {
			if seen[entry.Key()] != 1 {
				t.Fatalf("%s is in %d parts", entry.Key(), seen[entry.Key()])
			}
		}
	})
}

func TestArtifacts(t *testing.T) {
	root := t.TempDir()
	dir, ran := filepath.Join(root, "gate"), filepath.Join(root, "runs", "x")
	for path, text := range map[string]string{
		filepath.Join(ran, reports.VerdictFile): "{}", filepath.Join(ran, reports.HTMLFile): "<p>",
		filepath.Join(dir, "07-old", reports.HTMLFile): "old", filepath.Join(dir, reports.JUnitFile): "old",
		filepath.Join(dir, "."+reports.SummaryFile+"123"): "old",
	} {
		must.Do(t, errors.Join(os.MkdirAll(filepath.Dir(path), 0o755), os.WriteFile(path, []byte(text), 0o600)))
	}
	artifacts := must.Get(OpenArtifacts(dir))(t)
	run := reports.SuiteRun{Number: 3, Scenario: "smoke", Label: "smoke", Dir: ran,
		Judged: reports.Run{Verdict: verdict{}.make("smoke")}}
	must.Do(t, errors.Join(artifacts.Keep(&run), artifacts.Write(&reports.Suite{Runs: []reports.SuiteRun{run}})))
	var names []string
	_ = filepath.WalkDir(dir, func(path string, entry os.DirEntry, err error) error {
		if err == nil && !entry.IsDir() {
			relative, _ := filepath.Rel(dir, path)
			names = append(names, filepath.ToSlash(relative))
		}
		return err
	})
	if got, want := strings.Join(names, " "),
		"03-smoke/report.html 03-smoke/verdict.json gate.json index.html junit.xml summary.md"; got != want {
		t.Errorf("the folder holds %s, want %s", got, want)
	}
	if run.Artifacts != "03-smoke" {
		t.Errorf("the run's artifacts are in %q", run.Artifacts)
	}
}

// A folder with foreign files is not emptied.
func TestArtifactsOfOthers(t *testing.T) {
	for _, other := range []string{"notes.txt", "01-mine.txt", "src"} {
		dir := t.TempDir()
		mine, report := filepath.Join(dir, other), filepath.Join(dir, reports.JUnitFile)
		must.Do(t, errors.Join(os.WriteFile(mine, nil, 0o600), os.WriteFile(report, nil, 0o600)))
		if _, err := OpenArtifacts(dir); err == nil || !strings.Contains(err.Error(), other) {
			t.Errorf("with %s in it: %v", other, err)
		}
		for _, path := range []string{mine, report} {
			if _, err := os.Stat(path); err != nil {
				t.Errorf("%s is gone", path)
			}
		}
	}
}

func TestAppendSummary(t *testing.T) {
	path := filepath.Join(t.TempDir(), "summary")
	for range 2 {
		must.Do(t, AppendSummary(path, &reports.Suite{Verdict: reports.StandingPass}))
	}
	data, err := os.ReadFile(path)
	if err != nil || strings.Count(string(data), "## ") != 2 {
		t.Errorf("two summaries are %q, %v", data, err)
	}
	if err := AppendSummary(t.TempDir(), &reports.Suite{}); err == nil {
		t.Error("a folder takes a summary")
	}
}
