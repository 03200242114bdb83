package pods

// This file makes the manifest of a consumer from one that runs in the namespace. The run judges a copy, so that the
// one that runs needs not be given back: nothing changes it, whatever becomes of the run.

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dlqbench/dlqbench/internal/kube"
)

// ReadRunning reads a workload of the namespace, such as deployment/orders, and returns the manifest of a copy with a
// name of its own. Neither the workload nor the Services in front of it select the copy's pods.
func ReadRunning(ctx context.Context, kubectl kube.Kubectl, running, name string) (map[string]any, error) {
	var found object
	err := kubectl.Get(ctx, &found, running)
	switch {
	case kube.NotFound(err):
		return nil, fmt.Errorf("%s does not run in the namespace: correct deployment.running in subject.yaml, or "+
			"--namespace", running)
	case kube.Forbidden(err):
		return nil, fmt.Errorf("the user may not get %s in this namespace: %w; an administrator can grant that and the "+
			"other rights of a run (docs/kubernetes.md)", running, err)
	case err != nil:
		return nil, fmt.Errorf("reading %s: %w", running, err)
	}
	spec, _ := found["spec"].(object)
	template, _ := spec["template"].(object)
	metadata, _ := template["metadata"].(object)
	selector, _ := spec["selector"].(object)
	if spec == nil || template == nil || selector == nil {
		return nil, errors.New("reading " + running + ": it has no pods")
	}
	labels, _ := metadata["labels"].(object)
	labels = maps.Clone(labels)
	for _, key := range selects(selector) {
		delete(labels, key)
	}
	if labels == nil {
		labels = object{}
	}
	labels[runLabel] = name
	delete(spec, "paused")
	spec["selector"] = object{"matchLabels": object{runLabel: name}}
	template["metadata"] = object{"labels": labels, "annotations": metadata["annotations"]}
	return object{"apiVersion": found["apiVersion"], "kind": found["kind"], "metadata": object{"name": name},
		"spec": spec}, nil
}

// selects are the keys of the labels that a selector looks at.
func selects(selector object) []string {
	matched, _ := selector["matchLabels"].(object)
	keys := slices.Collect(maps.Keys(matched))
	expressions, _ := selector["matchExpressions"].([]any)
	for _, one := range expressions {
		keys = append(keys, fmt.Sprint(at(one, "key")))
	}
	return keys
}
