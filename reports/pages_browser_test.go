package reports

// Every page of this package is looked at in a real browser: on a large screen and on a phone, in both colour schemes,
// on paper, with a keyboard alone, and by axe-core.

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/browsertest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestBrowserInspectsEveryPage(t *testing.T) {
	for name, page := range map[string]func(t *testing.T) string{
		"report-pass":         func(t *testing.T) string { return render(t, passRun(), HTML) },
		"report-fail":         func(t *testing.T) string { return render(t, withInstances(failRun(), 2), HTML) },
		"report-inconclusive": func(t *testing.T) string { return render(t, inconclusiveRun(), HTML) },
		"gate":                func(t *testing.T) string { return renderSuite(t, fixtureSuite(), SuiteIndex) },
		"compare":             func(t *testing.T) string { return renderTo(t, comparedFixture(t), CompareHTML) },
		"runs":                func(t *testing.T) string { return runsPage(t, fixtureRuns()) },
		"no-runs":             func(t *testing.T) string { return runsPage(t, nil) },
		"bench":               func(t *testing.T) string { return renderBench(t, matrixBench(), BenchHTML) },
	} {
		t.Run(name, func(t *testing.T) {
			b := browsertest.Open(t)
			path := filepath.Join(t.TempDir(), name+".html")
			must.Do(t, os.WriteFile(path, []byte(page(t)), 0o644))
			b.OpenFile(path)
			b.Inspect(name)
			quiet(t, b, name)
		})
	}
}

func renderTo[T any](t *testing.T, of T, render func(io.Writer, T) error) string {
	t.Helper()
	var out strings.Builder
	must.Do(t, render(&out, of))
	return out.String()
}

func runsPage(t *testing.T, runs []StoredRun) string {
	return renderTo(t, runs, func(w io.Writer, runs []StoredRun) error { return RunsHTML(w, runs, "runs") })
}

// comparedFixture is a comparison with a new violation and a slower figure.
func comparedFixture(t *testing.T) Comparison {
	return mustCompare(t, repeated("orders", "a", 6, nil), repeated("orders", "bb", 6, func(run *CompareRun) {
		broken("no-loss", "lost", 3)(run)
		run.Figures["recovery.drain"] *= 4
	}))
}

// fixtureRuns has a run of every state, some of several scenarios and subjects, and hostile texts. Newest first.
func fixtureRuns() []StoredRun {
	states := append(runStateOrder(), string(standsPass), string(standsPass), string(standsFail))
	var out []StoredRun
	for i := range 40 {
		at := time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC).Add(-time.Duration(i) * time.Minute)
		run := StoredRun{Name: at.Format("20060102-150405") + "-smoke", State: states[i%len(states)], Started: at,
			Scenario: []string{"smoke", "hot-key"}[i%3%2], Subject: []string{"orders", "billing " + hostile}[i%5%2],
			Records: 1950, Report: true, Why: "18 invariants held over 1,950 records while 1 fault took effect.",
			Figures: map[string]float64{"latency.success.p99": 0.1 + 0.01*float64(i%7), "throughput.processed": 380,
				"recovery.drain": 1.5 - 0.1*float64(i%4)}}
		if strings.Contains(" "+RunInProgress+RunUnjudged+RunBroken, run.State) {
			run.Scenario, run.Subject, run.Figures, run.Report, run.Why = "", "", nil, false, "its history is damaged"
		}
		out = append(out, run)
	}
	return out
}

// The filters hide what does not fit, and two runs can be chosen. The server's test follows the button.
func TestBrowserFiltersRuns(t *testing.T) {
	b := browsertest.Open(t)
	openReport(t, b, "runs", runsPage(t, fixtureRuns()))
	shown := func() int {
		return browsertest.Eval[int](b, `document.querySelectorAll("#all tbody tr:not([hidden])").length`)
	}
	choose := func(name, value string) {
		browsertest.Eval[bool](b, fmt.Sprintf(`(() => { const s = Array.from(document.querySelectorAll(".filters label"))
			.find((l) => l.textContent.startsWith(%q)).querySelector("select");
			s.value = %q; s.dispatchEvent(new Event("change")); return s.value === %[2]q; })()`, name, value))
	}
	count := func(state string) int { return int(countRuns(fixtureRuns(), state)) }
	if got := shown(); got != 40 {
		t.Errorf("%d runs are shown, want all 40", got)
	}
	choose("verdict", "fail")
	if got := shown(); got != count("fail") {
		t.Errorf("%d failed runs are shown, want %d", got, count("fail"))
	}
	choose("verdict", "")
	b.Type(".filters input", "damaged broken")
	if got := shown(); got != count(RunBroken) {
		t.Errorf("%d runs with these words are shown, want %d", got, count(RunBroken))
	}
	if got := b.Text(".filters output"); got != fmt.Sprintf("%d of 40 shown", count(RunBroken)) {
		t.Errorf("it says %q", got)
	}
	browsertest.Eval[bool](b, `(() => { const i = document.querySelector(".filters input"); i.value = "";
		i.dispatchEvent(new Event("input")); return true; })()`)
	boxes := `#all tbody input[type="checkbox"]`
	if got := b.Count(boxes); got != 40-count(RunInProgress)-count(RunUnjudged)-count(RunBroken) {
		t.Errorf("%d runs can be chosen", got)
	}
	for n, want := range []string{"Compare: choose two", "Compare: choose two", "Compare these two",
		"Compare: choose two, not 3"} {
		if got := b.Text(".filters button"); got != want {
			t.Errorf("with %d runs chosen the button says %q", n, got)
		}
		browsertest.Eval[bool](b, fmt.Sprintf(`(document.querySelectorAll('%s')[%d].click(), true)`, boxes, n))
	}
}
