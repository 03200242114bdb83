package scenarios

import (
	"maps"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
)

func TestContractOfAHexkitService(t *testing.T) {
	reference := defaultReference()
	reference.Envelope = deadletter.HexkitName
	// Of the record's headers hexkit keeps two, and only those are promised.
	if have := ReferenceContract(reference); have.Envelope != deadletter.HexkitName || !have.KeepsHeaders ||
		have.ExitsExhausted {
		t.Errorf("with the DLQ: %+v", have)
	}
	if to := ReplayTopic(reference, "orders"); to != "retry-orders" {
		t.Errorf("its dead letters go back to %q", to)
	}
	reference.DLQEnabled, reference.OnExhausted = false, consumer.ExhaustedExit
	if have := ReferenceContract(reference); have.Envelope != "" || have.KeepsHeaders || !have.ExitsExhausted {
		t.Errorf("without the DLQ: %+v", have)
	}
	if to := ReplayTopic(reference, "orders"); to != "" {
		t.Errorf("without the DLQ its dead letters go back to %q", to)
	}
	if to := ReplayTopic(defaultReference(), "orders"); to != "" {
		t.Errorf("plain dead letters go back to %q", to)
	}
}

func TestContractOfExitsAndOrders(t *testing.T) {
	spec := defaultSubject().Contract
	for _, test := range []struct {
		exhausted, order string
		exits, attempts  bool
	}{{"", "", false, false}, {"finish", "outcomes", false, false}, {"exit", "attempts", true, true}} {
		spec.OnExhausted, spec.OrderOf, spec.Ordering = test.exhausted, test.order, string(history.OrderingKey)
		have, err := spec.Contract()
		if err != nil || have.ExitsExhausted != test.exits || have.OrderOfAttempts != test.attempts {
			t.Errorf("%+v: %+v, %v", test, have, err)
		}
	}
}

func TestRecordHeadersOfScenarioAndSubject(t *testing.T) {
	scenario := &Scenario{Workload: Workload{RecordHeaders: map[string]string{"type": "order", "tenant": "a"}}}
	if have := scenario.RecordHeaders(nil); !maps.Equal(have, scenario.Workload.RecordHeaders) {
		t.Errorf("without a subject: %v", have)
	}
	subject := &SubjectFile{RecordHeaders: map[string]string{"type": "invoice", "id": HeaderUUID}}
	if have := scenario.RecordHeaders(subject); !maps.Equal(have, map[string]string{"type": "invoice", "tenant": "a",
		"id": HeaderUUID}) {
		t.Errorf("with a subject: %v", have)
	}
	if scenario.Workload.RecordHeaders["type"] != "order" {
		t.Error("the scenario's own headers were changed")
	}
	if have := (&Scenario{}).RecordHeaders(nil); len(have) != 0 {
		t.Errorf("without any: %v", have)
	}
}

func TestReplayToolIsRendered(t *testing.T) {
	subject := &SubjectFile{Replay: ReplayTool{To: "retry-{{.GroupID}}",
		Command: []string{"tool", "{{.IDsFile}}", "{{.ReplayRate}}", "{{.BootstrapServers}}"}}}
	values := Values{GroupID: "g", IDsFile: "/ids", ReplayRate: "50", BootstrapServers: "127.0.0.1:9",
		ReplayTopic: "retry-g"}
	rendered, err := subject.Render(values)
	if err != nil || rendered.Replay.To != "retry-g" || len(rendered.Replay.Command) != 4 ||
		rendered.Replay.Command[1] != "/ids" || rendered.Replay.Command[2] != "50" {
		t.Fatalf("%+v, %v", rendered, err)
	}
	environment := values.Environment()
	if environment["DLQBENCH_IDS_FILE"] != "/ids" || environment["DLQBENCH_REPLAY_RATE"] != "50" ||
		environment["DLQBENCH_REPLAY_TOPIC"] != "retry-g" {
		t.Errorf("the environment is %v", environment)
	}
	if rendered, err := (&SubjectFile{}).Render(values); err != nil || rendered.Replay.Command != nil {
		t.Errorf("without a tool: %+v, %v", rendered.Replay, err)
	}
}

// The ready-made subjects say what they mean, and each file of a subject has a name of its own.
func TestReadyMadeSubjectsAreSound(t *testing.T) {
	files, err := filepath.Glob("../subjects/*/*.yaml")
	if err != nil || len(files) < 6 {
		t.Fatalf("found only %v, %v", files, err)
	}
	names := map[string]string{}
	for _, file := range files {
		subject, err := LoadSubject(file)
		if err != nil {
			t.Errorf("%s:\n%v", file, err)
			continue
		}
		if other := names[subject.Name]; other != "" {
			t.Errorf("%s and %s are both called %s", file, other, subject.Name)
		}
		names[subject.Name] = file
		contract, err := subject.HistoryContract()
		if err != nil || contract.MaxAttempts == 0 || len(contract.Retryable) != 6 ||
			contract.Ordering == history.OrderingNone {
			t.Errorf("%s promises %+v, %v", file, contract, err)
		}
		if contract.Envelope == "" && subject.Replay.Command != nil {
			t.Errorf("%s puts dead letters back and writes none", file)
		}
	}
}

// Several services are told apart by what they are called, numbered one after another, and each promises what its own
// settings say.
func TestServicesOfAScenario(t *testing.T) {
	const text = `
name: several
description: Two services.
services:
  - {name: orders, instances: 2}
  - {name: billing, settings: {max_retries: 5}}
workload: {rate: 10/s, duration: 4s}
`
	s, err := Parse("several.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	if s.InstanceCount() != 3 || s.FirstOf(0) != 0 || s.FirstOf(1) != 2 || s.Subject.Reference != nil {
		t.Errorf("%d instances, from %d and %d; %+v", s.InstanceCount(), s.FirstOf(0), s.FirstOf(1), s.Subject)
	}
	for i, attempts := range []int{consumer.DefaultSettings().MaxRetries, 5} {
		have := s.Services[i].Contract("run." + s.Services[i].Name)
		if have.Service != "run."+s.Services[i].Name || have.Envelope != deadletter.HexkitName ||
			have.MaxAttempts != attempts {
			t.Errorf("service %d promises %+v", i, have)
		}
	}
}
