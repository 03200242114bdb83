package assertions

// Judging a graph of nodes: every node is an ordinary consumer and is judged as one, by its own contract, on its own
// history, which is taken out of the run's. Beyond that the graph as a whole keeps every document (graph-conservation).
//
//	walk 1   the copies of documents in the nodes' inputs (graph_copies.go)
//	walk 2   what became of each copy (graph_passage.go)
//	then     each node's history, retold in copies, to the checkers (graph_node.go)
//	then     graph-conservation concludes, with the disruptions that the nodes' histories show (graph_conservation.go)
//
// What the verdict says of load, latency and faults is the entry's, which is where the workload sends. What it says of
// what instances use, and of how often a record is attempted, is of all nodes.

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

// adopt names the results of a node after it, and its counterexamples after their documents. What does not apply to a
// node is left out.
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

// soundGraph refuses a header whose graph refers to what is not there.
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

// rename turns the number of a node's copy into that of its document, and the id and the command (if there is one) with
// it.
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
