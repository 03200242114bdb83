package gate

import (
	"bytes"
	"errors"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/scenarios"
)

// Any dlqbench.yaml gives either a suite with complete runs or an error with a place.
func FuzzParse(f *testing.F) {
	for _, text := range []string{
		"scenarios: [smoke]", "scenarios: [{scenario: smoke, seeds: [1], allow: {duplicates: 1%}, thresholds: " +
			"[\"count.succeeded > 1\"]}]\nsubjects: a.yaml",
		"scenarios: [consumer-kill]\nwaive: [{invariant: no-loss, anomaly: lost, scenario: smoke, reason: x, until: " +
			"2030-01-01}]\nbudget: 5m",
		"scenarios: [smoke]\ncluster: {provider: docker, image: x}", "scenarios: [[]]", "scenarios: [{}]\nwaive: [{}]",
		"a: &a [*a]", "\xff",
	} {
		f.Add([]byte(text))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		if bytes.ContainsAny(data, "*?") || len(data) > 1<<10 {
			t.Skip("it would read all shipped scenarios")
		}
		path := filepath.Join(t.TempDir(), ConfigFile)
		suite, err := Parse(path, data, anyKafka)
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
		for i, entry := range suite.Entries {
			if entry.Number != i+1 || entry.Scenario == "" || entry.SubjectName == "" || entry.Where.Line < 1 {
				t.Errorf("a run that is not whole: %+v", entry)
			}
		}
		for _, waiver := range suite.Waivers {
			if waiver.ends.IsZero() || waiver.Invariant == "" && waiver.Anomaly == "" {
				t.Errorf("a waiver that is not whole: %+v", waiver)
			}
		}
	})
}
