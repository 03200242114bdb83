package proof

import (
	"context"
	"errors"
	"maps"
	"path/filepath"
	"slices"
	"testing"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/programtest"
	"github.com/dlqbench/dlqbench/scenarios"
)

// A stranger is accused of its own mistakes, in the shipped scenarios and on the client's own schedule: the consumer on
// librdkafka makes one of these where its environment says so.
func TestBugsOfAStrangerAreNamed(t *testing.T) {
	if testing.Short() {
		t.Skip("builds a Python consumer and runs it for minutes")
	}
	folder := filepath.Join("..", "..", "test", "strangers", "confluent-kafka")
	file := filepath.Join(folder, "subject.yaml")
	subject, err := scenarios.LoadSubject(file)
	if err != nil {
		t.Fatal(err)
	}
	var absent absentError
	if err := buildIn(context.Background(), folder, subject.Build); errors.As(err, &absent) {
		t.Skip(absent)
	} else if err != nil {
		t.Fatal(err)
	}
	subject.Build = nil
	program, err := programtest.Build(t.TempDir())
	if err != nil {
		t.Fatal(err)
	}
	config := &Config{Executable: program, Dir: t.TempDir(), Log: zerolog.Nop()}
	for _, bug := range []struct{ name, scenario, invariant string }{
		{"letter-not-awaited", "dlq-publish-failure", "commit-after-dlq"},
		{"delivery-error-ignored", "dlq-publish-failure", "commit-after-dlq"},
		{"garbage-committed", "hostile-payloads", "no-loss"},
		{"skips-at-rebalance", "scale-up-and-down", "no-loss"},
	} {
		planted := *subject
		planted.Env = maps.Clone(subject.Env)
		planted.Env["PLANTED_BUG"] = bug.name
		text, _ := scenarios.Shipped(bug.scenario)
		outcome, err := config.run(context.Background(), trial{
			name: bug.name, scenario: text, seed: 1, sets: []string{strangerSlip}, subject: &planted, subjectFile: file,
			rerun: "seed %d",
		})
		if err != nil {
			t.Fatal(err)
		}
		named := slices.ContainsFunc(outcome.Verdict.Invariants, func(r assertions.Result) bool {
			return r.Name == bug.invariant && r.Status == assertions.Fail
		})
		if outcome.Verdict.Verdict != assertions.Fail || !named {
			t.Errorf("%s in %s: %s with %v, not a violation of %s",
				bug.name, bug.scenario, outcome.Verdict.Verdict, outcome.Verdict.Reasons, bug.invariant)
		}
	}
}
