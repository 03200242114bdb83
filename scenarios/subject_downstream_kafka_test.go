package scenarios

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

const outputHead = "name: s\nkind: process\ncommand: [s]\n"

func TestOutputTopicAsDownstream(t *testing.T) {
	subject, err := ParseSubject("s.yaml", []byte(outputHead+`
downstreams: [{kafka: {topic: "{{.RunID}}.results", errors: {permanent: TOPIC_AUTHORIZATION_FAILED}}}]
topics: [more]
contract: {classes: {permanent: [TOPIC_AUTHORIZATION_FAILED, POLICY_VIOLATION]}, effects: {repeats: never}}
`))
	if err != nil {
		t.Fatal(err)
	}
	contract, err := subject.HistoryContract()
	if err != nil || !contract.OutputAttempts || !contract.Effects.Once || !slices.Equal(contract.Permanent,
		[]history.Outcome{history.OutcomePermanent, history.OutcomeLogical}) {
		t.Errorf("the contract is %+v, %v", contract, err)
	}
	codes := subject.Kafka().Codes()
	if codes[history.OutcomeTransient] != -1 || codes[history.OutcomePermanent] != 29 ||
		codes[history.OutcomeLogical] != 44 ||
		subject.AnswerTo(history.OutcomePermanent) != "TOPIC_AUTHORIZATION_FAILED" {
		t.Errorf("the codes are %v", codes)
	}
	rendered, err := subject.Render(Values{RunID: "run"})
	if err != nil || rendered.EffectsTopic() != "run.results" ||
		!slices.Equal(rendered.OutputTopics(), []string{"more", "run.results"}) ||
		subject.Kafka().Topic != "{{.RunID}}.results" {
		t.Errorf("the output topics are %v, %v", rendered.OutputTopics(), err)
	}
	text, err := subject.Describe()
	if all := strings.Join(text.Lines(500), "\n"); err != nil ||
		!strings.Contains(all, "Its writes to {{.RunID}}.results") ||
		!strings.Contains(all, "Retried: UNKNOWN_SERVER_ERROR, time-outs") {
		t.Errorf("described as %v\n%s", err, all)
	}
}

func TestOutputTopicsThatAreWrong(t *testing.T) {
	for _, one := range [][2]string{
		{"[{kafka: {}}]", "topic"},
		{"[{}]", "write http, grpc, kafka or postgres"},
		{"[{kafka: {topic: r}, http: {}}]", "write http, grpc, kafka or postgres"},
		{"[{kafka: {topic: r, errors: {transient: NOT_ENOUGH_REPLICAS}}}]", "retry NOT_ENOUGH_REPLICAS by themselves"},
		{"[{kafka: {topic: r, errors: {transient: INVALID_RECORDS}}}]", "did you mean INVALID_RECORD"},
		{"[{kafka: {topic: r, errors: {transient: INVALID_RECORD}}}]", "have different classes"},
		{"[{kafka: {topic: \"{{.InputTopic}}\"}}]", "is the input topic already"},
		{"[{kafka: {topic: \"{{.Nope}}\"}}]", "there is no value {{.Nope}}"},
		{"[{kafka: {topic: r}}]\nobserve: wire", "keep one of the two"},
		{"[{kafka: {topic: r}}]\ncontract: {classes: {retryable: [INVALID_RECORT]}}", "is no class"},
	} {
		written, want := one[0], one[1]
		_, err := ParseSubject("s.yaml", []byte(outputHead+"downstreams: "+written+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", written, err)
		}
	}
}

// Scenarios that need more than a refused write are refused before the run.
func TestScenariosWithoutAnOutputTopic(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subject.yaml")
	if err := os.WriteFile(file, []byte(outputHead+"downstreams: [{kafka: {topic: r}}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]string{
		"smoke": "", "consumer-kill": "", "dlq-publish-failure": "", "broker-loss": "",
		"downstream-outage":       "there is no link \"downstream\"",
		"poison-mix":              "--set workload.outcomes.rate_limited.weight=0",
		"unreliable-downstream":   "which can only be refused",
		"rate-limited-downstream": "which can only be refused", "hostile-texts": "which can only be refused",
	} {
		text, _ := Shipped(name)
		_, _, err := ParseForSubject(name, text, nil, file)
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
