package campaign

// This file writes the objects of a campaign in a cluster: the files, one Indexed Job, and the rights that the command
// needs. There is nothing else: no operator, no types of its own, nothing outside the namespace.

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/kube"
)

const (
	containerName = "cell"
	// cellsAnnotation has the numbers of a Job's cells: index i is the i-th of them.
	cellsAnnotation = "dlqbench/cells"
	// podsAnnotation has a digest of what the Job's pods are made of.
	podsAnnotation  = "dlqbench/pods"
	indexAnnotation = "batch.kubernetes.io/job-completion-index"
	jobLabel        = "batch.kubernetes.io/job-name"
	// workFolder in the pod is for temporary files, resultFolder for results if a claim keeps them.
	workFolder, resultFolder = "/dlqbench-work", "/dlqbench-results"
)

// object is a Kubernetes object or a part of one.
type object = kube.Object

// Manifest says what a campaign in a cluster is made of.
type Manifest struct {
	Suite *gate.Suite
	// Cells are all cells of the suite; they name the campaign.
	Cells []Cell
	// Parallel is the number of pods that run at a time. Limit is how long one may take.
	Parallel int
	Limit    time.Duration
	// KeepPassed keeps the run directories of passed cells, where a claim keeps any.
	KeepPassed bool
}

// name is that of the Job and of the ConfigMap.
func (m Manifest) name() string {
	base := slug(strings.TrimSuffix(filepath.Base(m.Suite.File), filepath.Ext(m.Suite.File)))
	return "dlqbench-" + strings.Trim(base[:min(len(base), 30)], "-") + "-" + digestOf(m.Cells)
}

func (m Manifest) metadata(annotations object) object {
	return object{"name": m.name(), "annotations": annotations, "labels": kube.Labels()}
}

// rights are those of the person or the service account that runs the command. The pods need none.
func rights() []kube.Right {
	return []kube.Right{
		{Group: "batch", Resource: "jobs", Verbs: []string{"create", "get", "delete"}},
		{Resource: "configmaps", Verbs: []string{"create", "delete"}},
		{Resource: "pods", Verbs: []string{"get", "list"}},
		{Resource: "pods/log", Verbs: []string{"get"}},
		{Resource: "events", Verbs: []string{"list"}},
	}
}

// Role grants the rights that the command needs.
func Role() map[string]any { return kube.Role("dlqbench-campaign", rights()) }

// Objects returns the ConfigMap and the Job that run some of the cells.
func (m Manifest) Objects(cells []Cell) (files, job map[string]any, err error) {
	laid, err := m.layOut()
	if err != nil {
		return nil, nil, err
	}
	files = laid.ConfigMap(m.metadata(object{}))
	job, err = m.job(cells, laid)
	return files, job, err
}

// job is the Indexed Job: one index for each cell.
func (m Manifest) job(cells []Cell, laid kube.Layout) (object, error) {
	pod, err := m.pod(cells, laid)
	if err != nil {
		return nil, err
	}
	spec := object{
		"completionMode": "Indexed", "completions": len(cells), "parallelism": min(m.Parallel, len(cells)),
		"backoffLimitPerIndex": m.Suite.Kubernetes.Retries, "maxFailedIndexes": len(cells),
		"podFailurePolicy": object{"rules": []any{
			// A pod that was evicted, preempted or lost with its node runs again, and that counts for nothing.
			object{"action": "Ignore", "onPodConditions": []any{object{"type": "DisruptionTarget", "status": "True"}}},
			// Wrong usage, and a program that is not there, do not get better.
			object{"action": "FailIndex", "onExitCodes": object{"containerName": containerName, "operator": "In",
				"values": []any{2, 126, 127, 128}}},
		}},
		"template": object{
			"metadata": object{"labels": kube.Labels()},
			"spec":     pod,
		},
	}
	if budget := m.Suite.Budget; budget > 0 {
		spec["activeDeadlineSeconds"] = int(budget.Round(time.Second) / time.Second)
	}
	pods, err := m.podsDigest()
	if err != nil {
		return nil, err
	}
	return object{"apiVersion": "batch/v1", "kind": "Job",
		"metadata": m.metadata(object{cellsAnnotation: Numbers(cells), podsAnnotation: pods}), "spec": spec}, nil
}

// podsDigest is the same for campaigns of the same cells whose pods have the same image and settings, whichever cells
// they run.
func (m Manifest) podsDigest() (string, error) {
	laid, err := m.layOut()
	if err != nil {
		return "", err
	}
	m.Limit = 0 // that of the cells that are run
	pod, err := m.pod(m.Cells, laid)
	if err != nil {
		return "", err
	}
	text, err := json.Marshal(pod)
	if err != nil {
		return "", fmt.Errorf("writing the pods: %w", err)
	}
	sum := sha256.Sum256(text)
	return hex.EncodeToString(sum[:8]), nil
}

// pod is the spec of the pods, with what the suite merges into it.
func (m Manifest) pod(cells []Cell, laid kube.Layout) (object, error) {
	wanted := m.Suite.Kubernetes
	if wanted.Image == "" {
		return nil, errors.New("no image is named: write kubernetes: {image: …} into the suite, or use --image; it has " +
			"dlqbench and your consumer (docs/kubernetes.md)")
	}
	args := []any{"campaign", filepath.ToSlash(m.Suite.File), "--cells", Numbers(cells), "--index",
		"$(JOB_COMPLETION_INDEX)", "--print-result", "--artifacts"}
	volumes := []any{object{"name": "files", "configMap": object{"name": m.name()}},
		object{"name": "work", "emptyDir": object{}}}
	mounts := append(laid.Mounts("files"), object{"name": "work", "mountPath": workFolder})
	if wanted.Claim == "" {
		args = append(args, workFolder+"/campaign")
	} else {
		args = append(args, resultFolder+"/"+m.name())
		volumes = append(volumes, object{"name": "results", "persistentVolumeClaim": object{"claimName": wanted.Claim}})
		mounts = append(mounts, object{"name": "results", "mountPath": resultFolder})
		if m.KeepPassed {
			args = append(args, "--keep-passed")
		}
	}
	spec := object{
		"restartPolicy": "Never", "automountServiceAccountToken": false, "enableServiceLinks": false,
		"activeDeadlineSeconds": int(m.Limit.Round(time.Second) / time.Second), "terminationGracePeriodSeconds": 10,
		"volumes": volumes,
		"containers": []any{object{
			"name": containerName, "image": wanted.Image, "command": []any{wanted.Command}, "args": args,
			"workingDir": laid.WorkingDir, "env": []any{object{"name": "TMPDIR", "value": workFolder}},
			"resources": object{"requests": object{"cpu": wanted.CPU, "memory": wanted.Memory},
				"limits": object{"memory": wanted.Memory}},
			"securityContext": object{"allowPrivilegeEscalation": false, "capabilities": object{"drop": []any{"ALL"}},
				"seccompProfile": object{"type": "RuntimeDefault"}},
			"volumeMounts": mounts,
		}},
	}
	patch := object{}
	for _, key := range slices.Sorted(maps.Keys(wanted.Pod)) {
		var value any
		if err := json.Unmarshal(wanted.Pod[key], &value); err != nil {
			return nil, fmt.Errorf("reading kubernetes.pod.%s: %w", key, err)
		}
		patch[key] = value
	}
	merged, _ := kube.Merged(spec, patch).(object)
	return merged, nil
}

// layOut reads all files, and lays them out as they lie around the working directory.
func (m Manifest) layOut() (kube.Layout, error) {
	if m.Suite.Cluster.KafkaConfig != "" {
		return kube.Layout{}, errors.New("cluster.kafka_config has secrets, which a ConfigMap must not: on Kubernetes, " +
			"only a cluster without TLS and SASL settings can be used")
	}
	paths := []string{m.Suite.File}
	for _, cell := range m.Cells {
		paths = append(paths, cell.Files...)
	}
	return kube.LayOut(paths, m.Suite.Kubernetes.Folder)
}
