package history

import "hash/fnv"

// The roles of topics in a graph of nodes, in addition to RoleInput (the input topic of the entry node) and RoleDLQ.
const (
	// RoleNode: the input topic of a node that is not the entry.
	RoleNode Role = "node"
	// RoleSink: the topic for documents that leave the graph, or another topic that the subject needs. What is in it is
	// not judged.
	RoleSink Role = "sink"
	// RoleQuarantine: the topic for documents that were replayed too often.
	RoleQuarantine Role = "quarantine"
)

// Graph makes the run's consumers the nodes of a graph. The first is the entry: what the workload sends enters there.
type Graph struct {
	// Sink is the topic of what leaves the graph (index in Header.Topics).
	Sink int16 `json:"sink"`
	// MaxReprocess is how often a document may have been replayed and still be dead-lettered; after that it is
	// quarantined.
	MaxReprocess int `json:"max_reprocess"`
}

// Edge leads to the node with this index in Header.Consumers.
type Edge struct {
	To     int `json:"to"`
	Weight int `json:"weight"`
}

// Next returns the topic to which the document goes after the node: the input topic of the node that its edge leads
// to, or the sink. A document takes exactly one edge out of a node. The edge is chosen by FNV-1a (64 bits) of the
// document's id, "/" and the node's name, modulo the sum of the weights: the result falls into the weight of one
// edge, in the order in which the edges are written.
func (h *Header) Next(node int, id string) int16 {
	at := &h.Consumers[node]
	total := 0
	for _, edge := range at.Edges {
		total += edge.Weight
	}
	if total <= 0 {
		return h.Graph.Sink
	}
	digest := fnv.New64a()
	_, _ = digest.Write([]byte(id + "/" + at.Name)) // a digest never fails
	draw := int(digest.Sum64() % uint64(total))
	for _, edge := range at.Edges {
		if draw -= edge.Weight; draw < 0 {
			return h.Consumers[edge.To].Input
		}
	}
	return h.Graph.Sink
}
