package plan

// The plan of a graph of nodes: the outcome of each record at each node.

import (
	"slices"

	"github.com/dlqbench/dlqbench/scenarios"
)

// addNodes draws, for each node of a graph, the outcomes that its module gives the records. Each node has separate
// random streams, derived from its name.
func (p *Plan) addNodes(s *scenarios.Scenario) {
	if s.Graph == nil {
		return
	}
	for i, node := range s.Graph.Nodes {
		view := &Plan{Seed: p.Seed, Records: slices.Clone(p.Records)}
		for k := range view.Records {
			record := &view.Records[k]
			record.Failures, record.Healed, record.FailsAgain = 0, false, false
		}
		view.addOutcomes(node.Outcomes, "outcomes of "+node.Name)
		view.addReplay(s.Replay, "replay of "+node.Name)
		if i == 0 {
			p.Records = view.Records
			continue
		}
		p.Nodes = append(p.Nodes, view.Records)
	}
}

// Node returns the plan from the view of a node of the graph. Nodes are numbered from 0, the entry.
func (p *Plan) Node(node int) *Plan {
	if node == 0 {
		return p
	}
	view := *p
	view.Records = p.Nodes[node-1]
	return &view
}
