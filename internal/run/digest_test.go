package run

import (
	"testing"

	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/scenarios"
)

// The digest depends on what the subject is asked to do and on nothing else.
func TestLoadDigest(t *testing.T) {
	load := func(change func(s *scenarios.Scenario)) string {
		name, data, err := scenarios.Find("smoke")
		if err != nil {
			t.Fatal(err)
		}
		s, err := scenarios.Parse(name, data)
		if err != nil {
			t.Fatal(err)
		}
		change(s)
		return loadDigest(s, nil)
	}
	same := load(func(*scenarios.Scenario) {})
	if len(same) != 12 {
		t.Errorf("the digest is %q", same)
	}
	for what, change := range map[string]func(s *scenarios.Scenario){
		"its settings": func(s *scenarios.Scenario) { s.Subject.Reference.MaxRetries++ },
		"the seed":     func(s *scenarios.Scenario) { s.Seed++ },
		"thresholds":   func(s *scenarios.Scenario) { s.Expect.Thresholds = []string{"count.sent > 1"} },
		"words":        func(s *scenarios.Scenario) { s.Description += "!" },
	} {
		if load(change) != same {
			t.Errorf("%s make another load", what)
		}
	}
	for what, change := range map[string]func(s *scenarios.Scenario){
		"brokers":    func(s *scenarios.Scenario) { s.Cluster.Brokers++ },
		"partitions": func(s *scenarios.Scenario) { s.Topics.Input.Partitions++ },
		"the rate":   func(s *scenarios.Scenario) { s.Workload.Rate++ },
		"faults":     func(s *scenarios.Scenario) { s.Faults = append(s.Faults, catalogue.Spec{}) },
		"one fault":  func(s *scenarios.Scenario) { s.Faults[0].At++ },
	} {
		if load(change) == same {
			t.Errorf("%s don't make another load", what)
		}
	}
}
