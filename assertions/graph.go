package assertions

// Judging a graph of nodes. Every node is an ordinary consumer and is judged as one, by its own contract, on its own
// part of the run's history. In addition, the graph as a whole must keep every document (graph-conservation).
//
//	walk 1   the copies of documents in the nodes' inputs (graph_copies.go)
//	walk 2   the passage of each copy (graph_passage.go)
//	then     the checkers judge each node's history, expressed in copies (graph_node.go)
//	then     graph-conservation concludes, with the disruptions that the nodes' histories show (graph_conservation.go)
//
// Load, latency and faults in the verdict are those of the entry node, to which the workload sends. Resource usage of
// instances and attempts per record cover all nodes.

import (
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// graphTopology is the topology of a graph of nodes.
type graphTopology struct {
	*graphWalk
	source history.Source
	states []*state
}

func newGraphTopology(source history.Source, header *history.Header) (topology, error) {
	if err := soundGraph(header); err != nil {
		return nil, err
	}
	walk, err := walkGraph(source, header)
	return &graphTopology{graphWalk: walk, source: source}, err
}

func (g *graphTopology) views() []history.Source {
	var all []history.Source
	for node := range g.header.Consumers {
		all = append(all, nodeHistory{view{g.source}, g.graphWalk, node})
	}
	return all
}

// adopt adds a node's results under the node's name, and its counterexamples under their documents' names. Results that
// do not apply to a node are left out.
func (g *graphTopology) adopt(node int, one, first *judgement) []Result {
	g.states = append(g.states, one.judge.state)
	if b := one.measured.Usage.Busiest; b != nil {
		g.rename(node, &b.Record, new(string), nil)
	}
	if node > 0 {
		first.measured.JoinUsage(one.measured)
	}
	var kept []Result
	for _, result := range one.verdict.Invariants {
		if result.Status == NotApplicable || result.Name == graphConservation {
			continue
		}
		result.Name = g.name(node) + "/" + result.Name
		for i := range result.Anomalies {
			a := &result.Anomalies[i]
			for k := range a.Counterexamples {
				g.rename(node, &a.Counterexamples[k].Record, &a.Counterexamples[k].ID, &a.Counterexamples[k].Command)
			}
			for k := range a.Records {
				g.rename(node, &a.Records[k].Record, &a.Records[k].ID, nil)
			}
			if a.First != nil {
				g.rename(node, &a.First.Record, &a.First.ID, &a.First.Command)
			}
		}
		kept = append(kept, result)
	}
	return kept
}

func (g *graphTopology) whole(entry *judgement) ([]Result, error) {
	if wanted := g.header.Expect.Invariants; len(wanted) > 0 && !slices.Contains(wanted, graphConservation) {
		return nil, nil
	}
	result := entry.judge.weaken(g.conclude(func(ref copyRef) int {
		w := g.states[ref.node]
		return w.disruptions(ref.number, w.record(ref.number))
	}))
	if err := g.w.fillTraces(ordered{g.source}, &Verdict{Invariants: []Result{result}}); err != nil &&
		entry.judge.broken == nil {
		return nil, fmt.Errorf("gathering the traces of the counterexamples: %w", err)
	}
	return []Result{result}, nil
}

// soundGraph returns an error for a header whose graph has dangling references.
func soundGraph(h *history.Header) error {
	topic := func(index int16) bool { return index >= 0 && int(index) < len(h.Topics) }
	sound := len(h.Consumers) > 0 && topic(h.Graph.Sink)
	for _, node := range h.Consumers {
		sound = sound && topic(node.Input) && topic(node.DLQ) && topic(node.Quarantine)
		for _, edge := range node.Edges {
			sound = sound && edge.To >= 0 && edge.To < len(h.Consumers)
		}
	}
	if !sound {
		return fmt.Errorf(
			"judging the history of run %q: the graph in its header refers to nodes or topics that it does not have", h.RunID)
	}
	return nil
}

// walkGraph walks through the history twice.
func walkGraph(source history.Source, header *history.Header) (*graphWalk, error) {
	index := newGraphIndex(header)
	inTime := ordered{source}
	if err := inTime.Each(index.take); err != nil && !damaged(source) {
		return nil, fmt.Errorf("looking for the copies of documents: %w", err)
	}
	index.finish()
	walk := newGraphWalk(index, newState(header))
	if err := inTime.Each(walk.take); err != nil && !damaged(source) {
		return nil, fmt.Errorf("following the documents: %w", err)
	}
	walk.w.finish()
	return walk, nil
}

// rename replaces the number of a node's copy by that of its document, and adapts the id and the command (if there is
// one).
func (g *graphWalk) rename(node int, number *int32, id, command *string) {
	if *number < 0 || int(*number) >= len(g.copies[node]) {
		return
	}
	*number = g.copies[node][*number].document
	*id = g.ids.Token(*number)
	if command != nil {
		*command = fmt.Sprintf("dlqbench show-record %s %d", g.header.RunID, *number)
	}
}
