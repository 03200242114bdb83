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
	kubectl("create", "namespace", namespace)
	t.Cleanup(func() { kubectl("delete", "namespace", namespace, "--wait=false") })
	cells, err := strconv.Atoi(cmp.Or(os.Getenv("DLQBENCH_KUBERNETES_CELLS"), "16"))
	if err != nil {
		t.Fatal(err)
	}
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
	good, err := os.ReadFile(filepath.Join(dir, "good.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	subject := func(name, command string) string {
		return strings.NewReplacer("name: good", "name: "+name, "[dlqbench, consume]", command).Replace(string(good))
	}
	for file, text := range map[string]string{
		"good.yaml": subject("good", "[/dlqbench, consume]"),
		"bad.yaml":  subject("bad", "[/dlqbench, bug, consume, payload-altered]"),
		"many.yaml": fmt.Sprintf("scenarios: [tiny.yaml]\nsubjects: [good.yaml, bad.yaml]\nseeds: [1-%d]\n"+
			"kubernetes:\n  image: %s\n  cpu: 100m\n  memory: 256Mi\n  retries: 6\n"+
			"  pod: {containers: [{name: cell, imagePullPolicy: IfNotPresent}]}\n", cells/2, image),
	} {
		if err := os.WriteFile(filepath.Join(dir, file), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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
		if err := os.WriteFile(eviction, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
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

// podsSubject is the reference consumer, or a planted bug of it, as a Deployment. Its waits may be late: the machine of
// a test is busy.
const podsSubject = `name: orders
kind: deployment
deployment: {manifest: orders.yaml}
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
      containers:
        - name: orders
          image: IMAGE
          imagePullPolicy: IfNotPresent
          command: COMMAND
          env:
            - name: DLQBENCH_SETTINGS
              value: '{"max_retries":3,"retry_backoff_ms":50,"max_retry_backoff_ms":500,"retry_jitter_ms":20,"ordering":"key"}'
`

// TestPodsOnKubernetes judges a consumer in its own pods on a real cluster: the reference consumer is not accused, also
// when a pod is killed, a planted bug is named, and a pod that somebody deletes is told of. Nothing is left. The
// variables are those of TestCampaignOnKubernetes.
func TestPodsOnKubernetes(t *testing.T) {
	kubectl, program, kubeconfig, image := testCluster(t)
	const namespace = "dlqbench-pods"
	kubectl("create", "namespace", namespace)
	t.Cleanup(func() { kubectl("delete", "namespace", namespace, "--wait=false") })
	dir := t.TempDir()
	write := func(name, text string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(dir, name), []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("subject.yaml", podsSubject)
	before := kubectl("get", "all,configmaps,secrets", "-n", namespace, "-o", "name")
	for _, one := range []struct {
		scenario, command, says string
		codes                   []int
		lost                    bool
	}{
		// A busy machine may not keep the load.
		{scenario: "consumer-kill", command: "[/dlqbench, consume]", codes: []int{exitPass, exitInconclusive}},
		{scenario: "smoke", command: "[/dlqbench, bug, consume, one-retry-too-few]", codes: []int{exitViolated},
			says: "bounded-retries is violated: under-retried"},
		{scenario: "smoke", command: "[/dlqbench, consume]", codes: []int{exitEnvironment}, lost: true,
			says: "or its sidecar is gone"},
	} {
		write("orders.yaml", strings.NewReplacer("IMAGE", image, "COMMAND", one.command).Replace(podsManifest))
		command := exec.Command(program, "run", one.scenario, "--subject", "subject.yaml", "--on", "kubernetes", "--image",
			image, "--namespace", namespace, "--kubeconfig", kubeconfig, "--quiet", "--set", "workload.duration=20s")
		command.Dir = dir
		var out strings.Builder
		command.Stdout, command.Stderr = &out, &out
		if err := command.Start(); err != nil {
			t.Fatal(err)
		}
		if one.lost {
			wait.Until(t, "the consumer to run", func() bool {
				return strings.Count(kubectl("get", "pods", "-n", namespace, "-l", "app=orders", "-o",
					"jsonpath={.items[*].status.containerStatuses[*].ready}"), "true") == 2
			})
			kubectl("delete", "pods", "-n", namespace, "-l", "app=orders", "--grace-period=1", "--wait=false")
		}
		_ = command.Wait()
		if code := command.ProcessState.ExitCode(); !slices.Contains(one.codes, code) ||
			!strings.Contains(out.String(), one.says) {
			t.Errorf("%s with %s: exit code %d, want one of %v and %q:\n%s", one.scenario, one.command, code, one.codes,
				one.says, out.String())
		}
		if after := kubectl("get", "all,configmaps,secrets", "-n", namespace, "-o", "name"); after != before {
			t.Errorf("left in the namespace after %s: %s", one.scenario, after)
		}
	}
}
