package reports

// This file writes one JUnit file for all runs of a gate. Each run is a test suite.

import (
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
)

// SuiteJUnit writes one test suite for each run, as JUnit does. A waived violation is skipped, with the reason. A run
// that was not judged is one test case: an error if the gate shows less without it, or skipped if the gate had
// stopped at a failure.
func SuiteJUnit(w io.Writer, suite Suite) error {
	all := each(suite.Runs, junitOf)
	if len(suite.Required) > 0 {
		all = append(all, junitRequired(suite))
	}
	return writeJUnit(w, inSeconds(suite.Elapsed), all...)
}

// junitRequired returns a test suite of the required coverage.
func junitRequired(suite Suite) junitSuite {
	const label = "required"
	out := junitSuite{Name: label, Time: "0", Output: strings.Join(suite.coverageLines(), "\n")}
	for _, one := range suite.Required {
		testCase := junitCase{Class: "dlqbench." + label, Name: fmt.Sprintf("%s of %s is judged", name(one.Invariant),
			name(one.Subject))}
		switch problem := (&junitProblem{Message: text(one.Remark()), Type: "not-judged"}); {
		case one.Reason == "":
			testCase.Output = units.Plural(int64(one.Judged), "run has", "runs have") + " judged it"
		case one.Elsewhere:
			testCase.Skipped = problem
		default:
			testCase.Error = problem
		}
		out.add(testCase)
	}
	return out
}

func inSeconds(d time.Duration) string { return fmt.Sprintf("%.3f", d.Seconds()) }

func junitOf(run SuiteRun) junitSuite {
	label := name(run.Label)
	if run.Judged.Verdict == nil {
		return junitUnjudged(run, label)
	}
	out := junitRun(run.Report(), label)
	out.Time = inSeconds(run.Elapsed)
	out.Properties = append(out.Properties, junitProperty{"standing", string(run.Standing)})
	if open := openReasons(run); len(open) > 0 {
		out.add(junitCase{Class: "dlqbench." + label, Name: "the run shows what it was made for", Error: &junitProblem{
			Message: strings.Join(open, "; "), Type: string(run.Standing),
		}})
	}
	return out
}

// openReasons returns the reasons of a run that none of its test cases shows: why it is inconclusive as a whole, or
// errors outside the subject.
func openReasons(run SuiteRun) []string {
	if run.Standing != StandingInconclusive && run.Standing != StandingEnvironment && run.Standing != StandingInterrupted {
		return nil
	}
	return each(run.Reasons, text)
}

func junitUnjudged(run SuiteRun, label string) junitSuite {
	out := junitSuite{Name: label, Time: inSeconds(run.Elapsed),
		Properties: []junitProperty{{"standing", string(run.Standing)}}}
	problem := &junitProblem{Message: text(strings.Join(run.Reasons, "; ")), Type: string(run.Standing)}
	testCase := junitCase{Class: "dlqbench." + label, Name: "the scenario is run and judged"}
	if run.Standing == StandingNotRun && !run.Missing {
		testCase.Skipped = problem
	} else {
		testCase.Error = problem
	}
	out.add(testCase)
	return out
}

// junitWaived returns which of an invariant's anomalies are waived and why, nil if none is.
func junitWaived(run Run, r assertions.Result) *junitProblem {
	var reasons []string
	for _, anomaly := range r.Anomalies {
		if waiver := run.waiver(r.Name, anomaly.Name); waiver != nil {
			reasons = append(reasons, name(anomaly.Name)+" is "+text(waiver.until()))
		}
	}
	if len(reasons) == 0 {
		return nil
	}
	return &junitProblem{Message: strings.Join(reasons, "; "), Type: "waived"}
}
