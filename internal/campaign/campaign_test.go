package campaign

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

const (
	scenarioText = "name: mine\ndescription: Mine.\nworkload: {rate: 10/s, duration: 3s, warm_up: 1s}\n"
	subjectText  = "name: orders\nkind: process\ncommand: [orders]\ncontract: {dlq: {envelope: plain}}\n"
	suiteText    = "subjects: subject.yaml\nscenarios: [mine.yaml, smoke]\nseeds: [1-2]\nsettings: {calm: {workload.rate: 5/s}, " +
		"busy: {workload.rate: 9/s}}\n"
)

// repository is the working directory of a test, with a suite and its files.
func repository(t *testing.T, suite string) *gate.Suite {
	t.Helper()
	t.Chdir(t.TempDir())
	for name, text := range map[string]string{"suite.yaml": suite, "mine.yaml": scenarioText,
		"subject.yaml": subjectText} {
		must.Do(t, os.WriteFile(name, []byte(text), 0o600))
	}
	return reload(t)
}

func reload(t *testing.T) *gate.Suite {
	t.Helper()
	suite := must.Get(gate.Load("suite.yaml", func(scenarios.Provider) (func(*scenarios.Scenario) error, error) {
		return func(*scenarios.Scenario) error { return nil }, nil
	}))(t)
	return suite
}

func cellsOf(t *testing.T, suite *gate.Suite, version string) []Cell {
	t.Helper()
	cells := must.Get(Cells(suite, version))(t)
	return cells
}

func names(cells []Cell) []string {
	var all []string
	for _, cell := range cells {
		all = append(all, cell.Name)
	}
	return all
}

func TestCells(t *testing.T) {
	suite := repository(t, suiteText)
	cells := cellsOf(t, suite, "v1")
	var words []string
	for _, cell := range cells {
		words = append(words, strings.TrimSuffix(cell.Name, cell.Name[len(cell.Name)-9:]))
	}
	want := []string{
		"mine-orders-calm-seed-1", "mine-orders-calm-seed-2", "mine-orders-busy-seed-1", "mine-orders-busy-seed-2",
		"smoke-orders-calm-seed-1", "smoke-orders-calm-seed-2", "smoke-orders-busy-seed-1", "smoke-orders-busy-seed-2",
	}
	if !slices.Equal(words, want) {
		t.Errorf("cells %q, want %q", words, want)
	}
	if files := cells[0].Files; !slices.Equal(files, []string{"mine.yaml", "subject.yaml"}) {
		t.Errorf("it reads %q", files)
	}
	if files := cells[4].Files; !slices.Equal(files, []string{"subject.yaml"}) {
		t.Errorf("a shipped scenario reads %q", files)
	}
	distinct := slices.Compact(slices.Sorted(slices.Values(names(cells))))
	if len(distinct) != len(cells) {
		t.Errorf("%d names for %d cells", len(distinct), len(cells))
	}
	if again := cellsOf(t, reload(t), "v1"); !slices.Equal(names(again), names(cells)) {
		t.Error("the names changed, and nothing else did")
	}
}

// A cell gets another name with anything that its run depends on, and only then.
func TestCellsDependOnTheirInputs(t *testing.T) {
	for _, test := range []struct {
		name, file, from, to string
		version              string
		kept                 int // of the eight cells
	}{
		{name: "nothing", kept: 8},
		{name: "a longer list of seeds", file: "suite.yaml", from: "1-2", to: "1-3", kept: 8},
		{name: "another version", version: "v2"},
		{name: "the subject", file: "subject.yaml", from: "[orders]", to: "[orders, -v]"},
		{name: "a scenario", file: "mine.yaml", from: "3s", to: "4s", kept: 4},
		{name: "settings", file: "suite.yaml", from: "5/s", to: "6/s", kept: 4},
		{name: "the Kafka", file: "suite.yaml", from: "subjects:", to: "cluster: {toxiproxy: start}\nsubjects:"},
	} {
		t.Run(test.name, func(t *testing.T) {
			before := names(cellsOf(t, repository(t, suiteText), "v1"))
			if test.file != "" {
				data, err := os.ReadFile(test.file)
				changed := bytes.Replace(data, []byte(test.from), []byte(test.to), 1)
				if err = errors.Join(err, os.WriteFile(test.file, changed, 0o600)); err != nil || bytes.Equal(data, changed) {
					t.Fatal("nothing was changed", err)
				}
			}
			version := "v1"
			if test.version != "" {
				version = test.version
			}
			after, kept := names(cellsOf(t, reload(t), version)), 0
			for _, name := range before {
				if slices.Contains(after, name) {
					kept++
				}
			}
			if kept != test.kept {
				t.Errorf("%d cells keep their names, want %d", kept, test.kept)
			}
		})
	}
}

// TestNumbers: what Numbers writes, Select reads.
func TestNumbers(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		cells := make([]Cell, rapid.IntRange(1, 60).Draw(t, "cells"))
		for i := range cells {
			cells[i] = Cell{Entry: gate.Entry{Number: i + 1}, Name: fmt.Sprint(i)}
		}
		var some []Cell
		for _, cell := range cells {
			if rapid.Bool().Draw(t, cell.Name) {
				some = append(some, cell)
			}
		}
		if len(some) == 0 {
			return
		}
		read, err := Select(cells, Numbers(some))
		if err != nil || !slices.Equal(names(read), names(some)) {
			t.Fatalf("%q: %v, %v", Numbers(some), names(read), err)
		}
	})
	cells := []Cell{{Entry: gate.Entry{Number: 1}}, {Entry: gate.Entry{Number: 2}}}
	for _, wrong := range []string{"0", "3", "1,1", "2-1", "a", "1-", "1-99999999", "-1", " 1"} {
		if read, err := Select(cells, wrong); err == nil {
			t.Errorf("%q selects %d cells", wrong, len(read))
		}
	}
}

func judgedAs(status assertions.Status) *assertions.Verdict {
	verdict := &assertions.Verdict{Verdict: status, Scenario: "mine", Seed: 1,
		Invariants: []assertions.Result{{Name: "no-loss", Status: status}}}
	if status != assertions.Pass {
		verdict.Reasons = []string{"no-loss: something was found"}
	}
	return verdict
}

func resultOf(t *testing.T, cell Cell, status assertions.Status) Result {
	t.Helper()
	result := must.Get(NewResult(cell, "v1", reports.Run{Verdict: judgedAs(status)}, 3*time.Second))(t)
	return result
}

// A log carries a whole result or none.
func TestLine(t *testing.T) {
	cell := cellsOf(t, repository(t, suiteText), "v1")[0]
	result := resultOf(t, cell, assertions.Fail)
	result.Verdict.ThresholdsMissed, result.ThresholdsMissed = true, true
	var log bytes.Buffer
	log.WriteString("dlqbench-result-1 of a consumer, which is none\nno newline at its end")
	must.Do(t, result.WriteLine(&log))
	whole := log.Bytes()
	if _, err := readLine(whole); !errors.Is(err, errNoResult) {
		t.Errorf("a line that only begins like one: %v", err)
	}
	whole = whole[bytes.IndexByte(whole, '\n'):]
	read, err := readLine(append(bytes.Clone(whole), "more\n"...))
	if err != nil || read.of(cell) != nil || !bytes.Equal(read.Report, result.Report) || !read.Verdict.ThresholdsMissed ||
		read.Verdict.Verdict != assertions.Fail || read.Elapsed != 3*time.Second {
		t.Errorf("%v, %+v", err, read)
	}
	rapid.Check(t, func(t *rapid.T) {
		at := rapid.IntRange(0, len(whole)-2).Draw(t, "cut at")
		if cut, err := readLine(whole[:at]); err == nil {
			t.Fatalf("of %d bytes, %d make a result: %v", len(whole), at, cut)
		}
	})
}

func TestFirstResultCounts(t *testing.T) {
	cells := cellsOf(t, repository(t, suiteText), "v1")
	folder := NewFolder("out")
	if _, found, err := folder.Result(cells[0]); found || err != nil {
		t.Errorf("there is a result: %v, %v", found, err)
	}
	must.Do(t, errors.Join(folder.Keep(cells[0], resultOf(t, cells[0], assertions.Fail)),
		folder.Keep(cells[0], resultOf(t, cells[0], assertions.Pass))))
	if result, found, err := folder.Result(cells[0]); !found || err != nil || result.Verdict.Verdict != assertions.Fail {
		t.Errorf("%v, %v, %v", result, found, err)
	}
	if err := folder.Keep(cells[1], resultOf(t, cells[0], assertions.Pass)); err == nil {
		t.Error("the result of another cell was kept")
	}
	if _, err := os.Stat(filepath.Join("out", cells[0].folder(), reports.HTMLFile)); err != nil {
		t.Error(err)
	}
	must.Do(t, os.WriteFile(filepath.Join("out", cells[0].folder(), resultFile), []byte("{"), 0o600))
	if _, _, err := folder.Result(cells[0]); err == nil || !strings.Contains(err.Error(), "remove the file") {
		t.Errorf("half a result: %v", err)
	}
}

func TestFolderIsOfOneCampaign(t *testing.T) {
	t.Chdir(t.TempDir())
	folder := NewFolder("out")
	release, err := folder.Open(false)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := folder.Open(false); err == nil || !strings.Contains(err.Error(), "another campaign is running") {
		t.Errorf("a second campaign: %v", err)
	}
	release()
	must.Do(t, os.WriteFile("out/cells/x", nil, 0o600))
	if release, err = folder.Open(true); err != nil {
		t.Fatal(err)
	}
	release()
	if _, err := os.Stat("out/cells/x"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("an earlier result is left: %v", err)
	}
}

// played gives each cell the outcome of its number, and stops after some.
type played struct {
	test     *testing.T
	outcomes map[int]assertions.Status // "" has no result
	stop     int                       // after this many; 0 after all
	cancel   func()
	ran      []int
	err      error
}

func (p *played) Run(ctx context.Context, cells []Cell, into Sink) error {
	for _, cell := range cells {
		p.ran = append(p.ran, cell.Number)
		status, known := p.outcomes[cell.Number]
		switch {
		case !known:
			status = assertions.Pass
			fallthrough
		case status != "":
			if err := into.Result(cell, resultOf(p.test, cell, status)); err != nil {
				return err
			}
		default:
			into.Failed(cell, errors.New("the broker did not start"))
		}
		if len(p.ran) == p.stop {
			if p.cancel != nil {
				p.cancel()
				return ctx.Err()
			}
			return p.err
		}
	}
	return p.err
}

func TestRun(t *testing.T) {
	suite := repository(t, suiteText)
	cells := cellsOf(t, suite, "v1")
	run := func(ctx context.Context, on *played, selected []Cell) (*reports.Suite, error) {
		planned := &Campaign{Suite: suite, Cells: cells, Selected: selected, Folder: NewFolder("out"), Backend: on,
			Now: time.Now, Say: func(string) {}, Told: func(reports.SuiteRun) {}}
		return planned.Run(ctx)
	}
	ctx, cancel := context.WithCancel(t.Context())
	first := &played{test: t, stop: 2, cancel: cancel}
	told, err := run(ctx, first, cells)
	if err != nil || told.Verdict != reports.StandingInterrupted || told.Counts() != "6 not run, 2 passed" {
		t.Errorf("interrupted: %v, %v", told, err)
	}
	second := &played{test: t, outcomes: map[int]assertions.Status{3: "", 4: assertions.Inconclusive}}
	told, err = run(t.Context(), second, cells[:4])
	if err != nil || !slices.Equal(second.ran, []int{3, 4}) || told.Verdict != reports.StandingEnvironment ||
		told.Counts() != "1 could not be run, 1 inconclusive, 4 not run, 2 passed" {
		t.Errorf("a part, with a cell that has no result: ran %v, %v, %v", second.ran, told, err)
	}
	away := errors.New("the cluster is away")
	third := &played{test: t, stop: 1, err: away}
	told, err = run(t.Context(), third, cells)
	if !errors.Is(err, away) || told.Counts() != "1 inconclusive, 4 not run, 3 passed" ||
		told.Verdict != reports.StandingInconclusive || !strings.Contains(told.Runs[7].Reasons[0], "the cluster is away") {
		t.Errorf("it could not go on: %v, %v", told, err)
	}
	lines := 0
	twice := &Campaign{Suite: suite, Cells: cells, Selected: cells[:5], Folder: NewFolder("out"), Now: time.Now,
		Say: func(string) {}, Told: func(reports.SuiteRun) { lines++ }, Backend: repeating{t, cells}}
	if _, err := twice.Run(t.Context()); err != nil || lines != 1 {
		t.Errorf("a result is told once, and that of an earlier campaign never: %d times, %v", lines, err)
	}
	last := &played{test: t, outcomes: map[int]assertions.Status{8: assertions.Fail}}
	told, err = run(t.Context(), last, cells)
	if err != nil || !slices.Equal(last.ran, []int{6, 7, 8}) || told.Verdict != reports.StandingFail ||
		told.Counts() != "1 failed, 1 inconclusive, 6 passed" || told.Runs[7].Artifacts != "cells/"+cells[7].Name {
		t.Errorf("the rest: ran %v, %v, %v", last.ran, told, err)
	}
	for _, file := range []string{reports.JUnitFile, reports.SummaryFile, reports.SuiteJSONFile, reports.SuiteIndexFile} {
		if _, err := os.Stat(filepath.Join("out", file)); err != nil {
			t.Error(err)
		}
	}
}

// repeating gives the results of the first and of the fifth cell twice.
type repeating struct {
	test  *testing.T
	cells []Cell
}

func (r repeating) Run(_ context.Context, _ []Cell, into Sink) error {
	var errs []error
	for _, i := range []int{0, 4, 4, 0} {
		errs = append(errs, into.Result(r.cells[i], resultOf(r.test, r.cells[i], assertions.Pass)))
	}
	return errors.Join(errs...)
}

// The budget ends a campaign, which is then inconclusive at best.
func TestBudget(t *testing.T) {
	suite := repository(t, suiteText+"budget: 1ms\n")
	cells := cellsOf(t, suite, "v1")
	planned := &Campaign{Suite: suite, Cells: cells, Selected: cells, Folder: NewFolder("out"), Backend: waiting{},
		Now: time.Now, Say: func(string) {}, Told: func(reports.SuiteRun) {}}
	release := must.Get(planned.Folder.Open(false))(t)
	defer release()
	told, err := planned.Run(t.Context())
	if err != nil || told.Verdict != reports.StandingInconclusive ||
		!strings.Contains(told.Runs[0].Reasons[0], "1ms is used up") {
		t.Errorf("%v, %v", told, err)
	}
}

type waiting struct{}

func (waiting) Run(ctx context.Context, _ []Cell, _ Sink) error {
	<-ctx.Done()
	return context.Cause(ctx)
}

func TestLastOfLog(t *testing.T) {
	for _, test := range []struct{ log, want string }{
		{"", "nothing"},
		{"a\nb\n\n", "b"},
		{"dlqbench: x", "x"},
		{"a\ndlqbench: it\n  said:\n  no\n", "it said: no"},
		{"dlqbench: first\ndlqbench: last\n", "last"},
		{strings.Repeat("x", 2000), strings.Repeat("x", 1000)},
	} {
		if got := lastOf([]byte(test.log)); got != test.want {
			t.Errorf("%q ends with %q, want %q", test.log, got, test.want)
		}
	}
}
