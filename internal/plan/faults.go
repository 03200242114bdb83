package plan

// The faults of a plan: their names, lengths, and the facts about them that judging needs.

import (
	"encoding/binary"
	"fmt"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

// planFaults resolves the names and lengths of the faults and derives a seed for each from its name.
func planFaults(s *scenarios.Scenario, seed uint64) []faults.Planned {
	written := s.Planned(seed)
	planned := make([]faults.Planned, 0, len(written))
	for i, name := range FaultNames(written) {
		planned = append(planned, Fault(s, seed, i, name, written[i]))
	}
	return planned
}

// Fault returns a fault of the scenario as the plan for the seed has it under the index and the name. written is the
// fault in the scenario's form.
func Fault(s *scenarios.Scenario, seed uint64, index int, name string, written catalogue.Spec) faults.Planned {
	spec := s.Store.Resolve(s.Graph.Resolve(written), s.MaxInstances())
	traits, letters := spec.Traits(), s.Topics.DLQ.Downstream
	if spec.HitsLetters(letters) {
		traits.Target, traits.Idle.Needs = string(history.RoleDLQ), history.NeedDeadLetter
	}
	trigger, _ := spec.Trigger() // the scenario was validated
	key := streamKey(seed, "fault "+name)
	return faults.Planned{
		Index: index, Fault: spec.Fault(), Written: spec, Seed: binary.LittleEndian.Uint64(key[:]),
		Trigger: trigger, After: spec.After.D(), Patient: traits.Patient,
		PlannedFault: history.PlannedFault{
			Name: name, Kind: spec.Kind(), What: traits.What, Target: traits.Target, API: traits.API, When: spec.When,
			At:               spec.At.D(),
			Idle:             traits.Idle,
			For:              spec.Length(s.InstanceCount()),
			HidesSchemas:     traits.HidesSchemas,
			StopsDeadLetters: spec.StopsDeadLetters(s.Cluster.Brokers, s.Topics.DLQ.Broker, letters), MayMiss: spec.MayMiss,
		},
	}
}

// FaultNames returns the faults' names: the given ones, or the default names, numbered from 2 if a name is taken.
func FaultNames(specs []catalogue.Spec) []string {
	taken := map[string]bool{}
	for _, spec := range specs {
		taken[spec.Name] = true
	}
	names := make([]string, len(specs))
	for i, spec := range specs {
		name := spec.Name
		for number := 1; name == ""; number++ {
			made := spec.Traits().Name
			if number > 1 {
				made = fmt.Sprintf("%s-%d", made, number)
			}
			if !taken[made] {
				name, taken[made] = made, true
			}
		}
		names[i] = name
	}
	return names
}
