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
	"errors"
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
)

// judgeGraph judges the history of a graph.
func judgeGraph(source history.Source) (*Verdict, *measure.Measurements, error) {
	header := source.Header()
	if err := soundGraph(&header); err != nil {
		return nil, nil, err
	}
	walk, err := walkGraph(source, &header)
	if err != nil {
		return nil, nil, err
	}
	var entry *judge
	var verdict *Verdict
	var measurements *measure.Measurements
	states := make([]*state, len(header.Graph.Nodes))
	for node := range header.Graph.Nodes {
		j, one, measured, err := judgeOne(nodeHistory{source, walk, node})
		if err != nil {
			return nil, nil, fmt.Errorf("judging node %s: %w", header.Graph.Nodes[node].Name, err)
		}
		states[node] = j.state
		walk.adopt(node, one)
		if b := measured.Usage.Busiest; b != nil {
			walk.rename(node, &b.Record, new(string), nil)
		}
		if node == 0 {
			entry, verdict, measurements = j, one, measured
			continue
		}
		verdict.Invariants = append(verdict.Invariants, one.Invariants...)
		measurements.JoinUsage(measured)
	}
	verdict.Usage, verdict.Series, verdict.Thresholds = measurements.Usage, measurements.Series,
		entry.thresholds(measurements)
	if wanted := header.Expect.Invariants; len(wanted) == 0 || slices.Contains(wanted, graphConservation) {
		whole := entry.weaken(walk.conclude(func(ref copyRef) int {
			w := states[ref.node]
			return w.disruptions(ref.number, w.record(ref.number))
		}))
		if err := walk.w.fillTraces(ordered{source}, &Verdict{Invariants: []Result{whole}}); err != nil &&
			entry.broken == nil {
			return nil, nil, fmt.Errorf("gathering the traces of the counterexamples: %w", err)
		}
		verdict.Invariants = append([]Result{whole}, verdict.Invariants...)
		shortestFirst(verdict)
	}
	verdict.Reasons, verdict.ThresholdsMissed, verdict.Topics = []string{}, false, header.Topics
	entry.conclude(verdict, measurements)
	return verdict, measurements, nil
}

// soundGraph refuses a header whose graph refers to what is not there.
func soundGraph(h *history.Header) error {
	topic := func(index int16) bool { return index >= 0 && int(index) < len(h.Topics) }
	sound := len(h.Graph.Nodes) > 0 && topic(h.Graph.Sink)
	for _, node := range h.Graph.Nodes {
		sound = sound && topic(node.Input) && topic(node.DLQ) && topic(node.Quarantine)
		for _, edge := range node.Edges {
			sound = sound && edge.To >= 0 && edge.To < len(h.Graph.Nodes)
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

func damaged(source history.Source) bool {
	return errors.Join(damages(source)...) != nil
}

// damages are what a source that can tell says is missing of it.
func damages(source history.Source) []error {
	if whole, tells := source.(interface{ Damaged() []error }); tells {
		return whole.Damaged()
	}
	return nil
}

// sealed reports whether a source was written to its end; one that can't tell was.
func sealed(source history.Source) bool {
	whole, tells := source.(interface{ Sealed() bool })
	return !tells || whole.Sealed()
}

// adopt names the results of a node after it, and its counterexamples after their documents. What does not apply to a
// node is left out.
func (g *graphWalk) adopt(node int, verdict *Verdict) {
	kept := verdict.Invariants[:0]
	for _, result := range verdict.Invariants {
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
	verdict.Invariants = kept
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

// Damaged tells a node's judge what is missing.
func (n nodeHistory) Damaged() []error { return damages(n.Source) }
