package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const deployed = "name: orders\nkind: deployment\ndeployment: {manifest: orders.yaml}\n" +
	"env: {KAFKA: \"{{.BootstrapServers}}\"}\n"

func TestDeployment(t *testing.T) {
	subject, err := ParseSubject("subject.yaml", []byte(deployed+"external: {kafka: 29092}\n"))
	if err != nil {
		t.Fatal(err)
	}
	e := subject.External
	if !subject.ForPods() || e.KafkaPort(1) != 29102 || e.OtherPort(1, 2) != 18121 ||
		subject.Ready.Timeout.D() != 5*time.Minute {
		t.Errorf("the ports are %+v, ready.timeout is %v", e, subject.Ready.Timeout)
	}
	if values := subject.StableNames(Values{GroupID: "x"}); values.InputTopic != "orders.input" {
		t.Errorf("the names are %+v", values)
	}
	contract, err := subject.HistoryContract()
	if text, described := subject.Describe(); err != nil || described != nil || !contract.ProcessUnseen ||
		!strings.Contains(text.Promises[0], "pods of orders.yaml") {
		t.Errorf("the contract is %+v: %v, %v", contract, err, text.Promises)
	}
}

// What can't be done to pods, or reached in them, is refused before anything is created.
func TestProblemsOfDeployment(t *testing.T) {
	for text, says := range map[string]string{
		"ready: {timeout: 2m}":         "",
		"deployment: {}":               "write either manifest",
		"deployment: {manifest: \"\"}": "write either manifest",
		"deployment: {manifest: a.yaml, running: deployment/a}": "write either manifest",
		"deployment: {running: deployment/orders}":              "",
		"deployment: {running: orders}": `subject.yaml:4:23: "orders" is not written right: this is a ` +
			"workload of the namespace, such as deployment/orders or statefulset/orders",
		"ready: {port: 80}":              "only timeout can be set",
		"ready: {port: 80, timeout: 1m}": "only timeout can be set",
		"command: [x]":                   "the manifest says what runs",
		"contract: {health: \"http://127.0.0.1:8080/health\"}":      "can't be reached from the pod that runs dlqbench",
		"needs: [{name: db, command: [x], ready: {port: 1}}]":       "create in the namespace what it needs",
		"external: {instances: 2}":                                  "the scenario says how many pods",
		"external: {signals: {kill: [k]}}":                          "dlqbench acts on the pods by itself",
		"replay: {command: [x]}":                                    "dlqbench replay is used",
		"downstreams: [{http: {tls: true}}]":                        "not available with kind: deployment",
		"env: {A: \"{{.BootstrapServers}}\", B: \"{{.Instance}}\"}": "all pods have the same environment, and {{.Instance}}",
		"env: {A: b}":                          "the pods are not told where Kafka is",
		"external: {kafka: 18080}":             "keep them apart",
		"contract: {dlq: {on_failure: crash}}": "does not see it end",
	} {
		whole := deployed
		if name, _, _ := strings.Cut(text, ":"); strings.Contains(deployed, "\n"+name+":") {
			var kept []string
			for line := range strings.Lines(deployed) {
				if !strings.HasPrefix(line, name+":") {
					kept = append(kept, line)
				}
			}
			whole = strings.Join(kept, "")
		}
		_, err := ParseSubject("subject.yaml", []byte(whole+text+"\n"))
		if strings.HasPrefix(text, "deployment: {running") && err != nil && strings.Contains(err.Error(), "problems") {
			t.Errorf("%s: one mistake is told twice: %v", text, err)
		}
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
	for _, one := range [][2]string{
		{"name: orders\nkind: deployment\nenv: {K: \"{{.BootstrapServers}}\"}\n", "deployment is missing"},
		{"name: orders\nkind: process\ncommand: [x]\ndeployment: {manifest: a.yaml}\n",
			"deployment goes with kind: deployment"},
	} {
		text, says := one[0], one[1]
		if _, err := ParseSubject("subject.yaml", []byte(text)); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %q", text, err, says)
		}
	}
}

// Pods can be killed, stopped, restarted and scaled; a scenario has as many as it names.
func TestFaultsOfPods(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subject.yaml")
	if err := os.WriteFile(file, []byte(deployed), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, fault := range []string{"signal: KILL, instance: 1", "signal: STOP, instance: 3", "scale_up: 3",
		"scale_down: 1"} {
		text := "name: x\ndescription: x.\nsubject: {reference: {instances: 4}}\nworkload: {rate: 10/s, duration: 5s}\n" +
			"faults: [{at: 1s, for: 1s, subject: {" + fault + "}}]\n"
		scenario, _, err := ParseForSubject("x.yaml", []byte(text), nil, file)
		if err != nil || scenario.InstanceCount() != 4 {
			t.Errorf("%s: %v", fault, err)
		}
	}
	files, err := FilesOf("smoke", file)
	if err != nil || len(files) != 1 || files[0] != file {
		t.Errorf("the files are %v, %v", files, err)
	}
}
