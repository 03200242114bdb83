package reports

// The plots of a bench's page, drawn here as SVG: they need no script, print as they are, and a screen reader finds
// their words.

import (
	"cmp"
	"fmt"
	"math"
	"regexp"
	"slices"
	"strings"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/stats"
	"github.com/dlqbench/dlqbench/internal/units"
)

// The plots' measures, in units of their view box.
const (
	plotWidth, plotHeight = 720.0, 400.0
	plotLeft, plotRight   = 96.0, 26.0
	plotTop, plotBottom   = 16.0, 50.0
	markerSize            = 11.0
	// letter is about how wide a letter of a label is.
	letter = 7.4
)

// axis turns values into places on a plot.
type axis struct {
	low, high float64
	log       bool
	// from and to are the places of low and high.
	from, to float64
	unit     BenchUnit
}

func (a axis) at(v float64) float64 {
	low, high := a.low, a.high
	if a.log {
		v, low, high = math.Log(max(v, a.low)), math.Log(low), math.Log(high)
	}
	return a.from + (v-low)/(high-low)*(a.to-a.from)
}

// plotTick is a mark on an axis.
type plotTick struct{ At, Label string }

// roundZeros are those after the point of a round figure.
var roundZeros = regexp.MustCompile(`^(\d+)\.0+( |$)`)

func (a axis) ticks() []plotTick {
	var out []plotTick
	for _, v := range a.marks() {
		out = append(out, plotTick{At: place1(a.at(v)), Label: roundZeros.ReplaceAllString(a.unit.Text(v), "$1$2")})
	}
	return out
}

// marks are round values along the axis: 1, 2 and 5 of each power of ten, or its powers only where there are many.
func (a axis) marks() []float64 {
	var out []float64
	if a.log {
		steps := []float64{1, 2, 5}
		if math.Log10(a.high/a.low) > 3 {
			steps = steps[:1]
		}
		for power := math.Floor(math.Log10(a.low)); power <= math.Ceil(math.Log10(a.high)); power++ {
			for _, step := range steps {
				if v := step * math.Pow(10, power); v >= a.low*0.999 && v <= a.high*1.001 {
					out = append(out, v)
				}
			}
		}
		return out
	}
	step := roundStep((a.high - a.low) / 5)
	for i := math.Ceil(a.low/step - 1e-9); i*step <= a.high+step*1e-9; i++ {
		out = append(out, i*step)
	}
	return out
}

// roundStep is the next of 1, 2 and 5 times a power of ten.
func roundStep(v float64) float64 {
	power := math.Pow(10, math.Floor(math.Log10(v)))
	for _, step := range []float64{1, 2, 5} {
		if step*power >= v {
			return step * power
		}
	}
	return 10 * power
}

// newAxis spans the values with room at both ends; times that are far apart go on a logarithmic one. What can't be
// below 0 is not shown there.
func newAxis(values []float64, unit BenchUnit, from, to float64) axis {
	low, high := slices.Min(values), slices.Max(values)
	if unit == BenchUnitTime && low > 0 && high/low >= 4 {
		return axis{low: low / 1.5, high: high * 1.5, log: true, from: from, to: to, unit: unit}
	}
	// At least a tenth of the figure is shown: with less, noise would look like a difference.
	room := max((high-low)*0.12, (math.Abs(high)*0.1-(high-low))/2)
	if room == 0 {
		room = 1
	}
	a := axis{low: low - room, high: high + room, from: from, to: to, unit: unit}
	if low >= 0 {
		a.low = max(a.low, -room/4) // a marker on the very edge would be cut
	}
	return a
}

func place1(v float64) string { return fmt.Sprintf("%.1f", v) }

// scatterView is a plot of cells by two figures.
type scatterView struct {
	ID, Title, Desc, XTitle, YTitle string
	XTicks, YTicks                  []plotTick
	Front                           string
	Points                          []scatterPoint
}

type scatterPoint struct {
	X, Y, Number, Class, Title string
	// The middle half of the repetitions.
	XLow, XHigh, YLow, YHigh string
	Label                    string
	LabelX, LabelY, Anchor   string
	Broken, Open             bool
	x, y                     float64
}

// newScatter draws the cells by two figures, with the front of those that keep their promises. Nothing where fewer than
// two cells have both: there is nothing to trade.
func newScatter(bench Bench, id string, x, y BenchFigure, xTitle, yTitle string) *scatterView {
	points := benchPoints(bench, x, y)
	if len(points) < 2 {
		return nil
	}
	var xs, ys []float64
	for _, p := range points {
		xs, ys = append(xs, p.x.Q1, p.x.Q3, p.x.Median), append(ys, p.y.Q1, p.y.Q3, p.y.Median)
	}
	across := newAxis(xs, x.Unit, plotLeft, plotWidth-plotRight)
	up := newAxis(ys, y.Unit, plotHeight-plotBottom, plotTop)
	out := &scatterView{ID: id, Title: yTitle + " against " + xTitle, XTitle: xTitle, YTitle: yTitle,
		XTicks: across.ticks(), YTicks: up.ticks()}
	for _, p := range points {
		one := scatterPoint{x: across.at(p.x.Median), y: up.at(p.y.Median), Number: fmt.Sprint(p.cell.Number),
			Label: visible(p.cell.Name, 34), Class: "alone"}
		one.X, one.Y = place1(one.x), place1(one.y)
		one.XLow, one.XHigh = place1(across.at(p.x.Q1)), place1(across.at(p.x.Q3))
		one.YLow, one.YHigh = place1(up.at(p.y.Q1)), place1(up.at(p.y.Q3))
		one.Broken, one.Open = p.cell.State == BenchBroken, p.cell.State == BenchInconclusive
		switch {
		case one.Broken:
			one.Class = "broken"
		case one.Open:
			one.Class = "open"
		case p.front:
			one.Class = "front"
		}
		one.Title = fmt.Sprintf("%d. %s (%s): %s %s, %s %s", p.cell.Number, name(p.cell.Name), benchWord(p.cell.State),
			xTitle, medianText(x.Unit, p.x), yTitle, medianText(y.Unit, p.y))
		out.Points = append(out.Points, one)
	}
	placeLabels(out.Points)
	out.Front, out.Desc = drawFront(points, across, up), describeFront(points, xTitle, yTitle)
	return out
}

func medianText(unit BenchUnit, of stats.Summary) string {
	return strings.TrimSpace(unit.Text(of.Median) + " " + spreadText(of))
}

// drawFront joins the cells on the front in steps: between two of them nothing was seen that is as good as both.
func drawFront(points []benchPoint, across, up axis) string {
	var front []benchPoint
	for _, p := range points {
		if p.front {
			front = append(front, p)
		}
	}
	slices.SortFunc(front, func(a, b benchPoint) int {
		return cmp.Or(cmp.Compare(a.x.Median, b.x.Median), cmp.Compare(a.y.Median, b.y.Median),
			cmp.Compare(a.cell.Number, b.cell.Number))
	})
	var out []string
	for i, p := range front {
		if i > 0 {
			out = append(out, place1(across.at(front[i-1].x.Median))+","+place1(up.at(p.y.Median)))
		}
		out = append(out, place1(across.at(p.x.Median))+","+place1(up.at(p.y.Median)))
	}
	return strings.Join(out, " ")
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

// box is what a marker or a label covers.
type box struct{ left, top, right, bottom float64 }

func (b box) meets(o box) bool {
	return b.left < o.right && o.left < b.right && b.top < o.bottom && o.top < b.bottom
}

// placeLabels writes a cell's name beside its marker where there is room for it. A marker has its number in any case.
func placeLabels(points []scatterPoint) {
	var taken []box
	for _, p := range points {
		taken = append(taken, box{p.x - markerSize, p.y - markerSize, p.x + markerSize, p.y + markerSize})
	}
	inside := box{plotLeft + 2, plotTop, plotWidth - 2, plotHeight - plotBottom - 2}
	for i := range points {
		p := &points[i]
		width := letter * float64(len([]rune(p.Label)))
		candidates := []struct {
			anchor string
			x, y   float64
			covers box
		}{
			{"start", p.x + markerSize + 5, p.y + 4, box{p.x + markerSize + 3, p.y - 8, p.x + markerSize + 5 + width, p.y + 8}},
			{"end", p.x - markerSize - 5, p.y + 4, box{p.x - markerSize - 5 - width, p.y - 8, p.x - markerSize - 3, p.y + 8}},
			{"middle", p.x, p.y - markerSize - 6, box{p.x - width/2, p.y - markerSize - 18, p.x + width/2,
				p.y - markerSize - 2}},
			{"middle", p.x, p.y + markerSize + 14, box{p.x - width/2, p.y + markerSize + 2, p.x + width/2,
				p.y + markerSize + 18}},
		}
		label := p.Label
		p.Label = ""
		for _, c := range candidates {
			free := c.covers.left >= inside.left && c.covers.right <= inside.right &&
				c.covers.top >= inside.top && c.covers.bottom <= inside.bottom
			if free && !slices.ContainsFunc(taken, c.covers.meets) {
				p.Label, p.Anchor, p.LabelX, p.LabelY = label, c.anchor, place1(c.x), place1(c.y)
				taken = append(taken, c.covers)
				break
			}
		}
	}
}

// curvesView is a plot of latency percentiles, one curve for each cell.
type curvesView struct {
	ID, Title, Span, Desc string
	XTicks, YTicks        []plotTick
	Curves                []curveView
}

// curveView is a cell's curve. Class says its colour and dashes; End is where its number stands.
type curveView struct {
	Path, Class, Number, Name, Summary string
	Broken                             bool
	EndX, EndY                         string
	endY                               float64
}

// curveStep is how many points there are for each power of ten of 1/(1 − q).
const curveStep = 20

// newCurves draws a latency of all cells; the repetitions of a cell are added up. Nothing where no cell has it.
func newCurves(bench Bench, latency string) (*curvesView, error) {
	histograms := make([]*hdrhistogram.Histogram, len(bench.Cells))
	tail, low, high := 10.0, math.Inf(1), 0.0
	for i, of := range bench.Cells {
		merged, err := mergedLatency(of, latency)
		if err != nil {
			return nil, fmt.Errorf("reading the latencies of cell %d: %w", of.Number, err)
		}
		if merged == nil || merged.TotalCount() == 0 {
			continue
		}
		histograms[i] = merged
		// The fastest twentieth is cut: it takes much of the height and tells little.
		tail = max(tail, float64(merged.TotalCount()))
		low, high = min(low, max(1e-6, float64(merged.ValueAtPercentile(5))/1e6)), max(high, float64(merged.Max())/1e6)
	}
	if high == 0 {
		return nil, nil
	}
	title, span := latencyTitle(latency)
	tail = min(tail, 1e6)
	across := axis{low: 1, high: tail, log: true, from: plotLeft, to: plotWidth - plotRight - 14}
	up := axis{low: low / 1.2, high: max(high*1.2, low*2), log: true, from: plotHeight - plotBottom, to: plotTop,
		unit: BenchUnitTime}
	out := &curvesView{ID: latency, Title: title, Span: span, YTicks: up.ticks(), XTicks: percentileTicks(across)}
	for i, histogram := range histograms {
		if histogram != nil {
			out.Curves = append(out.Curves, newCurve(bench.Cells[i], histogram, across, up))
		}
	}
	spreadEnds(out.Curves)
	var words []string
	for _, curve := range out.Curves {
		words = append(words, curve.Number+". "+curve.Name+": "+curve.Summary)
	}
	out.Desc = strings.Join(words, "; ") + "."
	return out, nil
}

// mergedLatency adds up what the cell's repetitions measured; nil where there is nothing.
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

func newCurve(of BenchCell, histogram *hdrhistogram.Histogram, across, up axis) curveView {
	out := curveView{
		Number: fmt.Sprint(of.Number), Name: name(of.Name), Broken: of.State == BenchBroken,
		Class: fmt.Sprintf("k%d d%d", (of.Number-1)%8, (of.Number-1)/8%3),
		Summary: fmt.Sprintf("p50 %s, p99 %s, p99.9 %s", microseconds(histogram.ValueAtPercentile(50)),
			microseconds(histogram.ValueAtPercentile(99)), microseconds(histogram.ValueAtPercentile(99.9))),
	}
	var path strings.Builder
	x, y := 0.0, 0.0
	for i := 0; ; i++ {
		beyond := math.Pow(10, float64(i)/curveStep) // one of so many is slower
		if beyond > min(float64(histogram.TotalCount()), across.high)*1.0001 && i > 0 {
			break
		}
		value := max(float64(histogram.ValueAtPercentile(100*(1-1/beyond)))/1e6, up.low)
		x, y = across.at(beyond), up.at(value)
		if i == 0 {
			fmt.Fprintf(&path, "M%.1f %.1f", x, y)
			continue
		}
		fmt.Fprintf(&path, "L%.1f %.1f", x, y)
	}
	out.Path, out.EndX, out.endY = path.String(), place1(x+6), y
	return out
}

func microseconds(v int64) string { return BenchUnitTime.Text(float64(v) / 1e6) }

// spreadEnds keeps the numbers at the curves' ends from standing on each other.
func spreadEnds(curves []curveView) {
	const apart = 12.5
	order := make([]*curveView, len(curves))
	for i := range curves {
		order[i] = &curves[i]
	}
	slices.SortStableFunc(order, func(a, b *curveView) int { return cmp.Compare(a.endY, b.endY) })
	for i := 1; i < len(order); i++ {
		order[i].endY = max(order[i].endY, order[i-1].endY+apart)
	}
	limit := plotHeight - plotBottom
	for i := len(order) - 1; i >= 0; i-- {
		order[i].endY = min(order[i].endY, limit)
		limit = order[i].endY - apart
	}
	for _, curve := range order {
		curve.EndY = place1(curve.endY + 4)
	}
}

func percentileTicks(across axis) []plotTick {
	var out []plotTick
	for _, of := range []struct {
		beyond float64
		label  string
	}{{2, "50 %"}, {10, "90 %"}, {100, "99 %"}, {1e3, "99.9 %"}, {1e4, "99.99 %"}, {1e5, "99.999 %"}, {1e6, "99.9999 %"}} {
		if of.beyond <= across.high*1.001 {
			out = append(out, plotTick{At: place1(across.at(of.beyond)), Label: of.label})
		}
	}
	return out
}

// benchLatencies are the latencies that are drawn, the one that users wait for first.
func benchLatencies() []string {
	return append([]string{measure.LatencySuccess}, slices.DeleteFunc(overlaid(), func(of string) bool {
		return of == measure.LatencySuccess
	})...)
}
