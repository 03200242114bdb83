package history

import (
	"path/filepath"
	"reflect"
	"testing"
)

func TestConsumersByInstanceAndTopic(t *testing.T) {
	h := Header{
		Topics: []Topic{{Name: "in.orders"}, {Name: "retry-orders"}, {Name: "in.billing"}, {Name: "retry-billing"},
			{Name: "dlq", Role: RoleDLQ}},
		Consumers: []Consumer{{Name: "orders", Input: 0, ReplayTo: "retry-orders", Instances: 2},
			{Name: "billing", Input: 2, ReplayTo: "retry-billing", First: 2, Instances: 1}},
	}
	for instance, want := range map[int16]int{0: 0, 1: 0, 2: 1, 3: None, None: None, Replayer: None} {
		if have := h.ConsumerOf(instance); have != want {
			t.Errorf("instance %d is one of consumer %d, want %d", instance, have, want)
		}
	}
	for topic, want := range map[int16]int{0: 0, 1: 0, 2: 1, 3: 1, 4: None, 5: None, None: None} {
		if have := h.ReaderOf(topic); have != want {
			t.Errorf("topic %d is read by consumer %d, want %d", topic, have, want)
		}
	}
	if !h.Shared() || (&Header{Consumers: h.Consumers[:1]}).Shared() ||
		(&Header{Consumers: h.Consumers, Graph: &Graph{}}).Shared() {
		t.Error("only consumers that are no nodes of a graph share a dead-letter topic")
	}
}

// Headers of format 1 had the only consumer in the header itself, and nodes and services in separate lists.
func TestHeadersOfFormat1(t *testing.T) {
	const rest = `{"format": 1, "run_id": "r", "instances": 3, "topics": [{"name": "in"}, {"name": "back"}, {"name": ` +
		`"dlq"}], `
	for name, one := range map[string]struct {
		header string
		want   []Consumer
		graph  *Graph
	}{
		"one consumer": {
			`"group": "g", "contract": {"max_attempts": 3}, "replay_to": "back"}`,
			[]Consumer{{Group: "g", Instances: 3, DLQ: 1, ReplayTo: "back", Contract: Contract{MaxAttempts: 3}}}, nil,
		},
		"services": {
			`"group": "a", "contract": {"max_attempts": 3}, "services": [
				{"name": "orders", "input": 0, "retry": 1, "group": "a", "first_instance": 0, "instances": 2,
					"contract": {"max_attempts": 3}},
				{"name": "billing", "input": 1, "retry": 7, "group": "b", "first_instance": 2, "instances": 1,
					"contract": {"max_attempts": 4}}]}`,
			[]Consumer{{Name: "orders", Group: "a", Instances: 2, DLQ: 2, ReplayTo: "back", Contract: Contract{MaxAttempts: 3}},
				{Name: "billing", Group: "b", First: 2, Instances: 1, Input: 1, DLQ: 2, Contract: Contract{MaxAttempts: 4}}}, nil,
		},
		"graph": {
			`"group": "a", "contract": {}, "graph": {"sink": 2, "max_reprocess": 5, "nodes": [
				{"name": "parse", "input": 0, "dlq": 1, "quarantine": 2, "group": "a", "first_instance": 0, "instances": 3,
					"edges": [{"to": 0, "weight": 2}], "contract": {"max_attempts": 2}}]}}`,
			[]Consumer{{Name: "parse", Group: "a", Instances: 3, DLQ: 1, Quarantine: 2, Edges: []Edge{{To: 0, Weight: 2}},
				Contract: Contract{MaxAttempts: 2}}},
			&Graph{Sink: 2, MaxReprocess: 5},
		},
	} {
		dir := t.TempDir()
		write(t, filepath.Join(dir, headerFile), []byte(rest+one.header))
		reader, err := Open(dir)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if have := reader.Header(); !reflect.DeepEqual(have.Consumers, one.want) ||
			!reflect.DeepEqual(have.Graph, one.graph) {
			t.Errorf("%s: the consumers are %+v and the graph %+v, want %+v and %+v", name, have.Consumers, have.Graph, one.want,
				one.graph)
		}
	}
}
