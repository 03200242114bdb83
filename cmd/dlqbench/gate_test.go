package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports"
)

// An interrupted gate ends the current run in order: it lifts all faults, seals the history and judges what there is.
// The remaining runs are reported as not run.
func TestInterruptGate(t *testing.T) {
	t.Parallel()
	tiny := must.Get(os.ReadFile("testdata/share/tiny.yaml"))(t)
	long := strings.Replace(string(tiny), "duration: 800ms", "duration: 5m", 1) +
		"faults:\n  - {at: 100ms, for: 4m, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}\n"
	p := start(t, folder(t, "long.yaml", long, "dlqbench.yaml", "scenarios: [long.yaml, tiny.yaml]\n"), "gate")
	p.waitForPhase("fault")
	runID := p.runID()
	p.signal(syscall.SIGINT)
	p.wantExit(exitInterrupted, soon)
	if !strings.Contains(p.log(), "interrupt again to end at once") {
		t.Errorf("it does not say what it does:\n%s", p.log())
	}
	p.wantFiles(true, "verdict.json", "report.html", "history/sealed.json")
	p.wantFiles(false, "kafka", "processes.json")
	p.wantNoProcess(runID)
	told := p.gate()
	if told.Verdict != reports.StandingInterrupted || len(told.Runs) != 2 ||
		told.Runs[0].Standing != reports.StandingInconclusive || told.Runs[1].Standing != reports.StandingNotRun {
		t.Errorf("it tells of %s: %+v", told.Verdict, told.Runs)
	}
	for _, name := range []string{"gate/junit.xml", "gate/summary.md", "gate/index.html", "gate/01-tiny/report.html"} {
		if _, err := os.Stat(filepath.Join(p.dir, name)); err != nil {
			t.Errorf("%s is not there", name)
		}
	}
	if runs, _ := filepath.Glob(filepath.Join(p.dir, "runs", "*-tiny*")); len(runs) != 1 {
		t.Errorf("there are %d runs, want the first only", len(runs))
	}
}

// When its budget is used up, a gate ends the current run as if it were interrupted, and is inconclusive. It does not
// report an interruption.
func TestGateOutOfTime(t *testing.T) {
	t.Parallel()
	slow := "name: slow\nkind: process\nbuild: [sleep, '3606.25']\ncommand: [dlqbench, consume]\n"
	p := start(t, folder(t, "slow.yaml", slow, "dlqbench.yaml",
		"subjects: slow.yaml\nscenarios: [tiny.yaml]\nbudget: 3s\n"), "gate")
	p.wantExit(exitInconclusive, patience)
	if log := p.log(); !strings.Contains(log, "the gate's time budget is used up: healing") ||
		strings.Contains(log, "interrupt again") {
		t.Errorf("it does not say why it ends:\n%s", log)
	}
	if left := waitVanished(func(one process) bool { return strings.Contains(one.command, "3606.25") }); len(left) > 0 {
		t.Errorf("there are %d processes left", len(left))
	}
	if told := p.gate(); told.Verdict != reports.StandingInconclusive ||
		told.Runs[0].Standing != reports.StandingInconclusive {
		t.Errorf("it tells of %s: %+v", told.Verdict, told.Runs)
	}
}

// gate returns the results of the gate in the program's folder.
func (p *program) gate() reports.Suite {
	p.Helper()
	var told reports.Suite
	data, err := os.ReadFile(filepath.Join(p.dir, "gate", reports.SuiteJSONFile))
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	if err != nil {
		p.Fatal(err)
	}
	return told
}
