package generate

// This file simulates graphs. The simulated consumers are the engines of nodes. A node passes on what it has processed,
// dead-letters failures in a topic of its own, and quarantines documents that were replayed too often.

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// LastNode is the name of the node after which documents leave a generated graph.
const LastNode = "last"

// Graph makes a correct history of a graph of nodes.
func Graph(c Choices) *History {
	s := &simulation{Choices: c, h: &History{}, logs: map[spot]*topicLog{}}
	s.calm = !chance(c, 3)
	s.h.Header = s.drawHeader()
	s.drawGraph(&s.h.Header)
	return s.run()
}

func (s *simulation) graph() *history.Graph { return s.h.Header.Graph }

func (s *simulation) nodes() []history.Consumer { return s.h.Header.Consumers }

// topics are the audited topics.
func (s *simulation) topics() []int16 {
	all := make([]int16, len(s.h.Header.Topics))
	for i := range all {
		all[i] = int16(i)
	}
	return all
}

// drawGraph adds a graph to the header: two nodes, three in a row, or a branch that joins again.
func (s *simulation) drawGraph(h *history.Header) {
	edges := pick(s, [][]int{{1}, nil}, [][]int{{1}, {2}, nil}, [][]int{{1, 2}, {3}, {3}, nil})
	contract := *h.Contract()
	contract.Retry, contract.Counter, contract.Envelope, contract.SkipsTombstones = history.RetryInPlace,
		history.CounterMemory, "plain", false
	contract.KeepsHeaders = false
	h.Topics, h.Consumers, h.Instances, h.Replay = nil, nil, 0, chance(s, 2)
	h.Graph = &history.Graph{MaxReprocess: 1 + s.Intn(2)}
	topic := func(name string, role history.Role) int16 {
		h.Topics = append(h.Topics, history.Topic{Name: "generated." + name, Role: role, Partitions: partitions})
		return int16(len(h.Topics) - 1)
	}
	for i, next := range edges {
		node := history.Consumer{Name: []string{"first", "left", "right"}[min(i, 2)], Group: "generated",
			First: h.Instances, Instances: 1 + s.Intn(2), Contract: contract}
		role := history.RoleNode
		if i == 0 {
			role = history.RoleInput
		}
		if next == nil {
			node.Name = LastNode
		}
		node.Input = topic("in."+node.Name, role)
		for _, to := range next {
			node.Edges = append(node.Edges, history.Edge{To: to, Weight: 1 + s.Intn(2)})
		}
		node.Contract.MaxAttempts = 1 + s.Intn(3)
		h.Instances += node.Instances
		h.Consumers = append(h.Consumers, node)
	}
	for i := range h.Consumers {
		node := &h.Consumers[i]
		node.DLQ, node.Quarantine = topic("dlq."+node.Name, history.RoleDLQ),
			topic("quarantine."+node.Name, history.RoleQuarantine)
	}
	h.Graph.Sink = topic("sink", history.RoleSink)
}

// nodeOf is the node of an instance.
func (s *simulation) nodeOf(instance int) int {
	return s.h.Header.ConsumerOf(int16(instance))
}

// readers are the processes that may own the partition.
func (s *simulation) readers(at spot) []*process {
	if s.graph() == nil {
		return s.processes
	}
	node := s.h.Header.ReaderOf(at.topic)
	return slices.DeleteFunc(slices.Clone(s.processes), func(p *process) bool { return p.node != node })
}

// contract is what the process promises.
func (p *process) contract() *history.Contract {
	return &p.nodes()[p.node].Contract
}

// planNodes draws the outcome of a document at each module.
func (s *simulation) planNodes(r *planned, outcomes []history.Outcome) {
	if s.graph() == nil {
		return
	}
	r.nodes = []*planned{r}
	for range s.nodes()[1:] {
		other := *r
		other.outcome, other.failures, other.nodes = pick(s, outcomes...), 1+s.Intn(2), nil
		r.nodes = append(r.nodes, &other)
	}
}

// plan is the record's plan at its current node.
func (w *work) plan() *planned {
	if w.process.graph() == nil {
		return w.record
	}
	return w.record.nodes[w.process.node]
}

// succeed finishes the record. In a graph, the processed record is passed on first.
func (w *work) succeed() {
	p := w.process
	if p.graph() == nil {
		w.finish()
		return
	}
	next := p.h.Header.Next(p.node, p.h.Header.IDs().Token(w.record.number))
	w.write(spot{next, w.at.partition}, entry{record: w.record.number, replays: w.replays}, nil)
}

// deadLetterTopic is the topic for records that have failed for good.
func (w *work) deadLetterTopic() int16 {
	g := w.process.graph()
	switch {
	case g == nil:
		return dlqTopic
	case w.replays >= g.MaxReprocess:
		return w.process.nodes()[w.process.node].Quarantine
	}
	return w.process.nodes()[w.process.node].DLQ
}

// deadLetterAt is the position of a dead letter.
type deadLetterAt struct {
	spot
	offset int64
}

// replayRounds replays the dead letters of every node in several rounds, each dead letter once.
func (s *simulation) replayRounds() {
	s.phase(history.PhaseReplay)
	taken := map[deadLetterAt]bool{}
	sequence := int32(0)
	for range 1 + s.Intn(3) {
		for n := range s.nodes() {
			node := &s.nodes()[n]
			s.audit(node.DLQ)
			var back []entry
			for partition := range int32(partitions) {
				for offset, one := range s.logs[spot{node.DLQ, partition}].entries {
					at := deadLetterAt{spot{node.DLQ, partition}, int64(offset)}
					if taken[at] || s.Intn(3) == 0 {
						continue
					}
					taken[at] = true
					e := s.event(history.KindReplaySelected)
					e.Record, e.Topic, e.Partition, e.Offset = one.record, at.topic, at.partition, at.offset
					s.put(e)
					back = append(back, one)
				}
			}
			for _, one := range back {
				if plan := s.records[one.record].nodes[n]; s.Intn(2) == 0 {
					plan.outcome = history.OutcomeSuccess // the module accepts it this time
				}
				s.later(ms)
				s.sendBack(sequence, one)
				sequence++
			}
		}
		s.drain()
	}
}
