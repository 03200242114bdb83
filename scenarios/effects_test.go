package scenarios

import (
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

func TestEffectsOfASubject(t *testing.T) {
	const head = "name: s\nkind: process\ncommand: [s]\n"
	for written, want := range map[string]*history.Effects{
		"{}": nil,
		"{effects: {topic: \"{{.RunID}}.results\"}}":                                                      {},
		"{effects: {topic: r, repeats: never}}":                                                           {Once: true},
		"{effects: {topic: r, repeats: produced}}":                                                        {PerCopy: true},
		"{effects: {topic: r, repeats: disrupted, atomic: true}}":                                         {Atomic: true},
		"{effects: {topic: out, repeats: never}}\ntopics: [out, more]":                                    {Once: true},
		"{effects: {sql: \"SELECT id FROM t\", atomic: true}}\ndownstreams: [{http: {}}, {postgres: {}}]": {Atomic: true},
	} {
		subject, err := ParseSubject("s.yaml", []byte(head+"contract: "+written+"\n"))
		if err != nil {
			t.Errorf("%s: %v", written, err)
			continue
		}
		have, err := subject.HistoryContract()
		if err != nil || (have.Effects == nil) != (want == nil) || want != nil && *have.Effects != *want {
			t.Errorf("%s: have %+v, %v", written, have.Effects, err)
		}
		rendered, err := subject.Render(Values{RunID: "run"})
		if err != nil || want != nil && strings.Contains(rendered.Contract.Effects.Topic, "{{") {
			t.Errorf("%s: rendered %+v, %v", written, rendered.Contract.Effects, err)
		}
	}
	for written, want := range map[string]string{
		"{effects: {atomic: true}}":                                           "topic is missing in effects",
		"{effects: {topic: \"{{.InputTopic}}\"}}":                             "is the input topic already",
		"{effects: {topic: \"{{.Nope}}\"}}":                                   "there is no value {{.Nope}}",
		"{effects: {sql: select 1}}":                                          "there is no database among the downstreams",
		"{effects: {sql: select 1, topic: r}}\ndownstreams: [{postgres: {}}]": "keep topic or sql",
		"{effects: {sql: delete from t}}\ndownstreams: [{postgres: {}}]":      "this statement does not read",
		"{effects: {topic: a b}}":                                             "can't be the name of a topic",
		"{effects: {topic: r, repeats: sometimes}}":                           "s.yaml:4",
		"{effects: {topic: dead}, dlq: {topic: dead}}":                        "is the dead-letter topic already",
		"{effects: {topic: r}}\ntopics: [\"{{.InputTopic}}\", r]":             "is the input topic already",
	} {
		_, err := ParseSubject("s.yaml", []byte(head+"contract: "+written+"\n"))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", written, err)
		}
	}
}
