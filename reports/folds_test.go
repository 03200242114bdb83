package reports

import (
	"strings"
	"testing"
	"time"
)

func TestFolds(t *testing.T) {
	for _, test := range []struct{ variable, value, want string }{
		{"GITHUB_ACTIONS", "true", "::group::2/5 at 50%250A\n::endgroup::\n"},
		{"GITLAB_CI", "true", "\x1b[0Ksection_start:1000:smoke[collapsed=true]\r\x1b[0K2/5 at 50%0A\n" +
			"\x1b[0Ksection_end:1003:smoke\r\x1b[0K\n"},
		{"JENKINS_URL", "https://ci.example", "[dlqbench] begin 2/5 at 50%0A\n[dlqbench] end 2/5 at 50%0A\n"},
		{"CI", "true", ""},
	} {
		folds := FoldsOf(func(name string) string { return map[string]string{test.variable: test.value}[name] })
		var b strings.Builder
		folds.Begin(&b, "smoke", "2/5 at 50%0A", time.Unix(1000, 0))
		folds.End(&b, "smoke", "2/5 at 50%0A", time.Unix(1003, 0))
		if got := b.String(); got != test.want {
			t.Errorf("%s: %q, want %q", test.variable, got, test.want)
		}
	}
}
