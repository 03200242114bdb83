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
