package scenarios

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// Records that would never come to their end are left out of shipped scenarios, and refused where the user sets them.
func TestLastingFailuresFitTheSubject(t *testing.T) {
	const never = "contract: {attempts: {max: unlimited}, dlq: {enabled: false}"
	for name, one := range map[string]struct {
		scenario, contract, set string
		outcomes                Outcomes
		failing                 int
		refused                 string
	}{
		"it gives up": {"poison-mix", "contract: {attempts: {max: 3}, dlq: {enabled: false}}", "",
			Outcomes{Exhausted: 6, Permanent: 6, Logical: 6}, 0, ""},
		"it never gives up": {"poison-mix", never + "}", "", Outcomes{Permanent: 6, Logical: 6}, 0, ""},
		"nor what is refused for good": {"poison-mix", never + ", classes: {retryable: [503, 400, 422]}}", "",
			Outcomes{}, 0, ""},
		"it ends":              {"poison-mix", "contract: {dlq: {enabled: false}, on_exhausted: exit}", "", Outcomes{Logical: 6}, 0, ""},
		"some partitions fail": {"several-partitions-failing", never + "}", "", Outcomes{}, 1, ""},
		"the user sets one": {"poison-mix", never + "}", "workload.outcomes.exhausted=7", Outcomes{}, 0,
			"tries a record for ever that always fails so"},
		"the user sets one that ends": {"poison-mix", never + "}", "workload.outcomes.permanent=7",
			Outcomes{Permanent: 7, Logical: 6}, 0, ""},
		"the user makes a partition fail": {"several-partitions-failing", never + "}",
			"workload.failing[0].outcome=exhausted", Outcomes{}, 0, "tries a record for ever that always fails so"},
	} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "subject.yaml")
			text := "name: x\nkind: process\ncommand: [x]\n" + one.contract + "\n"
			if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
			var sets []string
			if one.set != "" {
				sets = []string{one.set}
			}
			shipped, _ := Shipped(one.scenario)
			scenario, source, err := ParseForSubject(one.scenario, shipped, sets, file)
			if one.refused != "" {
				if err == nil || !strings.Contains(err.Error(), one.refused) {
					t.Errorf("not refused: %v", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			got := scenario.Workload.Outcomes
			if got.Exhausted != one.outcomes.Exhausted || got.Permanent != one.outcomes.Permanent ||
				got.Logical != one.outcomes.Logical {
				t.Errorf("outcomes %+v, want %+v", got, one.outcomes)
			}
			if got := len(scenario.Workload.Failing); one.failing > 0 && got != one.failing {
				t.Errorf("%d failing partitions in %s", got, source)
			}
			again, _, err := ParseWith("again.yaml", source, nil)
			if err == nil && again.Workload.Outcomes.Exhausted != got.Exhausted {
				t.Errorf("its text has others: %s", source)
			}
		})
	}
}
