package scenarios

import (
	"bytes"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/units"
)

const least = "name: least\ndescription: As little as a scenario can say.\nworkload: {rate: 100/s, duration: 2s}\n"

func mustParse(t *testing.T, text string, sets ...string) *Scenario {
	t.Helper()
	scenario, _, err := ParseWith("test.yaml", []byte(text), sets)
	if err != nil {
		t.Fatalf("%s\n%v", text, err)
	}
	return scenario
}

func TestDefaults(t *testing.T) {
	want := &Scenario{
		Name: "least", Description: "As little as a scenario can say.", Cluster: Cluster{Brokers: 1},
		Topics:  Topics{Input: InputTopic{Partitions: 6}, Retry: RetryTopic{Partitions: 6}, DLQ: DLQTopic{Partitions: 6}},
		Subject: Subject{Reference: &Reference{Instances: 1, Settings: consumer.DefaultSettings()}},
		Workload: Workload{
			Rate: 100, Duration: units.Duration(2 * time.Second), WarmUp: units.Duration(500 * time.Millisecond),
			Arrivals: "constant",
			Keys:     Keys{Count: 1000}, ValueSize: 256, Headers: 1, Outcomes: Outcomes{Success: 100}, ErrorText: "plain",
		},
		Expect: Expect{MaxSlip: units.Duration(250 * time.Millisecond)},
	}
	if have := mustParse(t, least); !reflect.DeepEqual(have, want) {
		t.Errorf("have %+v\nwant %+v", have, want)
	}
}

// TestWrittenZerosAreKept: what a user writes is never taken for absent.
func TestWrittenZerosAreKept(t *testing.T) {
	s := mustParse(t, least, "workload.headers=0", "workload.warm_up=0s",
		"subject.reference={retry_backoff_ms: 0, retry_jitter_ms: 0, exponential_backoff: false, dlq_enabled: false}",
		"topics.input.partitions=3", "expect.allow.duplicates=0%")
	reference := s.Subject.Reference
	if s.Workload.Headers != 0 || s.Workload.WarmUp != 0 || reference.RetryBackoffMS != 0 ||
		reference.RetryJitterMS != 0 ||
		reference.ExponentialBackoff || reference.DLQEnabled || reference.MaxRetries != 3 ||
		reference.MaxRetryBackoffMS != 30000 {
		t.Errorf("workload %+v, reference %+v", s.Workload, reference)
	}
	if s.Topics.DLQ.Partitions != 3 || s.Expect.Allow.Duplicates == nil || *s.Expect.Allow.Duplicates != 0 {
		t.Errorf("topics %+v, allow %+v", s.Topics, s.Expect.Allow)
	}
}

func TestWrittenForms(t *testing.T) {
	s := mustParse(t, least,
		"workload.outcomes={transient: 5, rate_limited: {weight: 2, retry_after: 3s}, reset: {weight: 1, failures: 2}, "+
			"exhausted: 1}", "workload.value_size=1KiB",
		"faults=[{at: 1s, for: 500ms, kafka: {api: Produce, delay_response: 1s}}, {at: 1s, for: 500ms, network: {link: "+
			"downstream, bandwidth: 2048}}]",
		"replay={healed: 12.5%}", "workload.keys.skew=0.5", "seed=18446744073709551615")
	wantOutcomes := Outcomes{
		Transient: Failing{5, 1, units.Duration(time.Second)}, RateLimited: Failing{2, 1, units.Duration(3 * time.Second)},
		Reset: Failing{1, 2, units.Duration(time.Second)}, Exhausted: 1,
	}
	if s.Workload.Outcomes != wantOutcomes || s.Workload.ValueSize != 1024 || s.Workload.Keys.Skew != 0.5 ||
		s.Seed != 1<<64-1 {
		t.Errorf("%+v", s.Workload)
	}
	if len(s.Faults) != 2 || s.Faults[0].Kafka.Probability != 1 || s.Faults[1].Network.Bandwidth != 2048 {
		t.Errorf("%+v", s.Faults)
	}
	if *s.Replay != (Replay{Healed: 0.125, Rate: 500}) {
		t.Errorf("%+v", s.Replay)
	}
}

func TestStepsAddUp(t *testing.T) {
	s := mustParse(t, strings.Replace(least, "{rate: 100/s, duration: 2s}",
		"{steps: [{rate: 60/m, for: 1s}, {rate: 5/s, for: 1500ms}]}", 1))
	if s.Workload.Duration.D() != 2500*time.Millisecond || s.expected() != 0.5+1+7.5 {
		t.Errorf("duration %s, expected %v", s.Workload.Duration, s.expected())
	}
}

func TestSetChangesTheTextAndTheScenario(t *testing.T) {
	sets := []string{"workload.rate=500/s", "subject.reference.max_retries=5",
		"faults[0]={at: 1s, for: 1s, downstream: {outage: true}}", "faults[1]={at: 1s, for: 1s, downstream: {outage: true}}",
		"faults[1]={at: 1s, name: second, for: 1s, downstream: {outage: true}}", "faults[0].for=700ms",
		"description='a: \"b\"'"}
	data := []byte(least + "faults: []\n")
	direct, source, err := ParseWith("test.yaml", data, sets)
	if err != nil {
		t.Fatal(err)
	}
	if direct.Workload.Rate != 500 || direct.Subject.Reference.MaxRetries != 5 ||
		direct.Faults[0].For != units.Duration(7e8) || len(direct.Faults) != 2 ||
		direct.Faults[1].Name != "second" || direct.Description != `a: "b"` {
		t.Errorf("%+v", direct)
	}
	applied, err := Apply("test.yaml", data, sets)
	if err != nil || !bytes.Equal(applied, source) {
		t.Errorf("Apply gives %s, %v; ParseWith %s", applied, err, source)
	}
	if again := mustParse(t, string(source)); !reflect.DeepEqual(again, direct) {
		t.Errorf("the kept text means %+v, not %+v", again, direct)
	}
	if !strings.HasPrefix(string(source), "# --set workload.rate=500/s\n") {
		t.Errorf("the kept text does not say what was set: %s", source)
	}
	if same, err := Apply("test.yaml", data, nil); err != nil || !bytes.Equal(same, data) {
		t.Errorf("without overrides the text changed: %s, %v", same, err)
	}
}

// TestSetNullTakesAKeyOut: so that its default holds, or another key can have its place.
func TestSetNullTakesAKeyOut(t *testing.T) {
	data := []byte(least + "faults: []\ntopics: {input: {partitions: 3}}\n")
	got, source, err := ParseWith("test.yaml", data, []string{"workload.rate=null", "workload.duration=null",
		"workload.steps=[{rate: 5/s, for: 1s}, {rate: 9/s, for: 1s}]", "topics.input.partitions=null"})
	if err != nil {
		t.Fatal(err)
	}
	if len(got.Workload.Steps) != 2 ||
		got.Topics.Input.Partitions != defaultScenario().Topics.Input.Partitions ||
		strings.Contains(string(source), "partitions: 3") {
		t.Errorf("%+v\n%s", got, source)
	}
	for _, set := range []string{"workload.rat=null", "no.such.key=null", "faults[0]=null", "workload.rate.x=null"} {
		_, _, err := ParseWith("test.yaml", data, []string{set})
		if problems := asProblems(t, err); len(problems.Problems) != 1 ||
			!strings.Contains(problems.Problems[0].Message, "to take out") {
			t.Errorf("%s: %v", set, err)
		}
	}
}

func TestSetProblemsNameTheArgument(t *testing.T) {
	_, data, err := Find("smoke")
	if err != nil {
		t.Fatal(err)
	}
	_, _, err = ParseWith("smoke", data, []string{
		"workload.rate=5x", "faults[0].for=20s", "workload.rat=3", "faults[3].at=1s", "subject.reference.max_retries={a: 1}",
		"rate", "=5", "a..b=1",
		"subject.reference.retry_backoff_ms=60000", "workload.duration=", "workload.keys=[1", "name.x=5", "faults.x=1",
		"workload[0]=1", "expect.drain={x: 5s}",
		"workload={rate: 1/s, duration: 5s, keys: {count: x}, outcomes: {succes: 1, exhausted: 1}}",
	})
	golden(t, "testdata/set.golden", asProblems(t, err).Error()+"\n")
}

func TestSubjectTakesThePlace(t *testing.T) {
	_, data, err := Find("consumer-kill")
	if err != nil {
		t.Fatal(err)
	}
	s, source, err := ParseForSubject("consumer-kill", data, nil, "testdata/subjects/least.yaml")
	if err != nil {
		t.Fatal(err)
	}
	if s.Subject.Reference != nil || s.Subject.File != "testdata/subjects/least.yaml" || s.InstanceCount() != 3 {
		t.Errorf("%+v", s.Subject)
	}
	if !strings.Contains(string(source), "file: testdata/subjects/least.yaml\n  instances: 3") {
		t.Errorf("the kept text has another subject: %s", source)
	}
	_, data, _ = Find("downstream-outage")
	before, _, _ := strings.Cut(string(data), "downstream: {outage")
	_, _, err = ParseForSubject("downstream-outage", data, nil, "testdata/subjects/wire.yaml")
	if problems := asProblems(t, err); len(problems.Problems) != 2 ||
		problems.Problems[0].Line != strings.Count(before, "\n")+1 {
		t.Errorf("a subject without a downstream is not refused: %v", err)
	}
	_, _, err = ParseForSubject("smoke", data, nil, "no-such.yaml")
	if problems := asProblems(t, err); problems.Problems[0].String() !=
		"--subject no-such.yaml: there is no file no-such.yaml" {
		t.Errorf("%v", err)
	}
}

func TestSubjectFileIsRelativeToTheScenario(t *testing.T) {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "s.yaml"), []byte("name: s\nkind: process\ncommand: [x]\n"),
		0o600); err != nil {
		t.Fatal(err)
	}
	text := least + "subject: {file: s.yaml}\n"
	s, err := Parse(filepath.Join(folder, "scenario.yaml"), []byte(text))
	if err != nil || s.Subject.File != "s.yaml" || s.InstanceCount() != 2 {
		t.Errorf("%+v, %v", s, err)
	}
	if _, err := Parse("elsewhere.yaml", []byte(text)); err == nil {
		t.Error("a subject file that is not there was accepted")
	}
}

func TestFind(t *testing.T) {
	path := filepath.Join(t.TempDir(), "smoke")
	if err := os.WriteFile(path, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if name, data, err := Find(path); err != nil || name != path || string(data) != "x" {
		t.Errorf("a file with the name of a shipped scenario: %q %q %v", name, data, err)
	}
	if name, data, err := Find("smoke"); err != nil || name != "smoke" || len(data) < 100 {
		t.Errorf("smoke: %q, %d bytes, %v", name, len(data), err)
	}
	for _, one := range [][2]string{
		{"smok", "did you mean smoke?"},
		{"dlq-link-dow", "did you mean dlq-link-down?"},
		{"zzzzzz", "one that dlqbench list prints"},
		{"./smoke", "reading the scenario ./smoke: "},
		{"smoke.yaml", "reading the scenario smoke.yaml: "},
	} {
		arg, want := one[0], one[1]
		if _, _, err := Find(arg); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", arg, err, want)
		}
	}
}

// TestEveryFaultIsChecked: a fault's own checks are reached through a scenario.
func TestEveryFaultIsChecked(t *testing.T) {
	for _, entry := range catalogue.Entries() {
		if catalogue.OfWorkload(entry) {
			continue
		}
		text := least + "cluster: {brokers: 3}\ntopics: {dlq: {broker: 3}}\nsubject: {reference: {instances: 3}}\n" +
			catalogue.YAML(entry) + "\n"
		text = strings.Replace(text, "duration: 2s", "duration: 5s", 1)
		kind, _, _ := strings.Cut(entry.Name, ".")
		if kind == "registry" { // it depends on the subject
			text = strings.Replace(text, "subject: {reference: {instances: 3}}\n", "", 1)
		}
		if kind == "store" {
			text += "store: {engine: postgres, probe: true}\n"
		}
		if s := mustParse(t, text); len(s.Faults) != 1 || s.Faults[0].Kind() != kind && kind != catalogue.KindSchedule {
			t.Errorf("%s: %+v", entry.Name, s.Faults)
		}
		late := strings.Replace(strings.Replace(text, "{at: 1s", "{at: 5s", 1), "{when", "{at: 5s, when", 1)
		if _, err := Parse("late.yaml", []byte(late)); err == nil || !strings.Contains(err.Error(), "lies outside the run") {
			t.Errorf("%s: outside the run, but %v", entry.Name, err)
		}
	}
}

// TestEveryExampleOfTheWorkloadIsSound: what the catalogue shows can be written like this.
func TestEveryExampleOfTheWorkloadIsSound(t *testing.T) {
	plain := mustParse(t, least).Workload
	for _, entry := range catalogue.Entries() {
		if !catalogue.OfWorkload(entry) {
			continue
		}
		text := "name: least\ndescription: An example.\n" + catalogue.YAML(entry) + "\n"
		if entry.Name != "workload.steps" {
			text += "  rate: 100/s\n  duration: 5s\n"
		}
		s := mustParse(t, text)
		if s.Workload.Rate, s.Workload.Duration = plain.Rate, plain.Duration; reflect.DeepEqual(s.Workload, plain) {
			t.Errorf("the example of %s changes nothing", entry.Name)
		}
		for _, key := range entry.Keys {
			if name := key[strings.LastIndex(key, ".")+1:]; !strings.Contains(entry.Example, name+":") {
				t.Errorf("the example of %s does not show %s", entry.Name, key)
			}
		}
	}
}

func TestTheWorkloadsForms(t *testing.T) {
	s := mustParse(t, strings.Replace(least,
		"duration: 2s}", `duration: 2s, bursts: {every: 500ms, records: 30}, tombstones: 1%, garbage: 2%,
  malformed: {share: 4%, how: [truncated]}, large: {share: 3%, size: 1000KiB},
  failing: [{partitions: [0, 5], at: 500ms, for: 1s, outcome: logical}], keys: {hot: 40%}}`,
		1)+"topics: {retry: {partitions: 2}}\nsubject: {reference: {retry: topics, ordering: none}}\n")
	want := Workload{
		Rate: 100, Duration: units.Duration(2e9), WarmUp: units.Duration(5e8), Arrivals: "constant", ValueSize: 256,
		Headers: 1, ErrorText: "plain",
		Keys: Keys{Count: 1000, Hot: 0.4}, Outcomes: Outcomes{Success: 100},
		Bursts: &Bursts{Every: units.Duration(5e8), Records: 30}, Tombstones: 0.01, Garbage: 0.02,
		Malformed: &Malformed{Share: 0.04, How: []string{"truncated"}},
		Large:     &Large{Share: 0.03, Size: 1000 << 10},
		Failing: []FailingPartitions{{Partitions: []int{0, 5}, At: units.Duration(5e8), For: units.Duration(1e9),
			Outcome: "logical"}},
	}
	if !reflect.DeepEqual(s.Workload, want) {
		t.Errorf("have %+v\nwant %+v", s.Workload, want)
	}
	if s.Topics.Retry.Partitions != 2 || s.expected() != 50+200+3*30 {
		t.Errorf("%+v, %v records", s.Topics, s.expected())
	}
}

func TestMaxInstances(t *testing.T) {
	s := mustParse(t, least, "subject.reference={instances: 2}", "faults=[{at: 0s, for: 1s, subject: {scale_up: 3}}, "+
		"{when: backoff, for: 1s, subject: {scale_up: 1}}, {at: 1s, for: 1s, subject: {scale_down: 1}}]")
	if s.InstanceCount() != 2 || s.MaxInstances() != 6 {
		t.Errorf("%d instances, %d at most", s.InstanceCount(), s.MaxInstances())
	}
	if plain := mustParse(t, least); plain.MaxInstances() != 1 {
		t.Errorf("%d instances without a fault", plain.MaxInstances())
	}
}
