package kube

// This file says what keeps pods from running.

import (
	"context"
	"fmt"
	"slices"
	"strings"
)

// Trouble is a reason why pods do not run. Hopeless means that waiting does not help, Passing that it mostly does: a
// node notices new ConfigMaps with a delay.
type Trouble struct {
	What              string
	Hopeless, Passing bool
}

// TroubleOf reads the status of a pod that is pending. room says what makes room for it, image where its images and the
// logins of their registries are named.
func TroubleOf(one Pod, room, image string) (t Trouble, is bool) {
	if one.Status.Phase != "Pending" {
		return t, false
	}
	if open := Find(one.Status.Conditions, "PodScheduled", "False"); open != nil {
		return Trouble{What: fmt.Sprintf("pods are pending, the scheduler says: %s; %s", open.Message, room)}, true
	}
	for _, status := range slices.Concat(one.Status.InitContainerStatuses, one.Status.ContainerStatuses) {
		waiting := status.State.Waiting
		if waiting == nil {
			continue
		}
		switch waiting.Reason {
		case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable":
			return Trouble{What: fmt.Sprintf("the image %s can't be pulled: %s; %s", status.Image, waiting.Message, image)},
				true
		case "InvalidImageName", "ErrImageNeverPull":
			return Trouble{What: fmt.Sprintf("the image %s can't be used: %s: %s", status.Image, waiting.Reason,
				waiting.Message), Hopeless: true}, true
		case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
			return Trouble{What: fmt.Sprintf("the container can't be made: %s: %s", waiting.Reason, waiting.Message)}, true
		}
	}
	return t, false
}

// TroubleOfCreation reads the last warning about what creates pods, or about pods
// that do not start.
func (k Kubectl) TroubleOfCreation(ctx context.Context, creates func(Reference) bool,
	owns func(pod string) bool) []Trouble {
	var events List[Event]
	err := k.Get(ctx, &events, "events", "--field-selector=type=Warning", "--sort-by=.lastTimestamp")
	if err != nil {
		return []Trouble{{What: "the events of the namespace can't be read: " + err.Error()}}
	}
	var found []Trouble
	for _, one := range events.Items {
		of := one.InvolvedObject
		switch {
		case one.Reason == "FailedCreate" && creates(of):
			t := Trouble{What: "pods can't be created: " + one.Message}
			switch {
			case strings.Contains(one.Message, "exceeded quota"):
				t.What = "pods can't be created, the namespace's quota is used up: " + one.Message
			case strings.Contains(one.Message, "violates PodSecurity"):
				t = Trouble{What: t.What + "; give the pods the securityContext that the namespace demands (docs/kubernetes.md)",
					Hopeless: true}
			}
			found = append(found, t)
		case of.Kind == "Pod" && owns(of.Name) && strings.HasPrefix(one.Reason, "Failed"):
			found = append(found, Trouble{What: fmt.Sprintf("pods do not start: %s: %s", one.Reason, one.Message),
				Passing: one.Reason == "FailedMount"})
		}
	}
	return found[max(0, len(found)-1):]
}
