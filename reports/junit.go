package reports

// This file writes JUnit XML for CI systems, which show the invariants, the thresholds and the faults' effects as
// tests.

import (
	"encoding/xml"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/charmbracelet/x/ansi"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// CI systems show the text of a failure in a narrow box, so it has only the first counterexamples.
const (
	junitCounterexamples = 3
	junitLines           = 40
)

type junitSuites struct {
	XMLName  xml.Name     `xml:"testsuites"`
	Name     string       `xml:"name,attr"`
	Tests    int          `xml:"tests,attr"`
	Failures int          `xml:"failures,attr"`
	Errors   int          `xml:"errors,attr"`
	Skipped  int          `xml:"skipped,attr"`
	Time     string       `xml:"time,attr"`
	Suites   []junitSuite `xml:"testsuite"`
}

type junitSuite struct {
	XMLName    xml.Name        `xml:"testsuite"`
	Name       string          `xml:"name,attr"`
	Tests      int             `xml:"tests,attr"`
	Failures   int             `xml:"failures,attr"`
	Errors     int             `xml:"errors,attr"`
	Skipped    int             `xml:"skipped,attr"`
	Time       string          `xml:"time,attr"`
	Timestamp  string          `xml:"timestamp,attr,omitempty"`
	Properties []junitProperty `xml:"properties>property"`
	Cases      []junitCase     `xml:"testcase"`
	Output     string          `xml:"system-out,omitempty"`
}

type junitProperty struct {
	Name  string `xml:"name,attr"`
	Value string `xml:"value,attr"`
}

type junitCase struct {
	Class   string        `xml:"classname,attr"`
	Name    string        `xml:"name,attr"`
	Time    string        `xml:"time,attr"`
	Failure *junitProblem `xml:"failure"`
	Error   *junitProblem `xml:"error"`
	Skipped *junitProblem `xml:"skipped"`
	Output  string        `xml:"system-out,omitempty"`
}

type junitProblem struct {
	Message string `xml:"message,attr"`
	Type    string `xml:"type,attr,omitempty"`
	Text    string `xml:",chardata"`
}

// JUnit writes one test suite with a test case for each invariant, one for each threshold, and one for the faults'
// effects. An invariant is a failure if it is violated, an error if it is inconclusive, and skipped if it was not
// judged, was judged only in part, or is experimental.
func JUnit(w io.Writer, run Run) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	suite := junitRun(run, name(run.Verdict.Scenario))
	suite.Time = fmt.Sprintf("%.3f", ended(run.Verdict).Seconds())
	return writeJUnit(w, suite.Time, suite)
}

// writeJUnit writes test suites with their totals. took is the time of all of them in seconds.
func writeJUnit(w io.Writer, took string, all ...junitSuite) error {
	suites := junitSuites{Name: "dlqbench", Time: took, Suites: all}
	for _, suite := range all {
		suites.Tests, suites.Failures = suites.Tests+suite.Tests, suites.Failures+suite.Failures
		suites.Errors, suites.Skipped = suites.Errors+suite.Errors, suites.Skipped+suite.Skipped
	}
	if _, err := io.WriteString(w, xml.Header); err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	encoder := xml.NewEncoder(w)
	encoder.Indent("", "  ")
	if err := encoder.Encode(suites); err != nil {
		return fmt.Errorf("writing the JUnit report: %w", err)
	}
	_, err := io.WriteString(w, "\n")
	return err
}

// junitRun returns the test suite of a run with this name.
func junitRun(run Run, label string) junitSuite {
	v := run.Verdict
	class := "dlqbench." + label
	suite := junitSuite{Name: label, Properties: junitProperties(run), Output: coverage(v)}
	if !v.Started.IsZero() {
		suite.Timestamp = v.Started.UTC().Format(time.RFC3339)
	}
	for _, r := range v.Invariants {
		if r.Unjudged == assertions.Inapplicable {
			continue
		}
		testCase := junitInvariant(class+".invariants", v, r)
		if skipped := junitWaived(run, r); skipped != nil && testCase.Failure != nil {
			if run.waives(r) {
				skipped.Text, testCase.Failure, testCase.Skipped = testCase.Failure.Message+"\n"+testCase.Failure.Text, nil, skipped
			} else {
				testCase.Failure.Message += "; " + skipped.Message
			}
		}
		suite.add(testCase)
	}
	for _, r := range v.Experimental {
		suite.add(junitExperimental(class+".experimental", v, r))
	}
	for _, t := range v.Thresholds {
		testCase := junitCase{Class: class + ".thresholds", Name: text(t.Expression)}
		switch {
		case t.Error != "":
			testCase.Error = &junitProblem{Message: text(t.Error), Type: "not-evaluated"}
		case !t.Met:
			testCase.Failure = &junitProblem{Message: "not met: " + thresholdText(t), Type: "threshold"}
		}
		suite.add(testCase)
	}
	if len(v.Faults) > 0 {
		suite.add(junitFaults(class+".faults", v))
	}
	return suite
}

func (s *junitSuite) add(c junitCase) {
	c.Time = "0"
	s.Cases = append(s.Cases, c)
	s.Tests++
	switch {
	case c.Failure != nil:
		s.Failures++
	case c.Error != nil:
		s.Errors++
	case c.Skipped != nil:
		s.Skipped++
	}
}

func junitProperties(run Run) []junitProperty {
	v := run.Verdict
	out := []junitProperty{
		{"verdict", string(v.Verdict)}, {"coverage", coverage(v)}, {"run_id", name(v.RunID)}, {"seed", fmt.Sprint(v.Seed)},
		{"subject", name(v.Subject)}, {"rerun", visible(v.Rerun, 4096)},
	}
	if run.Dir != "" {
		out = append(out, junitProperty{"run_directory", visible(run.Dir, 4096)})
	}
	for _, key := range slices.Sorted(maps.Keys(v.Environment)) {
		out = append(out, junitProperty{"environment." + name(key), text(v.Environment[key])})
	}
	return out
}

func junitInvariant(class string, v *assertions.Verdict, r assertions.Result) junitCase {
	out := junitCase{Class: class, Name: name(r.Name)}
	judged := judgedOf(r) + " judged"
	if more := notJudged(r); more != "" {
		judged += "; " + more
	}
	switch r.Status {
	case assertions.Pass:
		out.Output = judged
		if r.Partial() { // it held as far as it was judged, and gets no tick
			out.Skipped = &junitProblem{Message: "held, and was judged in part only: " + judged, Type: "partial"}
		}
	case assertions.NotApplicable:
		out.Skipped = &junitProblem{Message: "not judged: " + text(r.Why), Type: string(r.Unjudged)}
	case assertions.Fail:
		out.Failure = &junitProblem{Message: violationWords(v, r), Type: "violated", Text: judged + "\n" + junitTraces(r)}
	default:
		out.Error = &junitProblem{Message: "inconclusive: " + text(r.Why), Type: "inconclusive", Text: judged}
	}
	return out
}

// junitExperimental returns a case that never fails. All findings are in its output.
func junitExperimental(class string, v *assertions.Verdict, r assertions.Result) junitCase {
	out := junitInvariant(class, v, r)
	found := string(r.Status)
	for _, problem := range []*junitProblem{out.Failure, out.Error, out.Skipped} {
		if problem != nil {
			found, out.Output = problem.Message, out.Output+problem.Text
		}
	}
	out.Failure, out.Error = nil, nil
	out.Skipped = &junitProblem{Message: "experimental, decides nothing: " + found, Type: "experimental"}
	return out
}

// violationWords is the message of a violated invariant: how each of its roots was violated, and from which root its
// other anomalies follow.
func violationWords(v *assertions.Verdict, r assertions.Result) string {
	var told []string
	for _, a := range r.Anomalies {
		what := fmt.Sprintf("%s × %s", name(a.Name), units.Count(a.Count))
		if from := followsFrom(v, r.Name, a.Name); from != "" {
			what += " " + from
		}
		for _, root := range v.Roots {
			if root.Invariant == r.Name && root.Anomaly == a.Name {
				what = text(v.Broken(root))
			}
		}
		told = append(told, what)
	}
	return strings.Join(told, "; ")
}

// junitTraces formats the first counterexamples of each anomaly as plain text.
func junitTraces(r assertions.Result) string {
	var b strings.Builder
	for _, a := range r.Anomalies {
		fmt.Fprintf(&b, "\n%s × %s\n", name(a.Name), units.Count(a.Count))
		if why := cause(r.Name, a.Name, ""); why != "" {
			fmt.Fprintf(&b, "likely cause: %s\ndocs: %s\n", why, pageOf(r.Name, a.Name))
		}
		for _, w := range a.Counterexamples[:min(len(a.Counterexamples), junitCounterexamples)] {
			fmt.Fprintf(&b, "\n  %s\n", text(w.Summary))
			if where := position(w); where != "" {
				fmt.Fprintf(&b, "  %s\n", where)
			}
			b.WriteString(plainTrace(w, "    ", junitLines, 0))
			if w.Command != "" {
				fmt.Fprintf(&b, "    all of it: %s\n", text(w.Command))
			}
		}
	}
	return b.String()
}

// plainTrace formats a trace, one event per line, with a mark before those that contradict each other. A line with more
// columns goes on below its text; 0 columns stands for no such end.
func plainTrace(w assertions.Counterexample, indent string, limit, columns int) string {
	var b strings.Builder
	for _, line := range shorten(w.Trace, limit) {
		if line.skipped > 0 {
			fmt.Fprintf(&b, "%s  … %s\n", indent, units.Plural(int64(line.skipped), "event", "events"))
			continue
		}
		mark := " "
		if line.Marked {
			mark = "▶"
		}
		lead := fmt.Sprintf("%s%s %11s  %s  ", indent, mark, clock(line.Time), cell(name(line.Kind), 17))
		words, width := text(line.Text), ansi.StringWidth(lead)
		if columns > width {
			words = strings.ReplaceAll(document.Flow(words, columns-width), "\n", "\n"+strings.Repeat(" ", width))
		}
		b.WriteString(lead + words + "\n")
	}
	return b.String()
}

func junitFaults(class string, v *assertions.Verdict) junitCase {
	out := junitCase{Class: class, Name: "every planned fault took effect"}
	var did, unsound []string
	for _, f := range v.Faults {
		state := became(v, f)
		line := fmt.Sprintf("%s: %s", faultName(f), state)
		if what := effects(f); what != "" {
			line += " (" + what + ")"
		}
		line += recoveryWords(f)
		did = append(did, line)
		if !state.sound() && whyIdle(f) == "" {
			unsound = append(unsound, line)
		}
	}
	out.Output = strings.Join(did, "\n")
	// The judge decides whether the run shows anything without them: a run that passed has no failing tests.
	if len(unsound) > 0 && v.Verdict != assertions.Pass {
		out.Error = &junitProblem{Message: strings.Join(unsound, "; "), Type: "vacuous"}
	}
	return out
}
