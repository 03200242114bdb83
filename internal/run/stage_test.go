package run

import (
	"testing"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/downstream"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/scenarios"
)

// A link costs each attempt and each fetch two more copies through the kernel, so it is there only where it is needed.
func TestLinksAreWhereNetworkFaultsAre(t *testing.T) {
	planned := func(fault faults.Fault) *plan.Plan {
		return &plan.Plan{Faults: []faults.Planned{{Fault: fault}}}
	}
	on := func(link string) *plan.Plan { return planned(&network.Network{Link: link, Down: true}) }
	broker := []string{"brokers", "dlq", "broker 1"}
	stub := []string{"downstream", "downstream of node-b", "downstream of instance 0"}
	for name, one := range map[string]struct {
		options      Options
		plan         *plan.Plan
		broker, stub bool
	}{
		"no fault":              {plan: &plan.Plan{}},
		"a fault on the broker": {plan: on("broker 1"), broker: true},
		"on all brokers":        {plan: on("brokers"), broker: true},
		"on another broker":     {plan: on("broker 2")},
		"on the downstream":     {plan: on("downstream"), stub: true},
		"on a node's modules":   {plan: on("downstream of node-b"), stub: true},
		"on another node's":     {plan: on("downstream of node-c")},
		"by the downstream":     {plan: planned(&downstream.Downstream{})},
		"by hand":               {plan: &plan.Plan{}, options: Options{Manual: &Manual{}}, broker: true, stub: true},
		"toxiproxy was asked for": {plan: &plan.Plan{}, options: Options{Cluster: ClusterOptions{Toxiproxy: "start"}},
			broker: true, stub: true},
		"a consumer of somebody else's": {plan: &plan.Plan{}, options: Options{Subject: &scenarios.SubjectFile{
			External: &scenarios.External{}}}, broker: true, stub: true},
	} {
		r := &run{options: one.options, plan: one.plan}
		if got := r.needsLink(broker); got != one.broker {
			t.Errorf("%s: a link to the broker is needed: %v", name, got)
		}
		if got := r.needsLink(stub); got != one.stub {
			t.Errorf("%s: a link to the downstream is needed: %v", name, got)
		}
		if !r.needsLink([]string{network.LinkStore}) {
			t.Errorf("%s: the connections to the store's database are not counted", name)
		}
	}
}
