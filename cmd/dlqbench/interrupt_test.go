package main

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// soon is the maximum time that a run may take to end after an interrupt. It needs a few seconds; the rest is a margin
// for a slow machine. The limit is less than lifting a fault or stopping a subject may otherwise take.
const soon = 18 * time.Second

const deaf = `
name: deaf
kind: process
command: [sh, -c, "trap '' TERM; echo started; dlqbench consume; sleep 3605.25; sleep 3605.25; sleep 3605.25"]
env: {DLQBENCH_SETTINGS: '{"max_retries": 2, "retry_backoff_ms": 20}'}
contract:
  attempts: {max: 2}
  dlq: {envelope: plain, on_failure: halt}
  stop: {grace: 10m}
`

// Wherever a run is interrupted, it ends soon, everything that it started ends with it, and its history is sealed and
// judged. (internal/run interrupts the very short phases, because a test can stop the clock there.)
func TestInterrupt(t *testing.T) {
	t.Parallel()
	for _, test := range []struct {
		name, subject string
		set           []string
		signal        syscall.Signal
		wait          func(*program)
	}{
		{
			"build", "name: slow\nkind: process\nbuild: [sh, -c, 'echo compiling; sleep 3604.25']\ncommand: [dlqbench, consume]",
			nil, syscall.SIGINT, func(p *program) { p.waitForFile("logs/build.log", "compiling") },
		},
		{
			"ready", "name: slow\nkind: process\ncommand: [sh, -c, 'echo thinking; sleep 3604.25']\nready: {timeout: 10m}", nil,
			syscall.SIGTERM, func(p *program) { p.waitForFile("logs/instance-0.log", "thinking") },
		},
		{
			"warm-up", "", []string{"workload.warm_up=5m"},
			syscall.SIGINT, func(p *program) { p.waitForPhase("warm-up") },
		},
		{
			"fault", "", []string{"workload.duration=5m",
				"faults=[{at: 100ms, for: 4m, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}]"},
			syscall.SIGTERM, func(p *program) { p.waitForPhase("fault") },
		},
		{
			"a heal that takes long",
			"name: slow\nkind: process\ncommand: [crasher, '100000', mark, slow]\nready: {timeout: 10m}", []string{
				"workload.duration=5m", "faults=[{at: 100ms, for: 100ms, subject: {instance: 0, signal: KILL}}]",
			},
			syscall.SIGINT, func(p *program) { p.waitForFile("logs/instance-0.log", "starting slowly") },
		},
		{
			"heal", "", []string{"workload.duration=5m", "faults=[{at: 100ms, for: 10ms, downstream: {outage: true}}]"},
			syscall.SIGHUP, func(p *program) { p.waitForPhase("heal") },
		},
		{
			"drain", "", []string{
				"workload.outcomes={success: 50, transient: 50}",
				"subject.reference={max_retries: 3, retry_backoff_ms: 600000, max_retry_backoff_ms: 600000}",
				"expect.drain=30m",
			},
			syscall.SIGINT, func(p *program) { p.waitForPhase("drain") },
		},
		{
			"replay", "", []string{"workload.outcomes={success: 50, exhausted: 50}", "replay={rate: 1/m}"},
			syscall.SIGINT, func(p *program) { p.waitForFile("logs/replay.log", "→") },
		},
		{"audit", deaf, nil, syscall.SIGINT, func(p *program) { p.waitForPhase("audit") }},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			arguments := []string{"run", "tiny.yaml"}
			for _, set := range test.set {
				arguments = append(arguments, "--set", set)
			}
			if test.subject != "" {
				arguments = append(arguments, "--subject", "subject.yaml")
			}
			p := start(t, folder(t, "subject.yaml", test.subject), arguments...)
			test.wait(p)
			p.signal(test.signal)
			p.wantExit(exitInterrupted, soon)
			if !strings.Contains(p.log(), "interrupt again to end at once") || !strings.Contains(p.log(), "interrupted; what "+
				"there was has been") {
				t.Errorf("it does not say what it does:\n%s", p.log())
			}
			p.wantFiles(true, "verdict.json", "report.html", "history/header.json")
			p.wantFiles(false, "kafka", "work", "processes.json")
			if test.name != "build" && test.name != "ready" {
				p.wantFiles(true, "history/sealed.json")
			}
			p.wantNoProcess(p.runID())
			if code, out := dlqbench(t, p.dir, "check", "runs/latest"); code != exitInconclusive {
				t.Errorf("what there is is judged with exit code %d, want inconclusive:\n%s", code, out)
			}
		})
	}
}

// The second interrupt ends the program at once. No process is left, and the recorded history can still be judged.
func TestInterruptTwice(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t, "subject.yaml", deaf), "run", "tiny.yaml", "--subject", "subject.yaml", "--set",
		"workload.duration=5m")
	p.waitForPhase("steady")
	runID := p.runID()
	p.signal(syscall.SIGINT)
	p.waitForPhase("audit")
	p.signal(syscall.SIGINT)
	p.wantExit(exitInterrupted, soon)
	if !strings.Contains(p.log(), "ended at once") {
		t.Errorf("it does not say what it does:\n%s", p.log())
	}
	p.wantNoProcess(runID)
	p.wantFiles(false, "verdict.json", "history/sealed.json")
	if code, out := dlqbench(t, p.dir, "check", "runs/latest"); code != exitInconclusive {
		t.Errorf("what there is is judged with exit code %d, want inconclusive:\n%s", code, out)
	}
}

// A dlqbench that is killed takes its subject with it. Its history can be judged up to its last second. The next run
// removes its leftovers, but does not touch a run in progress.
func TestKilled(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	killed := start(t, dir, "run", "tiny.yaml", "--set", "workload.duration=5m", "--set", "name=killed")
	killed.waitForPhase("steady")
	killed.waitForFile("history/000003.parquet", "PAR1") // two seconds of history
	runID, path := killed.runID(), resolve(t, filepath.Join(dir, "runs", "latest"))
	killed.signal(syscall.SIGKILL)
	<-killed.ended
	killed.wantNoProcess(runID)
	killed.wantFiles(true, "kafka", "processes.json")
	code, out := dlqbench(t, dir, "check", path)
	if code != exitInconclusive || !strings.Contains(out, "the history ends before the run did") {
		t.Errorf("its history is judged with exit code %d:\n%s", code, out)
	}

	going := start(t, dir, "run", "tiny.yaml", "--set", "workload.duration=5m", "--set", "name=going")
	going.waitForPhase("steady")
	for _, leftover := range []string{"kafka", "processes.json"} {
		if _, err := os.Stat(filepath.Join(path, leftover)); err == nil {
			t.Errorf("the next run left %s of the killed one", leftover)
		}
	}
	goingPath := resolve(t, filepath.Join(dir, "runs", "latest"))
	if code, out := dlqbench(t, dir, "run", "tiny.yaml", "--quiet"); code != exitPass {
		t.Errorf("a run beside another: exit code %d\n%s", code, out)
	}
	if code, out := dlqbench(t, dir, "clean", "--all"); code != exitPass || strings.Contains(out, goingPath) {
		t.Errorf("clean --all beside a run: exit code %d\n%s", code, out)
	}
	for _, kept := range []string{"kafka", "processes.json", "history/header.json"} {
		if _, err := os.Stat(filepath.Join(goingPath, kept)); err != nil {
			t.Errorf("a run that goes on lost its %s", kept)
		}
	}
	if _, err := os.Stat(path); err == nil {
		t.Error("clean --all left the killed run")
	}
	going.signal(syscall.SIGINT)
	going.wantExit(exitInterrupted, soon)
}

func resolve(t *testing.T, link string) string {
	t.Helper()
	path := must.Get(filepath.EvalSymlinks(link))(t)
	return path
}

// Two concurrent runs in the same folder do not interfere.
func TestTwoAtOnce(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	one := start(t, dir, "run", "tiny.yaml")
	two := start(t, dir, "run", "tiny.yaml", "--subject", "good.yaml")
	one.wantExit(exitPass, patience)
	two.wantExit(exitPass, patience)
	runs, err := filepath.Glob(filepath.Join(dir, "runs", "*-tiny*", "verdict.json"))
	if err != nil || len(runs) != 2 {
		t.Errorf("there are verdicts of %d runs: %v", len(runs), err)
	}
	one.wantFiles(true, "verdict.json") // whichever run latest points to
	if left, _ := filepath.Glob(filepath.Join(dir, "runs", "latest-*")); len(left) > 0 {
		t.Errorf("there are links left: %v", left)
	}
}

// An interrupt during one of several runs prevents the remaining ones.
func TestInterruptSeveral(t *testing.T) {
	t.Parallel()
	p := start(t, folder(t), "run", "tiny.yaml", "tiny.yaml", "--set", "workload.duration=5m")
	p.waitForPhase("steady")
	p.signal(syscall.SIGINT)
	p.wantExit(exitInterrupted, soon)
	if runs, _ := filepath.Glob(filepath.Join(p.dir, "runs", "*-tiny*")); len(runs) != 1 {
		t.Errorf("there are %d runs, want the first only", len(runs))
	}
}
