package campaign

// This file writes the objects of a campaign in a cluster: the files, one Indexed Job, and the rights that the command
// needs. There is nothing else: no operator, no types of its own, nothing outside the namespace.

import (
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"os"
	"path"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlqbench/dlqbench/internal/gate"
)

const (
	containerName = "cell"
	// cellsAnnotation has the numbers of a Job's cells: index i is the i-th of them.
	cellsAnnotation = "dlqbench/cells"
	indexAnnotation = "batch.kubernetes.io/job-completion-index"
	jobLabel        = "batch.kubernetes.io/job-name"
	// workFolder in the pod is for temporary files, resultFolder for results if a claim keeps them.
	workFolder, resultFolder = "/dlqbench-work", "/dlqbench-results"
	// mostFiles is the size of a ConfigMap.
	mostFiles = 1 << 20
)

// object is a Kubernetes object or a part of one.
type object = map[string]any

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
	return object{"name": m.name(), "annotations": annotations, "labels": ourLabels()}
}

// ourLabels mark what dlqbench has made.
func ourLabels() object { return object{"app.kubernetes.io/managed-by": "dlqbench"} }

// right is a rule of a Role.
type right struct {
	group, resource string
	verbs           []string
}

// rights are those of the person or the service account that runs the command. The pods need none.
func rights() []right {
	return []right{
		{"batch", "jobs", []string{"create", "get", "delete"}},
		{"", "configmaps", []string{"create", "delete"}},
		{"", "pods", []string{"get", "list"}},
		{"", "pods/log", []string{"get"}},
		{"", "events", []string{"list"}},
	}
}

// Role grants the rights that the command needs.
func Role() map[string]any {
	var rules []any
	for _, one := range rights() {
		rules = append(rules, object{"apiGroups": []any{one.group}, "resources": []any{one.resource}, "verbs": one.verbs})
	}
	return object{"apiVersion": "rbac.authorization.k8s.io/v1", "kind": "Role",
		"metadata": object{"name": "dlqbench-campaign"}, "rules": rules}
}

// Objects returns the ConfigMap and the Job that run some of the cells.
func (m Manifest) Objects(cells []Cell) (files, job map[string]any, err error) {
	here, err := os.Getwd()
	if err != nil {
		return nil, nil, fmt.Errorf("finding the working directory: %w", err)
	}
	laid, err := m.layOut(here)
	if err != nil {
		return nil, nil, err
	}
	data, binary, size := object{}, object{}, 0
	var mounts []any
	for _, file := range laid.files {
		if size += len(file.data); utf8.Valid(file.data) {
			data[file.key] = string(file.data)
		} else {
			binary[file.key] = base64.StdEncoding.EncodeToString(file.data)
		}
		mounts = append(mounts, object{"name": "files", "mountPath": file.path, "subPath": file.key, "readOnly": true})
	}
	if size > mostFiles*9/10 {
		return nil, nil, fmt.Errorf("the files of the suite have %d bytes, and a ConfigMap holds %d: put large samples into "+
			"the image and name them by absolute paths", size, mostFiles)
	}
	files = object{"apiVersion": "v1", "kind": "ConfigMap", "metadata": m.metadata(object{}), "data": data}
	if len(binary) > 0 {
		files["binaryData"] = binary
	}
	job, err = m.job(cells, laid, mounts)
	return files, job, err
}

// job is the Indexed Job: one index for each cell.
func (m Manifest) job(cells []Cell, laid layout, mounts []any) (object, error) {
	pod, err := m.pod(cells, laid, mounts)
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
			"metadata": object{"labels": ourLabels()},
			"spec":     pod,
		},
	}
	if budget := m.Suite.Budget; budget > 0 {
		spec["activeDeadlineSeconds"] = int(budget.Round(time.Second) / time.Second)
	}
	return object{"apiVersion": "batch/v1", "kind": "Job",
		"metadata": m.metadata(object{cellsAnnotation: Numbers(cells)}), "spec": spec}, nil
}

// pod is the spec of the pods, with what the suite merges into it.
func (m Manifest) pod(cells []Cell, laid layout, mounts []any) (object, error) {
	wanted := m.Suite.Kubernetes
	if wanted.Image == "" {
		return nil, errors.New("no image is named: write kubernetes: {image: …} into the suite, or use --image; it has " +
			"dlqbench and your consumer (docs/kubernetes.md)")
	}
	args := []any{"campaign", laid.suite, "--cells", Numbers(cells), "--index", "$(JOB_COMPLETION_INDEX)",
		"--print-result", "--artifacts"}
	volumes := []any{object{"name": "files", "configMap": object{"name": m.name()}},
		object{"name": "work", "emptyDir": object{}}}
	mounts = append(slices.Clone(mounts), object{"name": "work", "mountPath": workFolder})
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
			"workingDir": laid.workingDir, "env": []any{object{"name": "TMPDIR", "value": workFolder}},
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
	merged, _ := merged(spec, patch).(object)
	return merged, nil
}

// merged merges a patch into a value: mappings by key, lists of named things by name, and everything else by replacing
// it.
func merged(value, patch any) any {
	switch patch := patch.(type) {
	case object:
		into, ok := value.(object)
		if !ok {
			return patch
		}
		into = maps.Clone(into)
		for key, one := range patch {
			into[key] = merged(into[key], one)
		}
		return into
	case []any:
		into, ok := value.([]any)
		if !ok {
			return patch
		}
		into = slices.Clone(into)
		for _, one := range patch {
			at := slices.IndexFunc(into, func(other any) bool { return nameOf(one) != nil && nameOf(other) == nameOf(one) })
			if at < 0 {
				into = append(into, one)
				continue
			}
			into[at] = merged(into[at], one)
		}
		return into
	}
	return patch
}

func nameOf(value any) any {
	named, _ := value.(object)
	return named["name"]
}

// layout is how files lie in a pod.
type layout struct {
	// suite is the path of the suite as seen from workingDir: the same as here, so that a report shows the same command.
	suite, workingDir string
	files             []laidFile
}

type laidFile struct {
	key, path string
	data      []byte
}

// notInKey matches what a key of a ConfigMap can't have.
var notInKey = regexp.MustCompile(`[^-._a-zA-Z0-9]+`)

// layOut reads all files, and lays them out as they lie around the working directory.
func (m Manifest) layOut(here string) (layout, error) {
	if m.Suite.Cluster.KafkaConfig != "" {
		return layout{}, errors.New("cluster.kafka_config has secrets, which a ConfigMap must not: on Kubernetes, only " +
			"a cluster without TLS and SASL settings can be used")
	}
	paths := []string{m.Suite.File}
	for _, cell := range m.Cells {
		paths = append(paths, cell.Files...)
	}
	slices.Sort(paths)
	paths = slices.Compact(paths)
	root, absolute := here, map[string]string{}
	for _, one := range paths {
		absolute[one] = one
		if filepath.IsAbs(one) {
			continue
		}
		absolute[one] = filepath.Join(here, one)
		for !within(root, absolute[one]) {
			root = filepath.Dir(root)
		}
	}
	out := layout{suite: filepath.ToSlash(m.Suite.File)}
	place := func(of string) string {
		relative, err := filepath.Rel(root, of)
		if err != nil {
			return m.Suite.Kubernetes.Folder
		}
		return path.Join(m.Suite.Kubernetes.Folder, filepath.ToSlash(relative))
	}
	out.workingDir = place(here)
	for i, one := range paths {
		data, err := os.ReadFile(one)
		if err != nil {
			return out, fmt.Errorf("reading the files of the suite: %w", err)
		}
		file := laidFile{key: fmt.Sprintf("%03d-%s", i, notInKey.ReplaceAllString(filepath.Base(one), "_")), data: data}
		if file.path = filepath.ToSlash(one); !filepath.IsAbs(one) {
			file.path = place(absolute[one])
		}
		out.files = append(out.files, file)
	}
	return out, nil
}

// within reports whether a path lies in a folder.
func within(folder, path string) bool {
	relative, err := filepath.Rel(folder, path)
	return err == nil && relative != ".." && !strings.HasPrefix(relative, ".."+string(filepath.Separator))
}
