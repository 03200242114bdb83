package scenarios

// What the faults of a scenario can get wrong: what each says for itself is checked in package faults.

import (
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/history"
)

// maxInstances bounds the instances of a run, those that faults add included.
const maxInstances = 16

func (c *checker) checkFaults() {
	setting := c.setting()
	seen := map[string]int{}
	for i, spec := range c.s.Faults {
		base := fmt.Sprintf("/faults/%d", i)
		n := c.root.get(base)
		if n == nil || n.bad {
			continue
		}
		if spec.Name != "" {
			if first, twice := seen[spec.Name]; twice {
				c.at(base+"/name", "the name %s is taken by faults[%d]", spec.Name, first)
			} else {
				seen[spec.Name] = i
			}
		}
		if !c.has(base+"/at") && !c.has(base+"/when") {
			c.add(n.key, fmt.Sprintf(
				"at is missing in faults[%d]: say when it starts (at: 2s), or what it waits for (when: first-retry)", i), "")
		}
		if !c.allSound(base) {
			continue // what is left of it would only look wrong in other ways
		}
		c.defects(base, spec, setting)
	}
	c.checkDrill(setting)
	c.checkScale()
}

// defects reports what is wrong with a fault.
func (c *checker) defects(base string, spec catalogue.Spec, setting faults.Setting) {
	for _, defect := range spec.Validate(setting) {
		if slices.Contains([]string{"/network/slicer/size", "/downstream/rate_limit/rate"}, defect.Path) &&
			!c.has(base+defect.Path) {
			continue // reported as missing
		}
		c.hinted(base+defect.Path, defect.Message, hint(defect.Got, defect.Known))
	}
}

// checkScale bounds the instances that faults add.
func (c *checker) checkScale() {
	if !c.instancesSound() {
		return
	}
	count := c.s.InstanceCount()
	for i, spec := range c.s.Written() {
		if spec.Subject == nil || spec.Subject.ScaleUp == 0 {
			continue
		}
		if count += spec.Subject.ScaleUp; count > maxInstances {
			c.at(c.s.faultPath(i)+"/subject/scale_up",
				"this makes %d instances, those of the other faults included; a run can have %d at most", count, maxInstances)
			return
		}
	}
}

func (c *checker) instancesSound() bool {
	return c.sound("/subject", "/subject/instances", "/subject/reference", "/subject/reference/instances", "/subject/file")
}

// setting tells the faults what is there; what is not sound is not told, and not checked.
func (c *checker) setting() faults.Setting {
	setting := faults.Setting{
		Steady: c.s.Workload.Duration.D(), Brokers: c.s.Cluster.Brokers, DLQBroker: c.s.Topics.DLQ.Broker,
		Instances: c.s.InstanceCount(), MaxInstances: c.s.MaxInstances(), Stub: true, Topics: []string{},
		Nodes: c.s.nodeNames(),
	}
	if !c.allSound("/graph") || !c.allSound("/services") {
		setting.Instances, setting.MaxInstances = 0, 0
	}
	c.tellSubject(&setting)
	if s := c.s.Store; s != nil {
		setting.StoreProcesses, setting.StoreLink = map[string]int{"router": s.Routers, "worker": s.Workers},
			s.Engine != EngineSQLite
		setting.StoreFixed, setting.StoreProbe = s.fixed(), s.Probe
	}
	if !c.sound("/workload", "/workload/duration") || !c.allSound("/workload/steps") {
		setting.Steady = 0
	}
	if !c.sound("/cluster", "/cluster/brokers") {
		setting.Brokers = 0
	}
	if !c.instancesSound() {
		setting.Instances, setting.MaxInstances = 0, 0
	}
	if !c.sound("/topics", "/topics/dlq", "/topics/dlq/broker") {
		setting.DLQBroker, setting.Brokers = 1, 0
	}
	if n := c.root.get("/topics"); n == nil || !n.bad && n.allSound() {
		setting.Partitions = map[string]int{
			string(history.RoleInput): c.s.Topics.Input.Partitions, string(history.RoleRetry): c.s.Topics.Retry.Partitions,
			string(history.RoleDLQ): c.s.Topics.DLQ.Partitions,
		}
	}
	return setting
}

// ownSubject is the key with which the scenario brings a subject of its own, "" if it brings none.
func (c *checker) ownSubject() string {
	for _, key := range []string{"/subject/reference", "/graph", "/services"} {
		if c.has(key) {
			return key
		}
	}
	return ""
}

// tellSubject tells what the subject does: the reference consumer's requests are known, of another one only what its
// file says.
func (c *checker) tellSubject(setting *faults.Setting) {
	if c.s.Subject.File != "" {
		setting.Topics = nil // retry topics may be named by templates
	}
	setting.Registry = c.s.Subject.File == "" && c.ownSubject() == "" // it depends on who is judged
	if c.file != nil {
		setting.SkipsUnread = history.Poison(c.file.Contract.Poison) == history.PoisonSkip
		setting.HaltsUnread = history.Poison(c.file.Contract.Poison) == history.PoisonHalt
		setting.Stub, setting.Registry = c.file.Observe != ObserveWire, len(c.file.Formats()) > 0
		setting.Output = c.file.Kafka() != nil
		for _, one := range c.file.Called()[:len(c.file.Downstreams)] {
			setting.Downstreams = append(setting.Downstreams,
				faults.DownstreamSetting{Name: one.Called(), Topic: one.Kafka != nil})
		}
		setting.NoRetryTopics = c.file.Contract.Retry != string(history.RetryTopics)
		letters := c.file.Contract.DLQ
		setting.NoDeadLetters = !letters.Enabled || letters.WrittenBy == WrittenByBroker
		setting.Letters = c.file.Letters()
	}
	reference := c.s.Subject.Reference
	if c.s.Graph != nil || c.s.Services != nil {
		setting.NoRetryTopics = true
		return
	}
	if reference == nil || c.s.Subject.File != "" || !c.sound("/subject", "/subject/reference") ||
		!c.allSound("/subject/reference") {
		return
	}
	setting.NoRetryTopics = len(RetryTopics(*reference, "input")) == 0
	setting.NoDeadLetters = !reference.WritesDLQ()
	setting.Reference = &faults.ReferenceSetting{
		GroupProtocol: reference.GroupProtocol, Transactions: reference.Transactions, MaxAttempts: reference.MaxRetries,
		Static: reference.StaticMembership,
	}
}
