package scenarios

// A consumer that has the addresses of Kafka and of what it calls in its code or settings, and can't be given others.
// And how many instances a consumer can have.

import (
	"cmp"
	"fmt"
)

// Listen are ports of 127.0.0.1 at which a consumer looks for Kafka and for what it calls, because it can't be given
// other addresses. 0 is any free port. Two instances would not be told apart at one address, so there is one.
type Listen struct {
	// Kafka is the port of the first broker. Further ones have the ports above it.
	Kafka int `json:"kafka,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// Downstream is the port of the downstream stub; of several downstreams, of the one that decides.
	Downstream int `json:"downstream,omitempty" jsonschema:"minimum=1,maximum=65535"`
	// Registry is the port of the schema registry, if the records have a schema.
	Registry int `json:"registry,omitempty" jsonschema:"minimum=1,maximum=65535"`
}

// MostInstances is the largest number of instances that can run at a time.
func (s *SubjectFile) MostInstances() int {
	most := cmp.Or(s.Instances, maxInstances)
	switch {
	case s.External != nil:
		return min(most, s.External.Instances)
	case s.Listen != nil && s.Listen.Kafka+s.Listen.Downstream > 0:
		return 1
	}
	return most
}

// fitInstances bounds the instances of a scenario by those that its consumer can have.
func (s *Scenario) fitInstances(file *SubjectFile) {
	s.Subject.Instances = min(s.Subject.Instances, file.MostInstances())
}

// checkListen checks that no port has two purposes.
func (c *checker) checkListen(s *SubjectFile) {
	const base = "/listen"
	if s.Listen == nil || !c.allSound(base) {
		return
	}
	if s.Kind == KindExternal || s.Kind == KindDeployment {
		c.at(base, "listen goes with a consumer that dlqbench starts; ports of this one are under external")
		return
	}
	l := s.Listen
	for _, one := range []struct {
		name string
		port int
	}{{"downstream", l.Downstream}, {"registry", l.Registry}} {
		c.refuseIf(one.port > 0 && l.Kafka > 0 && one.port >= l.Kafka && one.port < l.Kafka+instancePorts, base+"/"+one.name,
			"the brokers have the ports from %d to %d: keep %s apart", l.Kafka, l.Kafka+instancePorts-1, one.name)
	}
	c.refuseIf(l.Registry > 0 && l.Registry == l.Downstream, base+"/registry", "downstream has this port")
}

// checkScaleUp refuses more instances than the consumer can have.
func (c *checker) checkScaleUp() {
	if c.file == nil || !c.instancesSound() || c.s.MaxInstances() <= c.file.MostInstances() {
		return
	}
	why := fmt.Sprintf("with the instances that faults add there are %d, and instances in %s is %d: run another scenario",
		c.s.MaxInstances(), c.s.Subject.File, c.file.Instances)
	switch {
	case c.file.Instances > 0:
	case c.file.Listen != nil:
		why = fmt.Sprintf("listen in %s allows one instance, because others would have the same addresses: run another "+
			"scenario, or let the consumer read its addresses from its environment", c.s.Subject.File)
	case c.file.External != nil:
		why = fmt.Sprintf("with the instances that faults add there are %d, and external.instances is %d",
			c.s.MaxInstances(), c.file.External.Instances)
	}
	for i, spec := range c.s.Written() {
		if spec.Subject != nil && spec.Subject.ScaleUp > 0 && c.sound(c.s.faultPath(i)) {
			c.at(c.s.faultPath(i), "%s", why)
		}
	}
}
