package run

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Whole runs mostly wait, so their tests run in parallel. What any of them leaves behind is found after the last.
func TestMain(m *testing.M) {
	code := programtest.Main(m)
	if err := goleak.Find(); err != nil && code == 0 {
		fmt.Fprintln(os.Stderr, "after all tests:", err)
		code = 1
	}
	os.Exit(code)
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
		Scenario: scenario, Source: source, Out: filepath.Join(t.TempDir(), "runs"), Executable: programtest.Path(),
		Rerun: "rerun --seed %d", Version: "test", Log: zerolog.Nop(),
	}
}

// smallSlow is small for tests that check the verdict. On a starved machine a dead letter may come more than a
// second after its record, and a fault of 200 ms that no request meets makes a run inconclusive.
func smallSlow(t *testing.T) Options {
	t.Helper()
	return small(t, "workload.rate=60/s", "workload.duration=4s",
		"faults=[{at: 100ms, for: 3500ms, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}]")
}

// onLog returns a log that calls do when it receives a message containing the text, before the caller that logs
// continues.
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
