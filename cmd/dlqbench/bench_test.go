package main

import (
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/bench"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports"
)

// An interrupted bench ends the current run in order, keeps the measurements, and continues from there when it is
// started again.
func TestInterruptBench(t *testing.T) {
	t.Parallel()
	text := "name: long\nscenario: tiny.yaml\nrepetitions: 1\ncells:\n  - {name: first}\n  - {name: second, set: " +
		"{workload.duration: 900ms}}\n"
	dir := folder(t, "long.yaml", text)
	p := start(t, dir, "bench", "long.yaml")
	p.waitFor("1 of 2 done")
	p.waitForPhase("steady")
	runID := p.runID()
	p.signal(syscall.SIGINT)
	p.wantExit(exitInterrupted, patience)
	if !strings.Contains(p.log(), "what was measured is kept; the same command goes on with it") {
		t.Errorf("it does not say what it did:\n%s", p.log())
	}
	p.wantNoProcess(runID)
	half := results(t, dir)
	if !half.Interrupted || half.Count(reports.BenchOK) != 1 || half.Count(reports.BenchNotRun) != 1 {
		t.Errorf("it tells of %d ok and %d not run", half.Count(reports.BenchOK), half.Count(reports.BenchNotRun))
	}
	again := start(t, dir, "bench", "--resume", "bench/long")
	again.wantExit(exitPass, patience)
	if log := again.log(); !strings.Contains(log, "1 of 2 repetitions are there") || strings.Contains(log, "0 of 2 done") {
		t.Errorf("it does not go on where it was:\n%s", log)
	}
	whole := results(t, dir)
	if whole.Interrupted || whole.Count(reports.BenchOK) != 2 {
		t.Errorf("it tells of %d ok", whole.Count(reports.BenchOK))
	}
	for i, cell := range half.Cells {
		if len(cell.Repetitions) > 0 && cell.Repetitions[0].Run.Dir != whole.Cells[i].Repetitions[0].Run.Dir {
			t.Errorf("%s was run again", cell.Name)
		}
	}
}

// The worst cell of a bench decides its exit code.
func TestBenchCode(t *testing.T) {
	run := func(change func(*reports.BenchCell)) reports.Bench {
		cell := reports.BenchCell{State: reports.BenchOK, Repetitions: []reports.BenchRepetition{{Number: 1}}}
		change(&cell)
		return reports.Bench{Cells: []reports.BenchCell{{State: reports.BenchOK}, cell}}
	}
	missed := []measure.Threshold{{Expression: "count.succeeded > 1"}}
	for _, test := range []struct {
		name   string
		change func(*reports.BenchCell)
		want   int
	}{
		{"all is well", func(*reports.BenchCell) {}, exitPass},
		{"a cell is broken", func(c *reports.BenchCell) { c.State = reports.BenchBroken }, exitViolated},
		{"a cell proves nothing", func(c *reports.BenchCell) { c.State = reports.BenchInconclusive }, exitInconclusive},
		{"a run could not be run", func(c *reports.BenchCell) { c.Repetitions[0].Run.Error = "no Kafka" }, exitEnvironment},
		{"a threshold", func(c *reports.BenchCell) { c.Repetitions[0].Run.Thresholds = missed }, exitThreshold},
		{"a probe that misses the bound", func(c *reports.BenchCell) {
			c.Repetitions[0].Run.Thresholds, c.Repetitions[0].Search = missed,
				&reports.BenchSearch{Limit: reports.BenchLimitConsumer}
		}, exitPass},
		{"no rate holds the bound", func(c *reports.BenchCell) {
			c.Repetitions[0].Search = &reports.BenchSearch{Limit: reports.BenchLimitNone}
		}, exitThreshold},
	} {
		if got := benchCode(run(test.change)); got != test.want {
			t.Errorf("%s: %d, want %d", test.name, got, test.want)
		}
	}
	interrupted := run(func(c *reports.BenchCell) { c.State = reports.BenchBroken })
	interrupted.Interrupted = true
	if got := benchCode(interrupted); got != exitInterrupted {
		t.Errorf("interrupted: %d", got)
	}
}

func results(t *testing.T, dir string) reports.Bench {
	t.Helper()
	told := must.Get(bench.Earlier(filepath.Join(dir, "bench", "long")))(t)
	return told
}
