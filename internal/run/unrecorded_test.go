package run

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// podsOfOne are pods of which one runs, as a process of this machine.
type podsOfOne struct {
	begin func(env map[string]string)
	lost  func(error)
}

func (p *podsOfOne) Begin(env map[string]string, lost func(error)) error {
	p.lost = lost
	p.begin(env)
	return nil
}
func (p *podsOfOne) Can(act string) bool                    { return act == subject.ActStart }
func (p *podsOfOne) Act(context.Context, int, string) error { return nil }

// A run whose consumer loses a pod under load is inconclusive, and has a verdict and reports, also if the consumer
// broke promises: it may have done so because of that. Before the load, nothing is judged.
func TestPodLost(t *testing.T) {
	t.Parallel()
	for _, phase := range []string{history.PhaseSetup, history.PhaseSteady} {
		options, _ := withExternal(t, "", "", "workload.duration=1m")
		options.Subject.Kind, options.Subject.Env = scenarios.KindDeployment, map[string]string{
			"DLQBENCH_BOOTSTRAP_SERVERS": "{{.BootstrapServers}}", "DLQBENCH_ORACLE_URL": "{{.OracleURL}}",
			"DLQBENCH_GROUP_ID": "{{.GroupID}}", "DLQBENCH_INPUT_TOPIC": "{{.InputTopic}}",
			"DLQBENCH_DLQ_TOPIC": "{{.DLQTopic}}"}
		pods := &podsOfOne{}
		var consumer *exec.Cmd
		pods.begin = func(env map[string]string) {
			if phase == history.PhaseSetup {
				pods.lost(errors.New("the pod orders-1 is gone"))
				return
			}
			consumer = exec.Command("sh", "-c", outsideConsumer(t, "bug consume one-retry-too-few"))
			consumer.Env = append(os.Environ(), environ(env)...)
			if err := consumer.Start(); err != nil {
				t.Error(err)
			}
		}
		var once sync.Once
		options.Pods, options.Watch = pods, func(s reports.Snapshot) {
			if s.Phase == phase && s.Totals.DeadLetters > 100 {
				once.Do(func() { pods.lost(errors.New("the pod orders-1 is gone")) })
			}
		}
		outcome, err := Run(t.Context(), options)
		if consumer != nil {
			_ = consumer.Process.Kill()
			_ = consumer.Wait()
		}
		if phase == history.PhaseSetup {
			if err == nil || !strings.Contains(err.Error(), "the pod orders-1 is gone") || outcome.Verdict != nil {
				t.Errorf("before the load: %v, %+v", err, outcome)
			}
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		wantInconclusive(t, outcome.Dir, outcome.Verdict, "the run could not be carried out: running the consumer in its "+
			"pods: the pod orders-1 is gone; correct that, and run it again")
	}
}

// wantInconclusive checks a run that has a verdict and reports, and that proves nothing, for one reason.
func wantInconclusive(t *testing.T, dir string, verdict *assertions.Verdict, reason string) {
	t.Helper()
	if verdict.Verdict != assertions.Inconclusive || strings.Join(verdict.Reasons, "\n") != reason {
		t.Errorf("the verdict is %s because of %q, want %q", verdict.Verdict, verdict.Reasons, reason)
	}
	wantFiles(t, dir, true, "scenario.yaml", "subject.yaml", "plan.json", "verdict.json", "report.html", "junit.xml",
		"summary.md")
}

// The run directory of a run that was lost elsewhere says so, and what is known of the run.
func TestUnrecorded(t *testing.T) {
	t.Parallel()
	options, _ := withExternal(t, "", "")
	options.Subject.Kind = scenarios.KindDeployment
	gone := errors.New("the pod that runs dlqbench is gone")
	seen := []reports.Snapshot{{Phase: history.PhaseSetup, Now: time.Second}}
	if dir, err := Unrecorded(options, seen, gone); dir != "" || err != nil {
		t.Errorf("before the load: %q, %v", dir, err)
	}
	seen = append(seen, reports.Snapshot{Phase: history.PhaseSteady, Now: 3 * time.Second, Elapsed: time.Second},
		reports.Snapshot{Phase: history.PhaseSteady, Now: 5 * time.Second, Elapsed: 3 * time.Second,
			Totals: reports.Totals{Acknowledged: 40, Processed: 30}})
	dir, err := Unrecorded(options, seen, gone)
	if err != nil {
		t.Fatal(err)
	}
	judged, err := JudgeRun(dir)
	if err != nil {
		t.Fatal(err)
	}
	wantInconclusive(t, dir, judged.Verdict, "the run could not be carried out: the pod that runs dlqbench is gone; its "+
		"history and logs are missing, the last that is known of it is phase steady after 5 s, with 40 records acknowledged "+
		"and 30 processed; correct that, and run it again")
	var names []string
	for _, phase := range judged.Verdict.Phases {
		names = append(names, phase.Name)
	}
	if got := strings.Join(names, " "); got != "warm-up steady" || judged.Verdict.Phases[0].From != 2*time.Second {
		t.Errorf("the phases are %+v", judged.Verdict.Phases)
	}
	if judged.Verdict.Environment["cpus"] != "" {
		t.Errorf("it is said to have run here: %v", judged.Verdict.Environment)
	}
}
