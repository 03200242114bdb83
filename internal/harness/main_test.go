package harness

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/scenarios"
)

// programPath names the environment variable that tells tests where dlqbench is: the harness starts it as guard, consumer and replay tool.
const programPath = "DLQBENCH_TEST_PROGRAM"

func TestMain(m *testing.M) { os.Exit(buildAndRun(m)) }

func buildAndRun(m *testing.M) int {
	dir, err := os.MkdirTemp("", "dlqbench-harness-test")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	program := filepath.Join(dir, "dlqbench")
	build := exec.Command("go", "build", "-o", program, "../../cmd/dlqbench")
	build.Stdout, build.Stderr = os.Stdout, os.Stderr
	if err := build.Run(); err != nil {
		fmt.Fprintln(os.Stderr, "building dlqbench for the tests:", err)
		return 1
	}
	os.Setenv(programPath, program)
	return m.Run()
}

// small returns options for the small scenario, in a folder of its own.
func small(t *testing.T, sets ...string) Options {
	t.Helper()
	path := filepath.Join("testdata", "small.yaml")
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	scenario, source, err := scenarios.ParseForSubject(path, data, sets, "")
	if err != nil {
		t.Fatal(err)
	}
	return Options{
		Scenario: scenario, Source: source, Out: filepath.Join(t.TempDir(), "runs"), Executable: os.Getenv(programPath), Rerun: "rerun --seed %d",
		Version: "test", Log: zerolog.Nop(),
	}
}

// noLeaks fails the test if it leaves goroutines.
func noLeaks(t *testing.T) {
	t.Helper()
	before := goleak.IgnoreCurrent()
	t.Cleanup(func() { goleak.VerifyNone(t, before) })
}

// onLog returns a log that calls do when it is told something with the text in it, before whoever told it goes on.
func onLog(text string, do func()) zerolog.Logger {
	return zerolog.New(writer(func(line []byte) {
		if bytes.Contains(line, []byte(text)) {
			do()
		}
	}))
}

type writer func([]byte)

func (w writer) Write(line []byte) (int, error) {
	w(line)
	return len(line), nil
}
