package scenarios

// A graph of nodes (Pipestream): what is written, what it means, and what can be wrong with it.

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/history"
)

// DefaultMaxReprocess is how often a document may have been replayed and still be dead-lettered.
const DefaultMaxReprocess = 3

// Graph makes the subject a graph of reference consumers, each the engine of one node: it has an input topic, a
// dead-letter topic dlq.<cluster>.<node> and a quarantine topic dlq.<cluster>.<node>.quarantine of its own, and calls
// its module by gRPC.
type Graph struct {
	// Cluster stands in the names of the dead-letter topics; default prod.
	Cluster string `json:"cluster,omitempty" jsonschema:"pattern=^[a-z0-9][a-z0-9-]{0\\,31}$"`
	// Nodes, the entry first: that is where the workload sends documents. No edge may lead back.
	Nodes []GraphNode `json:"nodes" jsonschema:"required,minItems=1,maxItems=16"`
	// MaxReprocess is how often a document may be replayed: one that fails again after that is quarantined. Default 3.
	MaxReprocess int `json:"max_reprocess,omitempty" jsonschema:"minimum=1,maximum=100"`
}

// GraphNode is one node.
type GraphNode struct {
	// Name is short: lower-case letters, digits, dashes.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9][a-z0-9-]{0\\,31}$"`
	// Instances, 1 to 16; default 1. All nodes together have 16 at most.
	Instances int `json:"instances,omitempty" jsonschema:"minimum=1,maximum=16"`
	// Settings of its consumer; by default 3 attempts, 25 ms apart and doubling up to 250 ms.
	Settings consumer.Settings `json:"settings,omitempty"`
	// Edges are where documents go on; without any they leave the graph here.
	Edges []GraphEdge `json:"edges,omitempty"`
	// Outcomes are the weights of what its module makes of documents; default: success 100.
	Outcomes Outcomes `json:"outcomes,omitempty"`
}

// GraphEdge leads to another node. A document takes exactly one edge out of a node: FNV-1a (64 bits) of its id, "/" and
// the node's name, modulo the sum of the weights, says which.
type GraphEdge struct {
	// To is a node's name.
	To string `json:"to" jsonschema:"required"`
	// Weight, from 1; default 1.
	Weight int `json:"weight,omitempty" jsonschema:"minimum=1,maximum=1000000"`
}

// UnmarshalJSON reads a graph over its defaults.
func (g *Graph) UnmarshalJSON(data []byte) error {
	type plain Graph
	*g = Graph{Cluster: "prod", MaxReprocess: DefaultMaxReprocess}
	return json.Unmarshal(data, (*plain)(g))
}

// UnmarshalJSON reads a node over its defaults: attempts and waits are those of Pipestream's engine.
func (n *GraphNode) UnmarshalJSON(data []byte) error {
	type plain GraphNode
	filled := plain{Instances: 1, Settings: consumer.DefaultSettings()}
	filled.Settings.RetryBackoffMS, filled.Settings.MaxRetryBackoffMS, filled.Settings.RetryJitterMS = 25, 250, 0
	if err := json.Unmarshal(data, &filled); err != nil {
		return err
	}
	if filled.Outcomes == (Outcomes{}) {
		filled.Outcomes.Success = 100
	}
	*n = GraphNode(filled)
	return nil
}

// UnmarshalJSON reads an edge over its defaults.
func (e *GraphEdge) UnmarshalJSON(data []byte) error {
	type plain GraphEdge
	*e = GraphEdge{Weight: 1}
	return json.Unmarshal(data, (*plain)(e))
}

// Index returns the index of the named node, -1 if there is none.
func (g *Graph) Index(name string) int {
	return slices.IndexFunc(g.Nodes, func(n GraphNode) bool { return n.Name == name })
}

// First returns the number of the node's first instance; instances are numbered through all nodes, in the order in
// which these are written.
func (g *Graph) First(node int) int {
	first := 0
	for _, one := range g.Nodes[:node] {
		first += one.Instances
	}
	return first
}

// Instances is the number of instances of all nodes.
func (g *Graph) Instances() int { return g.First(len(g.Nodes)) }

// Contract is what a node promises: what its settings say, dead letters in the dialect of Pipestream, and only of the
// entry, which the workload feeds, that failing documents leave the pace of the others alone: at the other nodes that
// is up to the nodes before them.
func (g *Graph) Contract(node int) history.Contract {
	contract := ReferenceContract(Reference{Instances: g.Nodes[node].Instances, Settings: g.Nodes[node].Settings})
	contract.Envelope, contract.KeepsHeaders = deadletter.PipestreamName, false
	if node > 0 {
		contract.Isolation = 0
	}
	return contract
}

// Resolve returns the fault as it is carried out: instances of a node are numbered within it, those of the run through
// all nodes.
func (g *Graph) Resolve(spec catalogue.Spec) catalogue.Spec {
	if g == nil || spec.Subject == nil || spec.Subject.Node == "" {
		return spec
	}
	subject, instance := *spec.Subject, g.First(max(g.Index(spec.Subject.Node), 0))
	if subject.Instance != nil {
		instance += *subject.Instance
	}
	subject.Instance, spec.Subject = &instance, &subject
	return spec
}

// checkGraph checks the graph and what does not go with one.
func (c *checker) checkGraph() {
	if c.s.Graph == nil || !c.sound("/graph") {
		return
	}
	for path, why := range map[string]string{
		"/subject":             "a graph is the subject: its nodes have their own instances and settings; leave subject out",
		"/workload/outcomes":   "in a graph each node has its own outcomes: graph.nodes[0].outcomes; leave these out",
		"/workload/failing":    "in a graph each node has its own outcomes, so whole partitions can't be made to fail",
		"/workload/tombstones": "a graph takes documents only: a tombstone has none",
		"/workload/garbage":    "a graph takes documents only: random bytes are none",
		"/workload/malformed":  "a graph takes documents only: malformed records are none",
		"/topics/dlq/broker":   "a graph has a dead-letter topic for each node: they can't all have a broker of their own",
	} {
		c.refuseIf(c.has(path), path, "%s", why)
	}
	if !c.allSound("/graph") {
		return
	}
	c.checkNodes()
	c.checkEdges()
	if count := c.s.Graph.Instances(); count > maxInstances {
		c.at("/graph/nodes", "the nodes have %d instances in all; a run can have %d at most", count, maxInstances)
	}
	for i, fault := range c.s.Written() {
		if base := c.s.faultPath(i); c.allSound(base) {
			c.checkNodeFault(base, fault)
		}
	}
}

func (c *checker) checkNodes() {
	seen := map[string]int{}
	for i := range c.s.Graph.Nodes {
		node, base := &c.s.Graph.Nodes[i], fmt.Sprintf("/graph/nodes/%d", i)
		if first, twice := seen[node.Name]; twice {
			c.at(base+"/name", "the name %s is taken by nodes[%d]", node.Name, first)
		}
		seen[node.Name] = i
		settings := node.Settings
		if err := settings.Validate(); err != nil {
			c.at(base+"/settings", "%s", err)
		}
		c.checkPlain(base+"/settings/", "a node", settings)
	}
}

// checkEdges: every edge leads to a node that is written, every node but the first has one that leads to it, and none
// leads back.
func (c *checker) checkEdges() {
	graph := c.s.Graph
	reached := map[int]bool{0: true}
	var names []string
	for _, node := range graph.Nodes {
		names = append(names, node.Name)
	}
	for i, node := range graph.Nodes {
		for k, edge := range node.Edges {
			path := fmt.Sprintf("/graph/nodes/%d/edges/%d/to", i, k)
			to := graph.Index(edge.To)
			switch {
			case to < 0:
				c.hinted(path, fmt.Sprintf("there is no node %s", edge.To), hint(edge.To, names))
			case to == 0:
				c.at(path, "the first node is the entry: no edge can lead to it")
			case graph.leads(to, i, len(graph.Nodes)):
				c.at(path, "this edge closes a cycle: from %s documents come back to %s", edge.To, node.Name)
			}
			reached[to] = true
		}
	}
	for i, node := range graph.Nodes {
		c.refuseIf(!reached[i] && graph.Index(node.Name) == i, fmt.Sprintf("/graph/nodes/%d/name", i),
			"no edge leads to %s: the first node is the entry, and there is only one", node.Name)
	}
}

// leads reports whether a way of so many edges at most leads from one node to the other.
func (g *Graph) leads(from, to, steps int) bool {
	if from == to {
		return true
	}
	if from < 0 || steps == 0 {
		return false
	}
	return slices.ContainsFunc(g.Nodes[from].Edges, func(e GraphEdge) bool { return g.leads(g.Index(e.To), to, steps-1) })
}

// checkNodeFault: which node and instance a fault means must be clear.
func (c *checker) checkNodeFault(base string, fault catalogue.Spec) {
	subject := fault.Subject
	if subject == nil {
		return
	}
	if subject.ScaleUp > 0 || subject.ScaleDown > 0 {
		c.at(base+"/subject", "the nodes of a graph don't scale: each has the instances that are written")
		return
	}
	if subject.All {
		return
	}
	at := c.s.Graph.Index(subject.Node)
	if at < 0 {
		return // said by the faults themselves
	}
	if count := c.s.Graph.Nodes[at].Instances; subject.Instance != nil && *subject.Instance >= count {
		c.at(base+"/subject/instance", "there is no instance %d: node %s has %d, numbered from 0", *subject.Instance,
			subject.Node, count)
	}
}

// nodeNames are the names that faults can refer to.
func (s *Scenario) nodeNames() []string {
	if s.Graph == nil {
		return nil
	}
	var names []string
	for _, node := range s.Graph.Nodes {
		names = append(names, node.Name)
	}
	return names
}

// outcomes are those of all nodes together.
func (g *Graph) outcomes() Outcomes {
	var all Outcomes
	for _, node := range g.Nodes {
		all.Exhausted += node.Outcomes.Exhausted
		all.Permanent += node.Outcomes.Permanent
	}
	return all
}
