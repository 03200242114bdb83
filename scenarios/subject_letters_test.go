package scenarios

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults/catalogue"
)

const parked = "downstreams: [{name: errors, http: {}}, {name: work, http: {}, decides: true}, {name: mail, http: {}}]\n" +
	"contract: {dlq: {downstream: errors}}\n"

func TestDeadLettersAtADownstream(t *testing.T) {
	subject, err := ParseSubject("subject.yaml", []byte(service+parked))
	if err != nil {
		t.Fatal(err)
	}
	var called []string
	for _, one := range subject.Called() {
		called = append(called, one.Called())
	}
	if got := strings.Join(called, " "); got != "work mail errors" {
		t.Errorf("it calls %s", got)
	}
	names, err := subject.TopicNames(Values{InputTopic: "in", DLQTopic: "in.dlq"})
	if err != nil || strings.Join(names.DeadLetters, " ") != "errors" {
		t.Errorf("dead letters go to %v: %v", names.DeadLetters, err)
	}
	contract, err := subject.HistoryContract()
	if err != nil || !contract.HasDLQ() || !contract.ChangesKey || !contract.ChangesValue || contract.KeepsHeaders {
		t.Errorf("the contract is %+v: %v", contract, err)
	}
	text, err := subject.Describe()
	if err != nil || !slices.ContainsFunc(text.NotJudged, func(r Reason) bool {
		return r.Invariant == "replay-round-trip" && strings.Contains(r.Why, "downstream errors")
	}) || !slices.Contains(text.Promises, "Its calls of errors with a record's id are dead letters.") {
		t.Errorf("%v: %+v", err, text)
	}
}

func TestProblemsOfDeadLettersAtADownstream(t *testing.T) {
	const downstreams = "downstreams: [{name: work, http: {}}, {name: errors, http: {}}, {name: out, kafka: {topic: t}}]\n"
	for text, want := range map[string]string{
		downstreams + "contract: {dlq: {downstream: errors, on_failure: retry, surfaced_within: 5s}}":      "",
		downstreams + "contract: {dlq: {downstream: erors}}":                                               "there is no downstream erors",
		downstreams + "contract: {dlq: {downstream: work}}":                                                "work decides",
		downstreams + "contract: {dlq: {downstream: out}}":                                                 `write dlq: {topic: "t"}`,
		downstreams + "contract: {dlq: {downstream: errors, topic: x}}":                                    "leave topic out",
		downstreams + "contract: {dlq: {downstream: errors, envelope: spring}}":                            "leave envelope out",
		downstreams + "contract: {dlq: {downstream: errors, enabled: false}}":                              "no dead letters",
		downstreams + "contract: {transactions: true, dlq: {downstream: errors}}":                          "leave transactions out",
		downstreams + "contract: {dlq: {downstream: errors}}\nreplay: {command: [x]}":                      "leave replay out",
		downstreams + "contract: {dlq: {downstream: errors}}\nenv: {A: \"{{.DLQTopic}}\"}":                 "there is no dead-letter topic",
		"contract: {dlq: {downstream: errors}}":                                                            "there is no downstream errors",
		"downstreams: [{http: {}}, {name: e, http: {}, optional: true}]\ncontract: {dlq: {downstream: e}}": "leave optional out",
	} {
		_, err := ParseSubject("subject.yaml", []byte(service+text+"\n"))
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %q", text, err, want)
		}
	}
}

// parkedIn parses a scenario for a subject whose dead letters go to a downstream.
func parkedIn(t *testing.T, name, text string) (*Scenario, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "subject.yaml")
	if err := os.WriteFile(file, []byte(service+parked), 0o600); err != nil {
		t.Fatal(err)
	}
	scenario, _, err := ParseForSubject(name, []byte(text), nil, file)
	return scenario, err
}

// Faults of a shipped scenario that are written for the DLQ topic hit the downstream.
func TestFaultsOfTheDLQHitTheDownstream(t *testing.T) {
	for name, want := range map[string][]func(catalogue.Spec) bool{
		"dlq-publish-failure": {
			func(f catalogue.Spec) bool { return f.Downstream.Outage && f.Downstream.Name == "errors" },
			func(f catalogue.Spec) bool {
				return f.Downstream.Errors.Permanent == 1 && f.For.D() == 3500*time.Millisecond
			},
		},
		"dlq-ack-lost": {
			func(f catalogue.Spec) bool { return f.Downstream.Errors.Timeout == 0.5 },
			func(f catalogue.Spec) bool { return f.Downstream.Slow.D() == 600*time.Millisecond },
		},
		"dlq-link-down":          {func(f catalogue.Spec) bool { return f.Network.Link == "downstream errors" }},
		"stop-while-dlq-refuses": {2: func(f catalogue.Spec) bool { return f.Downstream.Errors.Permanent == onePartition }},
	} {
		text, _ := Shipped(name)
		scenario, err := parkedIn(t, name, string(text))
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		for i, is := range want {
			if is != nil && !is(scenario.Faults[i]) {
				t.Errorf("%s: fault %d is %+v", name, i, scenario.Faults[i])
			}
		}
		if scenario.Topics.DLQ.Downstream != "errors" {
			t.Errorf("%s: its dead letters go to %q", name, scenario.Topics.DLQ.Downstream)
		}
	}
}

func TestScenariosThatNeedADLQTopic(t *testing.T) {
	for _, name := range []string{"replay-round-trip", "dlq-leader-loss", "dlq-broker-killed", "unknown-producer-id"} {
		text, _ := Shipped(name)
		if _, err := parkedIn(t, name, string(text)); err == nil || !strings.Contains(err.Error(),
			"the subject's dead letters go to the downstream errors: write dlq: {topic: …}") {
			t.Errorf("%s: %v", name, err)
		}
	}
	const own = "name: x\ndescription: x.\nworkload: {rate: 10/s, duration: 5s, outcomes: {permanent: 1}}\n"
	for text, want := range map[string]string{
		"faults: [{at: 1s, for: 1s, downstream: {name: errors, hang: true}}]": "",
		"faults: [{at: 1s, for: 1s, kafka: {api: Produce, topic: dlq, error: NOT_ENOUGH_REPLICAS}}]": "write downstream: " +
			"{name: errors, outage: true}",
		"cluster: {brokers: 2}\ntopics: {dlq: {broker: 1}}\nfaults: [{at: 1s, for: 1s, network: {link: dlq, down: true}}]": "" +
			"write link: downstream errors",
		"replay: {healed: 50%}": "is about a dead-letter topic",
	} {
		if _, err := parkedIn(t, "x.yaml", own+text+"\n"); (err == nil) != (want == "") || err != nil &&
			!strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %q", text, err, want)
		}
	}
}
