package campaign

// This file says why no pod of a campaign runs.

import (
	"cmp"
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/kube"
)

// roomHint and imageHint say what to do about pods that have no room, or no image.
const (
	roomHint  = "ask for less (kubernetes.cpu, memory), or let pods run elsewhere (kubernetes.pod)"
	imageHint = "correct kubernetes.image, or name the login of the registry in kubernetes.pod: {imagePullSecrets: …}"
)

// stuck says what keeps pods from running, and gives up when nothing has moved for as long as the patience lasts.
func (f *follower) stuck(ctx context.Context, now job, pods []kube.Pod) error {
	var found []kube.Trouble
	running := false
	for _, one := range pods {
		running = running || one.Status.Phase == "Running"
		if t, is := kube.TroubleOf(one, roomHint, imageHint); is {
			found = append(found, t)
		}
	}
	if running {
		return nil
	}
	if len(found) == 0 && time.Since(f.patience.Moved) > 2*f.Poll {
		found = f.fromEvents(ctx, now)
	}
	why, over, err := f.patience.Stuck(found)
	if err == nil && over {
		err = fmt.Errorf("no pod has run for %s (--patience): %s", f.Patience,
			cmp.Or(why, "see kubectl describe job "+f.name()))
	}
	return err
}

// fromEvents reads the warnings about the Job and its pods: that pods can't be created, or that volumes can't be
// mounted.
func (f *follower) fromEvents(ctx context.Context, now job) []kube.Trouble {
	return f.Kubectl.TroubleOfCreation(ctx, func(of kube.Reference) bool {
		// An earlier campaign's Job had the same name, and its events are still there.
		return of.UID == now.Metadata.UID && now.Status.Active == 0
	}, func(pod string) bool { return now.Status.Active > 0 && strings.HasPrefix(pod, f.name()+"-") })
}
