package harness

// A run whose subject is several services that share one dead-letter topic: each has an input topic, a topic that its
// dead letters come back through, a group and instances of its own. They call one downstream.

import (
	"time"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
)

// writeServices puts the services into the header, their topics in place of those of a single consumer, the shared one
// last.
func (r *run) writeServices() {
	written := r.scenario.Services
	if written == nil {
		return
	}
	h, partitions := &r.header, r.scenario.Topics.Input.Partitions
	h.Topics = nil
	add := func(name string, role history.Role, partitions int) int16 {
		h.Topics = append(h.Topics, history.Topic{Name: name, Role: role, Partitions: partitions})
		return int16(len(h.Topics) - 1)
	}
	for i := range written {
		group := r.dir.id + "." + written[i].Name
		h.Services = append(h.Services, history.Service{
			Name: written[i].Name, Group: group, First: r.scenario.FirstOf(i), Instances: written[i].Instances,
			Contract: written[i].Contract(group), Input: add(r.dir.id+".input."+written[i].Name, history.RoleInput, partitions),
			Retry: add(deadletter.HexkitRetryTopic(group), history.RoleInput, partitions),
		})
	}
	add(r.values.DLQTopic, history.RoleDLQ, r.scenario.Topics.DLQ.Partitions)
	first := &h.Services[0]
	h.Group, h.Contract = first.Group, first.Contract
	r.values.GroupID, r.values.InputTopic, r.values.InputTopics = first.Group, h.Topics[first.Input].Name,
		h.Topics[first.Input].Name
}

// ownerOf is the service that the instance belongs to, nil where there are not several.
func (r *run) ownerOf(instance int) *history.Service {
	if r.header.Services == nil {
		return nil
	}
	return &r.header.Services[r.header.ServiceOf(int16(instance))]
}

// inputs are the topics that the workload's records are dealt to in turn, as indices in the header.
func (r *run) inputs() []int16 {
	if r.header.Services == nil {
		return []int16{r.header.TopicIndex(r.topic(history.RoleInput))}
	}
	var all []int16
	for _, one := range r.header.Services {
		all = append(all, one.Input)
	}
	return all
}

// contracts are those of all parts of the subject: of a graph's nodes, of several services, or its one.
func (r *run) contracts() []history.Contract {
	var all []history.Contract
	if r.header.Graph != nil {
		for _, node := range r.header.Graph.Nodes {
			all = append(all, node.Contract)
		}
	}
	for _, one := range r.header.Services {
		all = append(all, one.Contract)
	}
	if all == nil {
		all = []history.Contract{r.header.Contract}
	}
	return all
}

// longestGrace is the time that the slowest part of the subject may take to end.
func (r *run) longestGrace() time.Duration {
	longest := time.Duration(0)
	for _, contract := range r.contracts() {
		longest = max(longest, contract.StopGrace)
	}
	return longest
}
