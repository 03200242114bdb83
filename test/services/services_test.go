// Package services_test judges services that know nothing of dlqbench, with their own records and routes.
package services_test

import (
	"context"
	"errors"
	"maps"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m)) }

const (
	service = "../../examples/apps/orders"
	limit   = 4 * time.Minute
)

// judge runs a scenario and returns the exit code, and what was printed.
func judge(t *testing.T, scenario, subject string, sets ...string) (int, string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), limit)
	defer cancel()
	// A machine with other work is late; that is no matter here.
	arguments := []string{"run", scenario, "--subject", subject, "--out", t.TempDir(), "--set", "expect.max_slip=5s"}
	for _, set := range sets {
		arguments = append(arguments, "--set", set)
	}
	command := exec.CommandContext(ctx, programtest.Path(), arguments...)
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", command.Args, err, output)
	}
	return command.ProcessState.ExitCode(), string(output)
}

// changed writes the subject file with texts replaced into a folder of its own, and returns its path.
func changed(t *testing.T, changes map[string]string) string {
	t.Helper()
	folder, err := filepath.Abs(service)
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, "subject.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.Replace(string(data), "kind: process", "kind: process\ndir: "+folder, 1)
	for from, to := range changes {
		if !strings.Contains(text, from) {
			t.Fatalf("the subject has no %q to change", from)
		}
		text = strings.Replace(text, from, to, 1)
	}
	text = strings.Replace(text, "samples: ", "samples: "+folder+"/", 1)
	path := filepath.Join(t.TempDir(), "subject.yaml")
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// scenarios are those that the test runs: all in a full test, else the first.
func scenarios(all ...string) []string {
	if testing.Short() {
		return all[:1]
	}
	return all
}

func TestServiceKeepsItsPromises(t *testing.T) {
	for _, scenario := range scenarios("smoke", "poison-mix", "dlq-publish-failure", "replay-round-trip",
		"hostile-payloads") {
		code, output := judge(t, scenario, filepath.Join(service, "subject.yaml"))
		if code != 0 {
			t.Errorf("%s: exit code %d\n%s", scenario, code, output)
		}
	}
}

// Without the header by which records are otherwise followed, only the id in the value and in the path is left.
func TestServiceIsFollowedByItsOwnIDAlone(t *testing.T) {
	subject := changed(t, map[string]string{"as: uuid}": "as: uuid}\n  header: false"})
	for _, scenario := range scenarios("smoke", "replay-round-trip") {
		if code, output := judge(t, scenario, subject, "workload.headers=0"); code != 0 {
			t.Errorf("%s: exit code %d\n%s", scenario, code, output)
		}
	}
}

// numbered makes the orders those of the old shop, whose ids are numbers.
func numbered(more map[string]string) map[string]string {
	changes := map[string]string{"orders.jsonl": "old-shop.jsonl", "as: uuid}": "as: int64}"}
	maps.Copy(changes, more)
	return changes
}

// The header is left out, so that only numbers are followed. poison-mix needs it for its garbage.
func TestServiceIsFollowedByNumbers(t *testing.T) {
	hidden := changed(t, numbered(map[string]string{"as: uuid}": "as: int64}\n  header: false"}))
	for _, scenario := range scenarios("smoke", "replay-round-trip") {
		if code, output := judge(t, scenario, hidden, "workload.headers=0"); code != 0 {
			t.Errorf("%s: exit code %d\n%s", scenario, code, output)
		}
	}
	for _, scenario := range scenarios("poison-mix", "hostile-payloads") {
		if testing.Short() {
			break
		}
		if code, output := judge(t, scenario, changed(t, numbered(nil))); code != 0 {
			t.Errorf("%s: exit code %d\n%s", scenario, code, output)
		}
	}
}

// payments runs a scenario with the Python service whose records have a JSON schema. It needs Python and PostgreSQL,
// and installs packages.
func payments(t *testing.T, scenario string) (int, string) {
	t.Helper()
	if testing.Short() {
		t.Skip("the service in Python is judged by make strangers")
	}
	folder, err := filepath.Abs("../../examples/apps/payments")
	if err != nil {
		t.Fatal(err)
	}
	data, err := os.ReadFile(filepath.Join(folder, "subject.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	text := strings.NewReplacer("kind: process", "kind: process\ndir: "+folder, "samples: ", "samples: "+folder+"/",
		"schema: ", "schema: "+folder+"/").Replace(string(data))
	subject := filepath.Join(t.TempDir(), "subject.yaml")
	if err := os.WriteFile(subject, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	code, output := judge(t, scenario, subject)
	for _, missing := range []string{"no python3", "no PostgreSQL here"} {
		if strings.Contains(output, missing) {
			t.Skip("this machine lacks a prerequisite: " + missing)
		}
	}
	return code, output
}

func TestServiceWithASchemaKeepsItsPromises(t *testing.T) {
	for _, scenario := range []string{"smoke", "poison-mix", "hostile-payloads", "replay-round-trip",
		"registry-outage", "../../examples/apps/payments/outages.yaml"} {
		if code, output := payments(t, scenario); code != 0 {
			t.Errorf("%s: exit code %d\n%s", scenario, code, output)
		}
	}
}
