package main

import (
	"bufio"
	"cmp"
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/reports"
)

// TestCampaignOnKubernetes runs a campaign on a real cluster while its pods are deleted, killed and evicted at random,
// and kills the command itself once. Each cell counts once, the correct consumer is not accused, the planted bug is
// named in each of its cells, and nothing is left. DLQBENCH_KUBECONFIG names the kubeconfig of a cluster, and
// DLQBENCH_KUBERNETES_IMAGE an image there that has this commit's dlqbench as /dlqbench, built with
// -X main.version=test. DLQBENCH_KUBERNETES_CELLS is the number of cells. docs/development.md says how.
func TestCampaignOnKubernetes(t *testing.T) {
	kubectl, program, kubeconfig, image := testCluster(t)
	const namespace = "dlqbench-test"
	restricted(t, kubectl, namespace)
	cells := must.Get(strconv.Atoi(cmp.Or(os.Getenv("DLQBENCH_KUBERNETES_CELLS"), "16")))(t)
	dir := campaignOf(t, cells, image)
	before := kubectl("get", "all,configmaps", "-n", namespace, "-o", "name")
	// The pods that are lost are not those of a seed, because cells end in an order of their own.
	chance := rand.New(rand.NewPCG(1, 1))
	told, lost := map[string]int{}, 0
	campaign := func(cells int) (out string) {
		command := exec.Command(program, "campaign", "many.yaml", "--on", "kubernetes", "--namespace", namespace,
			"--kubeconfig", kubeconfig, "--parallel", "3")
		command.Dir = dir
		stdout, err := command.StdoutPipe()
		command.Stderr = os.Stderr
		if err != nil || command.Start() != nil {
			t.Fatalf("starting %s: %v", program, err)
		}
		for lines := bufio.NewScanner(stdout); lines.Scan(); {
			out += lines.Text() + "\n"
			_, label, is := strings.Cut(lines.Text(), "  tiny (")
			if !is || strings.Contains(out, "CAMPAIGN") {
				continue
			}
			if told[label]++; chance.IntN(2) == 0 && loseOne(t, kubectl, namespace, chance) {
				lost++
			}
			if cells--; cells == 0 {
				_ = command.Process.Kill()
			}
		}
		_ = command.Wait()
		return out
	}
	campaign(cells / 3)
	out := campaign(-1)
	if lost < cells/8 {
		t.Errorf("only %d pods were lost", lost)
	}
	for label, times := range told {
		if times > 1 {
			t.Errorf("%s was told %d times", label, times)
		}
	}
	checkCampaign(t, filepath.Join(dir, "campaign", "many"), cells, out)
	if after := kubectl("get", "all,configmaps", "-n", namespace, "-o", "name"); after != before {
		t.Errorf("left in the namespace: %s", after)
	}
}

// campaignOf writes a suite that judges the reference consumer and one with a planted bug.
func campaignOf(t *testing.T, cells int, image string) (dir string) {
	t.Helper()
	dir = folder(t)
	good := must.Get(os.ReadFile(filepath.Join(dir, "good.yaml")))(t)
	subject := func(name, command string) string {
		return strings.NewReplacer("name: good", "name: "+name, "[dlqbench, consume]", command).Replace(string(good))
	}
	for file, text := range map[string]string{
		"good.yaml": subject("good", "[/dlqbench, consume]"),
		"bad.yaml":  subject("bad", "[/dlqbench, bug, consume, payload-altered]"),
		"many.yaml": fmt.Sprintf("scenarios: [tiny.yaml]\nsubjects: [good.yaml, bad.yaml]\nseeds: [1-%d]\n"+
			"kubernetes:\n  image: %s\n  cpu: 100m\n  memory: 256Mi\n  retries: 6\n"+
			"  pod: {containers: [{name: cell, imagePullPolicy: IfNotPresent}], "+
			"securityContext: {runAsNonRoot: true, runAsUser: 65532}}\n", cells/2, image),
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600))
	}
	return dir
}

// loseOne deletes, kills or evicts one of the running pods. It returns false if none runs.
func loseOne(t *testing.T, kubectl func(...string) string, namespace string, chance *rand.Rand) bool {
	t.Helper()
	pods := strings.Fields(kubectl("get", "pods", "-n", namespace, "--field-selector=status.phase=Running", "-o",
		"jsonpath={.items[*].metadata.name}"))
	if len(pods) == 0 {
		return false
	}
	pod := pods[chance.IntN(len(pods))]
	switch chance.IntN(3) {
	case 0:
		kubectl("delete", "pod", pod, "-n", namespace, "--ignore-not-found", "--wait=false")
	case 1:
		kubectl("delete", "pod", pod, "-n", namespace, "--ignore-not-found", "--wait=false", "--force", "--grace-period=0")
	default:
		eviction := filepath.Join(t.TempDir(), "eviction.json")
		text := fmt.Sprintf(`{"apiVersion":"policy/v1","kind":"Eviction","metadata":{"name":%q,"namespace":%q}}`, pod,
			namespace)
		must.Do(t, os.WriteFile(eviction, []byte(text), 0o600))
		kubectl("create", "--raw", "/api/v1/namespaces/"+namespace+"/pods/"+pod+"/eviction", "-f", eviction)
	}
	return true
}

// checkCampaign checks the merged results: a verdict for each cell, and the right one.
func checkCampaign(t *testing.T, artifacts string, cells int, out string) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(artifacts, reports.SuiteJSONFile))
	var told reports.Suite
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	counts := map[string]int{}
	for _, run := range told.Runs {
		counts[run.Subject+" "+run.Verdict]++
		if run.Subject == "bad" && !strings.Contains(strings.Join(run.Reasons, "\n"), "payload-changed") {
			t.Errorf("%s: the planted bug is not named: %v", run.Label, run.Reasons)
		}
	}
	t.Logf("%d cells: %v", len(told.Runs), counts)
	// A busy machine may not keep the load.
	if len(told.Runs) != cells || counts["bad fail"] != cells/2 ||
		counts["good pass"]+counts["good inconclusive"] != cells/2 || told.Verdict != reports.StandingFail {
		t.Errorf("%d cells, verdict %s: %v\n%s", len(told.Runs), told.Verdict, counts, out)
	}
}

// testCluster returns kubectl for the cluster of the test, and what runs there.
func testCluster(t *testing.T) (kubectl func(...string) string, program, kubeconfig, image string) {
	t.Helper()
	kubeconfig, image = os.Getenv("DLQBENCH_KUBECONFIG"), os.Getenv("DLQBENCH_KUBERNETES_IMAGE")
	if kubeconfig == "" || image == "" {
		t.Skip("SKIPPED: no Kubernetes: DLQBENCH_KUBECONFIG and DLQBENCH_KUBERNETES_IMAGE are not set")
	}
	return func(arguments ...string) string {
		command := exec.Command("kubectl", append([]string{"--kubeconfig", kubeconfig}, arguments...)...)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", arguments, err, out)
		}
		return string(out)
	}, os.Getenv("DLQBENCH_KUBERNETES_PROGRAM"), kubeconfig, image // the program in the image
}

// restricted creates a namespace that admits only pods of the restricted standard.
func restricted(t *testing.T, kubectl func(...string) string, namespace string) {
	t.Helper()
	kubectl("create", "namespace", namespace)
	kubectl("label", "namespace", namespace, "pod-security.kubernetes.io/enforce=restricted")
	t.Cleanup(func() { kubectl("delete", "namespace", namespace) })
	wait.Until(t, "the namespace to be set up", func() bool {
		return strings.Contains(kubectl("get", "configmaps", "-n", namespace, "-o", "name"), "kube-root-ca.crt")
	})
}

// podsSubject is the reference consumer, or a planted bug of it, as a Deployment. Its waits may be late: the machine of
// a test is busy.
const podsSubject = `name: orders
kind: deployment
deployment: {FROM}
env:
  DLQBENCH_BOOTSTRAP_SERVERS: "{{.BootstrapServers}}"
  DLQBENCH_ORACLE_URL: "{{.OracleURL}}"
  DLQBENCH_GROUP_ID: "{{.GroupID}}"
  DLQBENCH_INPUT_TOPIC: "{{.InputTopic}}"
  DLQBENCH_DLQ_TOPIC: "{{.DLQTopic}}"
contract:
  attempts: {max: 3}
  backoff: {initial: 50ms, multiplier: 2, cap: 500ms, jitter: 20ms, late: 20s}
  logical: terminal
  ordering: key
  dlq: {envelope: plain}
  poison: dead-letter
`

const podsManifest = `apiVersion: apps/v1
kind: Deployment
metadata: {name: orders}
spec:
  selector: {matchLabels: {app: orders}}
  template:
    metadata: {labels: {app: orders}}
    spec:
      securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
      containers:
        - name: orders
          securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
          image: IMAGE
          imagePullPolicy: IfNotPresent
          command: COMMAND
          env:
            - name: DLQBENCH_SETTINGS
              value: '{"max_retries":3,"retry_backoff_ms":50,"max_retry_backoff_ms":500,"retry_jitter_ms":20,"ordering":"key"}'
`

// podsRun is a run across pods, and what is expected of it.
type podsRun struct {
	scenario, command, from string
	more                    []string
	// lost selects the pods that are deleted while it runs. quota is the number of pods that the namespace may have.
	lost, quota string
	codes       []int
	says        string
}

// TestPodsOnKubernetes judges a consumer in its own pods on a real cluster. The reference consumer is not accused, also
// when its pods are killed, deleted or cut off, and a planted bug is named, also in a copy of a consumer that runs. If
// pods are lost or may not be created, that is told. Nothing is left. The variables are those of
// TestCampaignOnKubernetes.
func TestPodsOnKubernetes(t *testing.T) {
	correct, bug := "[/dlqbench, consume]", "[/dlqbench, bug, consume, one-retry-too-few]"
	manifest, copied := "manifest: orders.yaml", "running: deployment/orders"
	stateful, evicted := "manifest: stateful.yaml", "manifest: stateful.yaml, end_by: evict"
	six, long := []string{"--set", "subject.reference.instances=6"}, []string{"--set", "workload.duration=1m"}
	passes, open := []int{exitPass, exitInconclusive}, []int{exitInconclusive} // a busy machine may not keep the load
	named := "bounded-retries is violated: under-retried"
	for _, one := range []podsRun{
		{scenario: "smoke", command: correct, from: manifest, more: six, codes: passes},
		{scenario: "consumer-kill", command: correct, from: manifest, more: six, codes: passes},
		{scenario: "consumer-rolling-restart", command: correct, from: manifest, codes: passes},
		{scenario: "consumer-kill", command: correct, from: stateful, codes: passes},
		{scenario: "consumer-rolling-restart", command: correct, from: evicted, codes: passes},
		{scenario: "dlq-publish-failure", command: correct, from: manifest, more: six, codes: passes},
		{scenario: "broker-loss", command: correct, from: manifest, more: six, codes: passes},
		{scenario: "smoke", command: bug, from: manifest, more: six, codes: []int{exitViolated}, says: named},
		{scenario: "smoke", command: bug, from: copied, codes: []int{exitViolated}, says: named},
		{scenario: "smoke", command: correct, from: manifest, more: long, lost: "app=orders", codes: open,
			says: "or its sidecar is gone"},
		{scenario: "smoke", command: correct, from: manifest, more: long, lost: "batch.kubernetes.io/job-name", codes: open,
			says: "the pod that runs dlqbench"},
		{scenario: "smoke", command: correct, from: manifest, more: []string{"--patience", "30s"}, quota: "2",
			codes: []int{exitEnvironment}, says: "the namespace's quota is used up"},
	} {
		t.Run(one.scenario, func(t *testing.T) { one.judge(t, one.from == copied) })
	}
}

// judge carries out the run in a namespace of its own. running says that the consumer runs there already.
func (p podsRun) judge(t *testing.T, running bool) {
	kubectl, program, kubeconfig, image := testCluster(t)
	const namespace = "dlqbench-pods"
	restricted(t, kubectl, namespace)
	dir := t.TempDir()
	manifest := strings.NewReplacer("IMAGE", image, "COMMAND", p.command).Replace(podsManifest)
	for name, text := range map[string]string{
		"orders.yaml":   manifest,
		"stateful.yaml": strings.Replace(manifest, "kind: Deployment", "kind: StatefulSet", 1),
		"subject.yaml":  strings.Replace(podsSubject, "FROM", p.from, 1),
	} {
		must.Do(t, os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600))
	}
	if running {
		kubectl("create", "-n", namespace, "-f", filepath.Join(dir, "orders.yaml"))
	}
	if p.quota != "" {
		kubectl("create", "quota", "few", "-n", namespace, "--hard=pods="+p.quota)
	}
	there := func() string {
		return kubectl("get", "jobs,deployments,statefulsets,configmaps,secrets", "-n", namespace, "-o",
			`jsonpath={range .items[*]}{.kind} {.metadata.name} {.metadata.generation} {.spec}{"\n"}{end}`)
	}
	before := there()
	command := exec.Command(program, append([]string{"run", p.scenario, "--subject", "subject.yaml", "--on", "kubernetes",
		"--image", image, "--namespace", namespace, "--kubeconfig", kubeconfig, "--quiet"}, p.more...)...)
	command.Dir = dir
	var out strings.Builder
	command.Stdout, command.Stderr = &out, &out
	must.Do(t, command.Start())
	ended := make(chan struct{})
	go func() { defer close(ended); _ = command.Wait() }()
	if p.lost != "" {
		wait.Until(t, "the consumer to run", func() bool {
			return strings.Count(kubectl("get", "pods", "-n", namespace, "-l", "app=orders", "-o",
				"jsonpath={.items[*].status.containerStatuses[*].ready}"), "true") == 2
		})
		wait.Until(t, "the load to begin", func() bool {
			return strings.Contains(kubectl("logs", "-n", namespace, "-l", "batch.kubernetes.io/job-name", "--tail=-1"),
				`"phase":"steady"`)
		})
		kubectl("delete", "pods", "-n", namespace, "-l", p.lost, "--grace-period=1", "--wait=false")
	}
	<-ended
	code := command.ProcessState.ExitCode()
	if !slices.Contains(p.codes, code) || !strings.Contains(out.String(), p.says) {
		t.Errorf("exit code %d, want one of %v and %q", code, p.codes, p.says)
	}
	if verdict, err := os.ReadFile(filepath.Join(dir, "runs", "latest", "verdict.json")); p.lost != "" &&
		(err != nil || !strings.Contains(string(verdict), `"verdict": "inconclusive"`)) {
		t.Errorf("the verdict is %s, %v", verdict, err)
	}
	t.Logf("%s, %s: exit code %d\n%s", p.command, p.from, code, out.String())
	if after := there(); after != before {
		t.Errorf("there was:\n%s\nand there is:\n%s", before, after)
	}
}
