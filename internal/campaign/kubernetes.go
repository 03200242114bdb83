package campaign

// This file runs cells as the pods of an Indexed Job, collects their results from their logs, and removes the Job.

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/kube"
)

// Kubernetes runs each cell in a pod.
type Kubernetes struct {
	Manifest
	Kubectl kube.Kubectl
	// Folder is where the results are kept.
	Folder Folder
	// Fresh removes a Job that an earlier campaign left.
	Fresh bool
	// Patience is how long the campaign waits while no cell can run, because pods are pending or the API server is away.
	Patience time.Duration
	// Poll is the interval at which the cluster is asked.
	Poll time.Duration
}

// mostRounds is the number of Jobs that run cells whose results were lost with their pods' logs.
const mostRounds = 3

// removeLimit bounds the time in which the Job is removed.
const removeLimit = 2 * time.Minute

// Run runs the cells in a Job. A Job that an earlier campaign left is followed to its end first, unless it is to be
// removed. In the end the Job and its files are removed, unless the API server is away.
func (k Kubernetes) Run(ctx context.Context, cells []Cell, into Sink) error {
	if err := k.Kubectl.Allowed(ctx, rights()); err != nil {
		return err
	}
	left := cells
	for round := 0; len(left) > 0; round++ {
		f := &follower{Kubernetes: k, into: into, state: map[int]outcome{}, seen: map[string]bool{},
			disrupted: map[int]int{}, patience: kube.NewPatience(k.Patience, into.Say), unread: map[string]time.Time{}}
		f.Fresh = k.Fresh && round == 0
		adopted, err := f.begin(ctx, left)
		if err == nil {
			err = f.follow(ctx)
		}
		if err = errors.Join(err, f.end(ctx, err)); err != nil {
			return err
		}
		left = slices.DeleteFunc(slices.Clone(left), f.over)
		if adopted {
			round = -1
		}
		if round+1 == mostRounds {
			for _, cell := range left {
				into.Failed(cell, fmt.Errorf("its result was lost with the log of its pod in %d Jobs: see whether pods, or their "+
					"logs, are removed soon after their end in this cluster", mostRounds))
			}
			return nil
		}
	}
	return nil
}

// outcome is what became of a cell in a Job.
type outcome int

const (
	hasResult outcome = iota + 1
	hasFailed
	isLost
)

// follower follows one Job.
type follower struct {
	Kubernetes
	into Sink
	// cells are those of the Job, by index; state is what became of them.
	cells []Cell
	state map[int]outcome
	// seen are the pods that have been dealt with; disrupted counts those of an index that were evicted or lost.
	seen      map[string]bool
	disrupted map[int]int
	// why is what a failed pod of an index said last.
	why map[int]string
	// patience is about pods that do not run.
	patience *kube.Patience
	// unread is since when pods have ended whose logs can't be read yet, unsettled whether the last look found one.
	unread    map[string]time.Time
	unsettled bool
	// unreachable means that nothing can be removed.
	unreachable bool
}

// over reports whether a cell needs no other Job.
func (f *follower) over(cell Cell) bool {
	i := slices.IndexFunc(f.cells, func(one Cell) bool { return one.Number == cell.Number })
	return i >= 0 && (f.state[i] == hasResult || f.state[i] == hasFailed)
}

// begin creates the Job, or finds that of an earlier campaign.
func (f *follower) begin(ctx context.Context, cells []Cell) (adopted bool, err error) {
	f.why, f.patience.Answered = map[int]string{}, time.Now()
	var earlier job
	err = f.Kubectl.Get(ctx, &earlier, "job", f.name())
	switch {
	case err == nil && f.Fresh:
		if err := f.removeAll(ctx); err != nil {
			return false, err
		}
		f.into.Say(fmt.Sprintf("removed the Job %s, which an earlier campaign left", f.name()))
	case err == nil:
		return true, f.adopt(earlier)
	case !kube.NotFound(err):
		f.unreachable = kube.Away(err)
		return false, fmt.Errorf("looking for a Job of an earlier campaign: %w", err)
	}
	f.cells = cells
	files, made, err := f.Objects(cells)
	if err != nil {
		return false, err
	}
	// Of a campaign that was killed between the two, files may be left.
	if err := f.remove(ctx, "configmap"); err != nil {
		return false, fmt.Errorf("removing the files of an earlier campaign: %w", err)
	}
	text, err := json.Marshal(object{"apiVersion": "v1", "kind": "List", "items": []any{files, made}})
	if err != nil {
		return false, fmt.Errorf("writing the Job: %w", err)
	}
	if _, err := f.Kubectl.Run(ctx, text, "create", "-f", "-"); err != nil {
		return false, kube.RefusedCreation("the Job", err)
	}
	f.into.Say(fmt.Sprintf("created the Job %s: %d cells, %d pods at a time", f.name(), len(cells),
		min(f.Parallel, len(cells))))
	return false, nil
}

// adopt takes over a Job that an earlier campaign left. If its pods run another image, say, its results are not those
// of this campaign.
func (f *follower) adopt(earlier job) error {
	pods, err := f.podsDigest()
	if err != nil {
		return err
	}
	if earlier.Metadata.Annotations[podsAnnotation] != pods {
		return fmt.Errorf("the Job %s, which an earlier campaign left, has other pods than this one: undo the change of "+
			"kubernetes in %s or of --image to go on with it, or remove it with kubectl delete job,configmap %[1]s", f.name(),
			f.Suite.File)
	}
	if f.cells, err = Select(f.Cells, earlier.Metadata.Annotations[cellsAnnotation]); err != nil {
		return fmt.Errorf("the Job %s is there, and dlqbench did not make it: %w", f.name(), err)
	}
	f.into.Say(fmt.Sprintf("going on with the Job %s, which an earlier campaign left", f.name()))
	return nil
}

// follow collects results until the Job has ended or ctx ends.
func (f *follower) follow(ctx context.Context) error {
	ticker := time.NewTicker(f.Poll)
	defer ticker.Stop()
	for {
		over, err := f.look(ctx)
		if err != nil || over {
			return err
		}
		select {
		case <-ctx.Done():
			return context.Cause(ctx)
		case <-ticker.C:
		}
	}
}

// look asks for the Job and its pods once.
func (f *follower) look(ctx context.Context) (over bool, err error) {
	var now job
	var pods kube.List[kube.Pod]
	err = f.Kubectl.Get(ctx, &now, "job", f.name())
	if err == nil {
		err = f.Kubectl.Get(ctx, &pods, "pods", "-l", jobLabel+"="+f.name())
	}
	switch {
	case ctx.Err() != nil:
		return false, context.Cause(ctx)
	case kube.NotFound(err):
		return false, fmt.Errorf("the Job %s is gone: somebody removed it; the results so far are kept", f.name())
	case kube.Away(err):
		return false, f.away(err)
	case err != nil:
		return false, fmt.Errorf("following the Job: %w", err)
	}
	f.patience.Answered, f.unsettled = time.Now(), false
	for _, one := range pods.Items {
		if err := f.pod(ctx, one); err != nil {
			return false, err
		}
	}
	complete := kube.Find(now.Status.Conditions, "Complete", "True")
	failed := kube.Find(now.Status.Conditions, "Failed", "True")
	if err := f.failedIndexes(now); err != nil {
		return false, err
	}
	switch {
	case complete == nil && failed == nil:
		return false, f.stuck(ctx, now, pods.Items)
	case f.unsettled:
		return false, nil
	}
	f.ended(now, failed)
	return true, nil
}

// away bears with an API server that does not answer, as long as the patience lasts.
func (f *follower) away(err error) error {
	if !f.patience.Away("the pods go on", err) {
		return nil
	}
	f.unreachable = true
	return fmt.Errorf("the API server has not answered for %s, and the Job %s goes on in the cluster: %w", f.Patience,
		f.name(), err)
}

// pod deals with what a pod shows: a result, a failure, or that it runs.
func (f *follower) pod(ctx context.Context, one kube.Pod) error {
	index, err := strconv.Atoi(one.Metadata.Annotations[indexAnnotation])
	if err != nil || index < 0 || index >= len(f.cells) || f.seen[one.Metadata.UID] {
		return nil //nolint:nilerr // it is a pod of somebody else's, or known
	}
	switch one.Status.Phase {
	case "Running":
		f.patience.Moved = time.Now()
	case "Succeeded":
		return f.succeeded(ctx, one, index)
	case "Failed":
		f.seen[one.Metadata.UID], f.patience.Moved = true, time.Now()
		if lost := kube.Find(one.Status.Conditions, "DisruptionTarget", "True"); lost != nil {
			return f.disruption(one, index, lost)
		}
		f.why[index] = f.failure(ctx, one)
	}
	return nil
}

// succeeded reads the result of a pod.
func (f *follower) succeeded(ctx context.Context, one kube.Pod, index int) error {
	f.patience.Moved = time.Now()
	if f.state[index] == hasResult {
		f.seen[one.Metadata.UID] = true
		return nil
	}
	log, err := f.Kubectl.Run(ctx, nil, "logs", one.Metadata.Name, "-c", containerName)
	switch {
	case ctx.Err() != nil:
		return context.Cause(ctx)
	case kube.Forbidden(err):
		return fmt.Errorf("reading the result of %s: %w", f.cells[index].Name, err)
	case err != nil && (kube.Away(err) || !kube.NotFound(err)) && f.waitsFor(one):
		f.patience.SayOnce(fmt.Sprintf("the log of the pod %s can't be read yet: %v", one.Metadata.Name, err))
		return nil // the next look asks again
	}
	f.seen[one.Metadata.UID] = true
	var result Result
	if err == nil {
		result, err = readLine(log)
	}
	if err != nil {
		f.state[index] = isLost
		f.into.Say(fmt.Sprintf("%s has no result: %v; it is run again", f.cells[index].Name, err))
		return nil
	}
	if err := result.of(f.cells[index]); err != nil {
		return fmt.Errorf("%w: the image must have the dlqbench of this command", err)
	}
	f.state[index] = hasResult
	if result.Dir != "" && f.Suite.Kubernetes.Claim == "" {
		result.Dir = filepath.Join(f.Folder.dir, f.cells[index].folder()) // the pod's own is gone with it
	}
	return f.into.Result(f.cells[index], result)
}

// waitsFor reports whether the log of a pod may still be read, which has been tried for less than the patience.
func (f *follower) waitsFor(one kube.Pod) bool {
	since, tried := f.unread[one.Metadata.UID]
	if !tried {
		since = time.Now()
		f.unread[one.Metadata.UID] = since
	}
	waits := time.Since(since) < f.Patience
	f.unsettled = f.unsettled || waits
	return waits
}

// mostDisruptions is how often the pods of one cell may be lost or evicted.
const mostDisruptions = 10

func (f *follower) disruption(one kube.Pod, index int, lost *kube.Condition) error {
	f.disrupted[index]++
	about := fmt.Sprintf("the pod %s of %s was lost or evicted (%s: %s)", one.Metadata.Name, f.cells[index].Name,
		lost.Reason, cmp.Or(one.Status.Message, lost.Message))
	if f.disrupted[index] >= mostDisruptions {
		return fmt.Errorf("%s for the %dth time: give the pods a place where they may stay", about, mostDisruptions)
	}
	f.into.Say(about + "; the cell is run again")
	return nil
}

// failure says why a pod failed.
func (f *follower) failure(ctx context.Context, one kube.Pod) string {
	status := one.Container(containerName)
	if status == nil || status.State.Terminated == nil {
		return cmp.Or(one.Status.Message, one.Status.Reason, "it never ran")
	}
	ended := status.State.Terminated
	switch {
	case ended.Reason == "OOMKilled":
		return fmt.Sprintf("it used more than its memory, %s, and was killed: raise kubernetes.memory",
			f.Suite.Kubernetes.Memory)
	case one.Status.Reason == "DeadlineExceeded":
		return fmt.Sprintf("it did not end within %s", f.Limit)
	case ended.Reason != "Error":
		return strings.TrimSpace(ended.Reason + ": " + ended.Message)
	}
	log, err := f.Kubectl.Run(ctx, nil, "logs", one.Metadata.Name, "-c", containerName, "--tail=5")
	if err != nil {
		log = []byte("(" + err.Error() + ")")
	}
	return fmt.Sprintf("exit code %d, %s", ended.ExitCode, lastOf(log))
}

// failedIndexes reports the cells whose pods have failed too often. If none has a result by then, the campaign gives
// up.
func (f *follower) failedIndexes(now job) error {
	failed, err := indexes(now.Status.FailedIndexes)
	if err != nil {
		return err
	}
	results, last := 0, ""
	for index, state := range f.state {
		if state == hasResult {
			results++
		}
		last = cmp.Or(f.why[index], last)
	}
	for _, index := range failed {
		last = cmp.Or(f.why[index], last, "see kubectl describe job "+f.name())
		if index >= len(f.cells) || f.state[index] == hasFailed || f.state[index] == hasResult {
			continue
		}
		f.state[index] = hasFailed
		f.into.Failed(f.cells[index], fmt.Errorf("its pods failed: %s", cmp.Or(f.why[index], "see kubectl describe job "+
			f.name())))
	}
	if results == 0 && len(failed) >= mostFailures {
		return fmt.Errorf("giving up after %d cells without a result: %s", len(failed), last)
	}
	return nil
}

// ended says of each cell without a result what became of it when its Job has ended.
func (f *follower) ended(now job, failed *kube.Condition) {
	for index, cell := range f.cells {
		if f.state[index] != 0 {
			continue
		}
		if failed == nil {
			f.state[index] = isLost // its pod is gone
			continue
		}
		f.state[index] = hasFailed
		if failed.Reason == "DeadlineExceeded" {
			f.into.Failed(cell, gate.NotRun{Why: fmt.Sprintf("the budget of %s is used up", f.Suite.Budget)})
			continue
		}
		if completed, err := indexes(now.Status.CompletedIndexes); err == nil && slices.Contains(completed, index) {
			f.state[index] = isLost
			continue
		}
		f.into.Failed(cell, gate.NotRun{Why: "its Job failed: " + cmp.Or(failed.Message, failed.Reason)})
	}
}

// indexes reads lists such as "0,2-4".
func indexes(text string) (all []int, err error) {
	if text == "" {
		return nil, nil
	}
	numbers, err := gate.ParseRanges(text, mostCells)
	if err != nil {
		return nil, fmt.Errorf("reading the indexes of the Job: %w", err)
	}
	for _, number := range numbers {
		all = append(all, int(number)) //nolint:gosec // below mostCells
	}
	return all, nil
}

// remove removes an object, if it is there, and does not wait for its end.
func (f *follower) remove(ctx context.Context, kind string, more ...string) error {
	args := append([]string{"delete", kind, f.name(), "--ignore-not-found", "--wait=false"}, more...)
	_, err := f.Kubectl.Run(ctx, nil, args...)
	return err
}

// end collects what has ended meanwhile, and removes the Job and its files.
func (f *follower) end(ctx context.Context, failed error) error {
	if f.unreachable || f.cells == nil {
		return nil
	}
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer stop()
	if failed != nil {
		_, _ = f.look(ctx) // results of cells that have just ended are not lost, if they can be read
	}
	return f.removeAll(ctx)
}

// removeAll removes the Job and its files, and waits until the Job is gone.
func (f *follower) removeAll(ctx context.Context) error {
	ctx, stop := context.WithTimeout(ctx, removeLimit)
	defer stop()
	err, errFiles := f.remove(ctx, "job", "--cascade=foreground"), f.remove(ctx, "configmap")
	for err == nil {
		var still job
		if err = f.Kubectl.Get(ctx, &still, "job", f.name()); kube.NotFound(err) {
			err = nil
			break
		}
		select {
		case <-ctx.Done():
			err = fmt.Errorf("it is still there after %s", removeLimit)
		case <-time.After(f.Poll):
		}
	}
	if err = errors.Join(err, errFiles); err != nil {
		return fmt.Errorf("removing the Job %s and its files: %w; kubectl delete job,configmap %[1]s removes them", f.name(),
			err)
	}
	return nil
}

// job is what is read of the Job.
type job struct {
	Metadata struct {
		UID         string
		Annotations map[string]string
	}
	Status struct {
		Active                          int
		CompletedIndexes, FailedIndexes string
		Conditions                      []kube.Condition
	}
}
