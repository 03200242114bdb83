package reports

// This file decides the content common to all formats of a bench's report: the figures of a cell with their spread,
// the cells on the front, and the recovery times.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/stats"
	"github.com/dlqbench/dlqbench/internal/units"
)

// benchColumns returns the figures that fit into a table of cells, among those that any cell of the bench has.
func benchColumns(bench Bench) []BenchFigure {
	var out []BenchFigure
	for _, figure := range BenchFigures(bench.Mode) {
		if figure.Name != "latency.commit_delay.p99" && slices.ContainsFunc(bench.Cells, func(c BenchCell) bool {
			value, _ := figure.shown(c)
			return value != ""
		}) {
			out = append(out, figure)
		}
	}
	return out
}

// shown returns the figure of a cell with its spread, "" if the cell has none. A rate is marked as a lower bound if
// no search of the cell was limited by the consumer.
func (f BenchFigure) shown(cell BenchCell) (value, spread string) {
	if summary := stats.Summarize(cell.Figures(f)); summary.Count > 0 {
		return f.Unit.Text(summary.Median), spreadText(summary)
	}
	if least, known := cell.heldAtLeast(); known && f.Name == RateHeld {
		return "≥ " + units.PerSecond(least), ""
	}
	return "", ""
}

// heldAtLeast returns the median of the rates that a cell's searches found before something other than the consumer
// stopped them. Each rate is a lower bound, and so is their median.
func (c BenchCell) heldAtLeast() (least float64, known bool) {
	var rates []float64
	for _, repetition := range c.Repetitions {
		if repetition.Finished() && repetition.Usable() && repetition.Search != nil && repetition.Search.Rate > 0 {
			rates = append(rates, repetition.Search.Rate)
		}
	}
	return stats.Median(rates), len(rates) > 0
}

// primary returns the main figure of a bench in this mode, which is the x axis of its front.
func primary(mode BenchMode) BenchFigure {
	return BenchFigures(mode)[slices.IndexFunc(BenchFigures(mode), func(f BenchFigure) bool {
		return f.Unit == BenchUnitRate && f.Higher
	})]
}

// spreadText returns half of the interquartile range relative to the median: "± 3 %"; "" if there is none.
func spreadText(of stats.Summary) string {
	if of.Count < 2 || of.Median == 0 {
		return ""
	}
	return "± " + percent(of.Spread()/2)
}

// noiseOf returns the noise floor of a figure over all cells, and whether it is known. It compares repetitions of the
// same cell.
func noiseOf(bench Bench, figure BenchFigure) (share float64, known bool) {
	noise := stats.RelativeNoise(each(bench.Cells, func(c BenchCell) []float64 { return c.Figures(figure) })...)
	return noise, !math.IsNaN(noise)
}

// benchPoint is a cell on a plot.
type benchPoint struct {
	cell BenchCell
	x, y stats.Summary
	// front: see onFront.
	front bool
}

// benchPoints returns the cells that have both figures as points.
func benchPoints(bench Bench, x, y BenchFigure) []benchPoint {
	var out []benchPoint
	front := onFront(bench, []BenchFigure{x, y})
	for _, cell := range bench.Cells {
		at := benchPoint{cell: cell, x: stats.Summarize(cell.Figures(x)), y: stats.Summarize(cell.Figures(y)),
			front: front[cell.Number]}
		if at.x.Count > 0 && at.y.Count > 0 {
			out = append(out, at)
		}
	}
	return out
}

// starFigures are the figures in which a cell with a star is beaten by none: the bench's own, p99 and duplicates.
func starFigures(mode BenchMode) []BenchFigure {
	figures := []BenchFigure{primary(mode)}
	for _, name := range []string{"latency.success.p99", "share.duplicates"} {
		if figure, known := mode.Figure(name); known {
			figures = append(figures, figure)
		}
	}
	return figures
}

// onFront returns the numbers of the cells that no other cell beats in the figures together, of those that have all
// figures, keep their promises, and keep up with their load.
func onFront(bench Bench, figures []BenchFigure) map[int]bool {
	type standing struct {
		number  int
		medians []float64
	}
	var all []standing
	for _, cell := range bench.Cells {
		if cell.State != BenchOK || cell.Behind() != "" {
			continue
		}
		one := standing{number: cell.Number}
		for _, figure := range figures {
			median := stats.Median(cell.Figures(figure))
			if !figure.Higher {
				median = -median
			}
			one.medians = append(one.medians, median)
		}
		if !slices.ContainsFunc(one.medians, math.IsNaN) {
			all = append(all, one)
		}
	}
	out := map[int]bool{}
	for _, one := range all {
		out[one.number] = !slices.ContainsFunc(all, func(other standing) bool {
			return dominates(other.medians, one.medians)
		})
	}
	return out
}

// dominates reports whether a is better than b in some value and worse in none. Higher is better.
func dominates(a, b []float64) bool {
	better := false
	for i := range a {
		if a[i] < b[i] {
			return false
		}
		better = better || a[i] > b[i]
	}
	return better
}

// benchWord returns a cell's state in words.
func benchWord(state BenchState) string {
	return cmp.Or(map[BenchState]string{BenchOK: "ok", BenchBroken: "broken", BenchNotRun: "not run"}[state],
		"inconclusive")
}

// benchBehind says which cells can't keep up with their load, "" if all can.
func benchBehind(bench Bench) string {
	behind := bench.behind()
	if len(behind) == 0 {
		return ""
	}
	load := "the load"
	if bench.Mode == BenchMaxThroughput || bench.Mode == BenchStep {
		load = "any rate that was tried"
	}
	labels := each(behind, cellLabel)
	out := fmt.Sprintf("%d of %s can't keep up with %s: %s.", len(behind),
		units.Plural(int64(len(bench.Cells)), "cell", "cells"), load, strings.Join(labels[:min(len(labels), 3)], "; "))
	if len(labels) > 3 {
		out = strings.TrimSuffix(out, ".") + fmt.Sprintf(" and %d more.", len(labels)-3)
	}
	return out
}

// behind returns the cells that can't keep up with their load.
func (b Bench) behind() []BenchCell {
	return slices.DeleteFunc(slices.Clone(b.Cells), func(c BenchCell) bool { return c.Behind() == "" })
}

// cellWord returns a cell's state in words, with whether it keeps up with its load.
func cellWord(of BenchCell) string {
	switch {
	case of.Behind() == "":
		return benchWord(of.State)
	case of.State == BenchOK:
		return "can't keep up"
	}
	return benchWord(of.State) + ", can't keep up"
}

// benchHeadline summarizes the result of the bench in one or two sentences. That a cell can't keep up comes first,
// because its other figures then describe the length of the load.
func benchHeadline(bench Bench) string {
	ok, broken, open := bench.Count(BenchOK), bench.Count(BenchBroken), bench.Count(BenchInconclusive)
	out := strings.TrimLeft(benchBehind(bench)+" ", " ")
	out += fmt.Sprintf("%d of %s kept every promise", ok, units.Plural(int64(len(bench.Cells)), "cell", "cells"))
	if broken > 0 {
		out += fmt.Sprintf("; %d broke one, and is not called fast", broken)
		if broken > 1 {
			out = strings.Replace(out, "is not called", "are not called", 1)
		}
	}
	if open > 0 {
		out += fmt.Sprintf("; %d proved nothing", open)
	}
	if n := bench.Count(BenchNotRun); n > 0 {
		out += fmt.Sprintf("; %d not run", n)
	}
	out += "."
	if bench.Interrupted {
		out += " The bench was interrupted: what is here is a part of it."
	}
	return out
}

// benchAbout describes the bench in a few words.
func benchAbout(bench Bench) []string {
	mode := string(bench.Mode)
	if bench.Bound != "" {
		mode += ", " + bench.Bound
	}
	out := []string{name(bench.Scenario), name(bench.Subject), text(mode),
		units.Plural(int64(bench.Repetitions), "repetition",
			"repetitions") + " of each cell",
		fmt.Sprintf("seed %d", bench.Seed)}
	if bench.Elapsed > 0 {
		out = append(out, units.Text(bench.Elapsed))
	}
	if !bench.Started.IsZero() {
		out = append(out, bench.Started.UTC().Format("2 January 2006, 15:04 UTC"))
	}
	return out
}

// benchDifference compares one cell with the first that kept its promises.
type benchDifference struct {
	cell   BenchCell
	column BenchFigure
	stats.Difference
}

// word returns the conclusion that the comparison permits.
func (d benchDifference) word() string {
	return cmp.Or(map[FigureChange]string{FigureBetter: "better", FigureWorse: "worse",
		FigureTooFew: "too few repetitions"}[changeOf(d.Difference, d.column.Higher)], "no difference")
}

// benchDifferences compares the cells that kept their promises with the first of them, in the bench's own figure and
// in p99 (not after a search, in which every cell has another rate). All comparisons form one family, so that many
// cells do not produce differences by chance.
func benchDifferences(bench Bench) (base BenchCell, out []benchDifference) {
	at := slices.IndexFunc(bench.Cells, func(c BenchCell) bool { return c.State == BenchOK })
	if at < 0 {
		return BenchCell{}, nil
	}
	base = bench.Cells[at]
	var pairs []stats.Pair
	for _, cell := range bench.Cells {
		if cell.State != BenchOK || cell.Number == base.Number {
			continue
		}
		for _, column := range benchColumns(bench) {
			if column.Name != primary(bench.Mode).Name &&
				(column.Name != "latency.success.p99" || bench.Mode == BenchMaxThroughput) {
				continue
			}
			pair := stats.Pair{A: base.Figures(column), B: cell.Figures(column)}
			if len(pair.A)+len(pair.B) == 0 {
				continue // lower bounds cannot be compared
			}
			out, pairs = append(out, benchDifference{cell: cell, column: column}), append(pairs, pair)
		}
	}
	for i, difference := range stats.CompareAll(pairs) {
		out[i].Difference = difference
	}
	return base, out
}

// benchRecovered is how a cell recovered from a fault.
type benchRecovered struct {
	times stats.Summary
	// never is the number of repetitions that did not recover. note is the reason why it is unknown in the last of
	// those in which it is.
	never int
	note  string
}

// recoveredFaults are the faults from which any cell may have recovered.
func recoveredFaults(bench Bench) (faults []string) {
	for _, cell := range bench.Cells {
		for _, repetition := range cell.Repetitions {
			for _, recovery := range repetition.Run.Recovery {
				faults = addOnce(faults, recoveredFrom(recovery))
			}
		}
	}
	return faults
}

func recoveredFrom(r BenchRecovery) string { return cmp.Or(r.Fault, r.What) }

func recoveredIn(cell BenchCell, fault string) benchRecovered {
	out := benchRecovered{}
	var times []float64
	for _, repetition := range cell.Repetitions {
		for _, recovery := range repetition.Run.Recovery {
			if recoveredFrom(recovery) != fault || !repetition.Usable() {
				continue
			}
			switch {
			case recovery.Steady.Known():
				times = append(times, recovery.Steady.Time.Seconds())
			case recovery.Steady.State == measure.SpanNever:
				out.never++
			default:
				out.note = recovery.Steady.Note
			}
		}
	}
	out.times = stats.Summarize(times)
	return out
}

// words formats the recovery: "1.2 s ± 4 %", "never in 1 run".
func (r benchRecovered) words() string {
	var out []string
	if r.times.Count > 0 {
		out = append(out, strings.TrimSpace(BenchUnitTime.Text(r.times.Median)+" "+spreadText(r.times)))
	}
	if r.never > 0 {
		out = append(out, "never in "+units.Plural(int64(r.never), "run", "runs"))
	}
	if len(out) == 0 {
		return "–"
	}
	return strings.Join(out, "; ")
}
