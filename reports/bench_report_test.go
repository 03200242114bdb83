package reports

import (
	"io"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports/document"
)

func renderBench(t *testing.T, bench Bench, to func(io.Writer, Bench) error) string {
	t.Helper()
	var b strings.Builder
	if err := to(&b, bench); err != nil {
		t.Fatalf("rendering: %v", err)
	}
	return b.String()
}

func benchTerminalPlain(w io.Writer, bench Bench) error {
	return BenchTerminal(w, bench, "bench/results", false)
}

func TestBenchReportGolden(t *testing.T) {
	for fixture, bench := range benchFixtures() {
		for extension, to := range map[string]func(io.Writer, Bench) error{"txt": benchTerminalPlain, "md": BenchMarkdown,
			"html": BenchHTML} {
			t.Run(fixture+"."+extension, func(t *testing.T) {
				got := renderBench(t, bench, to)
				if extension == "html" { // compare the content, without style and script
					got = got[strings.Index(got, "<main"):strings.Index(got, "<script>")]
				}
				golden.Check(t, filepath.Join("testdata", "bench-"+fixture+"."+extension), got)
			})
		}
	}
}

// A fast result of a broken cell is never called fast: the cell is not on the front, in no plot and not on the front
// of all figures together.
func TestBrokenCellsAreNeverOnTheFront(t *testing.T) {
	bench := matrixBench()
	throughput, _ := bench.Mode.Figure("throughput.processed")
	p99, _ := bench.Mode.Figure("latency.success.p99")
	for _, state := range []BenchState{BenchBroken, BenchInconclusive, BenchNotRun} {
		bench.Cells[5].State = state
		for _, p := range benchPoints(bench, throughput, p99) {
			if p.cell.Number == 6 && p.front {
				t.Errorf("%s, and on the front", state)
			}
		}
		if onFront(bench, starFigures(bench.Mode))[6] {
			t.Errorf("%s, and not beaten by any", state)
		}
		page := renderBench(t, bench, BenchHTML)
		if state == BenchBroken && (!strings.Contains(page, `"shape":"broken"`) || !strings.Contains(page, "Broken, and so "+
			"not on it: 6. ")) {
			t.Error("it is not drawn as broken")
		}
		for _, f := range benchFacts(bench) {
			if strings.Contains(f.Note, bench.Cells[5].Name) {
				t.Errorf("%s, and called the best: %+v", state, f)
			}
		}
	}
	bench.Cells[5].State = BenchOK // the same figures with the promises kept
	if points := benchPoints(bench, throughput, p99); !slices.ContainsFunc(points, func(p benchPoint) bool {
		return p.cell.Number == 6 && p.front
	}) {
		t.Error("the fastest cell that keeps its promises is not on the front: this test shows nothing")
	}
}

// Calculated by hand: 2 beats 1 in both figures; 2 and 3 are a trade-off; 4 is as good as 3 in one and worse in the
// other.
func TestTheFront(t *testing.T) {
	bench := Bench{Mode: BenchFixed}
	for i, of := range [][2]float64{{100, 0.5}, {200, 0.4}, {300, 0.6}, {300, 0.7}} {
		repetition := fixtureRepetition(i+1, 1, 1, 1)
		repetition.Run.Throughput.Processed, repetition.Run.Ledger.Acknowledged, repetition.Run.Ledger.Duplicates = of[0], 10,
			int64(10*of[1])
		bench.Cells = append(bench.Cells,
			BenchCell{Number: i + 1, State: BenchOK, Repetitions: []BenchRepetition{repetition}})
	}
	x, _ := bench.Mode.Figure("throughput.processed")
	y, _ := bench.Mode.Figure("share.duplicates")
	var front []int
	for _, p := range benchPoints(bench, x, y) {
		if p.front {
			front = append(front, p.cell.Number)
		}
	}
	if !slices.Equal(front, []int{2, 3}) {
		t.Errorf("the front is %v, want 2 and 3", front)
	}
}

// Cells that differ by noise alone are drawn close together.
func TestAxesDoNotMagnifyNoise(t *testing.T) {
	for _, values := range [][]float64{{908, 908.5, 910}, {1, 1}, {0, 0}, {9.4, 9.5}, {100, 2600}} {
		a, low, high := spanned(values, "rate", BenchUnitRate), slices.Min(values), slices.Max(values)
		share := (high - low) / (a.High - a.Low)
		if a.High <= high || a.Low >= low && low != 0 || high-low < 0.05*high && share > 0.6 || low == 100 && share < 0.6 {
			t.Errorf("%v: a difference of %.1f %% takes %.0f %% of an axis from %v to %v", values, 100*(high-low)/high,
				100*share,
				a.Low, a.High)
		}
	}
}

// Differences between cells are reported only if repetitions can show them.
func TestBenchDifferencesNeedRepetitions(t *testing.T) {
	bench := matrixBench()
	base, differences := benchDifferences(bench)
	if base.Number != 1 || len(differences) != 6 {
		t.Fatalf("%d differences from cell %d, want 6 from 1: two figures of the three other cells that are ok",
			len(differences), base.Number)
	}
	if last := differences[len(differences)-1]; last.cell.Number != 5 || !last.Real {
		t.Errorf("cell 5 is much faster in five repetitions, and %+v", last)
	}
	for i := range bench.Cells {
		bench.Cells[i].Repetitions = bench.Cells[i].Repetitions[:3]
	}
	_, differences = benchDifferences(bench)
	for _, d := range differences {
		if d.Real || d.Needed != 5 || d.word() != "too few repetitions" {
			t.Errorf("three repetitions: %+v", d.Difference)
		}
	}
}

// If no record was processed twice, the page says so and draws no plot of zeros.
func TestABenchWithoutDuplicates(t *testing.T) {
	bench := matrixBench()
	for i := range bench.Cells {
		for j := range bench.Cells[i].Repetitions {
			bench.Cells[i].Repetitions[j].Run.Ledger.Duplicates = 0
		}
	}
	page := renderBench(t, bench, BenchHTML)
	if !strings.Contains(page, "No cell had a duplicate.") || strings.Contains(page, "front-share-duplicates") {
		t.Error("zeros are drawn, or nothing is said")
	}
	bench.Cells[2].Repetitions[1].Run.Ledger.Duplicates = 1
	if page := renderBench(t, bench, BenchHTML); strings.Contains(page, "No cell had a duplicate.") ||
		!strings.Contains(page, "front-share-duplicates") {
		t.Error("a duplicate is denied")
	}
}

// A terminal shows the first reasons of a cell, the page all of them.
func TestABenchWithALongReason(t *testing.T) {
	bench := matrixBench()
	bench.Cells[3].Why = []string{"reason one", "reason two", "reason three", "reason four"}
	got := renderBench(t, bench, benchTerminalPlain)
	if !strings.Contains(got, "reason two") || strings.Contains(got, "reason three") ||
		!strings.Contains(got, "… and 2 more in the report") {
		t.Errorf("reasons without an end on a terminal:\n%s", got)
	}
	if page := renderBench(t, bench, BenchHTML); !strings.Contains(page, "four") {
		t.Error("the page does not tell all reasons")
	}
}

// A bench without figures is reported without any.
func TestABenchOfNothing(t *testing.T) {
	bench := Bench{Mode: BenchFixed,
		Cells: []BenchCell{{Number: 1, Name: "a", State: BenchInconclusive,
			Repetitions: []BenchRepetition{{Number: 1, Run: BenchRun{Error: "no Kafka"}}}}}}
	for _, to := range []func(io.Writer, Bench) error{benchTerminalPlain, BenchMarkdown, BenchHTML} {
		if got := renderBench(t, bench, to); strings.Contains(got, "NaN") || strings.Contains(got, "Inf") {
			t.Errorf("no figures, and yet:\n%s", got)
		}
	}
}

func TestBenchReportMakesHostileTextInert(t *testing.T) {
	bench := injectedBench(hostile)
	page := renderBench(t, bench, BenchHTML)
	for _, live := range []string{"<script>alert", "<img", `" onmouseover`, "\x1b", "\u202e", "javascript:alert(4)\"",
		"\x00"} {
		if content, _, _ := strings.Cut(page, `<script type="application/json"`); strings.Contains(content, live) {
			t.Errorf("the page holds %q", live)
		}
	}
	if n := strings.Count(page, "<script"); n != 4 {
		t.Errorf("%d scripts, want the page's own 4", n)
	}
	for name, to := range map[string]func(io.Writer, Bench) error{"terminal": benchTerminalPlain,
		"Markdown": BenchMarkdown} {
		got := renderBench(t, bench, to)
		for _, live := range []string{"\x1b", "\x00", "\u202e", "\u009b"} {
			if strings.Contains(got, live) {
				t.Errorf("the %s holds %q", name, live)
			}
		}
		got = regexp.MustCompile("`` .*? ``").ReplaceAllString(got, "") // code spans are inert
		if name == "Markdown" && (strings.Contains(got, "<img") || strings.Contains(got, " @everyone") ||
			strings.Contains(got, "<script")) {
			t.Errorf("the Markdown is alive:\n%s", got)
		}
	}
}

func TestBenchTerminalFitsTheScreen(t *testing.T) {
	for fixture, bench := range benchFixtures() {
		for line := range strings.SplitSeq(renderBench(t, bench, benchTerminalPlain), "\n") {
			if len([]rune(line)) > screenWidth && !strings.Contains(line, "see: ") {
				t.Errorf("%s: %d columns: %s", fixture, len([]rune(line)), line)
			}
		}
	}
	for _, bench := range benchFixtures() {
		for i := range bench.Cells {
			bench.Cells[i].State = BenchState(assertions.Pass) // not one of the states
		}
		if strings.Contains(renderBench(t, bench, benchTerminalPlain), "✓") {
			t.Error("an unknown state is told as ok")
		}
	}
}

// A search that the harness ended gives a lower bound: the rate is shown as one and never compared, and no cell is
// the best.
func TestRatesOfASearchThatTheHarnessEndedAreLowerBounds(t *testing.T) {
	bench := searchBench()
	for i := range bench.Cells {
		for k := range bench.Cells[i].Repetitions {
			search := *bench.Cells[i].Repetitions[k].Search
			search.Limit, search.Rate, search.Above = BenchLimitHarness, float64(1000*(i+1)+100*k), float64(1000*(i+1)+100*k+50)
			search.Probes = append(slices.Clone(search.Probes),
				BenchProbe{Rate: search.Above, Hold: BenchUnproven, Why: []string{"the machine was slow"}},
				BenchProbe{Rate: search.Rate, Hold: BenchUnproven, Why: []string{"the first try"}})
			bench.Cells[i].Repetitions[k].Search = &search
		}
	}
	bench.Cells = bench.Cells[:2] // each has three repetitions
	for form, page := range map[string]string{
		"the page": renderBench(t, bench, BenchHTML), "Markdown": renderBench(t, bench, BenchMarkdown),
		"the terminal": renderBench(t, bench, benchTerminalPlain),
	} {
		for _, want := range []string{"rate held", "≥ 1,100/s", "≥ 2,100/s"} {
			if !strings.Contains(page, want) {
				t.Errorf("%s does not say %q", form, want)
			}
		}
	}
	if facts := benchFacts(bench); len(facts) < 2 || facts[1].Key != "highest rate held" ||
		!strings.HasPrefix(facts[1].Note, "highest lower bound: ") || facts[1].Value[0].Text != "≥ 2,100/s" {
		t.Errorf("the facts are %+v", facts)
	}
	if _, differences := benchDifferences(bench); len(differences) > 0 {
		t.Errorf("lower bounds are compared: %+v", differences)
	}
}

// That a cell can't keep up comes before anything else, in every format and in the line of its run, and such a cell is
// never on the front.
func TestWhatCantKeepUpComesFirst(t *testing.T) {
	bench := fixedResults()
	bench.Cells = bench.Cells[:2]
	for i := range bench.Cells[1].Repetitions {
		bench.Cells[1].Repetitions[i].Run.Behind = "the backlog grew by 40.0/s: 600/s were sent, 560/s were finished"
	}
	if mark, word := benchStand(bench); mark != document.Warning || word != "1 OF 2 CAN'T KEEP UP" {
		t.Errorf("the banner is %v %q", mark, word)
	}
	const first = "1 of 2 cells can't keep up with the load: 2. max_in_flight=64, slow."
	if headline := benchHeadline(bench); !strings.HasPrefix(headline, first) {
		t.Errorf("the headline is %q", headline)
	}
	if onFront(bench, starFigures(bench.Mode))[2] || !onFront(bench, starFigures(bench.Mode))[1] {
		t.Errorf("the front is %v", onFront(bench, starFigures(bench.Mode)))
	}
	terminal := renderBench(t, bench, benchTerminalPlain)
	if !strings.HasPrefix(terminal, " 1 OF 2 CAN'T KEEP UP  concurrency\n 1 of 2 cells can't keep up") ||
		!strings.Contains(terminal, " ! 2. max_in_flight=64") {
		t.Errorf("the terminal shows:\n%s", terminal)
	}
	var line strings.Builder
	must.Do(t, BenchRunLine(&line, bench, 2, 1, bench.Cells[1].Repetitions[0].Run))
	if !strings.Contains(line.String(), "repetition 1: CAN'T KEEP UP: ") {
		t.Errorf("the run's line is %q", line.String())
	}
	nothing := searchResults()
	for i := range nothing.Cells[0].Repetitions {
		nothing.Cells[0].Repetitions[i].Search.Limit = BenchLimitNone
	}
	if got := benchHeadline(nothing); !strings.HasPrefix(got, "1 of 2 cells can't keep up with any rate that was tried") {
		t.Errorf("of a search in which nothing held it says %q", got)
	}
}

// A command is meant to be copied, so it is neither broken nor cut, however long it is.
func TestBenchTerminalLeavesCommandsWhole(t *testing.T) {
	bench := matrixBench()
	command := "dlqbench run smoke --seed 0 --subject bench/a-long-name/subjects/02.yaml --set workload.duration=2s " +
		"--set workload.rate=100/s"
	bench.Advice = []BenchAdvice{{Text: "Don't use it.", Evidence: []string{ShownBy + command}}}
	if out := renderBench(t, bench, benchTerminalPlain); !strings.Contains(out, command+"\n") {
		t.Errorf("the command is not there as it is:\n%s", out)
	}
}

// On a narrow terminal no figure of a cell is lost or cut, and no line is wider than the terminal.
func TestBenchNarrow(t *testing.T) {
	doc := must.Get(benchDocument(matrixBench()))(t)
	var b strings.Builder
	must.Do(t, document.Terminal(&b, doc, 60, false))
	for line := range strings.Lines(b.String()) {
		if ansi.StringWidth(strings.TrimSuffix(line, "\n")) > 60 && !strings.Contains(line, "see: ") {
			t.Errorf("%d columns: %s", ansi.StringWidth(line), line)
		}
	}
	for _, row := range benchCells(matrixBench()).Rows {
		for _, cell := range row.Cells {
			if !strings.Contains(b.String(), cell[0].Text) {
				t.Errorf("%q is missing:\n%s", cell[0].Text, b.String())
			}
		}
	}
}
