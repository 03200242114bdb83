package reports

// The report of a bench: one file that holds all it needs and asks nobody for anything, in the manner of the report of
// a run (html.go).

import (
	"cmp"
	"embed"
	"fmt"
	"html/template"
	"io"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/stats"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

//go:embed templates/bench.html.tmpl templates/bench.css templates/bench.js
var benchEmbedded embed.FS

// benchPage is what the template shows. Every text from the bench has passed text(), name() or visible().
type benchPage struct {
	CSP    string
	Style  template.CSS
	Script template.JS

	Name, Description, Headline, Word, Stand string
	Meta                                     []string
	Facts                                    []fact
	Advice                                   []benchAdviceView
	Columns                                  []string
	Cells                                    []benchCellView
	Scatters                                 []*scatterView
	NoDuplicates                             bool
	Curves                                   []*curvesView
	Recovery                                 benchRecoveryView
	Base                                     string
	Differences                              []benchDifferenceView
	Noise                                    []fact
	Details                                  []fact
}

type benchAdviceView struct {
	Text     string
	Evidence []string
	Cells    []benchRef
}

// benchRef leads to a cell.
type benchRef struct{ Number, Name, Anchor string }

type benchCellView struct {
	benchRef
	State, Word string
	Front       bool
	Runs        string
	Values      []benchValueView
	Settings    []fact
	Why         []string
	Command     string
	// Repetitions, one row each: number, verdict, the columns, what was violated, the run.
	Repetitions []benchRepetitionView
	Search      []benchSearchView
	Parts       []benchPartView
}

type benchValueView struct{ Value, Spread string }

type benchRepetitionView struct {
	Number, Verdict, Class string
	Values                 []string
	Violated, Dir, Command string
}

// benchSearchView is one probe of a search.
type benchSearchView struct{ Repetition, Rate, Hold, Class, Why string }

// benchPartView is a stretch of a soak or a step of a load.
type benchPartView struct{ Repetition, When, Rate, Processed, P99, Backlog, Note string }

type benchRecoveryView struct {
	Faults []string
	Rows   []benchRecoveryRow
}

type benchRecoveryRow struct {
	benchRef
	Values []benchRecoveryValue
}

// benchRecoveryValue is a time and a bar of 100 units for the longest of all.
type benchRecoveryValue struct {
	Words, Width, Note string
	Bad                bool
}

type benchDifferenceView struct {
	Cell                                                        benchRef
	Figure, Base, Value, Change, Interval, Noise, P, Word, Tone string
}

// BenchHTML writes the report of a bench as one self-contained page.
func BenchHTML(w io.Writer, bench Bench) error {
	content, err := newBenchPage(bench.complete())
	if err != nil {
		return fmt.Errorf("making the report of the bench: %w", err)
	}
	page, err := template.ParseFS(benchEmbedded, "templates/bench.html.tmpl")
	if err != nil {
		return fmt.Errorf("making the report of the bench: %w", err)
	}
	if err := page.Execute(w, content); err != nil {
		return fmt.Errorf("writing the report of the bench: %w", err)
	}
	return nil
}

func newBenchPage(bench Bench) (*benchPage, error) {
	style, script, err := benchAssets()
	if err != nil {
		return nil, err
	}
	out := &benchPage{
		Style: template.CSS(style), Script: template.JS(script), CSP: document.Policy(style, script),
		Name: name(bench.Name), Description: text(bench.Description), Headline: benchHeadline(bench), Meta: benchAbout(bench),
		Facts: benchFacts(bench), Noise: benchNoiseFacts(bench), Details: benchDetails(bench),
	}
	out.Stand, out.Word = benchStand(bench)
	cells := map[int]benchRef{}
	for _, of := range bench.Cells {
		cells[of.Number] = newBenchRef(of)
	}
	for _, advice := range bench.Advice {
		view := benchAdviceView{Text: text(advice.Text)}
		for _, evidence := range advice.Evidence {
			view.Evidence = append(view.Evidence, text(evidence))
		}
		for _, number := range advice.Cells {
			if ref, known := cells[number]; known {
				view.Cells = append(view.Cells, ref)
			}
		}
		out.Advice = append(out.Advice, view)
	}
	out.addCells(bench)
	out.addDifferences(bench)
	out.Recovery = newBenchRecoveryView(bench)
	return out, out.addPlots(bench)
}

// benchAssets are the page's style, which is that of the report of a run and a little more, and its script.
func benchAssets() (style, script string, err error) {
	var contents []string
	for _, file := range []string{"templates/bench.css", "templates/bench.js"} {
		content, err := benchEmbedded.ReadFile(file)
		if err != nil {
			return "", "", err
		}
		contents = append(contents, string(content))
	}
	return document.PageStyle() + "\n" + contents[0], contents[1], nil
}

// benchStand is the page's tone and its word.
func benchStand(bench Bench) (tone, word string) {
	switch {
	case bench.Interrupted:
		return "inconclusive", "INTERRUPTED"
	case bench.Count(BenchBroken) > 0:
		return "fail", "PROMISES BROKEN"
	case len(bench.Cells) == 0 || bench.Count(BenchOK) < len(bench.Cells):
		return "inconclusive", "INCONCLUSIVE IN PART"
	}
	return "pass", "ALL PROMISES KEPT"
}

func newBenchRef(of BenchCell) benchRef {
	return benchRef{Number: fmt.Sprint(of.Number), Name: name(of.Name), Anchor: fmt.Sprintf("cell-%d", of.Number)}
}

// benchFacts are the figures that a reader wants before any detail: the best of the cells that kept their promises, by
// each figure.
func benchFacts(bench Bench) []fact {
	out := []fact{{Label: "Cells", Value: units.Count(int64(len(bench.Cells))),
		Note: fmt.Sprintf("%d kept every promise", bench.Count(BenchOK))}}
	if broken := bench.Count(BenchBroken); broken > 0 {
		out = append(out, fact{Label: "Broken", Value: units.Count(int64(broken)), Note: "never called fast", Tone: "bad"})
	}
	wanted := []string{primary(bench.Mode).Name, "latency.success.p99", "recovery.steady"}
	if bench.Mode == BenchMaxThroughput {
		wanted = []string{RateHeld, "recovery.steady"} // each cell has its p99 at a rate of its own
	}
	for _, column := range benchColumns(bench) {
		if !slices.Contains(wanted, column.Name) {
			continue
		}
		best := bestOf(bench, column.Higher, func(cell BenchCell) (float64, bool) {
			values := cell.Figures(column.BenchFigure)
			return stats.Median(values), len(values) > 0
		})
		if best != nil {
			value, _ := column.shown(*best)
			out = append(out, fact{Label: "Best " + column.title, Value: value, Note: visible(best.Name, 60)})
		} else if best = bestOf(bench, true, BenchCell.heldAtLeast); best != nil && column.Name == RateHeld {
			value, _ := column.shown(*best)
			out = append(out, fact{Label: "Highest lower bound", Value: value, Note: visible(best.Name, 60)})
		}
	}
	return out
}

// bestOf is the cell that kept its promises and has the best of a figure, nil if none has it.
func bestOf(bench Bench, higher bool, of func(BenchCell) (float64, bool)) *BenchCell {
	var best *BenchCell
	var most float64
	for i := range bench.Cells {
		value, known := of(bench.Cells[i])
		if known && bench.Cells[i].State == BenchOK && (best == nil || value != most && (value > most) == higher) {
			best, most = &bench.Cells[i], value
		}
	}
	return best
}

func benchNoiseFacts(bench Bench) []fact {
	var out []fact
	for _, column := range benchColumns(bench) {
		if noise, known := noiseOf(bench, column.BenchFigure); known {
			out = append(out, fact{Label: column.title, Value: percent(noise)})
		}
	}
	return out
}

// benchDetails are what the bench was made of.
func benchDetails(bench Bench) []fact {
	var out []fact
	add := func(label, value string) {
		if value != "" {
			out = append(out, fact{Label: label, Value: value})
		}
	}
	add("File", visible(bench.File, 4096))
	add("SHA-256 of what the runs are made from", name(bench.SpecHash))
	add("dlqbench", name(bench.Version))
	if bench.Overhead.Runs > 0 {
		add("Runs", units.Text(bench.Overhead.Runs)+", and the bench itself "+percent(bench.Overhead.Share)+" more")
	}
	for _, key := range sortedKeys(bench.Environment) {
		if key != EnvironmentLoad && key != "dlqbench" {
			add(strings.ReplaceAll(name(key), "_", " "), text(bench.Environment[key]))
		}
	}
	return out
}

func (p *benchPage) addCells(bench Bench) {
	columns := benchColumns(bench)
	for _, column := range columns {
		p.Columns = append(p.Columns, column.title)
	}
	front := onFront(bench)
	for _, of := range bench.Cells {
		view := benchCellView{
			benchRef: newBenchRef(of), State: strings.ReplaceAll(benchWord(of.State), " ", "-"), Word: benchWord(of.State),
			Front: front[of.Number],
			Runs:  fmt.Sprintf("%d of %d", len(of.Repetitions), bench.Repetitions), Command: visible(of.Command, 4096),
		}
		for _, column := range columns {
			value, spread := column.shown(of)
			view.Values = append(view.Values, benchValueView{Value: cmp.Or(value, "–"), Spread: spread})
		}
		for _, setting := range of.Settings {
			view.Settings = append(view.Settings, fact{Label: name(setting.Path), Value: text(setting.Value)})
		}
		for _, more := range []fact{{Label: "workload", Value: text(of.Workload)},
			{Label: "faults", Value: text(of.Faults)}} {
			if more.Value != "" {
				view.Settings = append(view.Settings, more)
			}
		}
		for _, why := range of.Why {
			view.Why = append(view.Why, text(why))
		}
		for _, repetition := range of.Repetitions {
			view.addRepetition(repetition, columns)
		}
		p.Cells = append(p.Cells, view)
	}
}

// verdictClass is a verdict as the page's style knows it.
func verdictClass(verdict assertions.Status) string {
	if verdict == assertions.Pass || verdict == assertions.Fail {
		return string(verdict)
	}
	return "inconclusive"
}

func (v *benchCellView) addRepetition(repetition BenchRepetition, columns []benchColumn) {
	number := fmt.Sprint(repetition.Number)
	row := benchRepetitionView{
		Number: number, Verdict: name(string(repetition.Run.Verdict)), Class: verdictClass(repetition.Run.Verdict),
		Violated: text(violated(repetition.Run)),
		Dir:      visible(repetition.Run.Dir, 4096), Command: visible(repetition.Run.Command, 4096),
	}
	if row.Verdict == "" {
		row.Verdict, row.Violated = "not judged", text(repetition.Run.Error)
	}
	for _, column := range columns {
		value, known := column.Of(repetition)
		if !known {
			row.Values = append(row.Values, "–")
			continue
		}
		row.Values = append(row.Values, column.Unit.Text(value))
	}
	v.Repetitions = append(v.Repetitions, row)
	if search := repetition.Search; search != nil {
		for _, probe := range search.Probes {
			class := map[BenchHold]string{BenchHeld: "pass", BenchNotHeld: "fail"}[probe.Hold]
			v.Search = append(v.Search, benchSearchView{
				Repetition: number, Rate: units.PerSecond(probe.Rate), Hold: name(string(probe.Hold)), Class: class,
				Why: text(strings.Join(probe.Why, "; ")),
			})
		}
	}
	var parts []BenchPart
	if repetition.Drift != nil {
		parts = repetition.Drift.Parts
	}
	if repetition.Knee != nil {
		parts = repetition.Knee.Parts
	}
	for _, part := range parts {
		v.Parts = append(v.Parts, benchPartView{
			Repetition: number, When: fmt.Sprintf("%.1f – %.1f s", part.From.Seconds(), part.To.Seconds()),
			Rate: units.PerSecond(part.Rate), Processed: units.PerSecond(part.Processed),
			P99: units.Text(part.Success.P99), Backlog: units.Count(part.Backlog),
		})
	}
}

func (p *benchPage) addDifferences(bench Bench) {
	base, differences := benchDifferences(bench)
	if len(differences) == 0 {
		return
	}
	p.Base = fmt.Sprintf("%d. %s", base.Number, name(base.Name))
	for _, d := range differences {
		of := CompareFigure{Unit: d.column.Unit, HigherIsBetter: d.column.Higher,
			Change: changeOf(d.Difference, d.column.Higher), Difference: d.Difference}
		of.Before.Count, of.Before.Median, of.After.Count, of.After.Median = d.CountA, d.A, d.CountB, d.B
		if d.CountA == 0 || d.CountB == 0 {
			of.Change = FigureAbsent
		}
		view := benchDifferenceView{
			Cell: newBenchRef(d.cell), Figure: d.column.title, Base: figureValue(of, of.Before),
			Value: figureValue(of, of.After), Change: of.ChangeText(),
			Interval: intervalText(of), Noise: of.NoiseText(), P: pText(of), Word: d.word(),
		}
		view.Tone = map[FigureChange]string{FigureBetter: "pass", FigureWorse: "fail"}[of.Change]
		if d.Needed > 0 && of.Change == FigureTooFew {
			view.Word = fmt.Sprintf("too few: %d needed", d.Needed)
		}
		p.Differences = append(p.Differences, view)
	}
}

func newBenchRecoveryView(bench Bench) benchRecoveryView {
	recoveries := newBenchRecoveries(bench)
	out := benchRecoveryView{}
	for _, fault := range recoveries.faults {
		out.Faults = append(out.Faults, name(fault))
	}
	longest := 0.0
	for _, row := range recoveries.rows {
		for _, recovered := range row {
			longest = max(longest, recovered.times.Median)
		}
	}
	for i, row := range recoveries.rows {
		view := benchRecoveryRow{benchRef: newBenchRef(bench.Cells[i])}
		for _, recovered := range row {
			value := benchRecoveryValue{Words: recovered.words(), Bad: recovered.never > 0, Note: text(recovered.note)}
			if longest > 0 && recovered.times.Count > 0 {
				value.Width = place1(max(1, 100*recovered.times.Median/longest))
			}
			view.Values = append(view.Values, value)
		}
		out.Rows = append(out.Rows, view)
	}
	return out
}

// anyAbove tells whether a figure is more than 0 anywhere.
func anyAbove(bench Bench, figure BenchFigure) bool {
	return slices.ContainsFunc(bench.Cells, func(of BenchCell) bool { return stats.Summarize(of.Figures(figure)).Max > 0 })
}

func (p *benchPage) addPlots(bench Bench) error {
	x := primary(bench.Mode)
	xTitle := x.Words
	for _, y := range []struct{ name, title string }{{"latency.success.p99", "p99 of success latency"},
		{"share.duplicates", "duplicates"}} {
		figure, known := bench.Mode.Figure(y.name)
		if !known {
			continue
		}
		if y.name == "share.duplicates" && !anyAbove(bench, figure) {
			p.NoDuplicates = true // a plot of nothing but zeros tells less
			continue
		}
		if plot := newScatter(bench, "front-"+strings.ReplaceAll(y.name, ".", "-"), x, figure, xTitle, y.title); plot != nil {
			p.Scatters = append(p.Scatters, plot)
		}
	}
	for _, latency := range benchLatencies() {
		curves, err := newCurves(bench, latency)
		if err != nil {
			return err
		}
		if curves != nil {
			p.Curves = append(p.Curves, curves)
		}
	}
	return nil
}
