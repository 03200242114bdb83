package pods

// This file writes the objects of a run: a Job with the coordinator, its files and its token, and the consumer's own
// manifest with the sidecar in it.

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/goccy/go-yaml"

	"github.com/dlqbench/dlqbench/internal/kube"
)

const (
	// coordinatorName and sidecarName are those of the containers that dlqbench adds.
	coordinatorName, sidecarName = "dlqbench", "dlqbench-sidecar"
	// runLabel has the name of the run on everything that is created.
	runLabel = "dlqbench/run"
	// program is the path of dlqbench in its image. filesFolder in the coordinator has the files of the run, WorkFolder
	// the run directory.
	program, filesFolder = "/dlqbench", "/dlqbench-files"
	// WorkFolder is the folder in the coordinator for what it writes.
	WorkFolder = "/dlqbench-work"
	// TokenVariable is the environment variable with the token, in the coordinator and in the sidecars.
	TokenVariable = "DLQBENCH_POD_TOKEN" //nolint:gosec // a name
	// PodVariable is the environment variable with the name of the pod.
	PodVariable = "DLQBENCH_POD_NAME"
	tokenKey    = "token"
	// keptAfterEnd is how long Kubernetes keeps the objects of a run whose command was killed.
	keptAfterEnd = time.Minute
)

// object is a Kubernetes object or a part of one.
type object = kube.Object

// Manifest says what a run in a cluster is made of.
type Manifest struct {
	// Name is that of the run and of its objects. Token is what the sidecars need to know.
	Name, Token string
	// Image has dlqbench.
	Image string
	// Args are those of the coordinator; Files the files that it reads, by their paths here.
	Args, Files []string
	// Workload is the consumer's Deployment or StatefulSet as written. Container is its container, "" for the only one.
	Workload  map[string]any
	Container string
	// Copy says that the workload is a copy of one that runs. Evict says that faults evict pods, and don't delete them.
	Copy, Evict bool
	// Instances is the number of its pods. Signals says that the run sends signals to it.
	Instances int
	Signals   bool
	// Limit is how long the run may take.
	Limit time.Duration
}

// ReadWorkload reads a file with one Deployment or StatefulSet.
func ReadWorkload(file string) (map[string]any, error) {
	data, err := os.ReadFile(file)
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of the consumer: %w", err)
	}
	var found []map[string]any
	for decoder := yaml.NewDecoder(bytes.NewReader(data)); ; {
		var one map[string]any
		if err := decoder.Decode(&one); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			return nil, fmt.Errorf("reading the manifest of the consumer in %s: %w", file, err)
		}
		if len(one) > 0 {
			found = append(found, one)
		}
	}
	if len(found) != 1 || !slices.Contains([]any{"Deployment", "StatefulSet"}, found[0]["kind"]) {
		var kinds []string
		for _, one := range found {
			kinds = append(kinds, fmt.Sprint(one["kind"]))
		}
		return nil, fmt.Errorf("%s has %s: it must have one Deployment or StatefulSet and nothing else; create in the "+
			"namespace what it needs, such as ConfigMaps and ServiceAccounts", file, strings.Join(append(kinds, "nothing")[:max(
			len(kinds), 1)], ", "))
	}
	// As JSON, so that numbers and lists have one type each.
	var plain map[string]any
	text, err := json.Marshal(found[0])
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	if err != nil {
		return nil, fmt.Errorf("reading the manifest of the consumer in %s: %w", file, err)
	}
	return plain, nil
}

// resource is the resource of the workload: deployments or statefulsets.
func (m Manifest) resource() string { return strings.ToLower(fmt.Sprint(m.Workload["kind"])) + "s" }

func (m Manifest) workloadName() string { return fmt.Sprint(at(m.Workload, "metadata", "name")) }

// Rights are those of the person or the service account that runs the command. The pods need none.
func (m Manifest) Rights() []kube.Right {
	workload := []string{"create", "list", "delete"}
	if m.Copy {
		workload = append(workload, "get")
	}
	rights := []kube.Right{
		{Group: "batch", Resource: "jobs", Verbs: []string{"create", "list", "delete"}},
		{Group: "apps", Resource: m.resource(), Verbs: workload},
		{Resource: "configmaps", Verbs: []string{"create", "list", "delete"}},
		{Resource: "secrets", Verbs: []string{"create", "list", "delete"}},
		{Resource: "pods", Verbs: []string{"get", "list", "delete"}},
		{Resource: "pods/log", Verbs: []string{"get"}},
		{Resource: "pods/exec", Verbs: []string{"create"}},
		{Resource: "events", Verbs: []string{"list"}},
	}
	if m.Evict {
		rights = append(rights, kube.Right{Resource: "pods/eviction", Verbs: []string{"create"}})
	}
	return rights
}

// kinds are what the run creates, as kubectl lists them.
func (m Manifest) kinds() string { return "job," + m.resource() + ",configmap,secret" }

// metadata is that of an object that goes with the Job.
func (m Manifest) metadata(owner string) object {
	metadata := object{"name": m.Name, "labels": m.labels()}
	if owner != "" {
		metadata["ownerReferences"] = m.owner(owner)
	}
	return metadata
}

func (m Manifest) labels() object {
	labels := kube.Labels()
	labels[runLabel] = m.Name
	return labels
}

// owner makes the Job the owner of an object, so that Kubernetes removes it with the Job.
func (m Manifest) owner(uid string) []any {
	return []any{object{"apiVersion": "batch/v1", "kind": "Job", "name": m.Name, "uid": uid}}
}

// Job is the coordinator. Its pod waits until the ConfigMap and the Secret are there.
func (m Manifest) Job() (object, error) {
	laid, err := kube.LayOut(m.Files, filesFolder)
	if err != nil {
		return nil, err
	}
	user, err := m.consumer()
	if err != nil {
		return nil, err
	}
	var args []any
	for _, one := range m.Args {
		args = append(args, one)
	}
	spec := object{
		"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
		"terminationGracePeriodSeconds": 60,
		"volumes": []any{object{"name": "files", "configMap": object{"name": m.Name}},
			object{"name": "work", "emptyDir": object{}}},
		"containers": []any{object{
			"name": coordinatorName, "image": m.Image, "command": []any{program}, "args": args,
			"workingDir":      laid.WorkingDir,
			"env":             []any{m.token(), object{"name": "TMPDIR", "value": WorkFolder}},
			"resources":       object{"requests": object{"cpu": "1", "memory": "1Gi"}, "limits": object{"memory": "2Gi"}},
			"securityContext": m.secure(user),
			"volumeMounts":    append(laid.Mounts("files"), object{"name": "work", "mountPath": WorkFolder}),
		}},
	}
	// It runs where the consumer may run, and its image comes from where the consumer's does.
	if consumer, is := at(m.Workload, "spec", "template", "spec").(object); is {
		for _, key := range []string{"imagePullSecrets", "nodeSelector", "tolerations", "securityContext",
			"priorityClassName"} {
			if value, set := consumer[key]; set {
				spec[key] = value
			}
		}
	}
	return object{"apiVersion": "batch/v1", "kind": "Job", "metadata": m.metadata(""), "spec": object{
		"backoffLimit": 0, "activeDeadlineSeconds": int(m.Limit / time.Second),
		"ttlSecondsAfterFinished": int(keptAfterEnd / time.Second),
		"template":                object{"metadata": object{"labels": m.labels()}, "spec": spec},
	}}, nil
}

// token is the environment variable with the token.
func (m Manifest) token() object {
	return object{"name": TokenVariable, "valueFrom": object{"secretKeyRef": object{"name": m.Name, "key": tokenKey}}}
}

// Needed are the ConfigMap and the Secret of the coordinator, which go with the Job.
func (m Manifest) Needed(owner string) ([]any, error) {
	laid, err := kube.LayOut(m.Files, filesFolder)
	if err != nil {
		return nil, err
	}
	return []any{laid.ConfigMap(m.metadata(owner)), object{"apiVersion": "v1", "kind": "Secret",
		"metadata": m.metadata(owner), "stringData": object{tokenKey: m.Token}}}, nil
}

// Consumer is the consumer's manifest for the run: with the sidecar, with the environment variables that the run gives
// out, and with as many pods as the run has instances.
func (m Manifest) Consumer(owner, coordinator string, env map[string]string) (object, error) {
	consumer, err := m.consumer()
	if err != nil {
		return nil, err
	}
	var variables []any
	for _, name := range slices.Sorted(maps.Keys(env)) {
		variables = append(variables, object{"name": name, "value": env[name]})
	}
	pod := object{
		"initContainers": []any{m.sidecar(coordinator, consumer)},
		"containers":     []any{object{"name": consumer["name"], "env": variables}},
	}
	if m.Signals {
		pod["shareProcessNamespace"] = true
	}
	spec := object{"replicas": m.Instances,
		"template": object{"metadata": object{"labels": m.labels()}, "spec": pod}}
	if m.Workload["kind"] == "StatefulSet" {
		spec["persistentVolumeClaimRetentionPolicy"] = object{"whenDeleted": "Delete", "whenScaled": "Delete"}
	}
	metadata := object{"labels": m.labels()}
	if owner != "" {
		metadata["ownerReferences"] = m.owner(owner)
	}
	return m.merge(object{"metadata": metadata, "spec": spec})
}

// consumer is the consumer's container as written.
func (m Manifest) consumer() (object, error) {
	containers, _ := at(m.Workload, "spec", "template", "spec", "containers").([]any)
	index := slices.IndexFunc(containers, func(one any) bool {
		return m.Container != "" && at(one, "name") == m.Container
	})
	if m.Container == "" && len(containers) == 1 {
		index = 0
	}
	switch {
	case index < 0 && m.Container == "":
		return nil, fmt.Errorf("the pods of the consumer have %d containers: write which is the consumer into subject.yaml, "+
			"deployment: {container: …}", len(containers))
	case index < 0:
		return nil, fmt.Errorf("the pods of the consumer have no container %s: correct deployment.container in subject.yaml",
			m.Container)
	case at(m.Workload, "spec", "template", "spec", "hostNetwork") == true:
		return nil, errors.New("the pods of the consumer use the network of their nodes (hostNetwork), so that their ports " +
			"are not their own: leave it out")
	}
	consumer, _ := containers[index].(object)
	if m.Signals && m.ofUser(consumer, "runAsNonRoot") == true && m.ofUser(consumer, "runAsUser") == nil {
		return nil, errors.New("the pods of the consumer must not run as root (runAsNonRoot), and the scenario has " +
			"signals, for which the sidecar must be the user of the consumer: write that user into the manifest " +
			"(securityContext: {runAsUser: …})")
	}
	return consumer, nil
}

// merge merges a patch into the workload. The sidecar comes before the consumer's own init containers, as these may
// need Kafka.
func (m Manifest) merge(patch object) (object, error) {
	var plain object // the types of JSON
	text, err := json.Marshal(patch)
	if err == nil {
		err = json.Unmarshal(text, &plain)
	}
	if err != nil {
		return nil, fmt.Errorf("patching the manifest of the consumer: %w", err)
	}
	merged, _ := wholeNumbers(kube.Merged(m.Workload, plain)).(object)
	pod, _ := at(merged, "spec", "template", "spec").(object)
	if first, _ := pod["initContainers"].([]any); len(first) > 1 {
		pod["initContainers"] = append(first[len(first)-1:], first[:len(first)-1]...)
	}
	metadata, _ := merged["metadata"].(object)
	for _, key := range []string{"namespace", "uid", "resourceVersion", "creationTimestamp", "managedFields"} {
		delete(metadata, key)
	}
	delete(merged, "status")
	return merged, nil
}

// wholeNumbers turns numbers without a fraction, which JSON has as any others, into whole ones: YAML shows the
// difference.
func wholeNumbers(of any) any {
	switch of := of.(type) {
	case object:
		changed := object{}
		for key, one := range of {
			changed[key] = wholeNumbers(one)
		}
		return changed
	case []any:
		changed := make([]any, len(of))
		for i, one := range of {
			changed[i] = wholeNumbers(one)
		}
		return changed
	case float64:
		if whole := int64(of); float64(whole) == of {
			return whole
		}
	}
	return of
}

// sidecar is the container that is added to the consumer's pods. It starts before the consumer, and the consumer starts
// when the run has come to its instance.
func (m Manifest) sidecar(coordinator string, consumer object) object {
	args := []any{"pod", "sidecar", "--coordinator", coordinator + ":" + strconv.Itoa(CoordinatorPort)}
	if m.Signals {
		args = append(args, "--signals")
	}
	return object{
		"name": sidecarName, "image": m.Image, "command": []any{program}, "args": args, "restartPolicy": "Always",
		"env": []any{m.token(), object{"name": PodVariable,
			"valueFrom": object{"fieldRef": object{"fieldPath": "metadata.name"}}}},
		"startupProbe": object{"httpGet": object{"path": "/", "port": startedPort}, "periodSeconds": 1,
			"failureThreshold": 3600},
		"resources":       object{"requests": object{"cpu": "50m", "memory": "64Mi"}, "limits": object{"memory": "256Mi"}},
		"securityContext": m.sidecarUser(consumer),
	}
}

// secure is the security context of a container that dlqbench adds. It has the user of the consumer, if the manifest
// says who that is: a namespace may demand one.
func (m Manifest) secure(consumer object) object {
	secure := object{"allowPrivilegeEscalation": false, "seccompProfile": object{"type": "RuntimeDefault"},
		"capabilities": object{"drop": []any{"ALL"}}}
	for _, key := range []string{"runAsUser", "runAsNonRoot"} {
		if value := m.ofUser(consumer, key); value != nil {
			secure[key] = value
		}
	}
	return secure
}

// ofUser is what the manifest says of the user of the consumer, nil for nothing.
func (m Manifest) ofUser(consumer object, key string) any {
	if value := at(consumer, "securityContext", key); value != nil {
		return value
	}
	return at(m.Workload, "spec", "template", "spec", "securityContext", key)
}

// sidecarUser is the security context of the sidecar. To send signals it must be the user of the consumer, or root with
// the capability to do that where the manifest does not say who the consumer is.
func (m Manifest) sidecarUser(consumer object) object {
	secure := m.secure(consumer)
	if m.Signals && secure["runAsUser"] == nil {
		secure["runAsUser"] = 0
		secure["capabilities"] = object{"drop": []any{"ALL"}, "add": []any{"KILL"}}
	}
	return secure
}

// at returns a part of an object by the path of its keys, nil if there is none.
func at(of any, path ...string) any {
	for _, key := range path {
		one, is := of.(object)
		if !is {
			return nil
		}
		of = one[key]
	}
	return of
}
