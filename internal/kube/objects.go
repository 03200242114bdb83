package kube

// This file has the parts of the cluster's objects, and merges what a user wants into those that are
// written.

import (
	"maps"
	"slices"
)

// Object is a Kubernetes object or a part of one.
type Object = map[string]any

const managedBy, dlqbench = "app.kubernetes.io/managed-by", "dlqbench"

// Selector selects what dlqbench has made.
const Selector = managedBy + "=" + dlqbench

// Labels mark what dlqbench has made.
func Labels() Object { return Object{managedBy: dlqbench} }

// Condition is a condition of a Job or a pod.
type Condition struct{ Type, Status, Reason, Message string }

// Pod is a pod.
type Pod struct {
	Metadata struct {
		Name, UID   string
		Namespace   string
		Annotations map[string]string
		Labels      map[string]string
	}
	Status struct {
		Phase, Reason, Message, PodIP string
		Conditions                    []Condition
		InitContainerStatuses         []ContainerStatus
		ContainerStatuses             []ContainerStatus
	}
}

// ContainerStatus is the state of one container of a pod.
type ContainerStatus struct {
	Name, Image string
	State       struct {
		Waiting    *struct{ Reason, Message string }
		Running    *struct{}
		Terminated *Terminated
	}
	// LastState is that of the container before it was started again.
	LastState struct{ Terminated *Terminated }
}

// Terminated is how a container ended.
type Terminated struct {
	Reason, Message string
	ExitCode        int
}

// Event is an event of the namespace.
type Event struct {
	Reason, Message string
	InvolvedObject  Reference
}

// Reference names an object.
type Reference struct{ Kind, Name, UID string }

// List is a list of objects.
type List[T any] struct{ Items []T }

// Find returns the condition of a type with a status, nil if there is none.
func Find(conditions []Condition, of, status string) *Condition {
	for i, one := range conditions {
		if one.Type == of && one.Status == status {
			return &conditions[i]
		}
	}
	return nil
}

// Container returns the status of a container, nil if it has none yet.
func (p Pod) Container(name string) *ContainerStatus {
	for i, one := range p.Status.ContainerStatuses {
		if one.Name == name {
			return &p.Status.ContainerStatuses[i]
		}
	}
	return nil
}

// Merged merges a patch into a value: mappings by key, lists of named things by name, and everything else by replacing
// it.
func Merged(value, patch any) any {
	switch patch := patch.(type) {
	case Object:
		into, ok := value.(Object)
		if !ok {
			return patch
		}
		into = maps.Clone(into)
		for key, one := range patch {
			into[key] = Merged(into[key], one)
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
			into[at] = Merged(into[at], one)
		}
		return into
	}
	return patch
}

func nameOf(value any) any {
	named, _ := value.(Object)
	return named["name"]
}
