package gate

// This file finds the lines of a contract that violated invariants are promised in.

import (
	"os"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// promised returns the places in subject.yaml that promise the violated invariants of a verdict. What the contract does
// not write is promised by its default, so its place is the nearest key around. Without a readable file of the suite
// there are none: the scenario's own subject is then judged.
func promised(subject string, verdict *assertions.Verdict) []reports.SuitePromise {
	if subject == "" || verdict == nil {
		return nil
	}
	data, err := os.ReadFile(subject)
	if err != nil {
		return nil // it was there when the suite was loaded
	}
	var out []reports.SuitePromise
	for _, result := range verdict.Invariants {
		if result.Status == assertions.Fail {
			line, column := scenarios.KeyAt(data, "/contract/"+contractKey(result.Name))
			out = append(out, reports.SuitePromise{Invariant: result.Name,
				Where: reports.SuitePlace{File: subject, Line: line, Column: column}})
		}
	}
	return out
}

// contractKey is the key of a contract that promises an invariant: the first that it needs.
func contractKey(invariant string) string {
	if _, ofNode, found := strings.Cut(invariant, "/"); found {
		invariant = ofNode
	}
	if key, known := map[string]string{"dlq-fidelity": "dlq/envelope", "halt-on-dlq-failure": "dlq/on_failure",
		"classification": "classes", "graceful-stop": "stop", "stays-up": "on_error"}[invariant]; known {
		return key
	}
	for _, about := range assertions.Explain(invariant) {
		key, _, _ := strings.Cut(about.Contract, ":")
		return key
	}
	return ""
}
