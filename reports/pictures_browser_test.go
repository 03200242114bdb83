package reports

// The pictures of the documentation are made here, and the pages still look like them. UPDATE_GOLDEN=1 makes them anew.

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestBrowserPicturesOfTheDocumentation(t *testing.T) {
	for _, one := range []struct {
		picture       string
		page          func(t *testing.T) string
		width, height int64
	}{
		{"report.png", func(t *testing.T) string { return render(t, documentedRun(), HTML) }, 1080, 1500},
		{"report-phone.png", func(t *testing.T) string { return render(t, documentedRun(), HTML) }, 390, 844},
		{"compare.png", func(t *testing.T) string { return renderTo(t, comparedFixture(t), CompareHTML) }, 1080, 1000},
		{"runs.png", func(t *testing.T) string { return runsPage(t, documentedRuns()) }, 1080, 900},
		{"gate.png", func(t *testing.T) string { return renderSuite(t, documentedSuite(), SuiteIndex) }, 1080, 1000},
	} {
		t.Run(one.picture, func(t *testing.T) {
			b := browsertest.Open(t)
			path := filepath.Join(t.TempDir(), "page.html")
			must.Do(t, os.WriteFile(path, []byte(one.page(t)), 0o644))
			b.Viewport(one.width, one.height)
			b.OpenFile(path)
			b.Looks(filepath.Join("..", "docs", one.picture))
		})
	}
}

// documentedRun is a run that failed, without the hostile texts of the fixtures.
func documentedRun() Run {
	run := withInstances(failRun(), 2)
	v := run.Verdict
	v.Invariants = slices.DeleteFunc(v.Invariants, func(r assertions.Result) bool { return r.Name == "dlq-fidelity" })
	v.Logs, v.Experimental = nil, nil
	withRoots(v)
	return run
}

// documentedRuns is a list of runs whose newest failed.
func documentedRuns() []StoredRun {
	runs := fixtureRuns()
	for i := range runs {
		runs[i].Subject = strings.TrimSuffix(runs[i].Subject, " "+hostile)
		if runs[i].State == string(standsFail) {
			runs[i].Why = "commit-after-dlq is violated: commit-before-dlq, 14 times, e.g. record 9001"
		}
	}
	return runs
}

// documentedSuite is a gate with a run that passes, one that fails and one that is waived.
func documentedSuite() Suite {
	failed, waiver := documentedRun(), SuiteWaived{Invariant: "commit-after-dlq", Anomaly: "commit-before-dlq", Count: 14,
		Reason: "SHOP-211: until the new client", Until: "2026-12-31"}
	run := func(number int, label string, standing Standing, judged Run, reasons ...string) SuiteRun {
		return SuiteRun{Number: number, Label: label, Scenario: label, Subject: "orders", Standing: standing, Judged: judged,
			Where: SuitePlace{"dlqbench.yaml", number + 2, 5}, Reasons: reasons, Elapsed: 12 * sec,
			Artifacts: "0" + strconv.Itoa(number) + "-" + label,
			Promised:  []SuitePromise{{"commit-after-dlq", SuitePlace{"subject.yaml", 7, 3}}}}
	}
	out := Suite{Verdict: StandingFail, Config: "dlqbench.yaml", Elapsed: 36 * sec,
		Started: time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC), Runs: []SuiteRun{
			run(1, "smoke", StandingPass, passRun()),
			run(2, "dlq-publish-failure", StandingFail, failed, failed.Verdict.Reasons...),
			run(3, "dlq-ack-lost", StandingWaived, failed, waiver.String()),
		}, Waivers: []SuiteWaiver{{Invariant: waiver.Invariant, Scenario: "dlq-ack-lost", Reason: waiver.Reason,
			Until: waiver.Until, Where: SuitePlace{"dlqbench.yaml", 7, 5}, Matched: 1}}}
	out.Runs[2].Waived = []SuiteWaived{waiver}
	return out
}
