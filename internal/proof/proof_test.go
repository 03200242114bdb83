package proof

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/harness"
	"github.com/dlqbench/dlqbench/internal/mutants"
	"github.com/dlqbench/dlqbench/scenarios"
)

// programs are what the tests run: dlqbench itself and the mutants, built once.
type programs struct{ dlqbench, mutant string }

func TestMutants(t *testing.T) {
	if testing.Short() {
		t.Skip("SKIPPED in short mode: every planted bug is run end to end, which takes minutes; run `make mutants`")
	}
	built := build(t)
	reference := map[string]func() *harness.Outcome{}
	for _, name := range []string{"mix", "dlq-down", "dlq-slow", "restart", "replay"} {
		reference[name] = sync.OnceValue(func() *harness.Outcome { return run(t, built, name, nil, nil) })
		reference[name]() // before any mutant, so that a scenario which the correct consumer fails shows first
	}
	for _, mutant := range mutants.All() {
		t.Run(mutant.Name, func(t *testing.T) {
			t.Parallel() // two at a time (see the Makefile): these loads are small, and stalls are measured, not assumed
			correct := reference[mutant.Scenario]
			if correct == nil {
				t.Fatalf("there is no scenario %q", mutant.Scenario)
			}
			if verdict := correct().Verdict; verdict.Verdict != assertions.Pass {
				t.Errorf("the correct consumer does not pass %s: %s %v", mutant.Scenario, verdict.Verdict, verdict.Reasons)
			}
			var consume, replay []string
			if mutant.Consumer != nil {
				consume = []string{built.mutant, "--mutant", mutant.Name}
			} else {
				replay = []string{built.mutant, "--replay-mutant", mutant.Name, "replay"}
			}
			verdict := run(t, built, mutant.Scenario, consume, replay).Verdict
			found := anomalies(verdict)
			if verdict.Verdict != assertions.Fail || !slices.Contains(found, mutant.Anomaly) {
				t.Errorf("%s (%s) must be caught as %s; the verdict is %s with %v\n%s",
					mutant.Name, mutant.What, mutant.Anomaly, verdict.Verdict, found, strings.Join(verdict.Reasons, "\n"))
			}
			t.Logf("%s: %v", mutant.Name, found)
		})
	}
}

func build(t *testing.T) programs {
	t.Helper()
	dir := t.TempDir()
	built := programs{dlqbench: filepath.Join(dir, "dlqbench"), mutant: filepath.Join(dir, "mutant")}
	for program, folder := range map[string]string{built.dlqbench: "../../cmd/dlqbench", built.mutant: "../mutants/cmd/mutant"} {
		command := exec.Command("go", "build", "-o", program, folder)
		command.Env = append(os.Environ(), "CGO_ENABLED=0")
		if output, err := command.CombinedOutput(); err != nil {
			t.Fatalf("building %s: %v\n%s", folder, err, output)
		}
	}
	return built
}

func run(t *testing.T, built programs, name string, consume, replay []string) *harness.Outcome {
	t.Helper()
	path := filepath.Join("testdata", name+".yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	scenario, err := scenarios.Parse(path, data)
	if err != nil {
		t.Fatal(err)
	}
	outcome, err := harness.Run(t.Context(), harness.Options{
		Scenario: scenario, Source: data, Out: runsDir(t), Executable: built.dlqbench, ReferenceCommand: consume, ReplayCommand: replay,
		Rerun: "go test ./internal/proof # seed %d", Version: "test", Log: zerolog.Nop(),
	})
	if err != nil {
		t.Fatalf("running %s: %v", name, err)
	}
	return outcome
}

// runsDir is where the runs are kept: DLQBENCH_PROOF_RUNS, for reading them after a failure, or a folder that goes with the test.
func runsDir(t *testing.T) string {
	if dir := os.Getenv("DLQBENCH_PROOF_RUNS"); dir != "" {
		return filepath.Join(dir, strings.ReplaceAll(t.Name(), "/", "-"))
	}
	return t.TempDir()
}

// anomalies lists the names of all anomalies in a verdict.
func anomalies(verdict *assertions.Verdict) []string {
	var names []string
	for _, invariant := range verdict.Invariants {
		for _, anomaly := range invariant.Anomalies {
			names = append(names, fmt.Sprint(anomaly.Name))
		}
	}
	return names
}
