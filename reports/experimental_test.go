package reports

import (
	"encoding/xml"
	"io"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// The findings of an experimental invariant are in every report, marked, and no report counts them as a failure.
func TestExperimentalIsReportedAndFailsNothing(t *testing.T) {
	run := passRun()
	run.Verdict.Experimental = []assertions.Result{
		{Name: "tidy-topics", Status: assertions.Fail, Judged: 3, Of: "topics", Anomalies: []assertions.Anomaly{
			{Name: "untidy", Count: 2, Counterexamples: []assertions.Counterexample{{Record: -1, Summary: "it is untidy"}}}}},
		{Name: "quick-topics", Status: assertions.Inconclusive, Of: "topics", Why: "no clock"},
	}
	for format, to := range map[string]func(io.Writer, Run) error{
		"html": HTML, "md": Markdown, "txt": func(w io.Writer, run Run) error { return Terminal(w, run, false, false) },
	} {
		got := render(t, run, to)
		_, after, marked := strings.Cut(got, experimentalTitle)
		if !marked || !strings.Contains(after, "tidy-topics") || !strings.Contains(after, "untidy") {
			t.Errorf("%s does not tell of it under %q", format, experimentalTitle)
		}
		if !strings.Contains(strings.ToUpper(got), "PASS") || !strings.Contains(got, passRun().Verdict.Coverage().Extent()) {
			t.Errorf("%s says otherwise how the run stands", format)
		}
	}
	var suites junitSuites
	must.Do(t, xml.Unmarshal([]byte(render(t, run, JUnit)), &suites))
	if suites.Failures+suites.Errors > 0 {
		t.Errorf("JUnit counts %d failures and %d errors", suites.Failures, suites.Errors)
	}
	cases := 0
	for _, one := range suites.Suites[0].Cases {
		if one.Skipped != nil && one.Skipped.Type == "experimental" {
			cases++
			if one.Name == "tidy-topics" && (!strings.Contains(one.Skipped.Message, "untidy × 2") ||
				!strings.Contains(one.Output, "it is untidy")) {
				t.Errorf("JUnit tells of it as %+v, %s", one.Skipped, one.Output)
			}
		}
	}
	if cases != 2 {
		t.Errorf("JUnit has %d experimental cases", cases)
	}
	_, got, found := strings.Cut(render(t, run, JSON), `"experimental": [`)
	got, _, _ = strings.Cut(got, `"faults": [`)
	if !found || strings.Contains(got, "null") {
		t.Errorf("verdict.json has it as %s", got)
	}
}
