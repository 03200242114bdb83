package gate

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// A violation points to the line of the contract that promises it, or to the nearest key around it.
func TestPromised(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subject.yaml")
	text := "name: orders\ncontract:\n  attempts: {max: 3}\n  dlq:\n    envelope: plain\n  ordering: key\n"
	must.Do(t, os.WriteFile(file, []byte(text), 0o644))
	want := map[string]int{"bounded-retries": 3, "dlq-fidelity": 5, "halt-on-dlq-failure": 4, "commit-after-dlq": 4,
		"ordering": 6, "no-loss": 2, "a/ordering": 6, "backoff": 2}
	verdict := &assertions.Verdict{Invariants: []assertions.Result{{Name: "liveness", Status: assertions.Pass}}}
	for invariant := range want {
		verdict.Invariants = append(verdict.Invariants, assertions.Result{Name: invariant, Status: assertions.Fail})
	}
	found := promised(file, verdict)
	if len(found) != len(want) {
		t.Errorf("%d places, want %d", len(found), len(want))
	}
	for _, one := range found {
		if one.Where.File != file || one.Where.Line != want[one.Invariant] || one.Where.Column < 1 {
			t.Errorf("%s is promised at %v, want line %d", one.Invariant, one.Where, want[one.Invariant])
		}
	}
	if promised("", verdict) != nil || promised(filepath.Join(t.TempDir(), "none.yaml"), verdict) != nil {
		t.Error("a subject that is not there has a place")
	}
}
