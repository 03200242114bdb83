package scaffold

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// A suite that is written beside a subject file has only what that fits.
func TestTheSuiteFitsTheSubject(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		contract    string
		has, hasNot []string
	}{
		"with dead letters": {"{}", []string{"\n  - smoke\n", "\n  - consumer-kill\n", "dlq-fidelity"}, []string{"# - smoke"}},
		"without": {"{dlq: {enabled: false}}",
			[]string{"\n  # Not with subject.yaml: ", "\n  # - smoke\n", "\n  - poison-mix\n", "require: [no-loss, commit-after-outcome, graceful-stop, stays-up]"},
			[]string{"\n  - smoke\n", "\n  - consumer-kill\n", "dlq-fidelity"}},
	} {
		path := filepath.Join(t.TempDir(), "subject.yaml")
		text := "name: it\nkind: process\ncommand: [it]\ncontract: " + test.contract + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		proposal := Propose(folderOf([]string{"go.mod", "module it\n"}), "it")
		proposal.Fit(path)
		files, err := Files(proposal, "dev")
		if err != nil {
			t.Fatal(err)
		}
		suite := string(files[0].Text)
		for _, text := range test.has {
			if !strings.Contains(suite, text) {
				t.Errorf("%s: no %q in\n%s", name, text, suite)
			}
		}
		for _, text := range test.hasNot {
			if strings.Contains(suite, text) {
				t.Errorf("%s: %q in\n%s", name, text, suite)
			}
		}
	}
}
