package main

import (
	"bufio"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/reports"
)

// TestCampaignOnKubernetes runs a campaign on a real cluster and removes a pod while it runs: each cell counts once, and
// nothing is left. DLQBENCH_KUBECONFIG names the kubeconfig of a cluster, and DLQBENCH_KUBERNETES_IMAGE an image there
// that has this commit's dlqbench as /dlqbench, built with -X main.version=test. docs/development.md says how.
func TestCampaignOnKubernetes(t *testing.T) {
	kubeconfig, image := os.Getenv("DLQBENCH_KUBECONFIG"), os.Getenv("DLQBENCH_KUBERNETES_IMAGE")
	if kubeconfig == "" || image == "" {
		t.Skip("SKIPPED: no Kubernetes: DLQBENCH_KUBECONFIG and DLQBENCH_KUBERNETES_IMAGE are not set")
	}
	program := os.Getenv("DLQBENCH_KUBERNETES_PROGRAM") // the one in the image
	dir := folder(t)
	kubectl := func(arguments ...string) string {
		command := exec.Command("kubectl", append([]string{"--kubeconfig", kubeconfig}, arguments...)...)
		out, err := command.CombinedOutput()
		if err != nil {
			t.Fatalf("kubectl %v: %v\n%s", arguments, err, out)
		}
		return string(out)
	}
	const namespace = "dlqbench-test"
	kubectl("create", "namespace", namespace)
	t.Cleanup(func() { kubectl("delete", "namespace", namespace, "--wait=false") })
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
