package main

import (
	"encoding/json"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"
)

// statement is a row of docs/systems.md.
type statement struct {
	document, text string
	// runs are the scenarios; judges are the names in its column of judges.
	runs, judges []string
	// whole reports whether all columns of the row are filled in.
	whole bool
}

var quoted = regexp.MustCompile("`([^`]+)`")

// systems reads the tables of docs/systems.md.
func systems(t *testing.T) []statement {
	t.Helper()
	content := must.Get(os.ReadFile("../../docs/systems.md"))(t)
	var all []statement
	document := ""
	for line := range strings.Lines(string(content)) {
		line = strings.TrimSpace(line)
		if heading, found := strings.CutPrefix(line, "## "); found {
			document = heading
		}
		cells := strings.Split(strings.Trim(line, "|"), " | ")
		if !strings.HasPrefix(line, "| ") || len(cells) < 4 ||
			strings.Contains(cells[1], "scenario") && strings.Contains(cells[2], "judged") {
			continue
		}
		one := statement{document: document, text: strings.TrimSpace(cells[0]),
			whole: !slices.ContainsFunc(cells, func(cell string) bool { return strings.TrimSpace(cell) == "" })}
		for part := range strings.SplitSeq(regexp.MustCompile(`\([^)]*\)`).ReplaceAllString(cells[1], ""), ",") {
			if name := strings.Fields(part + " –")[0]; name != "–" {
				one.runs = append(one.runs, named(name)...)
			}
		}
		for _, name := range quoted.FindAllStringSubmatch(cells[2], -1) {
			one.judges = append(one.judges, name[1])
		}
		all = append(all, one)
	}
	return all
}

// named lists the shipped scenarios that a name denotes: one, or all with the prefix ("store-*"). If there is none, it
// returns the name itself.
func named(pattern string) []string {
	var found []string
	for _, name := range scenarios.Names() {
		if matches, _ := path.Match(pattern, name); matches {
			found = append(found, name)
		}
	}
	if len(found) == 0 {
		return []string{pattern}
	}
	return found
}

// invariants lists the invariants that the name denotes: the invariant itself, or those with an anomaly of the name.
func invariants(name string) []string {
	var found []string
	for _, about := range assertions.Explain(name) {
		if about.Of == "" {
			found = append(found, about.Name)
		} else {
			found = append(found, about.Of)
		}
	}
	return found
}

// TestSystemsNameWhatThereIs checks that every name in the tables of docs/systems.md exists, and that each document has
// at least two scenarios.
func TestSystemsNameWhatThereIs(t *testing.T) {
	t.Parallel()
	shown := map[string]map[string]bool{}
	for _, row := range systems(t) {
		if shown[row.document] == nil {
			shown[row.document] = map[string]bool{}
		}
		if !row.whole {
			t.Errorf("%s: %q has an empty column", row.document, row.text)
		}
		for _, name := range row.runs {
			shown[row.document][name] = true
			if _, found := scenarios.Shipped(name); !found {
				t.Errorf("%s: %q names the scenario %s, which is not shipped", row.document, row.text, name)
			}
		}
		judged := len(row.runs) == 0
		for _, name := range row.judges {
			_, err := os.Stat(filepath.Join("../..", name))
			command := strings.HasPrefix(name, "dlqbench ") || strings.HasPrefix(name, "make ")
			if len(invariants(name)) > 0 {
				judged = true
			} else if err != nil && !command && strings.Contains(name, "-") {
				t.Errorf("%s: %q is judged by %s, which nothing explains", row.document, row.text, name)
			}
		}
		// A row that is judged by tests, not by an invariant, names their path.
		if !judged && !slices.ContainsFunc(row.judges, func(name string) bool { return strings.HasPrefix(name, "store/") }) {
			t.Errorf("%s: nothing judges %q", row.document, row.text)
		}
	}
	if len(shown) != 5 {
		t.Errorf("%d documents, want 5", len(shown))
	}
	for document, runs := range shown {
		if len(runs) < 2 {
			t.Errorf("%s has %d scenarios, want 2 or more", document, len(runs))
		}
	}
}

// TestSystemsWereJudged checks the verdicts of the runs in DLQBENCH_RUNS: each invariant that a row names must have
// judged something in one of the row's scenarios.
func TestSystemsWereJudged(t *testing.T) {
	runs := os.Getenv("DLQBENCH_RUNS")
	if runs == "" {
		t.Skip("DLQBENCH_RUNS names no folder of finished runs: dlqbench run --out FOLDER …")
	}
	judged, ran := judgedIn(t, runs)
	for _, row := range systems(t) {
		here := slices.DeleteFunc(slices.Clone(row.runs), func(name string) bool { return !ran[name] })
		if len(here) < len(row.runs) {
			t.Logf("%s: %q: of %v only %v was run", row.document, row.text, row.runs, here)
			continue
		}
		for _, judge := range row.judges {
			names := invariants(judge)
			if len(names) == 0 || len(here) == 0 {
				continue
			}
			if !slices.ContainsFunc(here, func(run string) bool {
				return slices.ContainsFunc(names, func(name string) bool { return judged[run+" "+name] > 0 })
			}) {
				t.Errorf("%s: %q: %s judged nothing in %v", row.document, row.text, judge, here)
			}
		}
	}
}

// judgedIn returns the number of judgements by scenario and invariant ("SCENARIO INVARIANT"), and the scenarios that
// were run.
func judgedIn(t *testing.T, folder string) (judged map[string]int64, ran map[string]bool) {
	t.Helper()
	judged, ran = map[string]int64{}, map[string]bool{}
	err := filepath.WalkDir(folder, func(file string, entry os.DirEntry, err error) error {
		if err != nil || entry.Name() != "verdict.json" {
			return err
		}
		content, err := os.ReadFile(file)
		if err != nil {
			return err
		}
		var run struct {
			Scenario   string
			Invariants []struct {
				Name   string
				Judged int64
			}
		}
		if err := json.Unmarshal(content, &run); err != nil {
			return err
		}
		ran[run.Scenario] = true
		for _, one := range run.Invariants {
			_, name, ofNode := strings.Cut(one.Name, "/")
			if !ofNode {
				name = one.Name
			}
			judged[run.Scenario+" "+name] += one.Judged
		}
		return nil
	})
	if err != nil || len(ran) == 0 {
		t.Fatalf("%d runs in %s: %v", len(ran), folder, err)
	}
	return judged, ran
}
