package faults

import (
	"testing"

	"github.com/dlqbench/dlqbench/internal/units"
)

func TestWhatStopsDeadLetters(t *testing.T) {
	one := 1
	for _, c := range []struct {
		what string
		spec Spec
		want bool
	}{
		{"an error to every write", Spec{Kafka: &Kafka{API: "Produce", Topic: "dlq", Error: "NOT_ENOUGH_REPLICAS", Probability: 1}}, true},
		{"every answer lost", Spec{Kafka: &Kafka{API: "Produce", Topic: "dlq", DropResponse: true, Probability: 1}}, true},
		{"an error to half of them", Spec{Kafka: &Kafka{API: "Produce", Topic: "dlq", Error: "NOT_ENOUGH_REPLICAS", Probability: 0.5}}, false},
		{"an error to one instance", Spec{Kafka: &Kafka{API: "Produce", Topic: "dlq", Error: "NOT_ENOUGH_REPLICAS", Probability: 1, Instance: &one}}, false},
		{"late answers", Spec{Kafka: &Kafka{API: "Produce", Topic: "dlq", DelayResponse: units.Duration(1), Probability: 1}}, false},
		{"refused commits", Spec{Kafka: &Kafka{API: "OffsetCommit", Error: "NOT_COORDINATOR", Probability: 1}}, false},
		{"the link down", Spec{Network: &Network{Link: "dlq", Down: true}}, true},
		{"the link silent", Spec{Network: &Network{Link: "dlq", Timeout: true}}, true},
		{"the link slow", Spec{Network: &Network{Link: "dlq", Latency: units.Duration(1)}}, false},
		{"another link down", Spec{Network: &Network{Link: "downstream", Down: true}}, false},
		{"a broker stopped", Spec{Broker: &Broker{Broker: 1, Stop: true}}, false},
	} {
		if got := c.spec.StopsDeadLetters(); got != c.want {
			t.Errorf("%s: %v, want %v", c.what, got, c.want)
		}
	}
}
