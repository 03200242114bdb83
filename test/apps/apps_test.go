// Package apps_test judges the applications of examples/apps by their suites: as they are, and with planted bugs.
package apps_test

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
)

func TestMain(m *testing.M) { os.Exit(programtest.Main(m)) }

const apps = "../../examples/apps"

// app is an application of examples/apps.
type app struct {
	// needs are the programs without which it can't be built.
	needs []string
	// database: it needs PostgreSQL, too.
	database bool
	// tests runs its own tests, in its folder. TEST_DATABASE_URL is an empty database for them.
	tests []string
	// bugs are its patches in this folder, and the invariant and anomaly that name each.
	bugs map[string]named
}

type named struct{ invariant, anomaly string }

func all() map[string]app {
	return map[string]app{
		"claims": {
			needs: []string{"javac", "mvn"}, database: true,
			tests: []string{"mvn", "-q", "-B", "package"},
			bugs: map[string]named{
				"database-error-swallowed":                 {"no-loss", "lost"},
				"dead-letter-not-checked":                  {"commit-after-dlq", "commit-without-dlq"},
				"dead-lettered-while-the-registry-is-away": {"classification", "premature-dead-letter"},
			},
		},
		"ledger": {
			needs: []string{"go"}, database: true,
			tests: []string{"go", "test", "./..."},
			bugs: map[string]named{
				"duplicate-key-retried":       {"classification", "logical-dead-lettered"},
				"entries-without-transaction": {"duplicates", "duplicate"},
				"entries-without-key":         {"effects", "effect-doubled"},
				"key-with-offset":             {"effects", "effect-doubled"},
			},
		},
		"orders": {
			needs: []string{"go"},
			tests: []string{"go", "test", "./..."},
			bugs: map[string]named{
				"dead-letter-not-awaited": {"commit-after-dlq", "commit-without-dlq"},
				"marked-before-processed": {"commit-after-outcome", "commit-past-unfinished"},
				"one-attempt-too-many":    {"bounded-retries", "over-retried"},
			},
		},
		"payments": {
			needs: []string{"python3"}, database: true,
			tests: []string{"sh", "-c", "sh setup.sh && .venv/bin/pytest -q"},
			bugs: map[string]named{
				"parked-while-the-registry-is-away": {"classification", "premature-dead-letter"},
				"offset-stored-before-processed":    {"commit-after-outcome", "commit-past-unfinished"},
				"row-not-committed":                 {"effects", "effect-missing"},
			},
		},
		"receipts": {
			needs: []string{"javac", "mvn"},
			tests: []string{"mvn", "-q", "-B", "package"},
			bugs: map[string]named{
				"offsets-outside-the-transaction":  {"effects", "effect-missing"},
				"receipts-outside-the-transaction": {"effects", "effect-doubled"},
				"refused-dead-letter-skipped":      {"commit-after-dlq", "commit-without-dlq"},
			},
		},
		"shipments": {
			needs: []string{"node", "npm"},
			tests: []string{"sh", "-c", "npm ci --silent --no-audit --no-fund && npm test --silent"},
			bugs: map[string]named{
				"dead-letter-not-awaited": {"commit-after-dlq", "commit-without-dlq"},
				"client-errors-retried":   {"classification", "permanent-retried"},
				"malformed-order-skipped": {"no-loss", "lost"},
			},
		},
	}
}

// TestApps runs, for each application, its own tests and its suite, and the suite with each of its bugs. It needs what
// the applications are written with, so `make apps` runs it; DLQBENCH_APPS is set there.
func TestApps(t *testing.T) {
	if os.Getenv("DLQBENCH_APPS") == "" {
		t.Skip("the applications are judged by make apps")
	}
	for name, app := range all() {
		t.Run(name, func(t *testing.T) {
			environment := app.environment(t, name)
			t.Run("correct", func(t *testing.T) {
				folder := checkout(t, name)
				run(t, folder, environment, app.tests...)
				if code, output := suite(t, folder); code != 0 {
					t.Errorf("its suite ends with %d:\n%s", code, output)
				}
			})
			for bug, by := range app.bugs {
				t.Run(bug, func(t *testing.T) {
					folder := checkout(t, name)
					patch, err := filepath.Abs(filepath.Join(name, bug+".patch"))
					if err != nil {
						t.Fatal(err)
					}
					run(t, folder, nil, "git", "apply", patch)
					code, output := suite(t, folder)
					if code != 1 || !strings.Contains(output, by.invariant) || !strings.Contains(output, by.anomaly) {
						t.Errorf("its suite ends with %d, want 1 for %s (%s):\n%s", code, by.invariant, by.anomaly, output)
					}
				})
			}
		})
	}
}

// environment returns what an application's own tests need in the environment. It skips the test if the application
// can't be built or run here.
func (a app) environment(t *testing.T, name string) []string {
	t.Helper()
	for _, program := range a.needs {
		if _, err := exec.LookPath(program); err != nil {
			t.Skipf("SKIPPED %s: no %s in the PATH", name, program)
		}
	}
	if !a.database {
		return nil
	}
	server, err := postgres.Start(t.Context(), nil)
	if errors.Is(err, postgres.ErrAbsent) {
		t.Skipf("SKIPPED %s: %v", name, err)
	}
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := server.Close(); err != nil {
			t.Error(err)
		}
	})
	url, err := server.Create(t.Context(), "own_tests")
	if err != nil {
		t.Fatal(err)
	}
	return []string{"TEST_DATABASE_URL=" + url}
}

// checkout copies an application, without what builds have left, into a folder of its own, and returns it.
func checkout(t *testing.T, name string) string {
	t.Helper()
	source, folder := filepath.Join(apps, name), filepath.Join(t.TempDir(), name)
	for _, file := range files(t, source) {
		data, err := os.ReadFile(filepath.Join(source, file))
		if err != nil {
			t.Fatal(err)
		}
		path := filepath.Join(folder, file)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, data, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return folder
}

// files lists the files of an application, without what its .gitignore names: builds leave that.
func files(t *testing.T, folder string) (all []string) {
	t.Helper()
	listed, err := os.ReadFile(filepath.Join(folder, ".gitignore"))
	if err != nil {
		t.Fatal(err)
	}
	left := map[string]bool{}
	for line := range strings.Lines(string(listed)) {
		name := strings.Trim(strings.TrimSpace(line), "/")
		if strings.ContainsAny(name, "/*?[!#") {
			t.Fatalf("%s/.gitignore has %q: only names of folders and files are understood here", folder, name)
		}
		left[name] = true
	}
	err = fs.WalkDir(os.DirFS(folder), ".", func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case left[entry.Name()] && entry.IsDir():
			return fs.SkipDir
		case entry.Type().IsRegular() && !left[entry.Name()]:
			all = append(all, path)
		}
		return nil
	})
	if err != nil {
		t.Fatalf("listing the files of %s: %v", folder, err)
	}
	return all
}

func run(t *testing.T, folder string, environment []string, arguments ...string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), arguments[0], arguments[1:]...)
	command.Dir, command.Env = folder, append(os.Environ(), environment...)
	if output, err := command.CombinedOutput(); err != nil {
		t.Fatalf("%v: %v\n%s", arguments, err, output)
	}
}

// suite judges the application in a folder by its dlqbench.yaml, and returns the exit code and what was printed.
func suite(t *testing.T, folder string) (int, string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), programtest.Path(), "gate", "--config",
		filepath.Join(folder, "dlqbench.yaml"), "--artifacts", filepath.Join(t.TempDir(), "gate"))
	command.Dir = t.TempDir() // runs are written to the working directory
	output, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%v: %v\n%s", command.Args, err, output)
	}
	return command.ProcessState.ExitCode(), string(output)
}

// An application knows nothing of its judge.
func TestSourcesKnowNothingOfDlqbench(t *testing.T) {
	folders, err := os.ReadDir(apps)
	if err != nil {
		t.Fatal(err)
	}
	known := all()
	for _, folder := range folders {
		if !folder.IsDir() {
			continue
		}
		name := folder.Name()
		if app, is := known[name]; !is || len(app.bugs) < 3 {
			t.Errorf("examples/apps/%s is not judged here, or has fewer than three bugs", name)
		}
		for _, file := range files(t, filepath.Join(apps, name)) {
			if strings.HasSuffix(file, ".yaml") { // the subject, its suite, and scenarios of its own
				continue
			}
			data, err := os.ReadFile(filepath.Join(apps, name, file))
			if err != nil {
				t.Fatal(err)
			}
			if bytes.Contains(bytes.ToLower(data), []byte("dlqbench")) {
				t.Errorf("examples/apps/%s/%s names dlqbench", name, file)
			}
		}
	}
}
