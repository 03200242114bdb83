package plan

import (
	"os"
	"path/filepath"
	"reflect"
	"testing"

	"github.com/dlqbench/dlqbench/faults/subject"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

const graphScenario = `
name: graph
description: Two nodes.
graph:
  nodes:
    - {name: parse, instances: 2, edges: [{to: embed}], outcomes: {success: 50, exhausted: 50}}
    - {name: embed, instances: 2, outcomes: {success: 50, transient: {weight: 25, failures: 2}, permanent: 25}}
workload: {rate: 500/s, duration: 2s}
faults:
  - {at: 1s, subject: {node: embed, instance: 1, signal: KILL, restart_after: 100ms}}
replay: {healed: 50%}
`

func planOfGraph(t *testing.T, seed uint64) *Plan {
	t.Helper()
	scenario, err := scenarios.Parse("graph.yaml", []byte(graphScenario))
	if err != nil {
		t.Fatal(err)
	}
	p, err := Make(scenario, seed, nil, false)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestEveryNodeHasOutcomesOfItsOwn checks that the outcomes depend on the seed only, and that those of different
// nodes are independent of each other.
func TestEveryNodeHasOutcomesOfItsOwn(t *testing.T) {
	p := planOfGraph(t, 1)
	if !reflect.DeepEqual(p, planOfGraph(t, 1)) {
		t.Error("the same seed makes another plan")
	}
	if reflect.DeepEqual(p.Nodes, planOfGraph(t, 2).Nodes) {
		t.Error("another seed makes the same plan")
	}
	if len(p.Nodes) != 1 || len(p.Nodes[0]) != len(p.Records) || p.Node(0) != p {
		t.Fatalf("%d further nodes with %d records", len(p.Nodes), len(p.Nodes[0]))
	}
	both, healed, differ := map[[2]history.Outcome]int{}, 0, 0
	for i := range p.Records {
		here, there := p.Records[i], p.Node(1).Records[i]
		both[[2]history.Outcome{here.Outcome, there.Outcome}]++
		if here.At != there.At || here.Key != there.Key || here.Partition != there.Partition ||
			here.Warmup && there.Outcome != history.OutcomeSuccess {
			t.Fatalf("record %d is %+v at the entry and %+v behind it", i, here, there)
		}
		if here.Outcome == history.OutcomeExhausted && there.Outcome == history.OutcomePermanent &&
			here.Healed != there.Healed {
			differ++
		}
		if there.Healed {
			healed++
			if there.Outcome != history.OutcomePermanent {
				t.Errorf("record %d is healed and was never to fail: %+v", i, there)
			}
		}
	}
	for _, pair := range [][2]history.Outcome{
		{history.OutcomeSuccess, history.OutcomeSuccess}, {history.OutcomeSuccess, history.OutcomePermanent},
		{history.OutcomeExhausted, history.OutcomeTransient}, {history.OutcomeExhausted, history.OutcomePermanent},
	} {
		if both[pair] < 50 {
			t.Errorf("%v and %v meet %d times", pair[0], pair[1], both[pair])
		}
	}
	if healed < 50 || differ < 20 {
		t.Errorf("%d records are healed at the second node, %d at one node only of two", healed, differ)
	}
	dir := t.TempDir()
	if err := p.Write(dir); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(dir, "plan-records-node-1.csv.gz")); err != nil {
		t.Error(err)
	}
}

// TestAFaultsInstanceIsCountedThroughAllNodes: the second instance of the second node is number 3.
func TestAFaultsInstanceIsCountedThroughAllNodes(t *testing.T) {
	fault := planOfGraph(t, 1).Faults[0]
	if *fault.Fault.(*subject.Subject).Instance != 3 || fault.Target != "instance 3" {
		t.Errorf("the fault hits %s, number %d", fault.Target, *fault.Fault.(*subject.Subject).Instance)
	}
}
