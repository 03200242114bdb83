package campaign

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/kube"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// fakeCluster answers as kubectl does, from a Job in memory. Each look at the pods is a step of the test's script.
type fakeCluster struct {
	test  *testing.T
	cells []Cell
	// may says no to a right, "get pods/log" such as; refuse is what creating the Job fails with.
	may, refuse string
	// script changes the pods before they are listed for the nth time, counted from 0 over all Jobs.
	script func(f *fakeCluster, step int)
	steps  int
	job    *fakeJob
	files  bool
	pods   []kube.Pod
	logs   map[string]string
	// unreadable is the pod whose log a kubelet does not give out.
	unreadable string
	events     []kube.Event
	jobs       int
	calls      []string
	down       error
	fresh      bool
}

type fakeJob struct {
	annotations map[string]string
	completions int
	job
}

func said404(what string) error {
	return kube.Failure{Command: what, Text: "Error from server (NotFound): " + what}
}

func (f *fakeCluster) call(stdin []byte, args []string) ([]byte, error) {
	line := strings.Join(args, " ")
	f.calls = append(f.calls, line)
	switch {
	case strings.HasPrefix(line, "auth can-i "):
		if f.may != "" && strings.HasSuffix(line, f.may) {
			return nil, kube.Failure{Command: line, Text: "no"}
		}
		return []byte("yes\n"), nil
	case f.down != nil:
		return nil, f.down
	case args[0] == "create":
		return nil, f.create(stdin)
	case args[0] == "delete" && args[1] == "job":
		f.job, f.pods = nil, nil
		return nil, nil
	case args[0] == "delete":
		f.files = false
		return nil, nil
	case args[0] == "logs" && args[1] == f.unreadable:
		return nil, kube.Failure{Command: line, Text: "Error from server: 502 Bad Gateway"}
	case args[0] == "logs":
		if log, found := f.logs[args[1]]; found {
			return []byte(log), nil
		}
		return nil, said404("pods " + args[1])
	}
	return f.get(args[3], line)
}

func (f *fakeCluster) get(what, line string) ([]byte, error) {
	var out any
	switch what {
	case "job":
		if f.job == nil {
			return nil, said404(line)
		}
		f.job.Metadata.UID, f.job.Metadata.Annotations = fmt.Sprint("job-", f.jobs), f.job.annotations
		if f.script != nil {
			f.script(f, f.steps)
			f.steps++
		}
		if f.down != nil {
			return nil, f.down
		}
		if f.job == nil {
			return nil, said404(line)
		}
		out = f.job.job
	case "pods":
		out = kube.List[kube.Pod]{Items: f.pods}
	default:
		out = kube.List[kube.Event]{Items: f.events}
	}
	text, err := json.Marshal(out)
	return text, err
}

func (f *fakeCluster) create(stdin []byte) error {
	if f.refuse != "" {
		return kube.Failure{Command: "create", Text: f.refuse}
	}
	var made struct {
		Items []struct {
			Kind     string
			Metadata struct{ Annotations map[string]string }
			Spec     struct{ Completions int }
		}
	}
	if err := json.Unmarshal(stdin, &made); err != nil || len(made.Items) != 2 {
		f.test.Fatalf("created %s: %v", stdin, err)
	}
	f.files, f.job = true, &fakeJob{annotations: made.Items[1].Metadata.Annotations,
		completions: made.Items[1].Spec.Completions}
	f.jobs++
	return nil
}

// add adds a pod of an index in a phase, with a result in its log if it has succeeded.
func (f *fakeCluster) add(index int, phase string) *kube.Pod {
	one := kube.Pod{}
	one.Metadata.UID = fmt.Sprint(len(f.logs), "-", len(f.pods), "-", f.steps)
	one.Metadata.Name = "pod-" + one.Metadata.UID
	one.Metadata.Annotations, one.Status.Phase = map[string]string{indexAnnotation: fmt.Sprint(index)}, phase
	if phase == "Succeeded" {
		cells, err := Select(f.cells, f.job.annotations[cellsAnnotation])
		if err != nil {
			f.test.Fatal(err)
		}
		var log strings.Builder
		result := resultOf(f.test, cells[index], assertions.Pass)
		if cells[index].Number == 2 {
			result.Dir = workFolder + "/campaign/runs/x"
		}
		if err := result.WriteLine(&log); err != nil {
			f.test.Fatal(err)
		}
		f.logs[one.Metadata.Name] = "something\n" + log.String()
	}
	f.pods = append(f.pods, one)
	return &f.pods[len(f.pods)-1]
}

func (f *fakeCluster) ended(of, reason string) {
	f.job.Status.Conditions = []kube.Condition{{Type: of, Status: "True", Reason: reason}}
}

// waits makes a pod's container wait for a reason.
func waits(p *kube.Pod, reason, message string) {
	status := kube.ContainerStatus{Name: containerName, Image: "orders:1"}
	status.State.Waiting = &struct{ Reason, Message string }{reason, message}
	p.Status.ContainerStatuses = []kube.ContainerStatus{status}
}

func ends(p *kube.Pod, reason, message string, code int) {
	status := kube.ContainerStatus{Name: containerName}
	status.State.Terminated = &kube.Terminated{Reason: reason, Message: message, ExitCode: code}
	p.Status.ContainerStatuses = []kube.ContainerStatus{status}
}

// failedMount is an event of a pod of the Job, which waits.
func failedMount(f *fakeCluster) []kube.Event {
	name := Manifest{Suite: reload(f.test), Cells: f.cells}.name()
	f.job.Status.Active = 1
	of := kube.Reference{Kind: "Pod", Name: name + "-0"}
	return []kube.Event{{Reason: "FailedMount", Message: "x", InvolvedObject: of}}
}

// memory is a Sink.
type memory struct {
	mu      sync.Mutex
	results map[int]int
	failed  map[int]string
	said    []string
	dirs    []string
}

func (m *memory) Result(cell Cell, result Result) error {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.results[cell.Number]++
	m.dirs = append(m.dirs, result.Dir)
	return nil
}
func (m *memory) Failed(cell Cell, why error) { m.failed[cell.Number] = why.Error() }
func (m *memory) Say(line string)             { m.said = append(m.said, line) }

const clusterSuite = "subjects: subject.yaml\nscenarios: [mine.yaml]\nseeds: [1-3]\nkubernetes: {image: 'orders:1'}\n"

func (f *fakeCluster) run(ctx context.Context, t *testing.T, patience time.Duration) (*memory, error) {
	t.Helper()
	suite := repository(t, clusterSuite)
	f.test, f.cells, f.logs = t, cellsOf(t, suite, "v1"), map[string]string{}
	into := &memory{results: map[int]int{}, failed: map[int]string{}}
	k := Kubernetes{Manifest: Manifest{Suite: suite, Cells: f.cells, Parallel: 2, Limit: time.Minute},
		Folder:  NewFolder("results"),
		Kubectl: kube.Kubectl{Call: f.call}, Fresh: f.fresh, Patience: patience, Poll: time.Millisecond}
	return into, k.Run(ctx, f.cells, into)
}

// leave puts the Job of a campaign there that was killed, with some of the cells and the suite's kubernetes section.
func (f *fakeCluster) leave(t *testing.T, section string) {
	t.Helper()
	manifest, cells := manifestOf(t, strings.Replace(clusterSuite, "{image: 'orders:1'}", section, 1))
	_, made, err := manifest.Objects([]Cell{cells[0], cells[2]})
	if err != nil {
		t.Fatal(err)
	}
	f.job, f.files = &fakeJob{annotations: map[string]string{}, completions: 2}, true
	metadata, _ := made["metadata"].(object)
	annotations, _ := metadata["annotations"].(object)
	for key, value := range annotations {
		f.job.annotations[key] = fmt.Sprint(value)
	}
}

// whole is a script in which every cell succeeds.
func whole(f *fakeCluster, step int) {
	if step == 0 {
		for i := range f.job.completions {
			f.add(i, "Succeeded")
		}
		f.ended("Complete", "")
	}
}

func TestKubernetes(t *testing.T) {
	disrupted := func(p *kube.Pod) {
		p.Status.Conditions = []kube.Condition{{Type: "DisruptionTarget", Status: "True",
			Reason: "EvictionByEvictionAPI", Message: "evicted"}}
	}
	for _, test := range []struct {
		name     string
		cluster  fakeCluster
		patience time.Duration
		err      string // "" if there is none
		said     string
		quiet    string // it does not say that
		failed   map[int]string
		results  int // of the three cells
		jobs     int
		left     bool // the Job stays
	}{
		{name: "each cell once", cluster: fakeCluster{script: whole}, results: 3, jobs: 1, said: "3 cells, 2 pods at a time"},
		{name: "a pod is evicted, another ends twice", results: 3, jobs: 1, said: "EvictionByEvictionAPI: evicted",
			cluster: fakeCluster{script: func(f *fakeCluster, step int) {
				switch step {
				case 0:
					disrupted(f.add(0, "Failed"))
					f.add(1, "Succeeded")
				case 1:
					f.add(1, "Succeeded")
					f.add(0, "Succeeded")
					f.add(2, "Succeeded")
					f.ended("Complete", "")
				}
			}}},
		{name: "a log is lost: the cell is run again in another Job", results: 3, jobs: 2, said: "has no result",
			cluster: fakeCluster{script: func(f *fakeCluster, step int) {
				if len(f.pods) > 0 {
					return
				}
				whole(f, 0)
				if step == 0 {
					delete(f.logs, f.pods[1].Metadata.Name)
				}
			}}},
		{name: "a log can't be read at first, and the Job has ended", results: 3, jobs: 1, patience: time.Minute,
			said: "can't be read yet", cluster: fakeCluster{script: func(f *fakeCluster, step int) {
				if len(f.pods) == 0 {
					whole(f, 0)
				}
				f.unreadable = map[bool]string{true: f.pods[len(f.pods)-1].Metadata.Name}[step < 2]
			}}},
		{name: "a log is lost in every Job", results: 2, jobs: mostRounds, failed: map[int]string{2: "its result was lost"},
			cluster: fakeCluster{script: func(f *fakeCluster, _ int) {
				if len(f.pods) > 0 {
					return
				}
				whole(f, 0)
				for i := range f.pods {
					if f.job.annotations[cellsAnnotation] == "2" || i == 1 {
						f.logs[f.pods[i].Metadata.Name] = "cut\n" + lineMark + "00 abc"
					}
				}
			}}},
		{name: "a cell fails too often", results: 2, jobs: 1, failed: map[int]string{1: "its pods failed: it used more than"},
			cluster: fakeCluster{script: func(f *fakeCluster, step int) {
				if step == 0 {
					ends(f.add(0, "Failed"), "OOMKilled", "", 137)
					f.add(1, "Succeeded")
					f.add(2, "Succeeded")
					f.job.Status.FailedIndexes, f.job.Status.CompletedIndexes = "0", "1,2"
					f.ended("Failed", "FailedIndexes")
				}
			}}},
		{name: "the budget is used up", results: 1, jobs: 1, failed: map[int]string{2: "budget", 3: "budget"},
			cluster: fakeCluster{script: func(f *fakeCluster, step int) {
				if step == 0 {
					f.add(0, "Succeeded")
					f.ended("Failed", "DeadlineExceeded")
				}
			}}},
		{name: "a right is missing", cluster: fakeCluster{may: "get pods --subresource=log"},
			err: "the user may not get pods/log"},
		{name: "quota on Jobs", cluster: fakeCluster{refuse: "Error from server (Forbidden): exceeded quota: q"},
			err: "the namespace's quota is used up"},
		{name: "no such namespace", cluster: fakeCluster{refuse: "Error from server (NotFound): error when creating " +
			`"STDIN": namespaces "lod" not found` + "\nError from server (NotFound): again"},
			err: "creating the Job: there is no namespace lod: correct --namespace, or kubectl create namespace lod"},
		{name: "quota on pods", cluster: fakeCluster{script: func(f *fakeCluster, _ int) {
			f.events = []kube.Event{{Reason: "FailedCreate", Message: "pods is forbidden: exceeded quota: q"}}
			f.events[0].InvolvedObject.UID = "job-1"
		}}, jobs: 1, err: "no pod has run for 50ms (--patience): pods can't be created, the namespace's quota is used up"},
		{name: "pods of another standard", patience: time.Hour, cluster: fakeCluster{script: func(f *fakeCluster, _ int) {
			f.events = []kube.Event{{Reason: "FailedCreate", Message: `pods is forbidden: violates PodSecurity "restricted"`}}
			f.events[0].InvolvedObject.UID = "job-1"
		}}, jobs: 1, err: `violates PodSecurity "restricted"; give the pods the securityContext`},
		{name: "an earlier Job had no quota", results: 3, jobs: 1,
			cluster: fakeCluster{script: func(f *fakeCluster, step int) {
				f.events = []kube.Event{{Reason: "FailedCreate", Message: "pods is forbidden: violates PodSecurity"}}
				f.events[0].InvolvedObject = kube.Reference{Kind: "Job", Name: Manifest{Suite: reload(f.test),
					Cells: f.cells}.name(), UID: "job-0"}
				whole(f, max(0, 10-step))
			}}},
		{name: "a mount fails at first", results: 3, jobs: 1, patience: time.Hour, quiet: "pods do not start",
			cluster: fakeCluster{script: func(f *fakeCluster, step int) {
				f.events = failedMount(f)
				whole(f, max(0, 1000-step))
			}}},
		{name: "a mount fails for long", results: 3, jobs: 1, patience: time.Hour, said: "pods do not start: FailedMount: x",
			cluster: fakeCluster{script: func(f *fakeCluster, step int) {
				f.events = failedMount(f)
				if step < 100 {
					time.Sleep(time.Second)
				}
				whole(f, max(0, 100-step))
			}}},
		{name: "a mount fails", jobs: 1, err: "no pod has run for 50ms (--patience): pods do not start: FailedMount: x",
			cluster: fakeCluster{script: func(f *fakeCluster, _ int) { f.events = failedMount(f) }}},
		{name: "no such image", cluster: fakeCluster{script: func(f *fakeCluster, step int) {
			if step == 0 {
				waits(f.add(0, "Pending"), "ImagePullBackOff", "not found")
			}
		}}, jobs: 1, err: "no pod has run for 50ms (--patience): the image orders:1 can't be pulled: not found"},
		{name: "an image that can't be", patience: time.Hour, cluster: fakeCluster{script: func(f *fakeCluster, step int) {
			if step == 0 {
				waits(f.add(0, "Pending"), "ErrImageNeverPull", "not present")
			}
		}}, jobs: 1, err: "the pods can't run: the image orders:1 can't be used: ErrImageNeverPull"},
		{name: "no node", cluster: fakeCluster{script: func(f *fakeCluster, step int) {
			if step == 0 {
				f.add(0, "Pending").Status.Conditions = []kube.Condition{{Type: "PodScheduled", Status: "False",
					Reason: "Unschedulable", Message: "0/1 nodes are available: 1 Insufficient cpu."}}
			}
		}}, jobs: 1, err: "the scheduler says: 0/1 nodes are available: 1 Insufficient cpu."},
		{name: "evicted for ever", patience: time.Hour, cluster: fakeCluster{script: func(f *fakeCluster, _ int) {
			disrupted(f.add(0, "Failed"))
		}}, jobs: 1, err: "for the 10th time: give the pods a place"},
		{name: "the API server is away", cluster: fakeCluster{script: func(f *fakeCluster, _ int) {
			f.down = kube.Failure{Command: "get", Text: "Unable to connect to the server: dial tcp: connection refused"}
		}}, jobs: 1, left: true, said: "the API server does not answer", err: "the API server has not answered for 50ms"},
		{name: "the Job is removed", jobs: 1, err: "is gone: somebody removed it",
			cluster: fakeCluster{script: func(f *fakeCluster, _ int) { f.job = nil }}},
		{name: "another version", jobs: 1, err: "the image must have the dlqbench of this command",
			cluster: fakeCluster{script: func(f *fakeCluster, step int) {
				if step == 0 {
					other := resultOf(f.test, Cell{Name: "other"}, assertions.Pass)
					var log strings.Builder
					_ = other.WriteLine(&log)
					f.logs[f.add(0, "Succeeded").Metadata.Name] = log.String()
				}
			}}},
	} {
		t.Run(test.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				patience := test.patience
				if patience == 0 {
					patience = 50 * time.Millisecond
				}
				cluster := test.cluster
				into, err := cluster.run(t.Context(), t, patience)
				if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
					t.Errorf("error %v, want %q", err, test.err)
				}
				if said := strings.Join(into.said, "\n"); !strings.Contains(said, test.said) {
					t.Errorf("it said %q, want %q", said, test.said)
				}
				if said := strings.Join(into.said, "\n"); test.quiet != "" && strings.Contains(said, test.quiet) {
					t.Errorf("it said %q", said)
				}
				for number, count := range into.results {
					if count != 1 {
						t.Errorf("cell %d has %d results", number, count)
					}
				}
				for number, why := range test.failed {
					if !strings.Contains(into.failed[number], why) {
						t.Errorf("cell %d: %q, want %q", number, into.failed[number], why)
					}
				}
				if len(into.results) != test.results || len(into.failed) != len(test.failed) || cluster.jobs != test.jobs {
					t.Errorf("%d results, %d failed in %d Jobs, want %d, %d in %d", len(into.results), len(into.failed),
						cluster.jobs, test.results, len(test.failed), test.jobs)
				}
				if left := cluster.job != nil || cluster.files; left != test.left {
					t.Errorf("something is left: %v, want %v", left, test.left)
				}
			})
		})
	}
}

// A run directory in a pod is gone with it: what is left of it is told.
func TestKubernetesTellsFolders(t *testing.T) {
	cluster := &fakeCluster{script: whole}
	into, err := cluster.run(t.Context(), t, time.Second)
	if want := filepath.Join("results", cluster.cells[1].folder()); err != nil || !slices.Contains(into.dirs, want) ||
		slices.Index(into.dirs, "") < 0 {
		t.Errorf("%v: the folders are %q, want %s of the one that was kept", err, into.dirs, want)
	}
}

// A campaign that was killed left its Job: it is followed, and only cells that it does not have need another one.
func TestKubernetesGoesOn(t *testing.T) {
	cluster := &fakeCluster{}
	cluster.leave(t, "{image: 'orders:1'}")
	cluster.script = func(f *fakeCluster, _ int) {
		if len(f.pods) == 0 {
			whole(f, 0)
		}
	}
	into, err := cluster.run(t.Context(), t, time.Second)
	if err != nil || len(into.results) != 3 || cluster.jobs != 1 || cluster.job != nil || cluster.files {
		t.Errorf("%v: %v in %d more Jobs; left: %v, %v", err, into.results, cluster.jobs, cluster.job, cluster.files)
	}
	if !slices.ContainsFunc(into.said, func(line string) bool { return strings.Contains(line, "which an earlier") }) {
		t.Errorf("it said %q", into.said)
	}
}

// A Job that a killed campaign left runs what that campaign was to run. With --fresh, and if its pods are others than
// those of this campaign, none of its results counts.
func TestKubernetesLeavesAnEarlierJob(t *testing.T) {
	for _, test := range []struct {
		section, err string
		fresh, stays bool
	}{
		{section: "{image: 'orders:1'}", fresh: true},
		{section: "{image: 'orders:0'}", fresh: true},
		{section: "{image: 'orders:0'}", stays: true, err: "has other pods than this one: undo the change of kubernetes"},
		{section: "{image: 'orders:1', pod: {nodeSelector: {pool: load}}}", stays: true, err: "kubectl delete job,configmap"},
	} {
		cluster := &fakeCluster{fresh: test.fresh}
		cluster.leave(t, test.section)
		cluster.script = func(f *fakeCluster, _ int) {
			if len(f.pods) == 0 {
				whole(f, 0)
			}
		}
		into, err := cluster.run(t.Context(), t, time.Second)
		if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
			t.Errorf("%s: error %v, want %q", test.section, err, test.err)
		}
		if stays := cluster.job != nil && cluster.files; stays != test.stays {
			t.Errorf("%s: the Job is there: %v, want %v", test.section, stays, test.stays)
		}
		if said := strings.Join(into.said, "\n"); strings.Contains(said, "going on") ||
			!test.stays && (len(into.results) != 3 || !strings.Contains(said, "3 cells")) {
			t.Errorf("%s: %d results; it said %s", test.section, len(into.results), said)
		}
	}
}

// An interrupt removes the Job, and keeps the results of cells that ended just before.
func TestKubernetesInterrupted(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cluster := &fakeCluster{script: func(f *fakeCluster, step int) {
		if step == 1 {
			f.add(0, "Succeeded")
			cancel()
		}
	}}
	into, err := cluster.run(ctx, t, time.Hour)
	if !errors.Is(err, context.Canceled) || len(into.results) != 1 || cluster.job != nil || cluster.files {
		t.Errorf("%v: %v; left: %v, %v", err, into.results, cluster.job, cluster.files)
	}
}

func manifestOf(t *testing.T, suite string) (Manifest, []Cell) {
	t.Helper()
	read := repository(t, suite)
	cells := cellsOf(t, read, "v1")
	return Manifest{Suite: read, Cells: cells, Parallel: 5, Limit: time.Minute}, cells
}

// The suite merges its own parts into the pods.
func TestManifest(t *testing.T) {
	manifest, cells := manifestOf(t, clusterSuite+"budget: 1h\n")
	manifest.Suite.Kubernetes.Claim = "results"
	manifest.Suite.Kubernetes.Pod = map[string]json.RawMessage{
		"nodeSelector": json.RawMessage(`{"pool":"load"}`),
		"containers":   json.RawMessage(`[{"name":"cell","imagePullPolicy":"Always"},{"name":"sidecar"}]`),
		"volumes":      json.RawMessage(`[{"name":"more"}]`),
	}
	files, made, err := manifest.Objects(cells[1:])
	if err != nil {
		t.Fatal(err)
	}
	text := must.Get(json.Marshal([]any{files, made, Role()}))(t)
	for _, want := range []string{
		`"completions":2`, `"parallelism":2`, `"dlqbench/cells":"2-3"`, `"backoffLimitPerIndex":3`,
		`"activeDeadlineSeconds":3600`, `"activeDeadlineSeconds":60`, `"nodeSelector":{"pool":"load"}`,
		`"imagePullPolicy":"Always"`, `{"name":"sidecar"}`, `{"name":"more"}`, `"claimName":"results"`,
		`"mountPath":"/campaign/subject.yaml"`, `"workingDir":"/campaign"`, `"--cells","2-3"`, `"resources":["pods/log"]`,
		`"image":"orders:1"`,
	} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if strings.Contains(string(text), "ClusterRole") || strings.Contains(string(text), "hostPath") {
		t.Error("it asks for more than a namespace")
	}
	for _, refused := range []struct {
		change func(*Manifest)
		want   string
	}{
		{func(m *Manifest) { m.Suite.Kubernetes.Image = "" }, "no image is named"},
		{func(m *Manifest) { m.Suite.Cluster.KafkaConfig = "client.properties" }, "kafka_config has secrets"},
	} {
		manifest, cells := manifestOf(t, clusterSuite)
		refused.change(&manifest)
		if _, _, err := manifest.Objects(cells); err == nil || !strings.Contains(err.Error(), refused.want) {
			t.Errorf("%v, want %s", err, refused.want)
		}
	}
}

var _ Sink = (*memory)(nil)
