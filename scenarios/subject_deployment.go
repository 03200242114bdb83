package scenarios

// A consumer whose instances are pods of a Kubernetes cluster. To the run they are instances that somebody else starts:
// each finds Kafka and its downstream at ports of its own pod, which a sidecar forwards to the pod that runs dlqbench.

import (
	"cmp"
	"fmt"
	"regexp"
	"strings"
)

// Deployment is the consumer's Deployment or StatefulSet.
type Deployment struct {
	// Manifest is the file with the Deployment or the StatefulSet, one object in YAML or JSON. A relative path begins at
	// the folder of this file. The number of replicas in it is replaced by the scenario's instances.
	Manifest string `json:"manifest,omitempty"`
	// Running is a Deployment or StatefulSet that runs in the namespace, such as deployment/orders, in place of a
	// manifest. The run judges a copy of it, and does not change it.
	Running string `json:"running,omitempty" jsonschema:"pattern=^(deployment|statefulset)/[a-z0-9]([a-z0-9.-]*[a-z0-9])?$,description=a workload of the namespace\\, such as deployment/orders or statefulset/orders"`
	// Container is the name of the container that is the consumer; default: the only one.
	Container string `json:"container,omitempty"`
	// EndBy is how TERM, a restart and scale_down end a pod: delete, or evict, as the drain of a node does. An eviction
	// respects disruption budgets.
	EndBy string `json:"end_by,omitempty" jsonschema:"enum=delete,enum=evict,default=delete"`
}

// EndByEviction is the value of end_by with which pods are evicted.
const EndByEviction = "evict"

// podInstances is the maximum number of pods of a consumer: each has its own ports.
const podInstances = 16

// ForPods reports whether the instances are pods of a cluster.
func (s *SubjectFile) ForPods() bool { return s.Kind == KindDeployment }

// notInPods matches values that a template can't use where all pods have the same.
var notInPods = regexp.MustCompile(
	`\.(Ports?|WorkDir|Folder|Instance|CAFile|CATrustStore|StoreURL|Database[A-Za-z]*|Needs)\b`)

// From names where the pods come from.
func (d *Deployment) From() string { return cmp.Or(d.Running, d.Manifest) }

// checkDeployment checks a consumer in pods: what its file says of a start does nothing, and what must be reached from
// outside its pod can't be.
func (c *checker) checkDeployment(s *SubjectFile) {
	c.refuseIf(s.Deployment == nil && !c.has("/deployment"), "/kind",
		"deployment is missing: the file with the Deployment or StatefulSet, such as deployment: {manifest: orders.yaml}")
	if d := s.Deployment; d != nil && (d.Manifest != "") == c.has("/deployment/running") {
		c.at("/deployment", "write either manifest, the file with the Deployment or StatefulSet, or running, one that runs "+
			"in the namespace, such as running: deployment/orders")
	}
	for _, one := range []struct{ path, why string }{
		{"/command", "the manifest says what runs"},
		{"/args", "the manifest says what runs"},
		{"/build", "build the image before, and bring it to the cluster"},
		{"/image", "the manifest names it"},
		{"/files", "the manifest mounts them; the addresses and names are the same in every run"},
		{"/ready", "a pod counts as ready when it fetches from an assigned partition; only timeout can be set"},
		{"/needs", "create in the namespace what it needs"},
		{"/store", "the store's database can't be reached from its pods"},
		{"/contract/health", "its address can't be reached from the pod that runs dlqbench"},
		{"/replay/command", "the tool would run in the pod that runs dlqbench: leave it out, and dlqbench replay is used"},
		{"/external/instances", "the scenario says how many pods there are"},
		{"/external/signals", "dlqbench acts on the pods by itself"},
	} {
		allowed := one.path == "/ready" && len(c.names(one.path)) == 1 && c.has("/ready/timeout")
		c.refuseIf(c.has(one.path) && !allowed, one.path, "this does not go with kind: deployment; %s", one.why)
	}
	for i, one := range s.Downstreams {
		if at := fmt.Sprintf("/downstreams/%d", i); one.Secure() || one.Postgres != nil {
			c.at(at, "a downstream with TLS, and a database, are not available with kind: deployment")
		}
	}
	c.checkPodEnv(s)
	c.checkExternalEnds(s)
	c.checkExternalPorts(s)
}

// checkPodEnv checks that the consumer is told of its brokers, and of nothing that differs between pods.
func (c *checker) checkPodEnv(s *SubjectFile) {
	told := false
	for _, name := range c.names("/env") {
		value := s.Env[name]
		told = told || strings.Contains(value, ".Bootstrap")
		if found := notInPods.FindString(value); found != "" {
			c.at(Below("/env", name), "all pods have the same environment, and {{%s}} has no value in it", found)
		}
	}
	if !told {
		c.at("/kind", "the pods are not told where Kafka is: write the variable of theirs that has the addresses, such as "+
			`env: {KAFKA_BOOTSTRAP_SERVERS: "{{.BootstrapServers}}"}`)
	}
}
