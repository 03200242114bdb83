package campaign

// This file says why no pod of a campaign runs.

import (
	"context"
	"fmt"
	"strings"
	"time"
)

// trouble is a reason why pods do not run. hopeless means that waiting does not help.
type trouble struct {
	what     string
	hopeless bool
}

// stuck says what keeps pods from running, and gives up when nothing has moved for as long as the patience lasts.
func (f *follower) stuck(ctx context.Context, now job, pods []pod) error {
	var found []trouble
	running := false
	for _, one := range pods {
		running = running || one.Status.Phase == "Running"
		if t, is := troubleOf(one); is {
			found = append(found, t)
		}
	}
	if running {
		return nil
	}
	if len(found) == 0 && time.Since(f.moved) > 2*f.Poll {
		found = f.fromEvents(ctx, now)
	}
	for _, one := range found {
		if one.hopeless {
			return fmt.Errorf("the pods can't run: %s", one.what)
		}
		f.sayOnce(one.what)
	}
	if time.Since(f.moved) < f.Patience {
		return nil
	}
	why := fmt.Sprintf("see kubectl describe job %s", f.name())
	if len(found) > 0 {
		why = found[len(found)-1].what
	}
	return fmt.Errorf("no pod has run for %s (--patience): %s", f.Patience, why)
}

// troubleOf reads a pod's own status.
func troubleOf(one pod) (t trouble, is bool) {
	if one.Status.Phase != "Pending" {
		return t, false
	}
	if open := find(one.Status.Conditions, "PodScheduled", "False"); open != nil {
		return trouble{what: fmt.Sprintf("pods are pending, the scheduler says: %s; ask for less (kubernetes.cpu, memory), "+
			"or let pods run elsewhere (kubernetes.pod)", open.Message)}, true
	}
	status := one.cell()
	if status == nil || status.State.Waiting == nil {
		return t, false
	}
	waiting := status.State.Waiting
	switch waiting.Reason {
	case "ErrImagePull", "ImagePullBackOff", "RegistryUnavailable":
		return trouble{what: fmt.Sprintf("the image %s can't be pulled: %s; correct kubernetes.image, or name the login of "+
			"the registry in kubernetes.pod: {imagePullSecrets: …}", status.Image, waiting.Message)}, true
	case "InvalidImageName", "ErrImageNeverPull":
		return trouble{what: fmt.Sprintf("the image %s can't be used: %s: %s", status.Image, waiting.Reason,
			waiting.Message), hopeless: true}, true
	case "CreateContainerConfigError", "CreateContainerError", "RunContainerError":
		return trouble{what: fmt.Sprintf("the container can't be made: %s: %s", waiting.Reason, waiting.Message)}, true
	}
	return t, false
}

// fromEvents reads the warnings about the Job and its pods: that pods can't be created, or that volumes can't be
// mounted.
func (f *follower) fromEvents(ctx context.Context, now job) []trouble {
	var events list[event]
	err := f.Kubectl.get(ctx, &events, "events", "--field-selector=type=Warning", "--sort-by=.lastTimestamp")
	if err != nil {
		return []trouble{{what: "the events of the namespace can't be read: " + err.Error()}}
	}
	var found []trouble
	for _, one := range events.Items {
		of := one.InvolvedObject
		switch {
		case of.Kind == "Job" && of.Name == f.name() && one.Reason == "FailedCreate" && now.Status.Active == 0:
			what := "pods can't be created: " + one.Message
			if strings.Contains(one.Message, "exceeded quota") {
				what = "pods can't be created, the namespace's quota is used up: " + one.Message
			}
			found = append(found, trouble{what: what})
		case of.Kind == "Pod" && strings.HasPrefix(of.Name, f.name()+"-") && strings.HasPrefix(one.Reason, "Failed") &&
			now.Status.Active > 0:
			found = append(found, trouble{what: fmt.Sprintf("pods do not start: %s: %s", one.Reason, one.Message)})
		}
	}
	return found[max(0, len(found)-1):]
}
