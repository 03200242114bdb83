package pods

// This file carries out a run in a cluster: it creates the coordinator, then the consumer, follows both, copies the run
// directory and removes everything.

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/internal/kube"
)

// Cluster runs scenarios in a cluster.
type Cluster struct {
	Kubectl kube.Kubectl
	// Patience is how long the run waits while pods do not start or the API server is away.
	Patience time.Duration
	// Poll is the interval at which the cluster is asked.
	Poll time.Duration
	// Say prints a line for people, Progress gets the snapshots of the run. Log gets the coordinator's own log.
	Say      func(line string)
	Progress func(snapshot json.RawMessage)
	Log      io.Writer
	// Unrecorded makes a run directory if the coordinator is gone, and with it its own. It returns "" if nothing of the
	// run is known that could be judged.
	Unrecorded func(why error) (dir string, err error)
}

const (
	// judgeLimit bounds the time in which an interrupted run lifts its faults and judges what there is.
	judgeLimit = 3 * time.Minute
	// removeLimit bounds the time in which everything is removed.
	removeLimit = 2 * time.Minute
	// copyLimit bounds one copy of the run directory. mostCopies is how often it is tried.
	copyLimit, mostCopies = 10 * time.Minute, 3
	// logLimit bounds reading the log of a pod, whose node may be gone.
	logLimit = time.Minute
	// quietFor is how long no pod has started before it is asked why: creating a pod takes some seconds.
	quietFor = 15 * time.Second
	// jobLabel is the label of the coordinator's pod with the name of its Job.
	jobLabel = "batch.kubernetes.io/job-name"
)

// Run carries out one run and puts its run directory into the folder out. It returns what the coordinator said last and
// the directory here, "" if there is none. In the end nothing that it created is left. When ctx ends, the run is ended
// early and judged.
func (c Cluster) Run(ctx context.Context, m Manifest, out string) (done Done, dir string, err error) {
	if _, err := m.Consumer("", "", nil); err != nil {
		return done, "", err
	}
	if err := c.Kubectl.Allowed(ctx, m.Rights()); err != nil {
		return done, "", err
	}
	f := &follower{Cluster: c, Manifest: m, patience: kube.NewPatience(c.Patience, c.Say)}
	defer func() {
		for _, one := range f.deleted {
			one.end()
		}
		left := f.remove(ctx)
		if f.gone && left != nil { // pods of a node that is gone stay until the node is removed
			f.Say(left.Error())
			left = nil
		}
		err = errors.Join(err, left)
	}()
	if err := f.begin(ctx); err != nil {
		return done, "", err
	}
	if dir, err = f.toEnd(ctx, out); err == nil && dir != "" {
		err = f.keepLogs(dir)
	}
	if f.done != nil {
		done = *f.done
	}
	return done, dir, err
}

// follower follows one run.
type follower struct {
	Cluster
	Manifest
	// owner is the UID of the Job, coordinator its pod, once there is one.
	owner       string
	coordinator *kube.Pod
	// read is the time of the last line of the log that was read.
	read string
	// consumers are the names of the consumer's pods. deleted are those that faults have deleted.
	consumers []string
	deleted   []deletedPod
	// hasConsumer says that the consumer was created. done is how the run ended.
	hasConsumer bool
	done        *Done
	// gone says that the coordinator is gone, and a run directory was made in place of its own.
	gone bool
	// patience is about pods that do not start. running is the most pods that ran.
	patience *kube.Patience
	running  int
}

// toEnd follows the run to its end and returns its directory here, "" if there is none. If the coordinator is gone, one
// is made from what is known of the run.
func (f *follower) toEnd(ctx context.Context, out string) (dir string, err error) {
	if err = f.follow(ctx); err == nil && f.done.Dir != "" {
		dir, err = f.fetch(out)
	}
	var gone *goneError
	if !errors.As(err, &gone) || ctx.Err() != nil {
		return dir, err
	}
	if dir, err = f.Unrecorded(gone); dir == "" {
		return "", cmp.Or[error](err, gone)
	}
	f.done, f.gone = &Done{Judged: true}, true
	return dir, err
}

// begin creates the Job, and then what belongs to it.
func (f *follower) begin(ctx context.Context) error {
	job, err := f.Job()
	if err != nil {
		return err
	}
	created, err := f.create(ctx, "the Job", job)
	if err != nil {
		return err
	}
	var made struct{ Metadata struct{ UID string } }
	if err := json.Unmarshal(created, &made); err != nil {
		return fmt.Errorf("reading the Job that was created: %w", err)
	}
	f.owner = made.Metadata.UID
	needed, err := f.Needed(f.owner)
	if err != nil {
		return err
	}
	_, err = f.create(ctx, "the ConfigMap and the Secret", object{"apiVersion": "v1", "kind": "List", "items": needed})
	if err == nil {
		f.Say(fmt.Sprintf("created the Job %s, which runs dlqbench", f.Name))
	}
	return err
}

func (f *follower) create(ctx context.Context, what string, one object) ([]byte, error) {
	text, err := json.Marshal(one)
	if err != nil {
		return nil, fmt.Errorf("writing %s: %w", what, err)
	}
	created, err := f.Kubectl.Run(ctx, text, "create", "-o", "json", "-f", "-")
	if err != nil {
		return nil, kube.RefusedCreation(what, err)
	}
	return created, nil
}

// follow follows the run to its end. If ctx ends before, the coordinator is told to end the run.
func (f *follower) follow(ctx context.Context) error {
	ticker := time.NewTicker(f.Poll)
	defer ticker.Stop()
	interrupted := ctx.Done()
	for {
		if err := f.look(ctx); err != nil || f.done != nil {
			return err
		}
		select {
		case <-interrupted:
			if f.coordinator == nil || f.coordinator.Status.Phase != "Running" {
				return errors.New("interrupted before dlqbench ran in the cluster")
			}
			var stop context.CancelFunc
			ctx, stop = context.WithTimeout(context.WithoutCancel(ctx), judgeLimit)
			defer stop() //nolint:revive // at most once
			interrupted = nil
			if err := f.interrupt(ctx); err != nil {
				return err
			}
		case <-ticker.C:
		}
		if err := ctx.Err(); err != nil && interrupted == nil {
			return fmt.Errorf("the run was interrupted and has not been judged for %s", judgeLimit)
		}
	}
}

// interrupt tells the coordinator to end the run.
func (f *follower) interrupt(ctx context.Context) error {
	err := f.Kubectl.Stream(ctx, judgeLimit, io.Discard, "exec", f.coordinator.Metadata.Name, "-c", coordinatorName, "--",
		program, "pod", "interrupt")
	if err != nil {
		return fmt.Errorf("ending the run: %w", err)
	}
	return nil
}

// look asks for the pods once, and reads what the coordinator has said.
func (f *follower) look(ctx context.Context) error {
	var pods kube.List[kube.Pod]
	err := f.Kubectl.Get(ctx, &pods, "pods", "-l", runLabel+"="+f.Name)
	var answers bool
	if err == nil {
		answers, err = true, f.notice(ctx, pods.Items)
	}
	switch {
	case err == nil:
		f.patience.Answered = time.Now()
		return f.stuck(ctx, pods.Items)
	case ctx.Err() != nil:
		return nil //nolint:nilerr // follow deals with it
	case !kube.Away(err):
		return err
	case !f.patience.Away("the run goes on", err):
		return nil
	case answers:
		return &goneError{fmt.Errorf("the log of the pod that runs dlqbench could not be read for %s, as when its node is "+
			"gone: %w", f.Patience, err)}
	}
	return fmt.Errorf("the API server has not answered for %s: %w; Kubernetes removes what is left of the run %s after "+
		"its end", f.Patience, err, f.Name)
}

// goneError says that the coordinator is gone, and with it what it recorded.
type goneError struct{ why error }

func (e *goneError) Error() string { return e.why.Error() }
func (e *goneError) Unwrap() error { return e.why }

// errGone is the error of a coordinator whose pod is not there any more.
var errGone = &goneError{errors.New("the pod that runs dlqbench is gone, it was deleted or evicted: see kubectl get " +
	"events")}

// notice finds the coordinator among the pods, reads its log, and finds out whether it is gone.
func (f *follower) notice(ctx context.Context, pods []kube.Pod) error {
	running := 0
	now := -1
	f.consumers = f.consumers[:0]
	for i, one := range pods {
		if one.Status.Phase == "Running" {
			running++
		}
		if one.Metadata.Labels[jobLabel] == "" {
			f.consumers = append(f.consumers, one.Metadata.Name)
			f.restarts(ctx, one)
		}
		is := one.Metadata.Labels[jobLabel] == f.Name
		if is && (f.coordinator == nil || f.coordinator.Metadata.UID == one.Metadata.UID) {
			now = i
		}
	}
	if running > f.running {
		f.running, f.patience.Moved = running, time.Now()
	}
	if now < 0 {
		if f.coordinator != nil {
			return errGone
		}
		return nil
	}
	f.coordinator = &pods[now]
	status := f.coordinator.Container(coordinatorName)
	if status == nil && f.coordinator.Status.Phase == "Failed" {
		return &goneError{fmt.Errorf("the pod that runs dlqbench was ended by its node: %s", strings.TrimSpace(
			f.coordinator.Status.Reason+" "+f.coordinator.Status.Message))}
	}
	if status == nil || status.State.Running == nil && status.State.Terminated == nil {
		return nil
	}
	if err := f.listen(ctx); err != nil {
		return err
	}
	ended := status.State.Terminated
	if f.done != nil || ended == nil {
		return nil
	}
	return &goneError{fmt.Errorf("the pod that runs dlqbench ended before the run did: %s, exit code %d%s",
		strings.TrimSpace(ended.Reason+" "+ended.Message), ended.ExitCode,
		map[bool]string{true: ": its log says why", false: ""}[ended.Reason == "Error"])}
}

// restarts says that Kubernetes waits before it starts a consumer again, which ended by itself or by a fault.
func (f *follower) restarts(ctx context.Context, one kube.Pod) {
	for _, status := range one.Status.ContainerStatuses {
		waiting := status.State.Waiting
		key := one.Metadata.Name + "/" + status.Name
		if waiting == nil || waiting.Reason != "CrashLoopBackOff" || !f.patience.First(key) {
			continue
		}
		f.Say(fmt.Sprintf("the container %s of the pod %s ended more than once, and Kubernetes waits before it starts it "+
			"again; %s", status.Name, one.Metadata.Name, f.lastOf(ctx, one, status)))
	}
}

// lastOf says why a container ended: that it could not be started, or the last line of its log.
func (f *follower) lastOf(ctx context.Context, one kube.Pod, status kube.ContainerStatus) string {
	if last := status.LastState.Terminated; last != nil && last.Reason != "Error" && last.Reason != "Completed" {
		return "it ended because of " + strings.TrimSuffix(last.Reason+": "+last.Message, ": ")
	}
	log, err := f.Kubectl.Run(ctx, nil, "logs", one.Metadata.Name, "-c", status.Name, "--tail=1")
	if err != nil {
		log = []byte("(" + err.Error() + ")")
	}
	return fmt.Sprintf("its last line is: %s", subject.Redact(bytes.TrimSpace(log), subject.Launch{}))
}

// deletedPod is a pod that a fault has deleted. Its log is read to its end, or until end is called.
type deletedPod struct {
	name string
	log  *bytes.Buffer
	over chan struct{}
	end  func()
}

// isOver reports whether the log was read to its end.
func (d deletedPod) isOver() bool {
	select {
	case <-d.over:
		return true
	default:
		return false
	}
}

// followLog reads the log of a pod that is to be deleted: what the consumer says while it ends would be gone with it.
func (f *follower) followLog(ctx context.Context, pod string) error {
	if slices.ContainsFunc(f.deleted, func(one deletedPod) bool { return one.name == pod && !one.isOver() }) {
		return nil // its eviction was refused before
	}
	container, err := f.consumer()
	if err != nil {
		return err
	}
	logging, cancel := context.WithCancel(context.WithoutCancel(ctx))
	one := deletedPod{name: pod, log: &bytes.Buffer{}, over: make(chan struct{})}
	one.end = func() { cancel(); <-one.over }
	f.deleted = append(f.deleted, one)
	go func() {
		defer close(one.over)
		_ = f.Kubectl.Stream(logging, copyLimit, one.log, "logs", pod, "-c", fmt.Sprint(container["name"]), "--follow")
	}()
	return nil
}

// evict evicts a pod, as the drain of a node does. A disruption budget may forbid it.
func (f *follower) evict(ctx context.Context, pod string) error {
	namespace := f.coordinator.Metadata.Namespace
	eviction, err := json.Marshal(object{"apiVersion": "policy/v1", "kind": "Eviction",
		"metadata": object{"name": pod, "namespace": namespace}})
	if err != nil {
		return fmt.Errorf("writing the eviction: %w", err)
	}
	path := "/api/v1/namespaces/" + namespace + "/pods/" + pod + "/eviction"
	_, err = f.Kubectl.Run(ctx, eviction, "create", "--raw", path, "-f", "-")
	if kube.Said(err, forbiddenNow) {
		f.patience.SayOnce(fmt.Sprintf("the pod %s can't be evicted now, and its node could not be drained: %s; it is tried "+
			"again every %s, for %s", pod, err, evictEvery, deleteLimit))
	}
	return err
}

// delete deletes or evicts a pod because a fault wants that, and tells the coordinator. It does not wait until the pod
// is gone.
func (f *follower) delete(ctx context.Context, pod string) error {
	err := f.followLog(ctx, pod)
	if err != nil {
		return err
	}
	if f.Evict {
		err = f.evict(ctx, pod)
	} else {
		_, err = f.Kubectl.Run(ctx, nil, "delete", "pod", pod, "--wait=false")
	}
	forbidden := f.Evict && kube.Said(err, forbiddenNow) // the coordinator asks again
	if kube.Away(err) && !forbidden {
		return err // the next look asks again
	}
	answer := []string{"exec", f.coordinator.Metadata.Name, "-c", coordinatorName, "--", program, "pod", "deleted", pod}
	if err != nil {
		answer = append(answer, err.Error())
	}
	if err := f.Kubectl.Stream(ctx, judgeLimit, io.Discard, answer...); err != nil {
		return fmt.Errorf("saying that a pod was deleted: %w", err)
	}
	return nil
}

// keepLogs puts the logs of the consumer's pods into the run directory: of the containers that run, of those before
// them, and of pods that faults have deleted.
func (f *follower) keepLogs(dir string) error {
	container, err := f.consumer()
	if err != nil {
		return err
	}
	folder := filepath.Join(dir, "logs")
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("keeping the logs of the pods: %w", err)
	}
	keep := func(name string, log *bytes.Buffer) error {
		file := filepath.Join(folder, name+".log")
		if err := os.WriteFile(file, subject.Redact(log.Bytes(), subject.Launch{}), 0o600); err != nil {
			return fmt.Errorf("keeping the log of a pod: %w", err)
		}
		return nil
	}
	for _, pod := range f.consumers {
		for _, kind := range []struct{ suffix, flag string }{{"", "--previous=false"}, {"-previous", "--previous"}} {
			var log bytes.Buffer
			err := f.Kubectl.Stream(context.Background(), logLimit, &log, "logs", pod, "-c", fmt.Sprint(container["name"]),
				kind.flag)
			if kube.Away(err) {
				break
			}
			if err != nil {
				continue // there was none before
			}
			if err := keep(pod+kind.suffix, &log); err != nil {
				return err
			}
		}
	}
	for i, one := range f.deleted {
		one.end()
		if err := keep(fmt.Sprintf("%s-deleted-%d", one.name, i+1), one.log); err != nil {
			return err
		}
	}
	return nil
}

// listen reads the lines of the coordinator's log that are new.
func (f *follower) listen(ctx context.Context) error {
	args := []string{"logs", f.coordinator.Metadata.Name, "-c", coordinatorName, "--timestamps"}
	if f.read != "" {
		args = append(args, "--since-time="+f.read)
	}
	log, err := f.Kubectl.Run(ctx, nil, args...)
	if kube.NotFound(err) {
		return errGone
	}
	if err != nil {
		return fmt.Errorf("reading the log of the pod that runs dlqbench: %w", err)
	}
	for line := range bytes.Lines(log) {
		if !bytes.HasSuffix(line, []byte("\n")) {
			break // the rest of it comes with the next look
		}
		stamp, text, _ := strings.Cut(strings.TrimSuffix(string(line), "\n"), " ")
		if stamp <= f.read { // since-time counts whole seconds
			continue
		}
		if err := f.hear(ctx, text); err != nil {
			return err
		}
		f.read = stamp
	}
	return nil
}

// hear deals with one line of the coordinator's log.
func (f *follower) hear(ctx context.Context, line string) error {
	news, is := readNews(line)
	switch {
	case !is:
		_, err := fmt.Fprintln(f.Log, line)
		return err
	case news.Progress != nil:
		f.Progress(news.Progress)
	case news.Done != nil:
		f.done = news.Done
	case news.Delete != "":
		return f.delete(ctx, news.Delete)
	case news.Env != nil && !f.hasConsumer:
		consumer, err := f.Consumer(f.owner, f.coordinator.Status.PodIP, news.Env)
		if err != nil {
			return err
		}
		if _, err := f.create(ctx, "the consumer", consumer); err != nil {
			if kube.Said(err, "(AlreadyExists)") {
				err = fmt.Errorf("%w: the run creates it and removes it: use another namespace. If a run that was killed left "+
					"it, kubectl delete job -l %s removes all of that run", err, kube.Selector)
			}
			return err
		}
		f.hasConsumer, f.patience.Moved = true, time.Now()
		f.Say(fmt.Sprintf("created the %s %s with %d pods", f.Workload["kind"], f.workloadName(), f.Instances))
	}
	return nil
}

// stuck says what keeps pods from running, and gives up when no pod has started for as long as the patience lasts.
func (f *follower) stuck(ctx context.Context, pods []kube.Pod) error {
	wanted := 1
	if f.hasConsumer {
		wanted += f.Instances
	}
	if f.running >= wanted || f.done != nil {
		return nil
	}
	var found []kube.Trouble
	for _, one := range pods {
		if t, is := kube.TroubleOf(one, "make room, or let pods run elsewhere (nodeSelector, tolerations in the manifest)",
			"correct --image or the manifest, or name the login of the registry there (imagePullSecrets)"); is {
			found = append(found, t)
		}
	}
	if len(found) == 0 && time.Since(f.patience.Moved) > min(quietFor, f.Patience/2) {
		f.sidecarsSay(ctx, pods)
		found = f.Kubectl.TroubleOfCreation(ctx, func(of kube.Reference) bool {
			return of.Kind == "Job" && of.Name == f.Name || of.Name == f.workloadName() ||
				of.Kind == "ReplicaSet" && strings.HasPrefix(of.Name, f.workloadName()+"-")
		}, func(name string) bool {
			return slices.ContainsFunc(pods, func(one kube.Pod) bool { return one.Metadata.Name == name })
		})
	}
	why, over, err := f.patience.Stuck(found)
	if err == nil && over {
		err = fmt.Errorf("%d of %d pods run, and no other has started for %s (--patience): %s", f.running, wanted,
			f.Patience, cmp.Or(why, "see kubectl get events"))
	}
	return err
}

// sidecarsSay says what keeps a consumer from being started whose sidecar runs, such as a network policy.
func (f *follower) sidecarsSay(ctx context.Context, pods []kube.Pod) {
	for _, one := range pods {
		waiting := slices.ContainsFunc(one.Status.InitContainerStatuses, func(status kube.ContainerStatus) bool {
			return status.Name == sidecarName && status.State.Running != nil
		})
		if one.Status.Phase != "Pending" || !waiting {
			continue
		}
		log, err := f.Kubectl.Run(ctx, nil, "logs", one.Metadata.Name, "-c", sidecarName, "--tail=1")
		if line := strings.TrimSpace(string(log)); err == nil && line != "" && !strings.HasPrefix(line, isInstance) {
			f.patience.SayOnce("the sidecar in the pod " + one.Metadata.Name + " says: " + line)
		}
	}
}

// fetch copies the run directory into the folder out.
func (f *follower) fetch(out string) (string, error) {
	ctx := context.Background() // also after an interruption
	dir := filepath.Join(out, filepath.Base(f.done.Dir))
	for tries := 1; ; tries++ {
		err := f.fetchTo(ctx, dir)
		if err == nil {
			return dir, nil
		}
		err = fmt.Errorf("copying the run directory: %w", err)
		switch {
		case errors.Is(err, os.ErrExist):
			return "", err
		case kube.NotFound(err):
			return "", errGone
		case tries == mostCopies:
			return "", &goneError{err}
		}
		f.Say(err.Error() + "; it is tried again")
	}
}

func (f *follower) fetchTo(ctx context.Context, dir string) error {
	if _, err := os.Stat(dir); err == nil {
		return fmt.Errorf("%s: %w", dir, os.ErrExist)
	}
	partial := dir + ".partial"
	if err := os.RemoveAll(partial); err != nil {
		return err
	}
	defer func() { _ = os.RemoveAll(partial) }()
	reader, writer := io.Pipe()
	unpacked := make(chan error, 1)
	go func() {
		err := unpack(reader, partial)
		_ = reader.CloseWithError(err)
		unpacked <- err
	}()
	err := f.Kubectl.Stream(ctx, copyLimit, writer, "exec", f.coordinator.Metadata.Name, "-c", coordinatorName, "--",
		program, "pod", "copy", f.done.Dir)
	_ = writer.CloseWithError(err)
	if failed := <-unpacked; failed != nil {
		return failed // also if kubectl failed
	}
	return os.Rename(partial, dir)
}

// remove removes everything that the run has created, and waits until it is gone.
func (f *follower) remove(ctx context.Context) error {
	ctx, stop := context.WithTimeout(context.WithoutCancel(ctx), removeLimit)
	defer stop()
	selector := runLabel + "=" + f.Name
	_, err := f.Kubectl.Run(ctx, nil, "delete", f.kinds(), "-l", selector, "--ignore-not-found", "--wait=false",
		"--cascade=foreground")
	if err == nil {
		// The run is over: nothing that the consumer would do in the time it has to end counts.
		_, err = f.Kubectl.Run(ctx, nil, "delete", "pods", "-l", selector, "--ignore-not-found", "--wait=false",
			"--grace-period=1")
	}
	for err == nil {
		var left kube.List[kube.Pod]
		if err = f.Kubectl.Get(ctx, &left, f.kinds()+",pods", "-l", selector); err != nil || len(left.Items) == 0 {
			break
		}
		select {
		case <-ctx.Done():
			err = fmt.Errorf("%d objects are still there after %s", len(left.Items), removeLimit)
		case <-time.After(f.Poll):
		}
	}
	if err != nil {
		return fmt.Errorf("removing what the run has created: %w; kubectl delete %s -l %s removes it", err, f.kinds(),
			selector)
	}
	return nil
}
