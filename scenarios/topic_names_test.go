package scenarios

import (
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

// Each input topic has dead-letter and retry topics of its own where their names contain its name.
func TestTopicNames(t *testing.T) {
	for text, want := range map[string]TopicNames{
		"":                          {Inputs: []string{"run.input"}, DeadLetters: []string{"run.input.dlq"}},
		"input: {topics: [eu, us]}": {Inputs: []string{"eu", "us"}, DeadLetters: []string{"run.input.dlq"}},
		"input: {topics: [\"{{.RunID}}.eu\", us]}\ncontract: {retry: topics, retry_topics: [\"{{.InputTopic}}-1\", last], " +
			"dlq: {topic: \"{{.InputTopic}}.dlt\"}}": {Inputs: []string{"run.eu", "us"},
			DeadLetters: []string{"run.eu.dlt", "us.dlt"}, Retries: []string{"run.eu-1", "last", "us-1"}},
		"input: {topics: [eu, us]}\ncontract: {retry: topics, retry_topics: \"{{.InputTopic}}\"}": {
			Inputs: []string{"eu", "us"}, DeadLetters: []string{"run.input.dlq"}, Retries: []string{"eu", "us"}},
		"input: {topics: [eu, us]}\ncontract: {retry: topics, retry_topics: \"{{.RetryTopics}}\", attempts: {max: 3}}": {
			Inputs: []string{"eu", "us"}, DeadLetters: []string{"run.input.dlq"},
			Retries: []string{"eu.retry-1", "eu.retry-2", "us.retry-1", "us.retry-2"}},
	} {
		file := filepath.Join(t.TempDir(), "subject.yaml")
		subject, err := ParseSubject(file, []byte("name: orders\nkind: process\ncommand: [orders]\n"+text+"\n"))
		if err != nil {
			t.Fatal(err)
		}
		values, err := subject.TakesFrom(Values{RunID: "run", InputTopic: "run.input", DLQTopic: "run.input.dlq"})
		if err != nil {
			t.Fatal(err)
		}
		names, err := subject.TopicNames(values)
		if err != nil || !reflect.DeepEqual(names, want) {
			t.Errorf("%s: %+v, %v; want %+v", text, names, err, want)
		}
		if n := len(subject.Input.own()); n > 0 && values.InputTopics != strings.Join(want.Inputs, ",") {
			t.Errorf("%s: told as %s", text, values.InputTopics)
		}
	}
}

// A replay needs to know which of several input topics a dead letter came from.
func TestReplaysToSeveralTopics(t *testing.T) {
	text, _ := Shipped("replay-round-trip")
	for _, one := range [][2]string{
		{"contract: {dlq: {envelope: plain}}", ""},
		{"contract: {dlq: {envelope: none}}", "nothing in them says to which of the input topics"},
		{"contract: {dlq: {envelope: none}}\nreplay: {command: [put-back, --all]}", ""},
	} {
		contract, want := one[0], one[1]
		subject := "name: orders\nkind: process\ncommand: [orders]\ninput: {topics: [eu, us]}\n" + contract + "\n"
		dir := inFolder(t, map[string]string{"subject.yaml": subject})
		_, _, err := ParseForSubject("replay-round-trip", text, nil, filepath.Join(dir, "subject.yaml"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v\nwant %q", contract, err, want)
		}
	}
}

func TestProblemsOfSeveralTopics(t *testing.T) {
	for _, one := range [][2]string{
		{"input: {topic: a, topics: [b]}", "subject.yaml:4:27: topics are several, in the place of topic"},
		{"input: {topics: []}", "topics"},
		{"input: {topics: [a, b]}\ncontract: {dlq: {topic: \"{{.InputTopic}}.dlt\"}, retry: topics, " +
			"retry_topics: [\"{{.InputTopic}}-retry\"]}",
			""},
		{"input: {topics: [a, b]}\ncontract: {dlq: {topic: dlt}}", ""},
		{"input: {topics: [a, a]}", "subject.yaml:4:21: a is the input topic already"},
		{"input: {topics: [a, b]}\ncontract: {dlq: {topic: b}}", "b is the input topic already"},
		{"input: {topics: [a, a.dlt]}\ncontract: {dlq: {topic: \"{{.InputTopic}}.dlt\"}}",
			"a.dlt is the input topic already"},
		{"input: {topics: [a, b]}\ncontract: {retry: topics, retry_topics: \"{{.InputTopic}}\"}", ""},
		{"input: {topics: [a, b]}\ncontract: {retry: topics, retry_topics: [a, c, c]}", "c is the retry topic 2 already"},
		{"contract: {retry: topics, retry_topics: \"{{.RetryTopics}}\"}", "subject.yaml:4:41: {{.RetryTopics}} are topics for each attempt"},
	} {
		text, want := one[0], one[1]
		_, err := ParseSubject(filepath.Join(t.TempDir(), "subject.yaml"),
			[]byte("name: orders\nkind: process\ncommand: [orders]\n"+text+"\n"))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%s\n%v\nwant %q", text, err, want)
		}
	}
}
