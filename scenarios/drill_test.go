package scenarios

import (
	"fmt"
	"reflect"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/internal/units"
)

const drilled = `
name: drilled
description: A script.
workload: {rate: 100/s, duration: 10m}
faults:
  - {at: 1s, for: 2s, downstream: {outage: true}}
drill:
  pick: 2
  faults:
    - {from: 2m, to: 5m, for: 30s, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}
    - {from: 2m, to: 2m, subject: {instance: 0, signal: KILL, restart_after: 10s}}
    - {to: 1m, for: 1s, network: {link: downstream, latency: 200ms}}
`

// TestDraw: for every seed as many faults as are to be picked, each at a time within its bounds, in the order of the
// script, the same every time.
func TestDraw(t *testing.T) {
	scenario, err := Parse("drilled.yaml", []byte(drilled))
	if err != nil {
		t.Fatal(err)
	}
	rapid.Check(t, func(t *rapid.T) {
		seed := rapid.Uint64().Draw(t, "seed")
		drawn := scenario.Drill.Draw(seed)
		if len(drawn) != 2 || !reflect.DeepEqual(drawn, scenario.Drill.Draw(seed)) {
			t.Fatalf("%+v", drawn)
		}
		from := 0
		for _, spec := range drawn {
			for from < len(scenario.Drill.Faults) && scenario.Drill.Faults[from].Kind() != spec.Kind() {
				from++
			}
			if from == len(scenario.Drill.Faults) {
				t.Fatalf("%+v is not in the script, or not in its order", spec)
			}
			if one := scenario.Drill.Faults[from]; spec.At < one.From || spec.At > one.To || spec.At.D()%time.Millisecond != 0 {
				t.Fatalf("%s is not between %s and %s", spec.At, one.From, one.To)
			}
		}
		if planned := scenario.Planned(seed); len(planned) != 3 || planned[0].Downstream == nil ||
			!reflect.DeepEqual(planned[1:], drawn) {
			t.Fatalf("planned: %+v", planned)
		}
	})
	times := map[units.Duration]bool{}
	for seed := range uint64(20) {
		for _, spec := range scenario.Drill.Draw(seed) {
			times[spec.At] = true
		}
	}
	if len(times) < 20 {
		t.Errorf("only %d different times: anybody could know them", len(times))
	}
}

// TestDrawAll: without pick everything happens, and without a script nothing.
func TestDrawAll(t *testing.T) {
	scenario, err := Parse("drilled.yaml", []byte(strings.Replace(drilled, "pick: 2", "pick: 3", 1)))
	if err != nil {
		t.Fatal(err)
	}
	scenario.Drill.Pick = 0
	if drawn := scenario.Drill.Draw(1); len(drawn) != 3 {
		t.Errorf("%+v", drawn)
	}
	if drawn := (*Drill)(nil).Draw(1); drawn != nil {
		t.Errorf("%+v", drawn)
	}
}

// TestDrillProblems: what can be wrong with a script.
func TestDrillProblems(t *testing.T) {
	for _, one := range [][2]string{
		{"[{from: 5s, to: 2s, for: 1s, downstream: {outage: true}}]", "it ends before it begins"},
		{"[{to: 2s, at: 1s, for: 1s, downstream: {outage: true}}]", "has no time that anybody knows"},
		{"[{to: 2s, when: first-retry, for: 1s, downstream: {outage: true}}]", "has no time that anybody knows"},
		{"[{to: 599s, for: 10s, downstream: {outage: true}}]", "10m0s"},
		{"[{to: 2s, for: 1s, downstream: {outage: true, hang: true}}]", "exclude"},
		{"[{to: 2s, for: 1s}]", "exactly one kind"},
		{"[{for: 1s, downstream: {outage: true}}]", "to"},
		{"[]", "faults"},
		{"[{to: 2s, for: 1s, subject: {scale_up: 16}}]", "17 instances"},
		{"[{to: 1s, for: 1s, downstream: {outage: true}}, {to: 1s, for: 1s, downstream: {outage: true}}, {to: 1s, for: 1s, " +
			"name: twice, downstream: {outage: true}}, {to: 1s, for: 1s, name: twice, downstream: {slow: 1s}}]",
			"twice is taken"},
	} {
		faults, want := one[0], one[1]
		text := "name: x\ndescription: x\nworkload: {rate: 100/s, duration: 10m}\ndrill: {faults: " + faults + "}\n"
		_, err := Parse("drill.yaml", []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", faults, err, want)
		}
	}
	_, err := Parse("drill.yaml", []byte(strings.Replace(drilled, "pick: 2", "pick: 4", 1)))
	if err == nil || !strings.Contains(err.Error(), "4 faults are to be picked, and there are 3") {
		t.Errorf("%v", err)
	}
}

func record(t *testing.T, text string, recording Recording) (*Scenario, string) {
	t.Helper()
	out, err := Record("scenario.yaml", []byte(text), recording)
	if err != nil {
		t.Fatal(err)
	}
	scenario, err := Parse("recorded.yaml", out)
	if err != nil {
		t.Fatalf("%v in\n%s", err, out)
	}
	return scenario, string(out)
}

// TestRecord: whatever fault was recorded is read back as it was, with its seed and the length of the load, and the
// script is gone.
func TestRecord(t *testing.T) {
	var specs []catalogue.Spec
	for i, entry := range catalogue.Entries() {
		if catalogue.OfWorkload(entry) || entry.Kind() == "store" || entry.Kind() == "registry" ||
			strings.HasPrefix(entry.Name, catalogue.KindSchedule) || strings.Contains(entry.Example, "link: dlq") {
			continue
		}
		spec, err := DecodeFault([]byte(entry.Example))
		if err != nil {
			t.Fatal(err)
		}
		spec.At, spec.Name = units.Duration(i)*units.Duration(time.Millisecond), fmt.Sprintf("number-%d", i)
		specs = append(specs, spec)
	}
	text := strings.Replace(drilled, "workload:", "cluster: {brokers: 3}\nsubject: {reference: {instances: 3}}\nworkload:",
		1)
	scenario, out := record(t, text, Recording{Head: []string{"one\ntwo"}, Seed: 1<<64 - 1, Steady: 12345678901,
		Faults: specs})
	if !reflect.DeepEqual(scenario.Faults, specs) {
		t.Errorf("%+v\nwant\n%+v", scenario.Faults, specs)
	}
	if scenario.Drill != nil || scenario.Seed != 1<<64-1 || scenario.Workload.Duration != 12345678901 ||
		scenario.Subject.Reference.Instances != 3 {
		t.Errorf("%+v", scenario)
	}
	if !strings.HasPrefix(out, "# one two\n") {
		t.Errorf("%s", out)
	}
	scenario, _ = record(t, text, Recording{Steady: time.Second, Subject: ""})
	if len(scenario.Faults) != 0 {
		t.Errorf("nothing was broken, and it has %+v", scenario.Faults)
	}
}

// TestRecordShort: what would lie behind the end of a shorter load is cut off.
func TestRecordShort(t *testing.T) {
	text := `
name: x
description: x
topics: {input: {partitions: 3}}
workload:
  steps: [{rate: 100/s, for: 2s}, {rate: 300/s, for: 2s}, {rate: 50/s, for: 2s}]
  bursts: {every: 3s, records: 10}
  failing: [{partitions: [0], at: 1s, for: 3s, outcome: exhausted},
    {partitions: [1], at: 3s, for: 1s, outcome: exhausted}]
`
	for _, test := range []struct {
		steady         time.Duration
		steps, failing int
		last           time.Duration
		bursts         bool
	}{
		{6 * time.Second, 3, 2, 2 * time.Second, true},
		{3500 * time.Millisecond, 2, 2, 1500 * time.Millisecond, true},
		{2 * time.Second, 1, 1, 2 * time.Second, false},
		{500 * time.Millisecond, 1, 0, 500 * time.Millisecond, false},
	} {
		scenario, out := record(t, text, Recording{Steady: test.steady})
		load := scenario.Workload
		if load.Duration.D() != test.steady || len(load.Steps) != test.steps ||
			load.Steps[test.steps-1].For.D() != test.last || len(load.Failing) != test.failing ||
			(load.Bursts != nil) != test.bursts {
			t.Errorf("%v:\n%s", test.steady, out)
		}
	}
}

// TestRecordSubject: the subject's file is found from where the recording is.
func TestRecordSubject(t *testing.T) {
	out, err := Record("x.yaml",
		[]byte("name: x\ndescription: x\nsubject: {file: mine.yaml, instances: 3}\nworkload: {rate: 1/s, duration: 1s}\n"),
		Recording{Steady: time.Second, Subject: "../../mine.yaml"})
	if err != nil || !strings.Contains(string(out), "file: ../../mine.yaml") ||
		!strings.Contains(string(out), "instances: 3") {
		t.Errorf("%v:\n%s", err, out)
	}
}

// TestDecodeFault: a fault is held to the schema, whatever it looks like.
func TestDecodeFault(t *testing.T) {
	for text, want := range map[string]string{
		`{"kafka": {"api": "Produce", "topic": "dlq", "close": true}}`: "",
		"kafka:\n  api: Produce\n  close: true\n":                      "",
		`{"kafka": {"api": "Produce", "topix": "dlq"}}`:                "topix",
		`{"kafka": {"topic": "dlq"}}`:                                  "api",
		`{"for": "soon"}`:                                              "soon",
		`[]`:                                                           "must be a mapping",
		`null`:                                                         "no value",
		``:                                                             "no value",
		`"x"`:                                                          "",
		"{}\nworkload: {rate: 5/s}":                                    "",
		"{":                                                            "",
	} {
		spec, err := DecodeFault([]byte(text))
		good := strings.Contains(text, "close")
		if good != (err == nil) || good && (spec.Kafka == nil || !spec.Kafka.Close || spec.Kafka.Probability != 1) {
			t.Errorf("%q: %+v, %v", text, spec, err)
		}
		if err != nil && (!strings.Contains(err.Error(), want) || strings.Contains(err.Error(), "\n")) {
			t.Errorf("%q: %v, want %q in one line", text, err, want)
		}
	}
}
