package scaffold

import (
	"slices"
	"strings"
	"testing"
)

// A suite that is written beside a subject file has only what that fits.
func TestTheSuiteFitsTheSubject(t *testing.T) {
	t.Parallel()
	proposal := Propose(folderOf([]string{"go.mod", "module it\n"}), "it")
	for _, one := range []struct {
		refused     map[string]string
		unpromised  []string
		has, hasNot string
	}{
		{nil, nil, "\n  - smoke\n  - poison-mix\n", "# - smoke"},
		{nil, nil, "halt-on-dlq-failure, dlq-fidelity, dlq-once,\n  graceful-stop, stays-up]\n", "Not with"},
		{map[string]string{"smoke": "no\ndead letters"}, nil,
			"\n  # Not with subject.yaml: no dead letters\n  # - smoke\n  - poison-mix\n", "\n  - smoke"},
		{map[string]string{"smoke": "no", "poison-mix": "no", "hostile-payloads": "none", Substitute: "none"}, nil,
			"\n  # Not with subject.yaml: no\n  # - smoke\n  # - poison-mix\n  # Not with subject.yaml: none\n", "  - poison-mix"},
		{map[string]string{"smoke": strings.Repeat("why ", 30)}, nil, "why\n  # why", strings.Repeat("why ", 25)},
		{nil, []string{"commit-after-dlq", "halt-on-dlq-failure", "dlq-fidelity", "dlq-once", "backoff"},
			"\nrequire: [no-loss, commit-after-outcome, graceful-stop, stays-up]\n", "dlq-fidelity"},
	} {
		proposal.Refused, proposal.Unpromised = one.refused, one.unpromised
		files, err := Files(proposal, "dev")
		if err != nil {
			t.Fatal(err)
		}
		if suite := string(files[0].Text); !strings.Contains(suite, one.has) || strings.Contains(suite, one.hasNot) {
			t.Errorf("it has no %q, or %q:\n%s", one.has, one.hasNot, suite)
		}
	}
}

// Who has keys with a schema can't get arbitrary ones, and gets other records that can't be read.
func TestUnreadableRecordsStayInTheSuite(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		refused map[string]string
		has     bool
	}{
		{nil, false}, {map[string]string{"hostile-payloads": "keys"}, true},
		{map[string]string{"hostile-payloads": "values", Substitute: "values"}, false},
	} {
		p := &Proposal{Refused: one.refused}
		has := slices.ContainsFunc(p.suite(), func(c chosen) bool { return c.Why == nil && slices.Contains(c.Names, Substitute) })
		if has != one.has {
			t.Errorf("%v: %v", one.refused, has)
		}
	}
}

// The scenario for retry topics is there if the code or the subject file has them, and is refused like any other.
func TestRetryTopicsInTheSuite(t *testing.T) {
	t.Parallel()
	const in, out = "\n  - retry-topics\n", "\n  # - retry-topics\n"
	for _, one := range []struct {
		found   bool
		refused map[string]string
		has     string
	}{
		{false, nil, out}, {true, nil, in}, {true, map[string]string{}, in}, {false, map[string]string{}, in},
		{true, map[string]string{retryTopics: "one"}, "\n  # Not with subject.yaml: one" + out},
		{false, map[string]string{retryTopics: "no retry topics"}, out},
	} {
		proposal := Propose(folderOf([]string{"go.mod", "module it\n"}), "it")
		proposal.Refused, proposal.Retries.Found = one.refused, one.found
		files, err := Files(proposal, "dev")
		if err != nil {
			t.Fatal(err)
		}
		if suite := string(files[0].Text); !strings.Contains(suite, one.has) || strings.Count(suite, "- retry-topics\n") != 1 {
			t.Errorf("%v has no %q:\n%s", one, one.has, suite)
		}
	}
}
