package pods

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/kube"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// fakeCluster answers as kubectl does, from objects in memory. Each look at the pods is a step of the test's script.
type fakeCluster struct {
	test *testing.T
	// may says no to a right, "create pods/exec" such as; refuse is what creating an object of a kind fails with.
	may    string
	refuse map[string]string
	script func(f *fakeCluster, step int)
	steps  int
	// objects are those that were created, by kind.
	objects map[string]kube.Object
	pods    []kube.Pod
	log     []string
	events  []kube.Event
	// archives are what copying gives, one after another.
	archives [][]byte
	execs    []string
	// down is what everything is answered with, node what asking for the coordinator's log is.
	down, node error
	// stays is why a pod can't be deleted, "" if it can. evicted are the evictions that were asked for.
	stays   string
	evicted []string
	// remains is why nothing can be removed, "" if it can.
	remains string
	// sidecar is the last line of a sidecar, "" for one that can't reach the coordinator.
	sidecar string
}

func (f *fakeCluster) call(stdin []byte, args []string) ([]byte, error) {
	line := strings.Join(args, " ")
	switch {
	case args[0] == "auth":
		if f.may != "" && strings.HasSuffix(line, f.may) {
			return nil, kube.Failure{Command: line, Text: "no"}
		}
		return []byte("yes\n"), nil
	case args[0] == "create" && args[1] == "--raw":
		f.evicted = append(f.evicted, args[2]+" "+string(stdin))
		if f.stays != "" {
			return nil, kube.Failure{Command: "create --raw", Text: f.stays}
		}
	case args[0] == "create":
		return f.create(stdin)
	case args[0] == "delete" && args[1] == "pods":
		f.pods = nil
	case args[0] == "delete" && args[1] == "pod":
		if f.stays != "" {
			return nil, kube.Failure{Command: line, Text: f.stays}
		}
		f.pods = slices.DeleteFunc(f.pods, func(one kube.Pod) bool { return one.Metadata.Name == args[2] })
	case args[0] == "delete" && f.remains != "":
		return nil, kube.Failure{Command: line, Text: f.remains}
	case args[0] == "delete":
		f.objects = nil
	case args[0] == "logs" && args[3] == sidecarName:
		return []byte(cmp.Or(f.sidecar, "reaching the coordinator: i/o timeout") + "\n"), nil
	case args[0] == "logs" && args[3] == "orders" && args[4] == "--previous":
		return nil, kube.Failure{Command: line, Text: "previous terminated container not found"}
	case args[0] == "logs" && args[3] == "orders":
		return []byte("the last line of " + args[1] + "\n"), nil
	case args[0] == "logs" && f.node != nil:
		return nil, f.node
	case args[0] == "logs":
		return f.logs(args)
	case args[0] == "exec":
		f.execs = append(f.execs, strings.Join(args[5:], " "))
		if args[6] == "pod" && args[7] == "copy" {
			next := f.archives[0]
			if next == nil {
				return nil, kube.Failure{Command: line, Text: `Error from server (NotFound): pods "coordinator" not found`}
			}
			f.archives = f.archives[min(1, len(f.archives)-1):]
			return next, nil
		}
	case args[3] == "events":
		return json.Marshal(kube.List[kube.Event]{Items: f.events})
	case args[3] == "pods":
		if f.script != nil {
			f.script(f, f.steps)
			f.steps++
		}
		if f.down != nil {
			return nil, f.down
		}
		return json.Marshal(kube.List[kube.Pod]{Items: f.pods})
	case args[0] == "get":
		left := make([]kube.Pod, len(f.objects)+len(f.pods))
		return json.Marshal(kube.List[kube.Pod]{Items: left})
	default:
		f.test.Errorf("kubectl %s", line)
	}
	return nil, nil
}

func (f *fakeCluster) create(text []byte) ([]byte, error) {
	var one struct {
		Kind  string
		Items []kube.Object
	}
	var plain kube.Object
	if json.Unmarshal(text, &one) != nil || json.Unmarshal(text, &plain) != nil {
		f.test.Fatalf("created %s", text)
	}
	if why := f.refuse[one.Kind]; why != "" {
		return nil, kube.Failure{Command: "create", Text: why}
	}
	if f.objects == nil {
		f.objects = map[string]kube.Object{}
	}
	f.objects[one.Kind] = plain
	return []byte(`{"metadata":{"uid":"uid-of-` + one.Kind + `"}}`), nil
}

// logs returns the lines with their times, those of the same second as asked for again.
func (f *fakeCluster) logs(args []string) ([]byte, error) {
	var out bytes.Buffer
	from := 0
	for _, arg := range args {
		if since, is := strings.CutPrefix(arg, "--since-time="); is {
			_, _ = fmt.Sscanf(since, "2026-01-01T00:00:00.%09dZ", &from)
		}
	}
	for i, line := range f.log {
		if i+3 >= from {
			fmt.Fprintf(&out, "2026-01-01T00:00:00.%09dZ %s\n", i, line)
		}
	}
	return out.Bytes(), nil
}

// says adds news to the coordinator's log.
func (f *fakeCluster) says(news News) {
	var line strings.Builder
	if err := news.Write(&line); err != nil {
		f.test.Fatal(err)
	}
	f.log = append(f.log, strings.TrimSpace(line.String()))
}

func (f *fakeCluster) coordinator(phase string) *kube.Pod {
	one := kube.Pod{}
	one.Metadata.Name, one.Metadata.UID, one.Metadata.Namespace = "coordinator", "1", "load"
	one.Metadata.Labels = map[string]string{jobLabel: "dlqbench-x"}
	one.Status.Phase, one.Status.PodIP = phase, "10.0.0.7"
	status := kube.ContainerStatus{Name: coordinatorName, Image: "dlqbench:1"}
	if phase == "Running" {
		status.State.Running = &struct{}{}
	}
	one.Status.ContainerStatuses = []kube.ContainerStatus{status}
	f.pods = append(f.pods, one)
	return &f.pods[len(f.pods)-1]
}

func (f *fakeCluster) consumer(phase string) *kube.Pod {
	one := kube.Pod{}
	one.Metadata.Name, one.Status.Phase = fmt.Sprint("orders-", len(f.pods)), phase
	f.pods = append(f.pods, one)
	return &f.pods[len(f.pods)-1]
}

func waits(p *kube.Pod, reason, message string) {
	status := kube.ContainerStatus{Name: "orders", Image: "orders:1"}
	status.State.Waiting = &struct{ Reason, Message string }{reason, message}
	p.Status.ContainerStatuses = []kube.ContainerStatus{status}
}

const workload = `
kind: Deployment
apiVersion: apps/v1
metadata: {name: orders, namespace: production}
spec:
  replicas: 7
  selector: {matchLabels: {app: orders}}
  template:
    metadata: {labels: {app: orders}}
    spec:
      nodeSelector: {pool: load}
      initContainers: [{name: migrate, image: "migrate:1"}]
      containers:
        - {name: orders, image: "orders:1", env: [{name: KAFKA, value: "kafka:9092"}, {name: MODE, value: fast}]}
`

func testManifest(t *testing.T, text string) Manifest {
	t.Helper()
	file := filepath.Join(t.TempDir(), "orders.yaml")
	must.Do(t, os.WriteFile(file, []byte(text), 0o600))
	read := must.Get(ReadWorkload(file))(t)
	return Manifest{Name: "dlqbench-x", Token: "secret", Image: "dlqbench:1",
		Args:  []string{"pod", "coordinator", "smoke"},
		Files: []string{file}, Workload: read, Instances: 2, Signals: true, Limit: time.Hour}
}

// packed is an archive of a run directory.
func packed(t *testing.T) []byte {
	t.Helper()
	dir := t.TempDir()
	for _, name := range []string{"verdict.json", "logs/instance-0.log"} {
		must.Do(t, os.MkdirAll(filepath.Dir(filepath.Join(dir, name)), 0o755))
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(name), 0o600))
	}
	var out bytes.Buffer
	must.Do(t, Pack(&out, dir))
	return out.Bytes()
}

// whole is a run that goes as it should: a step for each thing that happens.
func whole(f *fakeCluster, step int) {
	switch step {
	case 0:
		f.coordinator("Pending")
	case 1:
		f.pods = nil
		f.coordinator("Running")
		f.log = append(f.log, "WRN something of the run")
		f.says(News{Env: map[string]string{"KAFKA": "127.0.0.1:19092"}})
		f.says(News{Progress: json.RawMessage(`{"phase":"setup"}`)})
	case 2:
		f.consumer("Running")
		f.consumer("Running")
	case 3:
		f.says(News{Progress: json.RawMessage(`{"phase":"steady"}`)})
		f.says(News{Done: &Done{Version: "v1", Dir: "/dlqbench-work/runs/2026-smoke", Judged: true}})
	}
}

// upTo plays a whole run up to a step, and then something else.
func upTo(last int, then func(f *fakeCluster)) func(*fakeCluster, int) {
	return func(f *fakeCluster, step int) {
		if step < last {
			whole(f, step)
			return
		}
		then(f)
	}
}

func TestRun(t *testing.T) {
	archive := packed(t)
	for _, test := range []struct {
		name    string
		cluster fakeCluster
		// err is what the error has, said what is said meanwhile. lost says that the recording is lost for that error, and
		// the run is judged nevertheless.
		err, said    string
		quiet        string // it does not say that
		patience     time.Duration
		copied, lost bool
	}{
		{name: "a run", cluster: fakeCluster{script: whole}, copied: true, said: "created the Deployment orders with 2 pods"},
		{name: "a copy is cut", cluster: fakeCluster{script: whole, archives: [][]byte{archive[:len(archive)-9], archive}},
			copied: true, said: "unexpected EOF; it is tried again"},
		{name: "every copy is cut", cluster: fakeCluster{script: whole, archives: [][]byte{archive[:40]}},
			err: "copying the run directory", lost: true},
		{name: "the coordinator is deleted while it is copied", cluster: fakeCluster{script: whole, archives: [][]byte{nil}},
			err: "the pod that runs dlqbench is gone", lost: true},
		{name: "a right is missing", cluster: fakeCluster{may: "create pods --subresource=exec"},
			err: "the user may not create pods/exec"},
		{name: "quota on Jobs", cluster: fakeCluster{refuse: map[string]string{"Job": "exceeded quota: q"}},
			err: "creating the Job: the namespace's quota is used up"},
		{name: "no such namespace", cluster: fakeCluster{refuse: map[string]string{
			"Job": `Error from server (NotFound): error when creating "STDIN": namespaces "lod" not found`}},
			err: "creating the Job: there is no namespace lod: correct --namespace, or kubectl create namespace lod"},
		{name: "the consumer is there", cluster: fakeCluster{script: whole, refuse: map[string]string{
			"Deployment": `Error from server (AlreadyExists): deployments.apps "orders" already exists`}},
			err: "use another namespace. If a run that was killed left it, kubectl delete job -l " +
				"app.kubernetes.io/managed-by=dlqbench removes all of that run"},
		{name: "no image for dlqbench", patience: time.Hour, cluster: fakeCluster{script: func(f *fakeCluster, step int) {
			if step == 0 {
				waits(f.coordinator("Pending"), "ErrImageNeverPull", "not present")
			}
		}}, err: "the pods can't run: the image orders:1 can't be used: ErrImageNeverPull"},
		{name: "no image for the consumer", patience: time.Second, cluster: fakeCluster{script: upTo(2, func(f *fakeCluster) {
			if len(f.pods) == 1 {
				waits(f.consumer("Pending"), "ImagePullBackOff", "not found")
			}
		})}, said: "the image orders:1 can't be pulled: not found",
			err: "1 of 3 pods run, and no other has started for 1s (--patience): the image orders:1 can't be pulled"},
		{name: "the coordinator can't be reached", patience: time.Second,
			cluster: fakeCluster{script: upTo(2, func(f *fakeCluster) {
				if len(f.pods) == 1 {
					status := kube.ContainerStatus{Name: sidecarName}
					status.State.Running = &struct{}{}
					f.consumer("Pending").Status.InitContainerStatuses = []kube.ContainerStatus{status}
				}
			})}, said: "the sidecar in the pod orders-1 says: reaching the coordinator: i/o timeout", err: "1 of 3 pods run"},
		{name: "its instance waits", patience: 40 * time.Millisecond,
			cluster: fakeCluster{sidecar: "this pod is instance 1", script: upTo(2, func(f *fakeCluster) {
				if len(f.pods) == 1 {
					status := kube.ContainerStatus{Name: sidecarName}
					status.State.Running = &struct{}{}
					f.consumer("Pending").Status.InitContainerStatuses = []kube.ContainerStatus{status}
				}
			})}, quiet: "this pod is instance", err: "1 of 3 pods run"},
		{name: "the consumer crashes", cluster: fakeCluster{script: func(f *fakeCluster, step int) {
			whole(f, step)
			if step == 2 {
				waits(&f.pods[1], "CrashLoopBackOff", "")
			}
		}}, copied: true, said: "its last line is: the last line of orders-1"},
		{name: "the consumer can't be started", cluster: fakeCluster{script: func(f *fakeCluster, step int) {
			whole(f, step)
			if step == 2 {
				waits(&f.pods[1], "CrashLoopBackOff", "")
				f.pods[1].Status.ContainerStatuses[0].LastState.Terminated = &kube.Terminated{Reason: "StartError",
					Message: `exec: "/order": no such file`, ExitCode: 128}
			}
		}}, copied: true, said: `again; it ended because of StartError: exec: "/order": no such file`},
		{name: "pods may not be created", patience: time.Second, cluster: fakeCluster{script: upTo(2, func(f *fakeCluster) {
			f.events = []kube.Event{{Reason: "FailedCreate", Message: "violates PodSecurity"}}
			f.events[0].InvolvedObject.Kind, f.events[0].InvolvedObject.Name = "ReplicaSet", "orders-5d4f"
		})}, err: "pods can't be created: violates PodSecurity"},
		{name: "the coordinator is deleted before there is a load",
			cluster: fakeCluster{script: upTo(3, func(f *fakeCluster) {
				f.pods = f.pods[1:]
			})}, err: "the pod that runs dlqbench is gone"},
		{name: "the coordinator is deleted", cluster: fakeCluster{script: upTo(3,
			func(f *fakeCluster) { f.pods = f.pods[1:] })},
			err: "the pod that runs dlqbench is gone", lost: true},
		{name: "the coordinator is deleted, and nothing is removed", cluster: fakeCluster{remains: "node1 does not answer",
			script: upTo(3, func(f *fakeCluster) { f.pods = f.pods[1:] })}, said: "removing what the run has created",
			err: "the pod that runs dlqbench is gone", lost: true},
		{name: "the coordinator is evicted", cluster: fakeCluster{script: upTo(3, func(f *fakeCluster) {
			status := &f.pods[0].Status
			status.Phase, status.Reason, status.Message = "Failed", "Evicted", "low on memory"
			status.ContainerStatuses = nil
		})}, err: "ended by its node: Evicted low on memory", lost: true},
		{name: "the coordinator's node is gone", patience: time.Second,
			cluster: fakeCluster{script: upTo(3, func(f *fakeCluster) {
				f.node = kube.Failure{Command: "logs", Text: "Get https://10.0.0.1:10250/containerLogs: dial tcp: i/o timeout"}
			})}, said: "dial tcp: i/o timeout", err: "could not be read for 1s, as when its node is gone", lost: true},
		{name: "the coordinator ends", cluster: fakeCluster{script: upTo(3, func(f *fakeCluster) {
			f.pods[0].Status.Phase = "Failed"
			f.pods[0].Status.ContainerStatuses[0].State.Running = nil
			f.pods[0].Status.ContainerStatuses[0].State.Terminated = &kube.Terminated{Reason: "OOMKilled", ExitCode: 137}
		})}, err: "ended before the run did: OOMKilled, exit code 137", lost: true},
		{name: "the API server is away", patience: time.Second, cluster: fakeCluster{script: upTo(3, func(f *fakeCluster) {
			f.down = kube.Failure{Command: "get", Text: "Unable to connect to the server: dial tcp"}
		})}, said: "the API server does not answer", err: "the API server has not answered for 1s"},
	} {
		t.Run(test.name, func(t *testing.T) {
			t.Parallel()
			f := test.cluster
			f.test = t
			if f.archives == nil {
				f.archives = [][]byte{archive}
			}
			if test.patience == 0 {
				test.patience = time.Hour
			}
			var said, log, progress strings.Builder
			cluster := Cluster{Kubectl: kube.Kubectl{Call: f.call}, Patience: test.patience, Poll: time.Millisecond, Log: &log,
				Say:      func(line string) { said.WriteString(line + "\n") },
				Progress: func(snapshot json.RawMessage) { progress.Write(snapshot) }}
			out := t.TempDir()
			lost := filepath.Join(out, "lost")
			cluster.Unrecorded = func(why error) (string, error) {
				if !test.lost || !strings.Contains(why.Error(), test.err) {
					return "", nil
				}
				return lost, os.Mkdir(lost, 0o700)
			}
			done, dir, err := cluster.Run(t.Context(), testManifest(t, workload), out)
			if test.lost {
				kept, missing := os.ReadFile(filepath.Join(dir, "logs", "orders-1.log"))
				if err != nil || dir != lost || !done.Judged || missing != nil || len(kept) == 0 {
					t.Errorf("it is judged in %q: %+v, %v; the log is %q", dir, done, err, kept)
				}
				if !strings.Contains(said.String(), test.said) {
					t.Errorf("it said %q, want %q", said.String(), test.said)
				}
				return
			}
			if (err == nil) != (test.err == "") || err != nil && !strings.Contains(err.Error(), test.err) {
				t.Errorf("error %v, want %q", err, test.err)
			}
			if !strings.Contains(said.String(), test.said) {
				t.Errorf("it said %q, want %q", said.String(), test.said)
			}
			if test.quiet != "" && strings.Contains(said.String(), test.quiet) {
				t.Errorf("it said %q", said.String())
			}
			if len(f.objects)+len(f.pods) > 0 && f.down == nil {
				t.Errorf("%v and %d pods are left", f.objects, len(f.pods))
			}
			if !test.copied {
				return
			}
			text, err := os.ReadFile(filepath.Join(out, "2026-smoke", "logs", "instance-0.log"))
			if err != nil || string(text) != "logs/instance-0.log" || dir != filepath.Join(out, "2026-smoke") || !done.Judged {
				t.Errorf("the run directory is %s: %s, %v; %+v", dir, text, err, done)
			}
			kept, err := os.ReadFile(filepath.Join(dir, "logs", "orders-1.log"))
			if err != nil || string(kept) != "the last line of orders-1\n" {
				t.Errorf("the consumer's log is %q, %v", kept, err)
			}
			if log.String() != "WRN something of the run\n" || progress.String() != `{"phase":"setup"}{"phase":"steady"}` {
				t.Errorf("the log is %q, the progress %q", log.String(), progress.String())
			}
		})
	}
}

// A fault has a pod deleted. The coordinator is told, also why that was refused, and the pod's log is kept.
func TestDeletePod(t *testing.T) {
	for stays, want := range map[string]string{"": "/dlqbench pod deleted orders-1",
		"(Forbidden)": "/dlqbench pod deleted orders-1 kubectl delete pod orders-1 --wait=false: (Forbidden)"} {
		f := &fakeCluster{test: t, archives: [][]byte{packed(t)}, stays: stays}
		f.script = func(f *fakeCluster, step int) {
			if step == 3 {
				f.says(News{Delete: "orders-1"})
				return
			}
			whole(f, min(step, step-step/4))
		}
		cluster := Cluster{Kubectl: kube.Kubectl{Call: f.call}, Patience: time.Hour, Poll: time.Millisecond,
			Log: &strings.Builder{}, Say: func(string) {}, Progress: func(json.RawMessage) {}}
		_, dir, err := cluster.Run(t.Context(), testManifest(t, workload), t.TempDir())
		if err != nil || len(f.execs) != 2 || f.execs[0] != want {
			t.Errorf("%v, it was said %q, want %q", err, f.execs, want)
		}
		kept, err := os.ReadFile(filepath.Join(dir, "logs", "orders-1-deleted-1.log"))
		if err != nil || string(kept) != "the last line of orders-1\n" {
			t.Errorf("the log of the deleted pod is %q, %v", kept, err)
		}
	}
}

// A fault evicts a pod. The coordinator is told, and a person, if a disruption budget forbids it. Every eviction is
// asked for once, as the coordinator asks again.
func TestEvictPod(t *testing.T) {
	budget := "Error from server (TooManyRequests): Cannot evict pod as it would violate the pod's disruption budget."
	for stays, want := range map[string]string{"": "/dlqbench pod deleted orders-1",
		budget: "/dlqbench pod deleted orders-1 kubectl create --raw: " + budget} {
		f := &fakeCluster{test: t, archives: [][]byte{packed(t)}, stays: stays}
		f.script = func(f *fakeCluster, step int) {
			if step == 3 || step == 4 {
				f.says(News{Delete: "orders-1"})
				return
			}
			whole(f, min(step, 3))
		}
		var said strings.Builder
		cluster := Cluster{Kubectl: kube.Kubectl{Call: f.call}, Patience: time.Hour, Poll: time.Millisecond,
			Log: &strings.Builder{}, Say: func(line string) { fmt.Fprintln(&said, line) }, Progress: func(json.RawMessage) {}}
		m := testManifest(t, workload)
		m.Evict = true
		_, dir, err := cluster.Run(t.Context(), m, t.TempDir())
		if err != nil || len(f.execs) != 3 || f.execs[0] != want || f.execs[1] != want {
			t.Errorf("%v, it was said %q, want %q", err, f.execs, want)
		}
		if len(f.evicted) != 2 || f.evicted[0] != `/api/v1/namespaces/load/pods/orders-1/eviction {"apiVersion":"policy/v1",`+
			`"kind":"Eviction","metadata":{"name":"orders-1","namespace":"load"}}` {
			t.Errorf("the evictions are %q", f.evicted)
		}
		if told := strings.Count(said.String(), "can't be evicted now"); told != min(1, len(stays)) {
			t.Errorf("it was told %d times: %s", told, said.String())
		}
		if _, err := os.Stat(filepath.Join(dir, "logs", "orders-1-deleted-1.log")); err != nil {
			t.Errorf("the log of the evicted pod: %v", err)
		}
	}
	m := testManifest(t, workload)
	if strings.Contains(fmt.Sprint(m.Rights()), "eviction") {
		t.Errorf("the rights without evictions are %v", m.Rights())
	}
	if m.Evict = true; !strings.Contains(fmt.Sprint(m.Rights()), "pods/eviction [create]") {
		t.Errorf("the rights are %v", m.Rights())
	}
}

// The log of a pod whose eviction was refused is read once, and that of the next pod with the same name again.
func TestFollowLog(t *testing.T) {
	reading, goOn := make(chan string), make(chan struct{})
	f := &follower{Manifest: testManifest(t, workload), Cluster: Cluster{Kubectl: kube.Kubectl{
		Call: func(_ []byte, args []string) ([]byte, error) { reading <- args[1]; <-goOn; return nil, nil }}}}
	for range 2 {
		must.Do(t, f.followLog(t.Context(), "orders-0"))
	}
	<-reading
	if len(f.deleted) != 1 {
		t.Errorf("%d logs are read", len(f.deleted))
	}
	close(goOn)
	f.deleted[0].end()
	if err := f.followLog(t.Context(), "orders-0"); err != nil || len(f.deleted) != 2 {
		t.Errorf("the next pod of that name: %d logs, %v", len(f.deleted), err)
	}
	<-reading
	f.deleted[1].end()
}

// An interrupt ends the run in order: what there is is judged, copied and removed. Before the coordinator runs, there is
// nothing to judge.
func TestInterrupted(t *testing.T) {
	for _, at := range []int{0, 2} {
		ctx, cancel := context.WithCancel(t.Context())
		f := &fakeCluster{test: t, archives: [][]byte{packed(t)}}
		f.script = func(f *fakeCluster, step int) {
			if step == at {
				cancel()
			}
			if step < 3 {
				whole(f, step)
			} else if len(f.execs) > 0 {
				f.says(News{Done: &Done{Version: "v1", Dir: "/dlqbench-work/runs/2026-smoke", Judged: true, Interrupted: true}})
			}
		}
		cluster := Cluster{Kubectl: kube.Kubectl{Call: f.call}, Patience: time.Hour, Poll: time.Millisecond,
			Log: &strings.Builder{}, Say: func(string) {}, Progress: func(json.RawMessage) {}}
		done, dir, err := cluster.Run(ctx, testManifest(t, workload), t.TempDir())
		if len(f.objects)+len(f.pods) > 0 {
			t.Errorf("%v and %d pods are left", f.objects, len(f.pods))
		}
		if began := at > 0; began != (err == nil) || began != done.Interrupted || began != (dir != "") {
			t.Errorf("interrupted at %d: %+v in %q, %v; called %q", at, done, dir, err, f.execs)
		}
	}
}

// The manifest is patched: the sidecar, the variables of the run, the number of pods and labels, and nothing else.
func TestConsumer(t *testing.T) {
	m := testManifest(t, workload)
	text := func(m Manifest) string {
		t.Helper()
		got := must.Get(m.Consumer("uid", "10.0.0.7", map[string]string{"KAFKA": "127.0.0.1:19092", "STUB": "http://x"}))(t)
		text := must.Get(json.Marshal(got))(t)
		return string(text)
	}
	whole := text(m)
	for _, want := range []string{
		`"replicas":2`, `"env":[{"name":"KAFKA","value":"127.0.0.1:19092"},{"name":"MODE","value":"fast"},` +
			`{"name":"STUB","value":"http://x"}]`, `"uid":"uid"`, `"dlqbench/run":"dlqbench-x"`, `"shareProcessNamespace":true`,
		`"args":["pod","sidecar","--coordinator","10.0.0.7:18097","--signals"]`, `"add":["KILL"]`, `"runAsUser":0`,
		`{"image":"migrate:1","name":"migrate"}]`, `"matchLabels":{"app":"orders"}`,
	} {
		if !strings.Contains(whole, want) {
			t.Errorf("%s is not in %s", want, whole)
		}
	}
	if strings.Contains(whole, "production") || strings.Contains(whole, `"secret"`) {
		t.Errorf("it has the namespace, or the token: %s", whole)
	}
	m.Signals = false
	if got := text(m); strings.Contains(got, "shareProcessNamespace") || strings.Contains(got, "runAsUser") {
		t.Errorf("without signals: %s", got)
	}
	own := testManifest(t,
		strings.Replace(workload, "nodeSelector: {pool: load}", "securityContext: {runAsUser: 1000}", 1))
	if got := text(own); !strings.Contains(got, `"runAsUser":1000`) || strings.Contains(got, `"add":["KILL"]`) {
		t.Errorf("the sidecar is another user than the consumer: %s", got)
	}
	// A namespace may refuse pods of which a container might run as root.
	own = testManifest(t, strings.Replace(workload, `image: "orders:1",`,
		`image: "orders:1", securityContext: {runAsUser: 1000, runAsNonRoot: true},`, 1))
	coordinator := must.Get(own.Job())(t)
	asJSON, _ := json.Marshal(coordinator)
	for what, made := range map[string]string{"sidecar": text(own), "coordinator": string(asJSON)} {
		if !strings.Contains(made, `"runAsNonRoot":true,"runAsUser":1000,"seccompProfile"`) {
			t.Errorf("the %s is not the user of the consumer: %s", what, made)
		}
	}
	state := testManifest(t, strings.Replace(workload, "kind: Deployment", "kind: StatefulSet", 1))
	if got := text(state); !strings.Contains(got, `"whenDeleted":"Delete"`) || state.resource() != "statefulsets" {
		t.Errorf("the volumes of a StatefulSet stay: %s", got)
	}
	job := must.Get(m.Job())(t)
	made := must.Get(json.Marshal(job))(t)
	for _, want := range []string{`"nodeSelector":{"pool":"load"}`, `"backoffLimit":0`, `"ttlSecondsAfterFinished":60`,
		`"activeDeadlineSeconds":3600`, `"automountServiceAccountToken":false`} {
		if !strings.Contains(string(made), want) {
			t.Errorf("%s is not in %s", want, made)
		}
	}
}

func TestManifestsThatCannotBe(t *testing.T) {
	two := strings.Replace(workload, "containers:", "containers:\n        - {name: proxy, image: \"proxy:1\"}", 1)
	nobody := strings.Replace(workload, "nodeSelector: {pool: load}", "securityContext: {runAsNonRoot: true}", 1)
	for _, one := range []struct{ text, container, says string }{
		{nobody, "", "write that user into the manifest"},
		{two, "", "the pods of the consumer have 2 containers"},
		{two, "other", "no container other"},
		{two, "orders", ""},
		{strings.Replace(workload, "nodeSelector: {pool: load}", "hostNetwork: true", 1), "", "hostNetwork"},
	} {
		m := testManifest(t, one.text)
		m.Container = one.container
		if _, err := m.Consumer("", "", nil); (err == nil) != (one.says == "") ||
			err != nil && !strings.Contains(err.Error(), one.says) {
			t.Errorf("it says %v, want %q", err, one.says)
		}
	}
	file := filepath.Join(t.TempDir(), "orders.yaml")
	for text, says := range map[string]string{"": "has nothing: it must have one",
		workload + "---\nkind: Service\n": "Deployment, Service: it",
		"kind: Pod":                       "has Pod: it", "kind: [": "reading the manifest"} {
		must.Do(t, os.WriteFile(file, []byte(text), 0o600))
		if _, err := ReadWorkload(file); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, want %q", text, err, says)
		}
	}
}

// What is judged of a workload that runs is a copy, which neither the workload nor a Service in front of it selects.
func TestReadRunning(t *testing.T) {
	running := testManifest(t, strings.NewReplacer(
		"metadata: {name: orders,", "metadata: {name: orders, uid: u, labels: {argocd: x}, ",
		"selector: {matchLabels: {app: orders}}",
		"paused: true\n  selector: {matchLabels: {app: orders}, matchExpressions: [{key: tier, operator: Exists}]}",
		"metadata: {labels: {app: orders}}", "metadata: {labels: {app: orders, tier: x, mesh: 'on'}, annotations: {vault: y}}",
	).Replace(workload)).Workload
	answer := func(err error) kube.Kubectl {
		return kube.Kubectl{Call: func(_ []byte, args []string) ([]byte, error) {
			if got := strings.Join(args, " "); got != "get -o json deployment/orders" {
				t.Errorf("kubectl %s", got)
			}
			text, _ := json.Marshal(running)
			return text, err
		}}
	}
	read := must.Get(ReadRunning(t.Context(), answer(nil), "deployment/orders", "dlqbench-x"))(t)
	m := testManifest(t, workload)
	m.Workload, m.Copy = read, true
	made := must.Get(m.Consumer("uid", "10.0.0.7", map[string]string{"KAFKA": "x"}))(t)
	text, _ := json.Marshal(made)
	for _, want := range []string{`"name":"dlqbench-x","ownerReferences"`,
		`"selector":{"matchLabels":{"dlqbench/run":"dlqbench-x"}}`,
		`"annotations":{"vault":"y"},"labels":{"app.kubernetes.io/managed-by":"dlqbench","dlqbench/run":"dlqbench-x","mesh":"on"}`,
		`"replicas":2`, `"name":"MODE","value":"fast"`} {
		if !strings.Contains(string(text), want) {
			t.Errorf("%s is not in %s", want, text)
		}
	}
	if strings.Contains(string(text), "paused") || strings.Contains(string(text), "argocd") {
		t.Errorf("it has what belongs to the other alone: %s", text)
	}
	if rights := fmt.Sprint(m.Rights()); !strings.Contains(rights, "{apps deployments [create list delete get]}") {
		t.Errorf("the rights are %s", rights)
	}
	for text, want := range map[string]string{"(NotFound)": "deployment/orders does not run in the namespace",
		"(Forbidden)": "(Forbidden); an administrator can grant that"} {
		_, err := ReadRunning(t.Context(), answer(kube.Failure{Text: text}), "deployment/orders", "dlqbench-x")
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
