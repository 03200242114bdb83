package gate

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/scaffold"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// A consumer without a dead-letter topic can't be run in scenarios about one.
func TestScenariosThatASubjectDoesNotFit(t *testing.T) {
	t.Parallel()
	names := []string{"smoke", "poison-mix", "consumer-kill", "stop-while-dlq-refuses"}
	for contract, has := range map[string]bool{"{}": true, "{dlq: {enabled: false}}": false} {
		path := filepath.Join(t.TempDir(), "subject.yaml")
		text := "name: it\nkind: process\ncommand: [it]\ncontract: " + contract + "\n"
		must.Do(t, os.WriteFile(path, []byte(text), 0o600))
		refused, unpromised := Fit(path, names)
		for _, name := range names {
			why, is := refused[name]
			if want := !has && (name == "smoke" || name == "stop-while-dlq-refuses"); is != want || is && why != "the subject writes no dead letters" {
				t.Errorf("%s: %s is refused: %v (%s)", contract, name, is, why)
			}
		}
		if slices.Contains(unpromised, "dlq-fidelity") == has || slices.Contains(unpromised, "no-loss") {
			t.Errorf("%s: not promised are %v", contract, unpromised)
		}
	}
	names = append(names, "malformed-records")
	for _, one := range []struct {
		contract string
		blind    []string
	}{
		{"{}", []string{"smoke", "poison-mix", "consumer-kill"}}, {"{poison: skip}", names},
		{"{effects: {topic: results}}", nil}, {"{poison: halt}", []string{"smoke", "poison-mix", "consumer-kill"}},
	} {
		path := filepath.Join(t.TempDir(), "subject.yaml")
		text := "name: it\nkind: process\ncommand: [it]\nobserve: wire\ncontract: " + one.contract + "\n"
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		refused, _ := Fit(path, names)
		for _, name := range names {
			if _, is := refused[name]; is != slices.Contains(one.blind, name) {
				t.Errorf("observe: wire, %s: %s is refused: %v (%s)", one.contract, name, is, refused[name])
			}
		}
	}
	for file, one := range map[string]struct{ refused, why, unpromised string }{
		"instances: 1\n":               {"scale-up-and-down", "there are 3, and instances in ", "ordering"},
		"listen: {kafka: 9092}\n":      {"scale-up-and-down", "allows one instance", "ordering"},
		"contract: {commits: never}\n": {"scale-up-and-down", "is about a consumer group", "commit-after-outcome"},
		"contract: {dlq: {keeps_key: false, keeps_value: false, keeps_headers: false}}\n": {"", "", "dlq-fidelity"},
	} {
		path := filepath.Join(t.TempDir(), "subject.yaml")
		must.Do(t, os.WriteFile(path, []byte("name: it\nkind: process\ncommand: [it]\n"+file), 0o600))
		refused, unpromised := Fit(path, scaffold.Suite())
		for _, name := range scaffold.Suite() {
			if why, is := refused[name]; is != (name == one.refused) || is && !strings.Contains(why, one.why) {
				t.Errorf("%s: %s is refused: %v (%s)", file, name, is, why)
			}
		}
		if !slices.Contains(unpromised, one.unpromised) {
			t.Errorf("%s: not promised are %v", file, unpromised)
		}
	}
	if refused, unpromised := Fit(filepath.Join(t.TempDir(), "nowhere.yaml"), names); refused != nil || unpromised != nil {
		t.Errorf("without a file: %v, %v", refused, unpromised)
	}
}
