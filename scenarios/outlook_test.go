package scenarios

import (
	"slices"
	"testing"
)

// What a run can judge depends on the contract and on what the scenario exercises.
func TestOutlook(t *testing.T) {
	subject, err := ParseSubject("subject.yaml", []byte("name: orders\nkind: process\ncommand: [orders]\n"+
		"contract: {attempts: {max: 3}, dlq: {envelope: plain, on_failure: halt}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for name, want := range map[string]struct{ judged, not []string }{
		"smoke": {[]string{"no-loss", "halt-on-dlq-failure", "dlq-once"}, []string{"replay-round-trip", "backoff"}},
		"steady-load": {[]string{"no-loss", "dlq-once"}, []string{"replay-round-trip", "halt-on-dlq-failure",
			"ordering"}},
		"replay-round-trip": {[]string{"replay-round-trip"}, []string{"backoff"}},
	} {
		text, _ := Shipped(name)
		scenario, err := Parse(name, text)
		if err != nil {
			t.Fatal(err)
		}
		outlook, err := scenario.Outlook(subject)
		if err != nil {
			t.Fatal(err)
		}
		has := func(reasons []Reason, invariant string) bool {
			return slices.ContainsFunc(reasons, func(r Reason) bool { return r.Invariant == invariant })
		}
		for _, invariant := range want.judged {
			if !has(outlook.Judged, invariant) || has(outlook.NotJudged, invariant) {
				t.Errorf("%s judges %s", name, invariant)
			}
		}
		for _, invariant := range want.not {
			if has(outlook.Judged, invariant) || !has(outlook.NotJudged, invariant) {
				t.Errorf("%s does not judge %s", name, invariant)
			}
		}
	}
	// The subject promises no waits. The reference consumer does, but nothing of a load of successes shows them.
	scenario, err := Parse("calm", []byte("name: calm\ndescription: x\nworkload: {rate: 5/s, duration: 5s}\n"))
	if err != nil {
		t.Fatal(err)
	}
	outlook, err := scenario.Outlook(nil)
	if err != nil {
		t.Fatal(err)
	}
	for _, reason := range outlook.Judged {
		if slices.Contains([]string{"backoff", "dlq-once", "halt-on-dlq-failure", "replay-round-trip"}, reason.Invariant) {
			t.Errorf("a load of successes cannot show %s", reason.Invariant)
		}
	}
}
