package history

import (
	"hash/fnv"
	"slices"
)

// The roles of the topics of a graph of nodes, beside RoleInput (the entry's input topic) and RoleDLQ.
const (
	// RoleNode: the input topic of a node that is not the entry.
	RoleNode Role = "node"
	// RoleSink: what leaves the graph.
	RoleSink Role = "sink"
	// RoleQuarantine: what was replayed too often.
	RoleQuarantine Role = "quarantine"
)

// Graph is a graph of nodes, each a consumer with topics of its own. The first node is the entry: what the workload
// sends enters there.
type Graph struct {
	Nodes []Node `json:"nodes"`
	// Sink is the topic of what leaves the graph (index in Header.Topics).
	Sink int16 `json:"sink"`
	// MaxReprocess is how often a document may have been replayed and still be dead-lettered; after that it is
	// quarantined.
	MaxReprocess int `json:"max_reprocess"`
}

// Node is one node of a graph; topics are indices in Header.Topics.
type Node struct {
	Name       string `json:"name"`
	Input      int16  `json:"input"`
	DLQ        int16  `json:"dlq"`
	Quarantine int16  `json:"quarantine"`
	Group      string `json:"group"`
	// First is the number of its first instance, Instances how many it has.
	First     int `json:"first_instance"`
	Instances int `json:"instances"`
	// Edges are where documents go on; none: they leave the graph.
	Edges    []Edge   `json:"edges,omitempty"`
	Contract Contract `json:"contract"`
}

// Edge leads to the node with this index in Graph.Nodes.
type Edge struct {
	To     int `json:"to"`
	Weight int `json:"weight"`
}

// Next is the topic in which the document goes on after the node: the input of the node that its edge leads to, or the
// sink. A document takes exactly one edge out of a node: FNV-1a (64 bits) of the document's id, "/" and the node's
// name, modulo the sum of the weights, falls into the weight of one of them, in the order in which they are written.
func (g *Graph) Next(node int, id string) int16 {
	at := &g.Nodes[node]
	total := 0
	for _, edge := range at.Edges {
		total += edge.Weight
	}
	if total <= 0 {
		return g.Sink
	}
	digest := fnv.New64a()
	_, _ = digest.Write([]byte(id + "/" + at.Name)) // a digest never fails
	draw := int(digest.Sum64() % uint64(total))
	for _, edge := range at.Edges {
		if draw -= edge.Weight; draw < 0 {
			return g.Nodes[edge.To].Input
		}
	}
	return g.Sink
}

// NodeOf returns the index of the node that the instance belongs to, None if there is none.
func (g *Graph) NodeOf(instance int16) int {
	return slices.IndexFunc(g.Nodes, func(n Node) bool {
		return int(instance) >= n.First && int(instance) < n.First+n.Instances
	})
}

// Reader returns the index of the node whose input the topic is, None if there is none.
func (g *Graph) Reader(topic int16) int {
	return slices.IndexFunc(g.Nodes, func(n Node) bool { return n.Input == topic })
}
