package reports

import (
	"bytes"
	"encoding/xml"
	"fmt"
	"strings"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/assertions"
)

func readJUnit(t interface{ Fatalf(string, ...any) }, document string) junitSuites {
	var out junitSuites
	if err := xml.Unmarshal([]byte(document), &out); err != nil {
		t.Fatalf("the report is no valid XML: %v", err)
	}
	return out
}

func TestJUnitCounts(t *testing.T) {
	for name, want := range map[string][4]int{ // tests, failures, errors, skipped
		"pass": {15, 0, 0, 1}, "fail": {12, 2, 0, 1}, "inconclusive": {5, 0, 3, 0}, "missed": {15, 1, 0, 2},
	} {
		suite := readJUnit(t, render(t, fixtures()[name], JUnit)).Suites[0]
		if got := [4]int{suite.Tests, suite.Failures, suite.Errors, suite.Skipped}; got != want ||
			len(suite.Cases) != want[0] {
			t.Errorf("%s: tests, failures, errors, skipped = %v (%d cases), want %v", name, got, len(suite.Cases), want)
		}
	}
}

// A run that passed must have no failing tests: evidence that the judge accepted is not an error in the report.
func TestJUnitAgreesWithAPass(t *testing.T) {
	run := passRun()
	run.Verdict.Faults[0].Observed.Effects = nil
	run.Verdict.Faults[1].Observed.Healed = false
	suite := readJUnit(t, render(t, run, JUnit)).Suites[0]
	if suite.Errors+suite.Failures > 0 {
		t.Errorf("a run that passed has %d errors and %d failures", suite.Errors, suite.Failures)
	}
}

func TestJUnitHasTheCounterexamples(t *testing.T) {
	suite := readJUnit(t, render(t, failRun(), JUnit)).Suites[0]
	failure := suite.Cases[7].Failure
	if failure == nil {
		t.Fatal("the violated invariant is no failure")
	}
	for _, want := range []string{"commit-before-dlq × 14", "Offset 1353 of partition 3", "▶     7.410 s  commit-request",
		"▶     8.930 s  produce-response", "events"} {
		if !strings.Contains(failure.Message+failure.Text, want) {
			t.Errorf("the failure does not say %q:\n%s", want, failure.Text)
		}
	}
}

func TestJUnitIsValidWhateverItTells(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		payload := rapid.OneOf(rapid.String(), rapid.Just(hostile), rapid.Custom(func(t *rapid.T) string {
			return string(rapid.SliceOf(rapid.Byte()).Draw(t, "bytes"))
		})).Draw(t, "payload")
		var b strings.Builder
		if err := JUnit(&b, injected(payload)); err != nil {
			t.Fatalf("rendering: %v", err)
		}
		if at := strings.IndexFunc(b.String(), unseen); at >= 0 {
			t.Fatalf("a character that can't be seen is at %d: %q", at, b.String()[at:min(at+20, b.Len())])
		}
		suite := readJUnit(t, b.String()).Suites[0]
		if suite.Tests != 6 || suite.Cases[0].Failure == nil || suite.Cases[1].Error == nil || suite.Cases[2].Skipped == nil {
			t.Fatalf("the payload changed what the report says: %+v", suite)
		}
	})
}

func TestJUnitErrorForAFaultWithoutEffect(t *testing.T) {
	suite := readJUnit(t, render(t, inconclusiveRun(), JUnit)).Suites[0]
	last := suite.Cases[len(suite.Cases)-1]
	if last.Error == nil || !strings.Contains(last.Error.Message, "dlq-refuses: no effect") ||
		!strings.Contains(last.Error.Message, "kill-1: not injected") {
		t.Errorf("the faults' case is %+v", last)
	}
	run := failRun()
	run.Verdict.Faults[1].Observed.Healed = false
	if got := became(run.Verdict, run.Verdict.Faults[1]); got != faultNotHealed || got.sound() {
		t.Errorf("a fault that was not healed is %q", got)
	}
	idle := assertions.FaultResult{Observed: assertions.FaultSeen{Injected: true, Healed: true}}
	if got := became(passRun().Verdict, idle); got != faultInjected || !got.sound() {
		t.Errorf("a fault without effects that the judge accepted is %q", got)
	}
	if got := became(run.Verdict, idle); got != faultVacuous || got.sound() {
		t.Errorf("a fault without effects is %q", got)
	}
	if got := became(run.Verdict, assertions.FaultResult{}); got != faultNotInjected {
		t.Errorf("a fault that was never injected is %q", got)
	}
}

// A fault without effect on which the verdict does not depend passes, and every report shows that it had no effect.
func TestAFaultThatMayMiss(t *testing.T) {
	run := passRun()
	f := &run.Verdict.Faults[0]
	f.MayMiss, f.Observed.Effects, f.Observed.Idle = true, map[string]int64{}, "nobody asked for it"
	if got := became(run.Verdict, *f); got != faultVacuous || got.sound() {
		t.Errorf("it is %q", got)
	}
	had := fmt.Sprintf("%d faults took effect and 1 had none", len(run.Verdict.Faults)-1)
	if len(run.Verdict.Faults) == 2 {
		had = "1 fault took effect and 1 had none"
	}
	if got := headline(run.Verdict); !strings.Contains(got, had) {
		t.Errorf("the headline is %q, want %q in it", got, had)
	}
	var page, screen, summary, junit bytes.Buffer
	for name, err := range map[string]error{
		"page": HTML(&page, run), "screen": Terminal(&screen, run, false, false), "summary": Markdown(&summary, run),
		"junit": JUnit(&junit, run),
	} {
		if err != nil {
			t.Errorf("%s: %v", name, err)
		}
	}
	for name, text := range map[string]string{"page": page.String(), "screen": screen.String(),
		"summary": summary.String(), "junit": junit.String()} {
		if !strings.Contains(text, "no effect") || !strings.Contains(text, "nobody asked for it") {
			t.Errorf("the %s does not say that it did nothing, and why", name)
		}
	}
	for i := range run.Verdict.Faults[1:] {
		run.Verdict.Faults[i+1] = *f
	}
	if got := headline(run.Verdict); !strings.Contains(got, "had no effect") || strings.Contains(got, "took") {
		t.Errorf("the headline is %q", got)
	}
	run.Verdict.Verdict = assertions.Fail
	if got := junitFaults("a class", run.Verdict); got.Error != nil {
		t.Errorf("a failure is put down to what may miss: %+v", got.Error)
	}
}
