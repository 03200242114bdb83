package ferretdb

import (
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"go.mongodb.org/mongo-driver/v2/bson"
)

// program builds dlqbench.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "dlqbench")
	build := exec.CommandContext(t.Context(), "go", "build", "-o", path, "./cmd/dlqbench")
	build.Dir = filepath.Join("..", "..")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("building dlqbench: %v: %s", err, out)
	}
	return path
}

// TestARunOnMongoDB: a scenario with engine: mongodb is run and judged, every change of every entry among what is
// judged, and leaves no database behind.
func TestARunOnMongoDB(t *testing.T) {
	dlqbench := program(t)
	scenario, err := filepath.Abs(filepath.Join("testdata", "store-mongodb.yaml"))
	must(t, err)
	servers(t, func(t *testing.T, url string) {
		out := t.TempDir()
		run := exec.CommandContext(t.Context(), dlqbench, "run", scenario, "--out", out)
		run.Env = append(os.Environ(), "DLQBENCH_MONGODB_URL="+url)
		said, err := run.CombinedOutput()
		verdict, read := os.ReadFile(filepath.Join(out, "latest", "verdict.json"))
		if read != nil {
			t.Fatalf("there is no verdict: %v, %v: %s", err, read, said)
		}
		var judged struct {
			Invariants []struct {
				Name, Verdict string
				Judged        int
				NotJudged     map[string]int `json:"not_judged"`
			}
		}
		must(t, json.Unmarshal(verdict, &judged))
		for _, one := range judged.Invariants {
			// A machine that stands still makes runs inconclusive, not this.
			if one.Name == "store-lifecycle" && (one.Verdict != "pass" || one.Judged < 40) {
				t.Errorf("%+v: %s", one, said)
			}
		}
		names, err := collection(t, database(t, url), "x").Database().Client().ListDatabaseNames(t.Context(), bson.D{})
		must(t, err)
		for _, name := range names {
			if strings.HasPrefix(name, "dlqbench_") {
				t.Errorf("the database %s is left behind", name)
			}
		}
	})
}

// TestWithoutAServer: without a MongoDB the run says so, and that it is not the subject's fault.
func TestWithoutAServer(t *testing.T) {
	run := exec.CommandContext(t.Context(), program(t), "run", filepath.Join("testdata", "store-mongodb.yaml"), "--out",
		t.TempDir())
	run.Env = append(os.Environ(), "DLQBENCH_MONGODB_URL=")
	said, err := run.CombinedOutput()
	if run.ProcessState.ExitCode() != 3 || !strings.Contains(string(said), "no MongoDB") ||
		!strings.Contains(string(said), "DLQBENCH_MONGODB_URL") {
		t.Errorf("exit code %d (%v): %s", run.ProcessState.ExitCode(), err, said)
	}
}

// TestCollectionsAreWatched runs the tests of package storewatch that need a MongoDB: they are of the main module.
func TestCollectionsAreWatched(t *testing.T) {
	servers(t, func(t *testing.T, url string) {
		run := exec.CommandContext(t.Context(), "go", "test", "-count=1", "-run", "Mongo", "-v", "./internal/env/storewatch")
		run.Dir = filepath.Join("..", "..")
		run.Env = append(os.Environ(), "DLQBENCH_MONGODB_URL="+url)
		said, err := run.CombinedOutput()
		if err != nil || strings.Contains(string(said), "SKIP") || !strings.Contains(string(said), "PASS: TestMongo") {
			t.Errorf("%v: %s", err, said)
		}
	})
}
