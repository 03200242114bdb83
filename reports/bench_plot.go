package reports

// This file plots a bench: cells by two figures with the Pareto front, and latencies by percentile.

import (
	"cmp"
	"fmt"
	"math"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/stats"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// benchScatters plots the bench's own figure against p99 and against duplicates.
func benchScatters(bench Bench) document.Figures {
	out := document.Figures{Key: "Filled points are on the front: nothing that kept its promises is better in both. A " +
		"dashed point is inconclusive, a cross broken. Lines through a point are the middle half of its repetitions. " +
		"Numbers are those of the cells."}
	for _, of := range []string{"latency.success.p99", "share.duplicates"} {
		figure, known := bench.Mode.Figure(of)
		switch {
		case !known:
		case of == "share.duplicates" && !anyAbove(bench, figure):
			out.Key = "No cell had a duplicate. " + out.Key // a plot that only has zeros adds nothing
		default:
			out.Figures = append(out.Figures, newScatter(bench, primary(bench.Mode), figure)...)
		}
	}
	return out
}

// anyAbove reports whether any cell's figure is above 0.
func anyAbove(bench Bench, figure BenchFigure) bool {
	return slices.ContainsFunc(bench.Cells, func(of BenchCell) bool { return stats.Summarize(of.Figures(figure)).Max > 0 })
}

// spanned returns an axis that spans the values with a margin at both ends. Times that are far apart get a
// logarithmic axis. Values that cannot be negative get no negative range.
func spanned(values []float64, title string, unit BenchUnit) document.Axis {
	out := document.Axis{Title: title, Unit: axisUnit(unit)}
	low, high := slices.Min(values), slices.Max(values)
	if unit == BenchUnitTime && low > 0 && high/low >= 4 {
		out.Low, out.High, out.Log = low/1.5, high*1.5, true
		return out
	}
	// The axis spans at least a tenth of the figure. With less, noise would look like a difference.
	room := cmp.Or(max((high-low)*0.12, (math.Abs(high)*0.1-(high-low))/2), 1)
	out.Low, out.High = low-room, high+room
	if low >= 0 {
		out.Low = max(out.Low, -room/4) // a marker on the edge would be clipped
	}
	return out
}

// axisUnit returns the format of an axis's tick labels.
func axisUnit(unit BenchUnit) string {
	return map[BenchUnit]string{BenchUnitTime: "s", BenchUnitRate: "/s", BenchUnitShare: "share"}[unit]
}

// newScatter plots the cells by two figures, with the front of those that keep their promises. It returns nothing if
// fewer than two cells have both figures, because there is no trade-off.
func newScatter(bench Bench, x, y BenchFigure) []document.Figure {
	points := benchPoints(bench, x, y)
	if len(points) < 2 {
		return nil
	}
	var xs, ys []float64
	series := []document.Series{frontLine(points)}
	for _, p := range points {
		xs, ys = append(xs, p.x.Q1, p.x.Q3, p.x.Median), append(ys, p.y.Q1, p.y.Q3, p.y.Median)
		shape := "alone"
		switch {
		case p.cell.State == BenchBroken:
			shape = "broken"
		case p.cell.State == BenchInconclusive:
			shape = "open"
		case p.front:
			shape = "front"
		}
		series = append(series, document.Series{Label: document.Words(fmt.Sprint(p.cell.Number)),
			Name: document.Words(name(p.cell.Name)), Shape: shape, X: []float64{p.x.Median}, Y: []float64{p.y.Median},
			Around: []float64{p.x.Q1, p.x.Q3, p.y.Q1, p.y.Q3}})
	}
	return []document.Figure{{
		ID: "front-" + strings.ReplaceAll(y.Name, ".", "-"), Title: y.Words + " against " + x.Words,
		Words: describeFront(points, x.Words, y.Words), X: spanned(xs, x.Words, x.Unit), Y: spanned(ys, y.Words, y.Unit),
		Series: series,
	}}
}

// frontLine joins the cells on the front in steps: no measured cell between two of them is as good as both.
func frontLine(points []benchPoint) document.Series {
	front := slices.DeleteFunc(slices.Clone(points), func(p benchPoint) bool { return !p.front })
	slices.SortFunc(front, func(a, b benchPoint) int {
		return cmp.Or(cmp.Compare(a.x.Median, b.x.Median), cmp.Compare(a.y.Median, b.y.Median))
	})
	out := document.Series{Label: "front", Name: "the front", Shape: "steps", Colour: 1}
	for i, p := range front {
		if i == 0 || p.x.Median != front[i-1].x.Median {
			out.X, out.Y = append(out.X, p.x.Median), append(out.Y, p.y.Median)
		}
	}
	return out
}

func describeFront(points []benchPoint, xTitle, yTitle string) string {
	var front, broken []string
	for _, p := range points {
		label := fmt.Sprintf("%d. %s", p.cell.Number, name(p.cell.Name))
		switch {
		case p.front:
			front = append(front, label)
		case p.cell.State == BenchBroken:
			broken = append(broken, label)
		}
	}
	out := fmt.Sprintf("%s, by %s and %s.", units.Plural(int64(len(points)), "cell", "cells"), xTitle, yTitle)
	if len(front) > 0 {
		out += " On the front: " + strings.Join(front, "; ") + "."
	}
	if len(broken) > 0 {
		out += " Broken, and so not on it: " + strings.Join(broken, "; ") + "."
	}
	return out
}

// benchCurves plots the latencies by percentile, one curve for each cell.
func benchCurves(bench Bench) (document.Figures, error) {
	out := document.Figures{Choose: true}
	for _, latency := range benchLatencies() {
		figure, err := newCurves(bench, latency)
		if err != nil {
			return out, err
		}
		if len(figure.Series) > 0 {
			out.Figures = append(out.Figures, figure)
		}
	}
	return out, nil
}

// newCurves plots one latency of all cells. The repetitions of a cell are merged.
func newCurves(bench Bench, latency string) (document.Figure, error) {
	out := document.Figure{ID: "curves-" + latency}
	out.Title, out.Note = latencyTitle(latency)
	tail, low, high := 1.0, math.Inf(1), 0.0
	var words []string
	for _, of := range bench.Cells {
		merged, err := mergedLatency(of, latency)
		if err != nil {
			return out, fmt.Errorf("reading the latencies of cell %d: %w", of.Number, err)
		}
		if merged == nil || merged.TotalCount() == 0 {
			continue
		}
		// The fastest 5 % are cut: they take much of the height and show little.
		low, high = min(low, max(1e-6, float64(merged.ValueAtPercentile(5))/1e6)), max(high, float64(merged.Max())/1e6)
		curve := newCurve(of, merged)
		tail = max(tail, curve.X[len(curve.X)-1])
		out.Series = append(out.Series, curve)
		words = append(words, fmt.Sprintf("%s: p50 %s, p99 %s, p99.9 %s", cellLabel(of),
			microseconds(merged.ValueAtPercentile(50)), microseconds(merged.ValueAtPercentile(99)),
			microseconds(merged.ValueAtPercentile(99.9))))
	}
	out.Words = strings.Join(words, "; ") + "."
	out.X = document.Axis{Title: "percentile", Unit: "nines", High: tail * 1.04}
	out.Y = document.Axis{Unit: "s", Low: low / 1.2, High: max(high*1.2, low*2), Log: true}
	return out, nil
}

// mergedLatency merges the measurements of the cell's repetitions. It returns nil if there are none.
func mergedLatency(of BenchCell, latency string) (*hdrhistogram.Histogram, error) {
	var merged *hdrhistogram.Histogram
	for _, repetition := range of.Repetitions {
		if !repetition.Usable() {
			continue
		}
		histogram, err := repetition.Run.Latency[latency].Histogram()
		if err != nil {
			return nil, err
		}
		if histogram == nil {
			continue
		}
		if merged == nil {
			merged = histogram
			continue
		}
		merged.Merge(histogram)
	}
	return merged, nil
}

// The number of points per nine of the percentile, and the maximum number of nines in a plot.
const (
	curveStep  = 20
	curveNines = 6
)

func newCurve(of BenchCell, histogram *hdrhistogram.Histogram) document.Series {
	out := document.Series{Label: document.Words(fmt.Sprint(of.Number)), Name: document.Words(name(of.Name)),
		Colour: of.Number - 1}
	if of.State == BenchBroken {
		out.Name += " (broken)"
	}
	for i := range curveNines*curveStep + 1 {
		nines := float64(i) / curveStep // a share of 10^-nines is slower
		if nines > math.Log10(float64(histogram.TotalCount()))+1e-4 && i > 0 {
			break
		}
		value := float64(histogram.ValueAtPercentile(100*(1-math.Pow(10, -nines)))) / 1e6
		out.X, out.Y = append(out.X, nines), append(out.Y, max(value, 1e-6))
	}
	return out
}

func microseconds(v int64) string { return BenchUnitTime.Text(float64(v) / 1e6) }

// benchLatencies returns the plotted latencies, the one that users wait for first.
func benchLatencies() []string {
	return append([]string{measure.LatencySuccess}, slices.DeleteFunc(overlaid(), func(of string) bool {
		return of == measure.LatencySuccess
	})...)
}
