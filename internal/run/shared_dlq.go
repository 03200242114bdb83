package run

// A run whose subject is several services that share one dead-letter topic. Each service has its own input topic,
// topic for replayed records, group and instances. All call one downstream stub.

import (
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
)

// writeServices puts the services into the header. Their topics replace those of a single consumer; the shared topic
// is last.
func (r *run) writeServices() {
	written := r.scenario.Services
	if written == nil {
		return
	}
	h, partitions := &r.header, r.scenario.Topics.Input.Partitions
	h.Topics, h.Consumers = nil, nil
	for i := range written {
		group := r.dir.id + "." + written[i].Name
		one := history.Consumer{
			Name: written[i].Name, Group: group, First: r.scenario.FirstOf(i), Instances: written[i].Instances,
			ReplayTo: deadletter.HexkitRetryTopic(group), Contract: written[i].Contract(group),
			Input: r.addTopic(r.dir.id+".input."+written[i].Name, history.RoleInput, partitions),
		}
		r.addTopic(one.ReplayTo, history.RoleInput, partitions)
		h.Consumers = append(h.Consumers, one)
	}
	shared := r.addTopic(r.values.DLQTopic, history.RoleDLQ, r.scenario.Topics.DLQ.Partitions)
	for i := range h.Consumers {
		h.Consumers[i].DLQ = shared
	}
	r.firstValues()
}
