package learn

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Samples and an answer are put into a file that says nothing of them, and into no other.
func TestWhatIsGivenBesideAFile(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	for _, name := range []string{"orders.jsonl", "mine.jsonl"} {
		must.Do(t, os.WriteFile(filepath.Join(folder, name), []byte("{\"id\": \"o-1\"}\n{\"id\": \"o-2\"}\n"), 0o600))
	}
	samples, answer := Given{Samples: "orders.jsonl", ID: "$.id"}, `{"ok": "it's"}`
	for name, one := range map[string]struct {
		file         string
		given        Given
		answer, want string
	}{
		"nothing":            {"", Given{}, "", ""},
		"samples":            {"", samples, "", "  samples: orders.jsonl\n"},
		"samples of a topic": {"input: {topic: orders}\n", samples, "", "{samples: orders.jsonl, id: {at: $.id}, topic: orders}"},
		"the same samples":   {"input: {samples: orders.jsonl, id: {at: $.id}}\n", samples, "", ""},
		"other samples": {"input: {samples: mine.jsonl, id: {at: $.id}}\n", samples, "",
			"already what records are made from (input.samples: mine.jsonl)"},
		"several topics": {"input: {topics: [eu, us]}\n", samples, "", "several input topics"},
		"an answer":      {"", Given{}, answer, "downstreams: [{http: {answers: {success: {body: '{\"ok\": \"it''s\"}'}}}}]"},
		"an answer of a name": {"downstreams: [{name: bank, http: {}}, {postgres: {}}]\n", Given{}, answer,
			"\n  - name: bank\n    http:\n      answers: {success: {body: '{\"ok\": \"it''s\"}'}}\n  - postgres: {}\n"},
		"an answer beside another": {"downstreams: [{http: {id: {in: path}}}]\n", Given{}, answer, "already how calls are answered"},
	} {
		k := &look{Config: &Config{File: filepath.Join(folder, "subject.yaml"), Answer: one.answer}, found: map[string]string{},
			text: []byte("name: it\nkind: process\ncommand: [it]\n" + one.file)}
		before := string(k.text)
		var err error
		if k.subject, err = scenarios.ParseSubject(k.File, k.text); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		if err = k.give(one.given); err == nil {
			err = k.answer()
		}
		said := string(k.text)
		if err != nil {
			said = err.Error()
		}
		if !strings.Contains(said, one.want) || one.want == "" && said != before {
			t.Errorf("%s: %s\nlacks %s", name, said, one.want)
		}
	}
}
