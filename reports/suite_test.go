package reports

import (
	"encoding/xml"
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// fixtureSuite has a run of every standing. One of them is full of hostile texts, and so are a waiver and an
// omission.
func fixtureSuite() Suite {
	seed := uint64(7)
	suite := Suite{
		Verdict: StandingFail, Config: "ci/dlqbench.yaml", Shard: "1/2", Started: time.Date(2026, 3, 14, 15, 9, 26, 0,
			time.UTC), Elapsed: 95 * sec,
		Waivers: []SuiteWaiver{
			{Invariant: "dlq-fidelity", Anomaly: "payload-changed", Scenario: "replay", Reason: "T-1: " + hostile,
				Until: "2026-12-31", Where: SuitePlace{"ci/dlqbench.yaml", 20, 5}, Matched: 1},
			{Invariant: "no-loss", Reason: "T-2", Until: "2026-01-31", Where: SuitePlace{"ci/dlqbench.yaml", 21, 5}, Matched: 1,
				Expired: true},
			{Anomaly: "stuck", Reason: "T-3", Until: "2026-01-31", Where: SuitePlace{"ci/dlqbench.yaml", 22, 5}, Expired: true},
			{Invariant: "ordering", Scenario: "smoke", Reason: "T-4", Until: "2026-12-31",
				Where: SuitePlace{"ci/dlqbench.yaml", 23, 5}, NeedlessNow: true},
		},
		Required: []SuiteRequirement{
			{Invariant: "no-loss", Subject: "orders", Where: SuitePlace{"ci/dlqbench.yaml", 12, 3}, Judged: 5},
			{Invariant: "ordering", Subject: "orders", Where: SuitePlace{"ci/dlqbench.yaml", 13, 3},
				Reason: "the contract promises no order; write ordering: key " + hostile},
			{Invariant: "graceful-stop", Subject: "orders", Where: SuitePlace{"ci/dlqbench.yaml", 14, 3},
				Reason: "no instance was told to stop", Elsewhere: true},
		},
		LeftOut: []SuiteLeft{{Scenario: "min-isr-lost", Why: "it needs a real Kafka " + hostile}},
	}
	add := func(label string, standing Standing, judged Run, reasons ...string) *SuiteRun {
		run := SuiteRun{
			Number: len(suite.Runs) + 1, Label: label, Scenario: label, Subject: "orders",
			Where:    SuitePlace{"ci/dlqbench.yaml", len(suite.Runs) + 3, 5},
			Standing: standing, Reasons: reasons, Elapsed: 12 * sec, Judged: judged,
		}
		if judged.Verdict != nil {
			run.Dir, run.Artifacts, run.Verdict = judged.Dir, "0"+string(rune('1'+len(suite.Runs)))+"-"+label,
				string(judged.Verdict.Verdict)
		}
		suite.Runs = append(suite.Runs, run)
		return &suite.Runs[len(suite.Runs)-1]
	}
	failed := failRun()
	first := add("dlq-publish-failure", StandingFail, failed, failed.Verdict.Reasons...)
	first.Seed, first.Promised = &seed, []SuitePromise{{"commit-after-dlq", SuitePlace{"subject.yaml", 7, 3}}}
	waived := failRun()
	run := add("replay", StandingWaived, waived, "dlq-fidelity: payload-changed × 3 is waived until 2026-12-31: T-1: "+
		hostile)
	for _, r := range waived.Verdict.Invariants {
		for _, a := range r.Anomalies {
			run.Waived = append(run.Waived, SuiteWaived{Invariant: r.Name, Anomaly: a.Name, Count: a.Count,
				Reason: "T-1: " + hostile, Until: "2026-12-31"})
		}
	}
	open := inconclusiveRun()
	add("consumer-kill", StandingInconclusive, open, open.Verdict.Reasons...)
	slow := missedRun()
	add("steady-load", StandingThreshold, slow, slow.Verdict.Reasons...)
	add("smoke", StandingPass, passRun())
	add("mine", StandingEnvironment, Run{}, "starting the subject: it ended with exit code 7\n"+hostile).
		Where = SuitePlace{"ci/mine.yaml", 2, 1}
	missing := add("missing", StandingNotRun, Run{}, "the budget of 1m30s is used up")
	missing.Elapsed, missing.Missing = 0, true
	add("last", StandingNotRun, Run{}, "--fail-fast: a run before it does not pass").Elapsed = 0
	return suite
}

func suiteFormats() map[string]func(io.Writer, Suite) error {
	return map[string]func(io.Writer, Suite) error{
		"xml": SuiteJUnit, "md": SuiteMarkdown, "html": SuiteIndex, "json": SuiteJSON,
		"txt": func(w io.Writer, suite Suite) error {
			for _, run := range suite.Runs {
				if err := SuiteLine(w, run); err != nil {
					return err
				}
			}
			return SuiteEnd(w, suite, "gate")
		},
		"annotations": func(w io.Writer, suite Suite) error { return Annotations(w, suite, "") },
	}
}

// TestSuiteGolden compares each format of a gate with golden files. After an intended change run it with
// UPDATE_GOLDEN=1 and check the diff.
func TestSuiteGolden(t *testing.T) {
	for extension, to := range suiteFormats() {
		t.Run(extension, func(t *testing.T) {
			golden.Check(t, filepath.Join("testdata", "suite."+extension), renderSuite(t, fixtureSuite(), to))
		})
	}
}

func renderSuite(t *testing.T, suite Suite, to func(io.Writer, Suite) error) string {
	t.Helper()
	var b strings.Builder
	if err := to(&b, suite); err != nil {
		t.Fatalf("rendering: %v", err)
	}
	return b.String()
}

// A consumer that does not start is known by the last lines of its log, so they are shown as lines, whole, and the path
// of the log below them.
func TestLinesOfALogBelowASuitesRun(t *testing.T) {
	long := strings.Repeat("at com.example.Orders ", 20)
	run := SuiteRun{Label: "smoke", Standing: StandingEnvironment, Reasons: []string{
		"it ended with exit code 1; its last lines are:\n  Exception\n  " + long + "\nall of its output is in instance-0.log"}}
	var b strings.Builder
	must.Do(t, SuiteLine(&b, run))
	want := "    it ended with exit code 1; its last lines are:\n      Exception\n      " + long +
		"\n    all of its output is in instance-0.log\n"
	if _, got, _ := strings.Cut(b.String(), "smoke\n"); got != want {
		t.Errorf("got\n%swant\n%s", got, want)
	}
}

// Every test suite counts its cases, the file counts its suites, and each run of the gate appears as its worst case.
func TestSuiteJUnitCounts(t *testing.T) {
	var read junitSuites
	must.Do(t, xml.Unmarshal([]byte(renderSuite(t, fixtureSuite(), SuiteJUnit)), &read))
	sum := junitSuites{}
	worst := map[string]string{}
	for _, suite := range read.Suites {
		counted := junitSuite{}
		for _, one := range suite.Cases {
			counted.Tests++
			switch {
			case one.Failure != nil:
				counted.Failures++
			case one.Error != nil:
				counted.Errors++
			case one.Skipped != nil:
				counted.Skipped++
			}
			if !strings.HasPrefix(one.Class, "dlqbench."+suite.Name) {
				t.Errorf("%s has a case of class %s", suite.Name, one.Class)
			}
		}
		if counted.Tests != suite.Tests || counted.Failures != suite.Failures ||
			counted.Errors != suite.Errors || counted.Skipped != suite.Skipped || suite.Tests == 0 {
			t.Errorf("%s counts %d tests, %d failures, %d errors, %d skipped: there are %+v", suite.Name, suite.Tests,
				suite.Failures, suite.Errors, suite.Skipped, counted)
		}
		sum.Tests, sum.Failures, sum.Errors, sum.Skipped = sum.Tests+suite.Tests, sum.Failures+suite.Failures,
			sum.Errors+suite.Errors, sum.Skipped+suite.Skipped
		switch {
		case suite.Failures > 0:
			worst[suite.Name] = "failure"
		case suite.Errors > 0:
			worst[suite.Name] = "error"
		default:
			worst[suite.Name] = "green"
		}
	}
	if sum.Tests != read.Tests || sum.Failures != read.Failures || sum.Errors != read.Errors ||
		sum.Skipped != read.Skipped {
		t.Errorf("the file counts %d, %d, %d, %d; there are %+v", read.Tests, read.Failures, read.Errors, read.Skipped, sum)
	}
	for label, want := range map[string]string{
		"dlq-publish-failure": "failure", "replay": "green", "consumer-kill": "error", "steady-load": "failure",
		"smoke": "green", "mine": "error", "missing": "error", "last": "green",
	} {
		if worst[label] != want {
			t.Errorf("%s shows %q, want %q", label, worst[label], want)
		}
	}
}

// A violation stays a failure if one of its anomalies is not waived.
func TestSuiteJUnitPartlyWaived(t *testing.T) {
	suite := fixtureSuite()
	run := suite.Runs[1]
	run.Waived = run.Waived[:1]
	suite.Runs = []SuiteRun{run}
	var read junitSuites
	must.Do(t, xml.Unmarshal([]byte(renderSuite(t, suite, SuiteJUnit)), &read))
	for _, one := range read.Suites[0].Cases {
		if one.Name == run.Waived[0].Invariant && (one.Skipped == nil || one.Skipped.Type != "waived") {
			t.Errorf("%s is not shown as waived", one.Name)
		}
	}
	if read.Failures == 0 {
		t.Error("no failure is left")
	}
}

// For any run, an annotation is one line that starts with one of three commands, and its properties end where they
// should.
func TestAnnotationsAreOneCommandEach(t *testing.T) {
	suite := fixtureSuite()
	suite.Runs[0].Reasons = []string{"a\n::set-output name=x::y", hostile, "100%0A::error::x"}
	suite.Runs[0].Label = "l,line=1::" + hostile
	suite.Runs[0].Where.File = "a,b:c%.yaml"
	command := regexp.MustCompile(`^::(error|warning|notice) file=[^,:\s]+,line=[0-9]+,col=[0-9]+,title=[^,:]*::[^\r\n]*$`)
	lines := strings.Split(strings.TrimSuffix(renderSuite(t, suite, suiteFormats()["annotations"]), "\n"), "\n")
	// 2 violated and 2 waived invariants, 6 runs with other reasons, 3 waivers with a remark, 2 unmet requirements
	if len(lines) != 15 {
		t.Errorf("there are %d lines", len(lines))
	}
	for _, line := range lines {
		if !command.MatchString(line) {
			t.Errorf("this is no command by itself: %q", line)
		}
	}
	escaped := func(line string) bool {
		return strings.Contains(line, "file=a%2Cb%3Ac%25.yaml,") && strings.Contains(line, "100%250A")
	}
	if !slices.ContainsFunc(lines, escaped) {
		t.Errorf("it is not escaped: %s", strings.Join(lines, "\n"))
	}
}

func TestAnnotationPaths(t *testing.T) {
	root := must.Get(filepath.Abs("testdata"))(t)
	for file, want := range map[string]string{
		filepath.Join("testdata", "ci", "a.yaml"): "ci/a.yaml", filepath.Join(root, "b.yaml"): "b.yaml", "json.go": "json.go",
		"testdata-not.yaml": "testdata-not.yaml",
	} {
		if got := inRepository(file, root); got != want {
			t.Errorf("%s is %s, want %s", file, got, want)
		}
	}
	var b strings.Builder
	if err := Annotate(&b, SuitePlace{}, "t", "m", root); err != nil || b.String() != "::error title=dlqbench%3A t::m\n" {
		t.Errorf("without a place: %q, %v", b.String(), err)
	}
}

// A summary is never longer than GitHub accepts, and still names every run.
func TestSuiteMarkdownFits(t *testing.T) {
	suite := fixtureSuite()
	one := suite.Runs[0]
	one.Judged.Verdict.Rerun = strings.Repeat("x", 4096)
	for range 300 {
		suite.Runs = append(suite.Runs, one)
	}
	text := renderSuite(t, suite, SuiteMarkdown)
	if len(text) > 1<<20 {
		t.Errorf("it has %d bytes", len(text))
	}
	if !strings.Contains(text, "there is no more room here") {
		t.Error("it does not say that something is left out")
	}
}

func TestCounts(t *testing.T) {
	if got, want := fixtureSuite().Counts(),
		"1 failed, 1 could not be run, 1 inconclusive, 1 missed a threshold, 2 not run, 1 waived, 1 passed"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	if got := (Suite{}).Counts(); got != "nothing to run" {
		t.Errorf("without runs: %s", got)
	}
}

// If many runs were not run for one reason, a few are named and all are counted.
func TestSuiteEndNamesAFewOfThoseNotRun(t *testing.T) {
	suite := Suite{Verdict: StandingInconclusive}
	for _, label := range []string{"a", "b", "c", "d", "e", "f", "g"} {
		suite.Runs = append(suite.Runs, SuiteRun{Label: label, Standing: StandingNotRun,
			Reasons: []string{"the budget of 1m0s is used up"}})
	}
	var b strings.Builder
	if err := SuiteEnd(&b, suite, "gate"); err != nil || !strings.Contains(b.String(), "NOT RUN           a, b, c, d, e "+
		"and 2 more: the budget of 1m0s is used up\n") {
		t.Errorf("%v: %q", err, b.String())
	}
}

// Of several runs that show a violation, the one that shows it most often is the example.
func TestSuiteTodoShowsTheClearestRun(t *testing.T) {
	var suite Suite
	for _, one := range []struct {
		label string
		count int64
	}{{"smoke", 1}, {"outage", 20}, {"kill", 3}} {
		label, count := one.label, one.count
		v := &assertions.Verdict{Verdict: assertions.Fail, Rerun: "dlqbench run " + label,
			Invariants: []assertions.Result{{Name: "no-loss", Status: assertions.Fail,
				Anomalies: []assertions.Anomaly{{Name: "lost", Count: count}}}},
			Roots: []assertions.Root{{Invariant: "no-loss", Anomaly: "lost", Count: count,
				Example: assertions.Occurrence{Record: -1, At: -1}}}}
		v.Reasons = []string{v.Reason(v.Roots[0])}
		suite.Runs = append(suite.Runs, SuiteRun{Label: label, Scenario: label, Standing: StandingFail,
			Judged: Run{Verdict: v}, Reasons: v.Reasons, Artifacts: "runs/" + label})
	}
	told := renderSuite(t, suite, SuiteMarkdown)
	todo, _, _ := strings.Cut(told, "### Runs")
	for _, want := range []string{"lost, 20 times", "Evidence: report of outage", "dlqbench run outage"} {
		if !strings.Contains(todo, want) {
			t.Errorf("what to do does not have %q:\n%s", want, todo)
		}
	}
}

// What follows from another violation is told with it, unless only the other one is waived.
func TestSuiteTodoHasTheRoots(t *testing.T) {
	failed := func(invariant, anomaly string) assertions.Result {
		return assertions.Result{Name: invariant, Status: assertions.Fail, Anomalies: []assertions.Anomaly{{Name: anomaly,
			Count: 2}}}
	}
	v := &assertions.Verdict{Verdict: assertions.Fail,
		Invariants: []assertions.Result{failed("no-loss", "lost"), failed("commit-after-dlq", "commit-without-dlq")},
		Roots: []assertions.Root{{Invariant: "commit-after-dlq", Anomaly: "commit-without-dlq", Count: 2,
			Example:      assertions.Occurrence{Record: -1, At: -1},
			Consequences: []assertions.Consequence{{Invariant: "no-loss", Anomaly: "lost", Count: 2, Why: "it is gone"}}}}}
	v.Reasons = []string{v.Reason(v.Roots[0])}
	run := SuiteRun{Label: "smoke", Scenario: "smoke", Standing: StandingFail, Judged: Run{Verdict: v}, Reasons: v.Reasons}
	told := renderSuite(t, Suite{Verdict: StandingFail, Runs: []SuiteRun{run}}, SuiteMarkdown)
	todo, _, _ := strings.Cut(told, "### Runs")
	if strings.Count(todo, "** is violated in smoke") != 1 || !strings.Contains(todo, "**Leads to:** no-loss: lost × 2") {
		t.Errorf("the root and what follows from it are not told as one:\n%s", todo)
	}
	run.Waived = []SuiteWaived{{Invariant: "commit-after-dlq", Anomaly: "commit-without-dlq", Count: 2,
		Until: "2026-12-31"}}
	told = renderSuite(t, Suite{Verdict: StandingFail, Runs: []SuiteRun{run}}, SuiteMarkdown)
	todo, _, _ = strings.Cut(told, "### Runs")
	if !strings.Contains(todo, "**no-loss** is violated in smoke") || strings.Contains(todo, "**commit-after-dlq** is") {
		t.Errorf("with its root waived, what is left is not told:\n%s", todo)
	}
}
