package scenarios

// A consumer that somebody else starts: in a debugger, in an IDE, with docker compose. It finds Kafka and its
// downstream at addresses that stay the same, and dlqbench can do to it only what the user has commands for.

import (
	"encoding/json"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/faults/subject"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
)

// External is where instances that somebody else starts find what they need. All ports are those of 127.0.0.1.
type External struct {
	// Instances is how many are started; default 1. A scenario with more runs with as many as these.
	Instances int `json:"instances,omitempty" jsonschema:"minimum=1,maximum=16"`
	// Kafka is the port of the first broker for instance 0, default 19092. Broker n has the port n-1 above it, and each
	// further instance has its ports ten above those of the one before.
	Kafka int `json:"kafka,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// Downstream is the port of the downstream stub for instance 0, default 18080. Each further instance has the next
	// one. Of several downstreams, the one that decides comes first, and each further one has its ports 20 above.
	Downstream int `json:"downstream,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// Registry is the port of the schema registry, default 18099, if the records have a schema.
	Registry int `json:"registry,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// Signals are commands that act on an instance.
	Signals Signals `json:"signals,omitempty"`
}

// Signals are commands of the user's that act on an instance, number {{.Instance}}. They get an instance's environment.
type Signals struct {
	// Start starts it: at the beginning of a run, and after a fault that ended it. Without it somebody starts it by hand.
	Start []string `json:"start,omitempty" jsonschema:"minItems=1"`
	// Term asks it to end, as SIGTERM does.
	Term []string `json:"term,omitempty" jsonschema:"minItems=1"`
	// Kill ends it at once.
	Kill []string `json:"kill,omitempty" jsonschema:"minItems=1"`
	// Stop freezes it until Cont.
	Stop []string `json:"stop,omitempty" jsonschema:"minItems=1"`
	// Cont lets it continue.
	Cont []string `json:"cont,omitempty" jsonschema:"minItems=1"`
}

const (
	// instancePorts is how far apart the ports of Kafka are for two instances: a cluster has nine brokers at most.
	instancePorts = 10
	// downstreamPorts is how far apart the ports of two downstreams of an instance are.
	downstreamPorts = 20
	// externalReady is the default of ready.timeout where a person starts the consumer.
	externalReady = 5 * time.Minute
)

func defaultExternal() External {
	return External{Instances: 1, Kafka: 19092, Downstream: 18080, Registry: 18099}
}

// UnmarshalJSON reads the addresses over their defaults.
func (e *External) UnmarshalJSON(data []byte) error {
	type plain External
	*e = defaultExternal()
	return json.Unmarshal(data, (*plain)(e))
}

// KafkaPort is the port of the first broker for an instance.
func (e *External) KafkaPort(instance int) int { return e.Kafka + instancePorts*instance }

// DownstreamPort is the port of the first downstream for an instance.
func (e *External) DownstreamPort(instance int) int { return e.Downstream + instance }

// OtherPort is the port of a downstream for an instance, by the number of the downstream.
func (e *External) OtherPort(instance, number int) int {
	return OtherDownstreamPort(e.DownstreamPort(instance), number)
}

// OtherDownstreamPort is the port of a further downstream of an instance whose first one has the given port.
func OtherDownstreamPort(first, number int) int { return first + downstreamPorts*number }

// Command returns the user's command for a name: start, term, kill, stop or cont.
func (s Signals) Command(name string) []string {
	return map[string][]string{"start": s.Start, "term": s.Term, "kill": s.Kill, "stop": s.Stop, "cont": s.Cont}[name]
}

// StableNames returns the values with names of topics and of the group that are the same in every run, so that a
// consumer that somebody else starts keeps its configuration. Other subjects get the values unchanged.
func (s *SubjectFile) StableNames(values Values) Values {
	if s.External != nil {
		values.GroupID, values.InputTopic = s.Name, s.Name+".input"
		values.InputTopics, values.DLQTopic = values.InputTopic, values.InputTopic+".dlq"
	}
	return values
}

// fillExternal adds the defaults of a consumer that somebody else starts.
func (s *SubjectFile) fillExternal(root *node) {
	if s.Kind != KindExternal && s.Kind != KindDeployment {
		return
	}
	if s.External == nil {
		filled := defaultExternal()
		s.External = &filled
	}
	if s.Kind == KindDeployment {
		s.External.Instances = podInstances
	}
	if root.get("/ready/timeout") == nil && s.External.Signals.Start == nil {
		s.Ready.Timeout = units.Duration(externalReady)
	}
}

// checkExternal checks a consumer that somebody else starts: what its file says of a start does nothing, and what it
// promises of its end is not seen.
func (c *checker) checkExternal(s *SubjectFile) {
	for _, one := range []struct{ path, why string }{
		{"/instances", "write how many you start: external: {instances: 2}"},
		{"/command", "start it yourself, or write external: {signals: {start: [...]}}"},
		{"/args", "give them to it where you start it"},
		{"/build", "build it before you start it"},
		{"/image", "start the container yourself, on the network of this machine"},
		{"/env", "give it the printed variables where you start it"},
		{"/files", "write its configuration yourself: the addresses and names are the same in every run"},
		{"/ready/log", "its output is not seen: write port or url, or leave ready out"},
		{"/store", "the address of a store's database changes from run to run: judge the store with kind: process"},
	} {
		c.refuseIf(c.has(one.path), one.path, "dlqbench does not start a consumer of kind: external; %s", one.why)
	}
	for _, path := range []string{"/contract/health", "/ready/url"} {
		if n := c.root.get(path); n != nil && (strings.Contains(n.text, ".Port") || strings.Contains(n.text, ".WorkDir")) {
			c.at(path, "a consumer that you start has neither {{.Port}} nor {{.WorkDir}}: write its own port, such as "+
				"http://127.0.0.1:8080/health")
		}
	}
	c.checkExternalEnds(s)
	c.checkExternalPorts(s)
}

// checkExternalEnds refuses promises about the end of a process.
func (c *checker) checkExternalEnds(s *SubjectFile) {
	contract, signals := s.Contract, s.External.Signals
	const unseen = "dlqbench does not start this consumer, and does not see it end: "
	c.refuseIf(contract.DLQ.OnFailure == string(history.OnFailureCrash), "/contract/dlq/on_failure",
		"%swrite halt or retry, or have it started with kind: process", unseen)
	c.refuseIf(contract.OnExhausted == consumer.ExhaustedExit, "/contract/on_exhausted",
		"%sleave on_exhausted out, or have it started with kind: process", unseen)
	c.refuseIf(contract.OnError == ErrorExit, "/contract/on_error",
		"%sleave on_error out, or have it started with kind: process", unseen)
	if contract.OnUnhealthy == UnhealthyRestart && !s.ForPods() && (signals.Start == nil || signals.Term == nil) {
		c.at("/contract/on_unhealthy", "restart needs the commands external.signals.term and external.signals.start")
	}
}

// checkExternalPorts checks that no port has two purposes.
func (c *checker) checkExternalPorts(s *SubjectFile) {
	e := s.External
	const base = "/external"
	if !c.allSound(base) {
		return
	}
	purposes := map[int]string{}
	claim := func(name string, first, count int) {
		for port := first; port < first+count; port++ {
			if port > 65535 {
				c.at(base+"/"+name, "%s needs the ports up to %d, and there are 65535: begin with a lower one", name, first+count-1)
				return
			}
			if other := purposes[port]; other != "" {
				c.at(base+"/"+name, "%s needs the ports %d to %d, and %s needs %d: keep them apart", name, first, first+count-1,
					other, port)
				return
			}
		}
		for port := first; port < first+count; port++ {
			purposes[port] = name
		}
	}
	claim("kafka", e.Kafka, instancePorts*e.Instances)
	for number := range max(len(s.Downstreams), 1) {
		claim("downstream", OtherDownstreamPort(e.Downstream, number), e.Instances)
	}
	claim("registry", e.Registry, 1)
}

// checkExternalFaults refuses faults for which the user has no command, before anything is started.
func (c *checker) checkExternalFaults() {
	if c.file == nil || c.file.External == nil || !c.instancesSound() {
		return
	}
	can := func(name string) bool { return c.file.ForPods() || c.file.External.Signals.Command(name) != nil }
	for i, spec := range c.s.Written() {
		if spec.Subject == nil || spec.Subject.Process != "" {
			continue
		}
		var missing []string
		for _, name := range needed(spec.Subject) {
			if !can(name) {
				missing = append(missing, "external.signals."+name)
			}
		}
		if len(missing) > 0 {
			c.at(c.s.faultPath(i), "%s: dlqbench does not start this consumer, and acts on it only by commands of yours: write "+
				"%s in %s, or run another scenario", spec.Traits().Name, strings.Join(missing, " and "), c.s.Subject.File)
		}
	}
}

// needed returns the names of the commands that a fault uses.
func needed(fault *subject.Subject) []string {
	switch fault.Signal {
	case "STOP":
		return []string{"stop", "cont"}
	case "KILL":
		return []string{"kill", "start"}
	}
	return []string{"term", "start"}
}
