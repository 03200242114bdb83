package run

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// When all processes have ended by themselves, the run waits neither for an event that its faults could meet nor for
// the time after which standing still is proven: that no process is left proves it.
func TestNobodyIsLeft(t *testing.T) {
	options := small(t, "replay=null")
	options.Subject, options.SubjectFile = subjectFile(t, `ready: {log: ready}
command: [sh, -c, "echo ready; sleep 0.3; exit 3"]`)
	contract, err := options.Subject.HistoryContract()
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	waited := time.Duration(0)
	for _, phase := range outcome.Verdict.Phases {
		if phase.Name == history.PhaseFault || phase.Name == history.PhaseDrain {
			waited = max(waited, phase.To-phase.From)
		}
	}
	if waited >= contract.Patience(0) {
		t.Errorf("the run waited %v for processes that were not there; it may wait %v for one that stands still", waited,
			contract.Patience(0))
	}
	broken := map[string]bool{}
	for _, one := range outcome.Verdict.Invariants {
		broken[one.Name] = one.Status == assertions.Fail
	}
	if !broken["stays-up"] || !broken["no-loss"] || !broken["liveness"] {
		t.Errorf("broken: %v", broken)
	}
}

// A subject that never gives up may be idle for the wait that has grown longest when everything is healed.
func TestPatienceWithGrownWaits(t *testing.T) {
	for most, want := range map[int]time.Duration{0: 16 * time.Second, 3: 2 * time.Second} {
		r := &run{plan: &plan.Plan{Steady: 10 * time.Second, Records: []plan.Record{{Failures: 1}}}, header: history.Header{Consumers: []history.Consumer{{
			Contract: history.Contract{MaxAttempts: most, Backoff: history.Backoff{Initial: time.Second, Multiplier: 2}},
		}}}}
		patience, wait := r.patienceOfAll()
		if wait != want || patience < want {
			t.Errorf("%d attempts promised: quiet after %s, stuck after %s; want %s", most, wait, patience, want)
		}
	}
}
