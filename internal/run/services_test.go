package run

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/testkit/programtest"
	"github.com/dlqbench/dlqbench/scenarios"
)

// hexkitService is a subject that is the reference consumer in hexkit's envelope, with its own replay tool: this
// program with the words of tool as arguments.
func hexkitService(t *testing.T, tool string) Options {
	t.Helper()
	options := small(t, "topics.dlq.foreign=7", "faults=[]",
		"workload.record_headers={type: order, correlation_id: \"{{.UUID}}\", event_id: \"{{.UUID}}\"}",
		"subject.reference.envelope=hexkit")
	program := programtest.Path()
	options.Subject, options.SubjectFile = subjectFile(t, fmt.Sprintf(`
command: [%q, consume]
env: {DLQBENCH_SETTINGS: '{"max_retries": 2, "retry_backoff_ms": 20, "max_retry_backoff_ms": 50, "retry_jitter_ms": 5, "envelope": "hexkit"}'}
replay: {to: "retry-{{.GroupID}}", command: [%q, replay, --bootstrap, "{{.BootstrapServers}}", --from, "{{.DLQTopic}}", --dialect, hexkit, %s]}
contract:
  attempts: {max: 2}
  ordering: key
  dlq: {envelope: hexkit, on_failure: halt, keeps_headers: true}`, program, program, tool))
	return options
}

func resultOf(t *testing.T, outcome *Outcome, invariant string) assertions.Result {
	t.Helper()
	for _, one := range outcome.Verdict.Invariants {
		if one.Name == invariant {
			return one
		}
	}
	t.Fatalf("the verdict says nothing of %s", invariant)
	return assertions.Result{}
}

// The subject's own tool replays its dead letters through the topic that the subject names. Those of another service
// stay where they are.
func TestTheSubjectsOwnReplayTool(t *testing.T) {
	t.Parallel()
	outcome, err := Run(t.Context(), hexkitService(t, `--ids, "{{.IDsFile}}", --rate, "{{.ReplayRate}}/s"`))
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Verdict.Verdict != assertions.Pass {
		t.Fatalf("the verdict is %s: %v", outcome.Verdict.Verdict, outcome.Verdict.Reasons)
	}
	if one := resultOf(t, outcome, "replay-round-trip"); one.Judged == 0 {
		t.Error("no dead letter was put back")
	}
	if one := resultOf(t, outcome, "dlq-fidelity"); one.Judged == 0 {
		t.Error("no dead letter was read")
	}
	header := outcome.Judged.Header
	if to := "retry-" + header.Group(); header.Consumers[0].ReplayTo != to || header.Foreign != 7 ||
		!slices.ContainsFunc(header.Topics, func(topic history.Topic) bool {
			return topic.Name == to && topic.Role == history.RoleInput
		}) {
		t.Errorf("the header says %q, %d and %v", header.Consumers[0].ReplayTo, header.Foreign, header.Topics)
	}
	said, err := os.ReadFile(filepath.Join(outcome.Dir, dirLogs, "replay.log"))
	if err != nil || !strings.Contains(string(said), "→ retry-"+header.Group()) {
		t.Errorf("the tool said %s, %v", said, err)
	}
}

// A tool that replays everything, including other services' dead letters, is detected.
func TestAReplayToolThatTakesTheDeadLettersOfOthers(t *testing.T) {
	t.Parallel()
	outcome, err := Run(t.Context(), hexkitService(t, `--from-start, --to, "retry-{{.GroupID}}"`))
	if err != nil {
		t.Fatal(err)
	}
	one := resultOf(t, outcome, "replay-round-trip")
	for _, anomaly := range one.Anomalies {
		if anomaly.Name == "selected-wrong" && anomaly.Count == 7 {
			return
		}
	}
	t.Errorf("seven dead letters of another service were put back, and the verdict is %+v", one)
}

// Without the DLQ the subject ends whenever a record has failed permanently, and is restarted until it is done.
func TestASubjectThatEndsWithExhaustedRecords(t *testing.T) {
	t.Parallel()
	options := small(t)
	source, err := os.ReadFile(filepath.Join("testdata", "exits.yaml"))
	if err != nil {
		t.Fatal(err)
	}
	if options.Scenario, options.Source, err = scenarios.ParseForSubject("exits.yaml", source, nil, ""); err != nil {
		t.Fatal(err)
	}
	outcome, err := Run(t.Context(), options)
	if err != nil {
		t.Fatal(err)
	}
	if outcome.Verdict.Verdict != assertions.Pass {
		t.Fatalf("the verdict is %s: %v", outcome.Verdict.Verdict, outcome.Verdict.Reasons)
	}
	if one := resultOf(t, outcome, "halt-on-dlq-failure"); one.Judged == 0 || len(one.Anomalies) > 0 {
		t.Errorf("of its ends it is said: %+v", one)
	}
	if one := resultOf(t, outcome, "duplicates"); one.Judged < 25 {
		t.Errorf("only %d records were processed", one.Judged)
	}
}
