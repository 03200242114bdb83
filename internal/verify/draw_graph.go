package verify

// This file draws graphs for the soundness proof: nodes with individual settings, and the faults that can hit them.

import (
	"fmt"
	"strings"
)

// graphMode is the mode of a graph.
type graphMode struct {
	shape, protocol string
	instances       int // per node
}

func (m *graphMode) String() string {
	return fmt.Sprintf("graph: %s, %s, %d", m.shape, m.protocol, m.instances)
}

func graphModes() []mode {
	var all []mode
	for _, shape := range []string{"chain", "branch"} {
		for _, protocol := range []string{"classic", "consumer"} {
			for _, instances := range []int{1, 2} {
				all = append(all, mode{graph: &graphMode{shape, protocol, instances}, protocol: protocol})
			}
		}
	}
	return all
}

// node is one node of a graph. edges is in the syntax of the scenario.
type node struct {
	name, edges string
}

func (d *drawing) graphSettings() {
	weight := func() int { return 1 + d.random.IntN(3) }
	to := func(names ...string) string {
		var edges []string
		for _, name := range names {
			edges = append(edges, fmt.Sprintf("{to: %s, weight: %d}", name, weight()))
		}
		return "[" + strings.Join(edges, ", ") + "]"
	}
	d.mode.instances, d.brokers = d.mode.graph.instances, []int{1, 3}[d.random.IntN(2)]
	switch {
	case d.mode.graph.shape == "branch":
		d.nodes = []node{{"parse", to("chunk", "ocr")}, {"ocr", to("embed")}, {"chunk", to("embed")}, {"embed", "[]"}}
	case d.random.IntN(2) == 0:
		d.nodes = []node{{"parse", to("embed")}, {"embed", "[]"}}
	default:
		d.nodes = []node{{"parse", to("chunk")}, {"chunk", to("embed")}, {"embed", "[]"}}
	}
}

func (d *drawing) graphScenario(faults string) string {
	nodes := ""
	for _, one := range d.nodes {
		nodes += d.nodeSection(one)
	}
	replay := ""
	if d.random.IntN(3) == 0 {
		replay = fmt.Sprintf("replay: {rounds: %d, fail_again: %s}\n", 1+d.random.IntN(4), d.pick("20%", "40%"))
	}
	return fmt.Sprintf(`name: soundness
description: A graph of correct consumers, under faults drawn from the seed.
cluster: {brokers: %d}
graph:
  max_reprocess: %d
  nodes:
%sworkload:
  rate: %d/s
  duration: 4500ms
  warm_up: 300ms
  error_text: %s
expect: {max_slip: 1s}
%sfaults:
%s`, d.brokers, 1+d.random.IntN(3), nodes, 80+40*d.random.IntN(3), d.pick("plain", "non-ascii", "long", "hostile"),
		replay, faults)
}

// nodeSection writes the section of a node. Each node has some failures, so that there is always something to replay
// and to dead-letter.
func (d *drawing) nodeSection(one node) string {
	outcomes := d.pick("success: 92, exhausted: 8",
		"success: 85, transient: {weight: 5, failures: 2}, logical: 5, exhausted: 4, permanent: 1",
		"success: 88, logical: 4, exhausted: 4, rate_limited: 1, timeout: 1, reset: 2")
	text := fmt.Sprintf("    - name: %s\n      instances: %d\n", one.name, d.mode.graph.instances)
	text += fmt.Sprintf("      settings: {max_retries: %d, retry_backoff_ms: %d, max_retry_backoff_ms: 250, ordering: "+
		"%s, group_protocol: %s, offset_metadata: %v}\n",
		2+d.random.IntN(3), 20+40*d.random.IntN(3), d.pick("none", "none", "key"), d.mode.protocol, d.random.IntN(4) == 0)
	return text + fmt.Sprintf("      edges: %s\n      outcomes: {%s}\n", one.edges, outcomes)
}

// graphTemplates are the faults that hit nodes, their modules and their produce requests.
func graphTemplates() []template {
	module := func(name, text string) template {
		return template{name: "downstream." + name + " module", write: func(d *drawing) string {
			return fmt.Sprintf("%s, downstream: {node: %s, %s}", d.span(), d.node(), text)
		}}
	}
	link := func(name, text string) template {
		return template{name: "network." + name + " module", write: func(d *drawing) string {
			return fmt.Sprintf("%s, network: {link: %s, %s}", d.span(), d.pick("downstream of "+d.node(), "brokers", "broker 1"),
				text)
		}}
	}
	all := []template{
		module("outage", "outage: true"), module("slow", "slow: 150ms"), module("hang", "hang: true"),
		module("rate_limit", "rate_limit: {rate: 20/s, retry_after: 1s}"),
		module("errors", "errors: {transient: 20%, permanent: 3%, logical: 2%, reset: 2%, timeout: 1%}"),
		module("error_text", "error_text: hostile"),
		link("latency", "latency: 40ms, jitter: 30ms"), link("reset", "reset: true"), link("timeout", "timeout: true"),
		link("down", "down: true"),
		link("half_open", "half_open: true"), link("limit_data", "limit_data: 1KiB"),
		link("slicer", "slicer: {size: 100B, delay: 100us}"), link("bandwidth", "bandwidth: 128KiB"),
	}
	return append(append(all, engineTemplates()...), writeTemplates()...)
}

// node draws the name of a node.
func (d *drawing) node() string { return d.nodes[d.random.IntN(len(d.nodes))].name }

// engineTemplates are the faults that hit the processes of the nodes.
func engineTemplates() []template {
	engine := func(name, when, text string, lasting bool) template {
		return template{name: "subject." + name + " engine", write: func(d *drawing) string {
			at := d.at()
			if lasting {
				at = d.span()
			}
			if when != "" {
				at += ", when: " + when
			}
			return fmt.Sprintf("%s, subject: {node: %s, instance: %d, %s}", at, d.node(), d.instance(), text)
		}}
	}
	backoff := engine("signal TERM", "backoff", "signal: TERM, restart_after: 300ms", false)
	backoff.name = "subject.signal TERM backoff engine"
	return []template{
		engine("signal KILL", "", "signal: KILL, restart_after: 500ms", false),
		engine("signal TERM", "", "signal: TERM, restart_after: 300ms", false), backoff,
		engine("signal STOP", "", "signal: STOP", true), engine("restart", "", "restart: true", false),
		{name: "subject.restart all", write: func(*drawing) string {
			return "at: 300ms, subject: {all: true, every: 300ms, restart: true}"
		}},
	}
}

// writeTemplates are the faults that hit the nodes' requests to Kafka: records passed on, dead letters, commits.
func writeTemplates() []template {
	rule := func(name, api, rest string) template {
		return template{name: "kafka." + name + " " + api, write: func(d *drawing) string {
			of := d.pick("", fmt.Sprintf("instance: %d, ", d.random.IntN(len(d.nodes)*d.mode.graph.instances)))
			return fmt.Sprintf("%s, kafka: {api: %s, %s%s}", d.span(), api, of, rest)
		}}
	}
	return []template{
		rule("error", "Produce", "error: NOT_ENOUGH_REPLICAS"), rule("delay_response", "Produce", "delay_response: 250ms"),
		rule("drop_response", "Produce", "probability: 50%, drop_response: true"),
		rule("drop_request", "Produce", "probability: 50%, drop_request: true"),
		rule("error", "OffsetCommit", "error: COORDINATOR_NOT_AVAILABLE"),
		rule("drop_response", "OffsetCommit", "probability: 50%, drop_response: true"),
		rule("close", "Fetch", "every_nth: 3, close: true"),
	}
}
