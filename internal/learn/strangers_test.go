package learn

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
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
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/internal/scaffold"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
	"github.com/dlqbench/dlqbench/scenarios"
)

// absent is the exit code with which a build says that this machine lacks a prerequisite.
const absent = 77

// watched is a consumer that is watched: with the subject file of its author, or from its command alone.
type watched struct {
	name, folder string
	// command: nothing is known of it but its command, its samples and the answer that it expects.
	command bool
	answer  string
}

// consumers returns those that are watched.
func consumers() (all []watched) {
	for _, folder := range []string{"examples/go", "examples/apps/claims", "examples/apps/ledger", "examples/apps/orders",
		"examples/apps/payments", "examples/apps/receipts", "examples/apps/shipments", "test/strangers/franz-go",
		"test/strangers/sarama", "test/strangers/confluent-kafka", "test/strangers/aiokafka", "test/strangers/java",
		"test/strangers/kafkajs"} {
		all = append(all, watched{name: filepath.Base(folder), folder: folder})
	}
	answers := map[string]string{"claims": `{"risk": 17}`, "payments": `{"charge": "c-{{.ID}}"}`}
	for _, app := range []string{"claims", "ledger", "orders", "payments", "receipts", "shipments"} {
		all = append(all, watched{app + "-from-its-command", "examples/apps/" + app, true, answers[app]})
	}
	return all
}

// The parts of make learn are made from a list of names. A name in it that no consumer here has would run nothing, and
// pass.
func TestMakeLearnNamesThemAll(t *testing.T) {
	t.Parallel()
	text := must.Get(os.ReadFile("../../Makefile"))(t)
	var names []string
	for _, one := range consumers() {
		names = append(names, one.name)
	}
	list := regexp.MustCompile(`(?m)^LEARNED := ((?:.*\\\n)*.*)$`).FindSubmatch(text)
	if list == nil || !slices.Equal(strings.Fields(strings.ReplaceAll(string(list[1]), "\\", "")), names) {
		t.Errorf("the Makefile's LEARNED is %q, want %q", list, names)
	}
	apps, err := filepath.Glob("../../examples/apps/*/subject.yaml")
	if err != nil || len(apps) == 0 {
		t.Fatal(apps, err)
	}
	for _, file := range apps {
		for _, name := range []string{filepath.Base(filepath.Dir(file)), filepath.Base(filepath.Dir(file)) + "-from-its-command"} {
			if !slices.Contains(names, name) {
				t.Errorf("%s is not among them", name)
			}
		}
	}
}

// What is learned of consumers that others wrote, on six clients, is what their authors promise, as far as it shows: with
// few attempts, no wait reaches its cap. And none of them is found to break it under faults.
func TestContractsAreLearned(t *testing.T) {
	if testing.Short() {
		t.Skip("builds consumers in four languages and runs each for a minute: make learn")
	}
	program := must.Get(programtest.Build())(t)
	for _, one := range consumers() {
		t.Run(one.name, func(t *testing.T) {
			path := filepath.Join("..", "..", one.folder, "subject.yaml")
			written, err := scenarios.LoadSubject(path)
			if err != nil {
				t.Fatal(err)
			}
			build(t, filepath.Dir(path), written.Build)
			config := Config{File: path, Run: run.Run, Discover: run.Discover, Answer: one.answer, Made: one.command,
				Options: run.Options{Out: t.TempDir(), Executable: program, Log: zerolog.Nop()}}
			if config.Text, err = os.ReadFile(path); one.command {
				config.File = filepath.Join(t.TempDir(), "subject.yaml")
				config.Text = fromCommand(t, filepath.Dir(path), written, one.answer)
				err = os.WriteFile(config.File, config.Text, 0o600)
			}
			if err != nil {
				t.Fatal(err)
			}
			report := must.Get(Learn(t.Context(), config))(t)
			if one.command {
				find(t, written, report.Subject)
				// The usual answers differ from those that its author declared, and effects in a database are not learned.
				report.Subject.Contract.Classes, report.Subject.Contract.Logical = written.Contract.Classes, written.Contract.Logical
				report.Subject.Contract.Effects = written.Contract.Effects
			}
			agree(t, written.Contract, report.Subject.Contract)
			if len(report.Odd) > 0 {
				t.Errorf("it is accused: %q", report.Odd)
			}
			if t.Failed() {
				t.Logf("%s", report.Text)
			}
		})
	}
}

// fromCommand is the subject file of a consumer of which only its command and its samples are known. It runs in its
// folder.
func fromCommand(t *testing.T, folder string, written *scenarios.SubjectFile, answer string) []byte {
	t.Helper()
	folder = must.Get(filepath.Abs(folder))(t)
	records := scaffold.Records{Samples: filepath.Join(folder, written.Input.Samples), Answer: answer}
	file := must.Get(os.Open(records.Samples))(t)
	guess, err := samples.GuessOf(file)
	if err = errors.Join(err, file.Close()); err != nil {
		t.Fatal(err)
	}
	for _, id := range guess.IDs {
		records.IDs = append(records.IDs, id.At)
	}
	if records.Format, records.Schema = scaffold.FindSchema(os.DirFS(folder), nil); records.Schema != "" {
		records.Schema = filepath.Join(folder, records.Schema)
	}
	text := must.Get(scaffold.ToLearn(os.DirFS(folder), filepath.Base(folder), written.Command, records))(t)
	return append(text, fmt.Sprintf("dir: %q\n", folder)...)
}

// find compares what was found of names and calls with what the author wrote. Topics and groups that the consumer is
// told, the author may give names.
func find(t *testing.T, written, found *scenarios.SubjectFile) {
	t.Helper()
	text := func(input *scenarios.Input) []string {
		return []string{input.ID.At, cmp.Or(input.Format, "json")}
	}
	if !slices.Equal(text(written.Input), text(found.Input)) {
		t.Errorf("its records: found %v, its author wrote %v", text(found.Input), text(written.Input))
	}
	for _, one := range []struct{ what, template, written, found string }{
		{"topic", "{{.InputTopic}}", written.Input.Topic, found.Input.Topic},
		{"group", "{{.GroupID}}", written.Contract.Group, found.Contract.Group},
		{"dead-letter topic", "{{.DLQTopic}}", written.Contract.DLQ.Topic, found.Contract.DLQ.Topic},
	} {
		if told := one.found == "" || strings.HasPrefix(one.found, "{{"); one.found != one.written &&
			(!told || !slices.Contains(slices.Collect(maps.Values(found.Env)), one.template)) {
			t.Errorf("its %s: found %q, its author wrote %q", one.what, one.found, one.written)
		}
	}
	if len(written.Downstreams) != len(found.Downstreams) {
		t.Fatalf("it calls %+v, its author wrote %+v", found.Downstreams, written.Downstreams)
	}
	for i, one := range found.Downstreams {
		own := written.Downstreams[i]
		if one.Kind() != own.Kind() || one.HTTP != nil && !reflect.DeepEqual(one.HTTP.ID, own.HTTP.ID) ||
			one.Kafka != nil && one.Kafka.Topic != own.Kafka.Topic {
			t.Errorf("downstream %d: found %+v, its author wrote %+v", i+1, one, own)
		}
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
