package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/reports"
)

// TestCampaignOnKubernetes runs a campaign on a real cluster and removes a pod while it runs: each cell counts once,
// and nothing is left. DLQBENCH_KUBECONFIG names the kubeconfig of a cluster, and DLQBENCH_KUBERNETES_IMAGE an image
// there that has this commit's dlqbench as /dlqbench, built with -X main.version=test. docs/development.md says how.
func TestCampaignOnKubernetes(t *testing.T) {
	kubectl, program, kubeconfig, image := testCluster(t)
	const namespace = "dlqbench-test"
	kubectl("create", "namespace", namespace)
	t.Cleanup(func() { kubectl("delete", "namespace", namespace, "--wait=false") })
	dir := folder(t)
	suite := "scenarios: [tiny.yaml]\nseeds: [1-6]\nkubernetes:\n  image: " + image + "\n  cpu: 100m\n  memory: 256Mi\n" +
		"  pod: {containers: [{name: cell, imagePullPolicy: IfNotPresent}]}\n"
	if err := os.WriteFile(filepath.Join(dir, "few.yaml"), []byte(suite), 0o600); err != nil {
		t.Fatal(err)
	}
	before := kubectl("get", "all,configmaps", "-n", namespace, "-o", "name")
	command := exec.Command(program, "campaign", "few.yaml", "--on", "kubernetes", "--namespace", namespace,
		"--kubeconfig", kubeconfig, "--parallel", "2")
	command.Dir = dir
	stdout, err := command.StdoutPipe()
	command.Stderr = os.Stderr
	if err != nil || command.Start() != nil {
		t.Fatalf("starting %s: %v", program, err)
	}
	var out strings.Builder
	for lines := bufio.NewScanner(stdout); lines.Scan(); {
		if out.Len() == 0 { // the first cell has ended, and others run
			kubectl("delete", "pods", "-n", namespace, "--field-selector=status.phase=Running", "--wait=false")
		}
		out.WriteString(lines.Text() + "\n")
	}
	_ = command.Wait() // the verdict depends on the machine; the cells are counted
	data, err := os.ReadFile(filepath.Join(dir, "campaign", "few", reports.SuiteJSONFile))
	var told reports.Suite
	if err == nil {
		err = json.Unmarshal(data, &told)
	}
	if err != nil {
		t.Fatalf("%v\n%s", err, out.String())
	}
	for _, run := range told.Runs {
		if run.Verdict == "" {
			t.Errorf("%s has no verdict: %v\n%s", run.Label, run.Reasons, out.String())
		}
	}
	if after := kubectl("get", "all,configmaps", "-n", namespace, "-o", "name"); len(told.Runs) != 6 || after != before {
		t.Errorf("%d cells; left in the namespace: %s", len(told.Runs), after)
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
