package plan_test

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Two members that are killed one after another cost two sessions of 45 s, and the second kill still waits for a dead
// letter, so the load must last that long.
func TestSpareLoadOutlastsSessions(t *testing.T) {
	text, _ := scenarios.Shipped("kill-between-dlq-and-commit")
	scenario, err := scenarios.Parse("kill-between-dlq-and-commit", text)
	if err != nil {
		t.Fatal(err)
	}
	made, err := plan.Make(scenario, 1, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	const sessions = 2*45*time.Second + 30*time.Second
	last, longest := made.Records[made.Due()].At, time.Duration(0)
	for _, record := range made.Records[made.Due():] {
		longest, last = max(longest, record.At-last), record.At
	}
	if end := made.WarmUp + made.Steady; last-end < sessions || longest > time.Second {
		t.Errorf("the spare load ends %v after the steady phase, want %v; its longest pause is %v", last-end, sessions,
			longest)
	}
}
