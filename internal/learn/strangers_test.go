package learn

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
	"github.com/dlqbench/dlqbench/scenarios"
)

// absent is the exit code with which a build says that this machine lacks a prerequisite.
const absent = 77

// watched returns the folders of the consumers that are watched.
func watched() []string {
	return []string{"examples/go", "examples/apps/claims", "examples/apps/ledger", "examples/apps/orders",
		"examples/apps/payments", "examples/apps/receipts", "examples/apps/shipments", "test/strangers/franz-go",
		"test/strangers/sarama", "test/strangers/confluent-kafka", "test/strangers/aiokafka", "test/strangers/java",
		"test/strangers/kafkajs"}
}

// The parts of make learn are made from a list of names. A name in it that no consumer here has would run nothing, and
// pass.
func TestMakeLearnNamesThemAll(t *testing.T) {
	t.Parallel()
	text, err := os.ReadFile("../../Makefile")
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, folder := range watched() {
		names = append(names, filepath.Base(folder))
	}
	list := regexp.MustCompile(`(?m)^LEARNED := (.*)$`).FindSubmatch(text)
	if list == nil || !slices.Equal(strings.Fields(string(list[1])), names) {
		t.Errorf("the Makefile's LEARNED is %q, want %q", list, names)
	}
	apps, err := filepath.Glob("../../examples/apps/*/subject.yaml")
	if err != nil || len(apps) == 0 {
		t.Fatal(apps, err)
	}
	for _, file := range apps {
		if app := filepath.Base(filepath.Dir(file)); !slices.Contains(names, app) {
			t.Errorf("the application %s is not among them", app)
		}
	}
}

// What is learned of consumers that others wrote, on six clients, is what their authors promise, as far as it shows: with
// few attempts, no wait reaches its cap. And none of them is found to break it under faults.
func TestContractsAreLearned(t *testing.T) {
	if testing.Short() {
		t.Skip("builds consumers in four languages and runs each for a minute: make learn")
	}
	program, err := programtest.Build()
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range watched() {
		t.Run(filepath.Base(name), func(t *testing.T) {
			path := filepath.Join("..", "..", name, "subject.yaml")
			written, err := scenarios.LoadSubject(path)
			if err != nil {
				t.Fatal(err)
			}
			build(t, filepath.Dir(path), written.Build)
			text, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			report, err := Learn(t.Context(), Config{File: path, Text: text, Run: run.Run, Options: run.Options{
				Out: t.TempDir(), Executable: program, Log: zerolog.Nop()}})
			if err != nil {
				t.Fatal(err)
			}
			agree(t, written.Contract, report.Subject.Contract)
			if len(report.Odd) > 0 {
				t.Errorf("it is accused: %q", report.Odd)
			}
			if t.Failed() {
				t.Log(Contract(report.Lines))
			}
		})
	}
}

func build(t *testing.T, folder string, words []string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), words[0], words[1:]...)
	command.Dir = folder
	output, err := command.CombinedOutput()
	var ended *exec.ExitError
	switch {
	case errors.Is(err, exec.ErrNotFound) || errors.As(err, &ended) && ended.ExitCode() == absent:
		t.Skipf("%s can't be built here: %s", folder, output)
	case err != nil:
		t.Fatalf("building %s: %v\n%s", folder, err, output)
	}
}

func agree(t *testing.T, written, learned scenarios.ContractSpec) {
	t.Helper()
	for _, one := range []struct {
		what          string
		written, have any
	}{
		{"attempts", written.Attempts, learned.Attempts}, {"classes", written.Classes, learned.Classes},
		{"the first wait", written.Backoff.Initial, learned.Backoff.Initial},
		{"the multiplier", written.Backoff.Multiplier, learned.Backoff.Multiplier},
		{"business failures", written.Logical, learned.Logical}, {"ordering", written.Ordering, learned.Ordering},
		{"a dead-letter topic", written.DLQ.Enabled, learned.DLQ.Enabled},
		{"the dead letters' key", written.DLQ.KeepsKey, learned.DLQ.KeepsKey},
		{"the dead letters' value", written.DLQ.KeepsValue, learned.DLQ.KeepsValue},
		{"the envelope", written.DLQ.Envelope, learned.DLQ.Envelope},
		{"on_failure", written.DLQ.OnFailure, learned.DLQ.OnFailure},
		{"commits", written.Commits.After, learned.Commits.After}, {"effects", written.Effects, learned.Effects},
	} {
		if !reflect.DeepEqual(one.written, one.have) {
			t.Errorf("%s: learned %v, its author wrote %v", one.what, one.have, one.written)
		}
	}
	if limit := learned.Backoff.Cap; limit != 0 && limit != written.Backoff.Cap {
		t.Errorf("the cap: learned %v, its author wrote %v", limit, written.Backoff.Cap)
	}
	if written.RetryAfter == scenarios.RetryAfterHonoured && learned.RetryAfter != scenarios.RetryAfterHonoured {
		t.Error("it waits for Retry-After, which was not learned")
	}
	if slices.Contains(learned.Skips, scenarios.SkipTombstone) != slices.Contains(written.Skips, scenarios.SkipTombstone) {
		t.Errorf("skips: learned %v, its author wrote %v", learned.Skips, written.Skips)
	}
}
