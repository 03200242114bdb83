package bench

import (
	"errors"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/scenarios"
)

// Any bench's file gives either a plan with complete cells or an error with a place.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"name: b\nscenario: smoke",
		"name: b\nscenario: smoke\nmatrix: {seed: [1, 2], subject.reference.ordering: [key, none]}",
		"name: b\nscenario: smoke\ncells: [{name: a}, {name: b, set: {workload.rate: 5/s}}]\nfaults: {none: " +
			"[]}\nworkloads: {w: {seed: 3}}",
		"name: b\nscenario: smoke\nmode: max-throughput\nbound: latency.success.p99 < 1s\nsearch: {lowest: 5/s, highest: " +
			"500/s, precision: 5%}",
		"name: b\nscenario: steady-load\nmode: step\nsteps: [{rate: 1/s, for: 1s}, {rate: 2/s, for: 1s}]", "matrix: {}",
		"cells: [[]]", "faults: {a: [{}]}", "a: &a [*a]", "\xff",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if len(data) > 1<<10 || strings.Contains(string(data), "file") || strings.Contains(string(data), "/dev") {
			t.Skip("it would read what happens to be there")
		}
		plan, err := Parse(filepath.Join(t.TempDir(), "bench.yaml"), data, anyKafka)
		if problems, ok := errors.AsType[*scenarios.Problems](err); ok {
			for _, problem := range problems.Problems {
				if problem.Message == "" || problem.Line < 0 || problem.Column < 0 {
					t.Errorf("a problem without a message or a place: %+v", problem)
				}
			}
		}
		if err != nil {
			return
		}
		names := map[string]bool{}
		for i, cell := range plan.Cells {
			if cell.Number != i+1 || cell.Name == "" || cell.Load <= 0 || len(cell.Stretches) == 0 || names[cell.Name] {
				t.Errorf("a cell that is not whole, or has another's name: %+v", cell)
			}
			names[cell.Name] = true
		}
		if len(plan.Cells) == 0 || len(plan.Rounds) != plan.Spec.Repetitions || plan.Hash == "" {
			t.Errorf("a plan that is not whole: %+v", plan)
		}
	})
}
