package scenarios

import (
	"cmp"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A scenario is refused, before anything is started, for a subject that can't show what it is about.
func TestUnfit(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subject.yaml")
	for name, of := range map[string]struct{ promised, about, without string }{
		"kip-848":           {"group_protocol: consumer", "the group protocol of KIP-848", ""},
		"transactions":      {"transactions: true", "offsets and dead letters in one transaction", ""},
		"producer-fenced":   {"transactions: true", "offsets and dead letters in one transaction", ""},
		"share-group":       {"group_type: share", "a share group", ""},
		"hexkit-dlq-off":    {"dlq: {enabled: false}", "what a consumer without a dead-letter topic does", ""},
		"retry-topics":      {"retry: topics, retry_topics: a", "retry topics", ""},
		"smoke":             {"ordering: none", "", ""},
		"spring-envelope":   {"dlq: {envelope: spring}", "dead letters in the envelope spring", ""},
		"hexkit-dlq":        {"dlq: {envelope: hexkit}", "dead letters in the envelope hexkit", ""},
		"group-api-errors":  {"group_protocol: classic", "the classic group protocol", "group_protocol: consumer"},
		"static-membership": {"group_protocol: classic", "", ""},
	} {
		text, _ := Shipped(name)
		parse := func(contract string) error {
			subject := "name: orders\nkind: process\ncommand: [orders]\ncontract: {" + contract + "}\n"
			if err := os.WriteFile(file, []byte(subject), 0o600); err != nil {
				t.Fatal(err)
			}
			_, _, err := ParseForSubject(name, text, nil, file)
			return err
		}
		if err := parse(of.promised); err != nil {
			t.Errorf("%s, for a subject that promises %s: %v", name, of.promised, err)
		}
		err := parse(cmp.Or(of.without, "attempts: {max: 3}"))
		if of.about == "" {
			if err != nil {
				t.Errorf("%s is for any subject, not: %v", name, err)
			}
			continue
		}
		if err == nil || !strings.Contains(err.Error(), name+" is about "+of.about) {
			t.Errorf("%s, for a subject that does not promise %s: %v", name, of.promised, err)
		}
	}
}

// What a scenario starts itself is not the subject. The refusal is the only problem: others only follow from it.
func TestUnfitKind(t *testing.T) {
	file := filepath.Join(t.TempDir(), "subject.yaml")
	if err := os.WriteFile(file, []byte("name: orders\nkind: process\ncommand: [orders]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for name, about := range map[string]string{
		"store-lifecycle": "dlqbench's own dead-letter store", "pipestream-graph": "a graph of nodes",
		"hexkit-shared-dlq": "several services", "hexkit-dlq": "dead letters in the envelope hexkit",
	} {
		text, _ := Shipped(name)
		_, _, err := ParseForSubject(name, text, nil, file)
		if err == nil || !strings.Contains(err.Error(), name+" is about "+about) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// The list has every shipped scenario once, below a heading. A subject leaves some without anything to show.
func TestList(t *testing.T) {
	all, err := List(nil)
	if err != nil || len(all) != len(Names()) {
		t.Fatalf("%d of %d scenarios are listed: %v; a scenario without a group is not", len(all), len(Names()), err)
	}
	for _, one := range all {
		if one.Line() == "" || one.Unfit != "" {
			t.Errorf("%+v", one)
		}
	}
	subject, err := ParseSubject("subject.yaml", []byte("name: orders\nkind: process\ncommand: [orders]\n"))
	if err != nil {
		t.Fatal(err)
	}
	some, err := List(subject)
	if err != nil {
		t.Fatal(err)
	}
	unfit := map[string]bool{}
	for _, one := range some {
		unfit[one.Name] = one.Unfit != ""
	}
	if unfit["smoke"] || !unfit["share-group"] || !unfit["store-lifecycle"] {
		t.Errorf("unfit are %v", unfit)
	}
}
