package scenarios

// Several services on one dead-letter topic (hexkit): what is written, what it means, and what can be wrong with it.

import (
	"encoding/json"
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
)

// Service is one of several services that share the run's dead-letter topic: a reference consumer in a group of its
// own, with an input topic input.<name> and a topic of its own, retry-<service>, that its dead letters come back
// through. The workload's records are dealt to the services in turn.
type Service struct {
	// Name is short: lower-case letters, digits, dashes. Dead letters name it, after the run's prefix.
	Name string `json:"name" jsonschema:"required,pattern=^[a-z0-9][a-z0-9-]{0\\,31}$"`
	// Instances, 1 to 16; default 1. All services together have 16 at most.
	Instances int `json:"instances,omitempty" jsonschema:"minimum=1,maximum=16"`
	// Settings of its consumer; the envelope is hexkit.
	Settings consumer.Settings `json:"settings,omitempty"`
}

// UnmarshalJSON reads a service over its defaults.
func (s *Service) UnmarshalJSON(data []byte) error {
	type plain Service
	*s = Service{Instances: 1, Settings: consumer.DefaultSettings()}
	s.Settings.Envelope = deadletter.HexkitName
	return json.Unmarshal(data, (*plain)(s))
}

// reference is the service as a single consumer.
func (s *Service) reference() Reference {
	return Reference{Instances: s.Instances, Settings: s.Settings}
}

// Contract is what the service promises in the group: what its settings say, and that its dead letters name it.
func (s *Service) Contract(group string) history.Contract {
	contract := ReferenceContract(s.reference())
	contract.Service = group
	return contract
}

// FirstOf returns the number of the service's first instance; instances are numbered through all services, in the order
// in which these are written.
func (s *Scenario) FirstOf(service int) int {
	first := 0
	for _, one := range s.Services[:service] {
		first += one.Instances
	}
	return first
}

// Settings are those of a reference consumer: of a graph's node, of one of several services, or of the only consumer.
func (s *Scenario) Settings(number int) consumer.Settings {
	switch {
	case s.Graph != nil:
		return s.Graph.Nodes[number].Settings
	case s.Services != nil:
		return s.Services[number].Settings
	}
	return s.Subject.Reference.Settings
}

// checkServices checks the services and what does not go with several of them.
func (c *checker) checkServices() {
	if c.s.Services == nil || !c.sound("/services") {
		return
	}
	c.refuseIf(len(c.s.Services) == 1, "/services",
		"a single service shares its dead-letter topic with no other: write it as subject, or add another service")
	for path, why := range map[string]string{
		"/subject": "the services are the subject: they have their own instances and settings; leave subject out",
		"/graph":   "a graph has a dead-letter topic for each node, services share one: leave one of the two out",
		"/store": "a dead-letter store puts dead letters back to one topic, and services have one each: leave one " +
			"of the two out",
		"/topics/retry": "services retry in place: they have no retry topics but the ones that replays go to, which " +
			"are made like the input; leave this out",
		"/topics/dlq/foreign":  "the dead letters of the other services are real ones: leave foreign out",
		"/workload/failing":    "each service has partitions of these numbers: leave failing out",
		"/workload/tombstones": "what has no id can't be told from what another service wrote: leave tombstones out",
		"/workload/garbage":    "what has no id can't be told from what another service wrote: leave garbage out",
		"/workload/malformed":  "what has no id can't be told from what another service wrote: leave malformed out",
	} {
		c.refuseIf(c.has(path), path, "%s", why)
	}
	if !c.allSound("/services") {
		return
	}
	for i := range c.s.Services {
		c.checkService(i)
	}
	if count := c.s.InstanceCount(); count > maxInstances {
		c.at("/services", "the services have %d instances in all; a run can have %d at most", count, maxInstances)
	}
	for i, fault := range c.s.Written() {
		base := c.s.faultPath(i)
		if subject := fault.Subject; subject != nil && (subject.ScaleUp > 0 || subject.ScaleDown > 0) {
			c.at(base+"/subject", "several services don't scale: each has the instances that are written")
		}
		if kafka := fault.Kafka; kafka != nil && kafka.Group != "" {
			c.at(base+"/kafka/group",
				"each service has a group of its own: leave group out, or hit one of its instances with instance")
		}
	}
}

func (c *checker) checkService(i int) {
	service, base := &c.s.Services[i], fmt.Sprintf("/services/%d", i)
	if first := slices.IndexFunc(c.s.Services, func(one Service) bool { return one.Name == service.Name }); first < i {
		c.at(base+"/name", "the name %s is taken by services[%d]", service.Name, first)
	}
	settings := service.Settings
	if err := settings.Validate(); err != nil {
		c.at(base+"/settings", "%s", err)
		return
	}
	c.refuseIf(settings.Envelope != deadletter.HexkitName, base+"/settings/envelope", "several services share a DLQ "+
		"topic only where each dead letter names its own: with the envelope hexkit, which is the default here")
	c.checkPlain(base+"/settings/", "a service", settings)
	c.checkWaits(service.reference())
	for name, failing := range c.s.Workload.Outcomes.failing() {
		if path := "/workload/outcomes/" + name; failing.Weight > 0 &&
			failing.Failures >= settings.MaxRetries && c.allSound(path) {
			c.at(path, "a record that fails %d times first never succeeds at %s: its max_retries allows %d executions in all; "+
				"lower failures, or use exhausted", failing.Failures, service.Name, settings.MaxRetries)
		}
	}
}

// checkPlain checks that one of several consumers, which what names, does nothing that is judged of a single one only.
func (c *checker) checkPlain(base, what string, settings consumer.Settings) {
	for key, odd := range map[string]bool{
		"retry": settings.Retry != consumer.RetryInPlace, "group_protocol": settings.GroupProtocol == consumer.ProtocolShare,
		"transactions": settings.Transactions, "dlq_enabled": !settings.DLQEnabled,
	} {
		c.refuseIf(odd, base+key,
			"%s retries in place, commits offsets without transactions, and dead-letters: leave %s as it is", what, key)
	}
}
