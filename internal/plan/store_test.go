package plan

import (
	"reflect"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

// TestAStoreLeavesThePlanAsItWas: the outcomes of the workers' attempts are drawn separately.
func TestAStoreLeavesThePlanAsItWas(t *testing.T) {
	const text = `
name: with-store
description: A store.
workload: {rate: 500/s, duration: 4s, outcomes: {success: 60, exhausted: 40}}
`
	made := func(text string) *Plan {
		t.Helper()
		scenario, err := scenarios.Parse("x", []byte(text))
		if err != nil {
			t.Fatal(err)
		}
		plan, err := Make(scenario, 7, nil, false)
		if err != nil {
			t.Fatal(err)
		}
		return plan
	}
	without, with := made(text), made(text+"store: {outcomes: {success: 50, transient: {weight: 50, failures: 2}}}")
	if !reflect.DeepEqual(without.Records, with.Records) || without.Store != nil || len(with.Store) != len(with.Records) {
		t.Error("the store changed what the subject is answered")
	}
	counts := map[history.Outcome]int{}
	for i := range with.Store {
		if record := &with.Store[i]; !record.Warmup {
			counts[record.Outcome]++
			if record.Outcome == history.OutcomeTransient && record.Failures != 2 {
				t.Fatalf("record %d fails %d times", i, record.Failures)
			}
		}
	}
	if half := len(with.Store) / 3; counts[history.OutcomeSuccess] < half ||
		counts[history.OutcomeTransient] < half || len(counts) != 2 {
		t.Errorf("the workers are answered %v", counts)
	}
	// Republished records succeed, because a record that failed again would be republished without end.
	republished := made(text + "store: {retry: republish}")
	exhausted := 0
	for i := range republished.Records {
		if record := &republished.Records[i]; record.Outcome == history.OutcomeExhausted {
			exhausted++
			if !record.Healed {
				t.Errorf("record %d is not healed", i)
			}
		}
	}
	if exhausted == 0 {
		t.Error("nothing is dead-lettered")
	}
}
