package reports

// This file builds a bench's document: the number of cells that kept their promises, the cells with their figures,
// and suggested changes. The evidence follows: plots, differences, and each repetition.

import (
	"cmp"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/stats"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// screenFigures is the minimum number of figures per cell on a terminal.
const screenFigures = 4

// BenchTerminal writes the result of a bench to the terminal w. dir is its folder, "" if nothing was written.
func BenchTerminal(w io.Writer, bench Bench, dir string, color bool) error {
	doc, err := benchDocument(bench)
	if err != nil {
		return err
	}
	if dir != "" {
		doc.Sections = append(doc.Sections, document.Section{Blocks: []document.Block{document.KeyValues{
			Items: []document.KeyValue{{Key: "Report", Value: document.Command(dir + "/" + HTMLFile)}}}}})
	}
	return document.Terminal(w, doc, Columns(w), color)
}

// BenchMarkdown writes the summary of a bench in GitHub's flavour.
func BenchMarkdown(w io.Writer, bench Bench) error {
	doc, err := benchDocument(bench)
	if err != nil {
		return err
	}
	return document.Markdown(w, doc)
}

// BenchHTML writes the report of a bench as one self-contained page.
func BenchHTML(w io.Writer, bench Bench) error {
	doc, err := benchDocument(complete(bench))
	if err != nil {
		return err
	}
	return document.HTML(w, doc)
}

func benchDocument(bench Bench) (document.Document, error) {
	curves, err := benchCurves(bench)
	if err != nil {
		return document.Document{}, fmt.Errorf("making the report of the bench: %w", err)
	}
	mark, word := benchStand(bench)
	out := document.Document{
		Kind: "bench report", Mark: mark, Word: word, Title: name(bench.Name), About: benchAbout(bench),
		Lead: []document.Text{document.Plain(benchHeadline(bench)), document.Plain(text(bench.Description))},
		Foot: "The same facts for programs: results.json, results.csv and cells.csv.",
	}
	out.Sections = []document.Section{
		{Blocks: []document.Block{document.KeyValues{Big: true, Items: benchFacts(bench)}}},
		{Title: "What to change", Blocks: []document.Block{benchAdvice(bench)}},
		{Title: "Cells", Aside: "medians, ± half the width of the middle half; ★ no other beats it",
			Blocks: []document.Block{benchCells(bench)}},
		{Title: "Why", Aside: "cells that are not ok", Blocks: []document.Block{benchWhy(bench)}},
		{Title: "Noise floor", Aside: "three quarters of all pairs of identical runs differ by at most",
			Blocks: []document.Block{document.KeyValues{Items: benchNoise(bench)}}},
		{Title: "Trade-offs", Aside: "towards the lower right is better", Folded: true,
			Blocks: []document.Block{benchScatters(bench)}},
		{Title: "Latency percentiles", Aside: "all repetitions of a cell together", Folded: true,
			Blocks: []document.Block{curves}},
		{Title: "Recovery", Aside: "from the fault's end until the consumer was at its pace again", Folded: true,
			Blocks: []document.Block{benchRecoveryTable(bench)}},
		{Title: "Differences", Aside: benchBase(bench), Folded: true, Blocks: benchDifferenceTable(bench)},
		{Title: "Runs", Aside: "each repetition of each cell", Folded: true, Blocks: benchRuns(bench)},
		{Title: "Environment", Folded: true, Blocks: []document.Block{document.KeyValues{Items: benchDetails(bench)}}},
	}
	return out, nil
}

// benchStand returns the bench's mark and its word.
func benchStand(bench Bench) (document.Mark, string) {
	switch {
	case bench.Interrupted:
		return document.Unsure, "INTERRUPTED"
	case bench.Count(BenchBroken) > 0:
		return document.Fail, "PROMISES BROKEN"
	case len(bench.Cells) == 0 || bench.Count(BenchOK) < len(bench.Cells):
		return document.Unsure, "INCONCLUSIVE IN PART"
	case len(bench.behind()) > 0:
		return document.Warning, fmt.Sprintf("%d OF %d CAN'T KEEP UP", len(bench.behind()), len(bench.Cells))
	}
	return document.Pass, "ALL PROMISES KEPT"
}

func benchMark(state BenchState) document.Mark {
	return cmp.Or(map[BenchState]document.Mark{BenchOK: document.Pass, BenchBroken: document.Fail,
		BenchNotRun: document.Skipped}[state], document.Unsure)
}

// cellMark is the mark of a cell. One that kept its promises and can't keep up has a warning.
func cellMark(of BenchCell) document.Mark {
	if of.State == BenchOK && of.Behind() != "" {
		return document.Warning
	}
	return benchMark(of.State)
}

func cellLabel(of BenchCell) string { return fmt.Sprintf("%d. %s", of.Number, name(of.Name)) }

// cellLink returns a link to the runs of a cell.
func cellLink(of BenchCell) document.Text { return document.Link(cellLabel(of), "#"+cellAnchor(of)) }

func cellAnchor(of BenchCell) string { return fmt.Sprintf("cell-%d", of.Number) }

// benchFacts returns the figures that a reader wants first: for each figure, the best of the cells that kept their
// promises.
func benchFacts(bench Bench) []document.KeyValue {
	out := []document.KeyValue{fact("Cells", units.Count(int64(len(bench.Cells))),
		fmt.Sprintf("%d kept every promise", bench.Count(BenchOK)))}
	if broken := bench.Count(BenchBroken); broken > 0 {
		out = append(out, marked(document.Fail, fact("Broken", units.Count(int64(broken)), "never called fast")))
	}
	wanted := []string{primary(bench.Mode).Name, "latency.success.p99", "recovery.steady"}
	if bench.Mode == BenchMaxThroughput {
		wanted = []string{RateHeld, "recovery.steady"} // the p99 of each cell is at another rate
	}
	for _, column := range benchColumns(bench) {
		if !slices.Contains(wanted, column.Name) {
			continue
		}
		note, best := "best", bestOf(bench, column.Higher, func(cell BenchCell) (float64, bool) {
			values := cell.Figures(column)
			return stats.Median(values), len(values) > 0
		})
		if best == nil && column.Name == RateHeld {
			note, best = "highest lower bound", bestOf(bench, true, BenchCell.heldAtLeast)
		}
		if best != nil {
			value, _ := column.shown(*best)
			out = append(out, fact(column.Words, value, note+": "+visible(best.Name, 60)))
		}
	}
	return out
}

// bestOf returns the cell that kept its promises and has the best value of a figure, nil if none has it.
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

func benchAdvice(bench Bench) document.List {
	out := document.List{}
	for _, advice := range bench.Advice {
		item := document.Item{Text: document.Bold(text(advice.Text))}
		for _, evidence := range advice.Evidence {
			words := document.Plain(text(evidence))
			if command, shown := strings.CutPrefix(evidence, ShownBy); shown {
				words = append(document.Plain(ShownBy), document.Command(command)...)
			}
			item.Below = append(item.Below, words)
		}
		out.Items = append(out.Items, item)
	}
	return out
}

// benchCells returns the table of cells. The deciding figures come first, and a terminal leaves out the others.
func benchCells(bench Bench) document.Table {
	columns, front := benchColumns(bench), onFront(bench, starFigures(bench.Mode))
	deciding := []string{primary(bench.Mode).Name, "latency.success.p99", "share.duplicates", "recovery.steady",
		"recovery.drain", "latency.success.p50"}
	rank := func(column BenchFigure) int {
		if at := slices.Index(deciding, column.Name); at >= 0 {
			return at
		}
		return len(deciding)
	}
	slices.SortStableFunc(columns, func(a, b BenchFigure) int { return cmp.Compare(rank(a), rank(b)) })
	out := document.Table{Columns: []document.Column{{Title: "cell"}}}
	for i, column := range columns {
		out.Columns = append(out.Columns, document.Column{Title: column.Words, Figure: true, Spare: i >= screenFigures})
	}
	out.Columns = append(out.Columns, document.Column{Title: "runs", Figure: true, Spare: true})
	for _, of := range bench.Cells {
		label := cellLink(of)
		if front[of.Number] {
			label = append(label, document.Plain(" ★")...)
		}
		row := document.Row{Mark: cellMark(of), Cells: []document.Text{label}}
		for _, column := range columns {
			value, spread := column.shown(of)
			row.Cells = append(row.Cells, document.Plain(cmp.Or(strings.TrimSpace(value+" "+spread), "–")))
		}
		row.Cells = append(row.Cells, document.Plain(fmt.Sprintf("%d of %d", len(of.Repetitions), bench.Repetitions)))
		out.Rows = append(out.Rows, row)
	}
	return out
}

// benchWhy lists, for each cell that is not ok, the reason and the command that shows it again.
func benchWhy(bench Bench) document.Table {
	out := document.Table{Columns: []document.Column{{Title: "cell"}, {Title: "state"},
		{Title: "why", Below: true, Most: 2}, {Title: "see", Below: true}}}
	for _, of := range bench.Cells {
		if of.State == BenchOK || len(of.Why) == 0 {
			continue
		}
		why := document.Cells(each(of.Why, text)...)
		out.Rows = append(out.Rows, document.Row{Mark: cellMark(of), Cells: []document.Text{cellLink(of),
			document.Plain(cellWord(of)), document.Lines(why...), seeAlso(of.Command)}})
	}
	return out
}

func benchNoise(bench Bench) []document.KeyValue {
	var out []document.KeyValue
	for _, column := range benchColumns(bench) {
		if noise, known := noiseOf(bench, column); known {
			out = append(out, fact(column.Words, percent(noise), ""))
		}
	}
	return out
}

// benchDetails returns the configuration of the bench.
func benchDetails(bench Bench) []document.KeyValue {
	out := []document.KeyValue{fact("File", bench.File, ""),
		fact("SHA-256 of what the runs are made from", name(bench.SpecHash), ""), fact("dlqbench", name(bench.Version), "")}
	if bench.Overhead.Runs > 0 {
		out = append(out, fact("Runs", units.Text(bench.Overhead.Runs)+", and the bench itself "+
			percent(bench.Overhead.Share)+" more", ""))
	}
	for _, key := range slices.Sorted(maps.Keys(bench.Environment)) {
		if key != EnvironmentLoad && key != "dlqbench" {
			out = append(out, fact(strings.ReplaceAll(name(key), "_", " "), text(bench.Environment[key]), ""))
		}
	}
	return known(out...)
}

func benchRecoveryTable(bench Bench) document.Table {
	faults := recoveredFaults(bench)
	if len(faults) == 0 {
		return document.Table{}
	}
	out := document.Table{Columns: []document.Column{{Title: "cell"}}}
	for _, fault := range faults {
		out.Columns = append(out.Columns, document.Column{Title: name(fault), Figure: true})
	}
	for _, of := range bench.Cells {
		row := document.Row{Cells: []document.Text{cellLink(of)}}
		for _, fault := range faults {
			recovered := recoveredIn(of, fault)
			words := document.Plain(recovered.words())
			if recovered.never > 0 {
				words = document.Marked(recovered.words(), document.Fail)
			}
			row.Cells = append(row.Cells, document.Lines(words, document.Plain(text(recovered.note))))
		}
		out.Rows = append(out.Rows, row)
	}
	return out
}

// benchBase names the cell with which the others are compared.
func benchBase(bench Bench) string {
	base, _ := benchDifferences(bench)
	return "beside cell " + cellLabel(base) + ", the first that kept its promises"
}

func benchDifferenceTable(bench Bench) []document.Block {
	_, differences := benchDifferences(bench)
	if len(differences) == 0 {
		return nil
	}
	out := document.Table{Columns: []document.Column{{Title: "cell"}, {Title: "figure"},
		{Title: "first cell", Figure: true}, {Title: "this cell", Figure: true}, {Title: "change", Figure: true},
		{Title: "interval", Figure: true}, {Title: "noise", Figure: true}, {Title: "p", Figure: true}, {Title: "conclusion"}}}
	for _, d := range differences {
		of := CompareFigure{Unit: d.column.Unit, HigherIsBetter: d.column.Higher,
			Change: changeOf(d.Difference, d.column.Higher), Difference: d.Difference}
		of.Before.Count, of.Before.Median, of.After.Count, of.After.Median = d.CountA, d.A, d.CountB, d.B
		if d.CountA == 0 || d.CountB == 0 {
			of.Change = FigureAbsent
		}
		word := d.word()
		if d.Needed > 0 && of.Change == FigureTooFew {
			word = fmt.Sprintf("too few: %d needed", d.Needed)
		}
		mark := map[FigureChange]document.Mark{FigureBetter: document.Pass, FigureWorse: document.Fail}[of.Change]
		of.Title = d.column.Words
		out.Rows = append(out.Rows, document.Row{Mark: mark, Strong: mark != document.None,
			Cells: append([]document.Text{cellLink(d.cell)}, figureCells(of, word)...)})
	}
	key := "A difference is called one if it is larger than the noise and p is at most 0.05: an exact permutation test, " +
		"corrected (Holm) for all rows of this table. Where there are too few repetitions for that, the table says how " +
		"many it takes."
	return []document.Block{out, document.Paragraph{Soft: true, Text: document.Plain(key)}}
}

// benchRuns returns the repetitions of each cell, and the results of its searches and stretches.
func benchRuns(bench Bench) []document.Block {
	var out []document.Block
	for _, of := range bench.Cells {
		var settings []document.KeyValue
		for _, one := range append(slices.Clone(of.Settings), BenchSetting{"workload", of.Workload},
			BenchSetting{"faults", of.Faults}) {
			settings = append(settings, fact(name(one.Path), text(one.Value), ""))
		}
		probes, parts := benchProbes(of), benchParts(of)
		cell := document.Details{ID: cellAnchor(of), Mark: cellMark(of), Word: cellWord(of),
			Title: cellLabel(of), Aside: fmt.Sprintf("%d of %d runs", len(of.Repetitions), bench.Repetitions),
			Open:   of.State == BenchBroken,
			Blocks: []document.Block{document.KeyValues{Items: known(settings...)}, benchRepetitions(bench, of)}}
		if n := len(probes.Rows); n > 0 {
			cell.Blocks = append(cell.Blocks, document.Details{Title: fmt.Sprintf("The rates that were tried (%d)", n),
				Blocks: []document.Block{probes}})
		}
		if n := len(parts.Rows); n > 0 {
			cell.Blocks = append(cell.Blocks, document.Details{Title: fmt.Sprintf("Stretches of the load (%d)", n),
				Blocks: []document.Block{parts}})
		}
		out = append(out, cell)
	}
	return out
}

func benchRepetitions(bench Bench, of BenchCell) document.Table {
	columns := benchColumns(bench)
	out := document.Table{Columns: []document.Column{{Title: "repetition"}, {Title: "verdict"}}}
	for _, column := range columns {
		out.Columns = append(out.Columns, document.Column{Title: column.Words, Figure: true})
	}
	out.Columns = append(out.Columns, document.Column{Title: "run"})
	for _, repetition := range of.Repetitions {
		verdict, why := name(string(repetition.Run.Verdict)), violated(repetition.Run)
		if verdict == "" {
			verdict, why = "not judged", repetition.Run.Error
		}
		row := document.Row{Mark: VerdictMark(repetition.Run.Verdict), Cells: []document.Text{
			document.Plain(fmt.Sprint(repetition.Number)), document.Lines(document.Plain(verdict), document.Plain(text(why)))}}
		for _, column := range columns {
			words := "–"
			if value, known := column.Of(repetition); known {
				words = column.Unit.Text(value)
			}
			row.Cells = append(row.Cells, document.Plain(words))
		}
		row.Cells = append(row.Cells, document.Command(repetition.Run.Dir))
		out.Rows = append(out.Rows, row)
	}
	return out
}

// VerdictMark returns the mark of a verdict.
func VerdictMark(verdict assertions.Status) document.Mark {
	return cmp.Or(map[assertions.Status]document.Mark{assertions.Pass: document.Pass,
		assertions.Fail: document.Fail}[verdict], document.Unsure)
}

func benchProbes(of BenchCell) document.Table {
	out := document.Table{Columns: []document.Column{{Title: "repetition"}, {Title: "rate", Figure: true}, {Title: "held"},
		{Title: "why not"}}}
	for _, repetition := range of.Repetitions {
		if repetition.Search == nil {
			continue
		}
		for _, probe := range repetition.Search.Probes {
			mark := map[BenchHold]document.Mark{BenchHeld: document.Pass, BenchNotHeld: document.Fail}[probe.Hold]
			out.Rows = append(out.Rows, document.Row{Cells: []document.Text{document.Plain(fmt.Sprint(repetition.Number)),
				document.Plain(units.PerSecond(probe.Rate)), document.Marked(name(string(probe.Hold)), mark),
				document.Plain(text(strings.Join(probe.Why, "; ")))}})
		}
	}
	return out
}

// benchParts returns the stretches of a soak or the steps of a load.
func benchParts(of BenchCell) document.Table {
	out := document.Table{Columns: []document.Column{{Title: "repetition"}, {Title: "when"}, {Title: "load", Figure: true},
		{Title: "processed", Figure: true}, {Title: "success p99", Figure: true}, {Title: "backlog", Figure: true}}}
	for _, repetition := range of.Repetitions {
		var parts []BenchPart
		if repetition.Drift != nil {
			parts = repetition.Drift.Parts
		}
		if repetition.Knee != nil {
			parts = repetition.Knee.Parts
		}
		for _, part := range parts {
			out.Rows = append(out.Rows, document.Row{Cells: document.Cells(fmt.Sprint(repetition.Number),
				fmt.Sprintf("%.1f – %.1f s", part.From.Seconds(), part.To.Seconds()), units.PerSecond(part.Rate),
				units.PerSecond(part.Processed), units.Text(part.Success.P99), units.Count(part.Backlog))})
		}
	}
	return out
}
