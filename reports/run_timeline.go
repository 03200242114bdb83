package reports

// This file builds the figures of a run's page from the verdict: the curves reduced to screen resolution, the heat map,
// the marks on the time axis, and the percentile curves.

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/reports/document"
)

const (
	// maxPoints is the maximum number of points of a curve.
	maxPoints = 600
	// maxMarks is the maximum number of violations marked on the time axis.
	maxMarks = 300
	// pageColours is the number of colours of a page, and so the maximum number of instances drawn.
	pageColours = 8
	// fewValues is the number of values below which a phase is hidden until the reader asks for it.
	fewValues = 20
)

// hasCurves reports whether there is anything to draw on the time axis.
func hasCurves(v *assertions.Verdict) bool {
	return v.Series.Step > 0 && len(v.Series.Sent)+len(v.Series.Processed)+len(v.Series.Lag) > 0
}

func timeline(v *assertions.Verdict) []document.Block {
	if !hasCurves(v) {
		return nil
	}
	t := thinned{Series: v.Series}
	for _, values := range [][]float64{t.Sent, t.Processed, t.Lag, t.Slip, t.CPU} {
		t.length = max(t.length, len(values))
	}
	t.every = (t.length + maxPoints - 1) / maxPoints
	out := document.Timeline{End: ended(v).Seconds(), Charts: t.charts(newHeat(v.HeatMap)), Windows: faultWindows(v),
		Phases: []document.Window{}, Marks: violationMarks(v)}
	for from := 0; from < t.length; from += t.every {
		middle := (float64(from) + float64(min(from+t.every, t.length))) / 2
		out.Time = append(out.Time, middle*t.Step.Seconds())
	}
	for _, p := range v.Phases {
		out.Phases = append(out.Phases, document.Window{Name: document.Words(p.Name), From: p.From.Seconds(),
			To: p.To.Seconds()})
	}
	if len(v.Faults) > 0 {
		out.Key = document.Text{{Text: "Shaded: fault in force, paler until steady again; ▭ as planned, "},
			{Text: "◆", Mark: document.Warning}, {Text: " noticed by the subject, "}, {Text: "▲", Mark: document.Fail},
			{Text: " violation:"}}
	}
	for i, f := range v.Faults {
		if f.Observed.Injected {
			out.Key = append(out.Key, faultTag(i, f), document.Span{Text: " " + faultName(f)})
		}
	}
	return []document.Block{out}
}

// faultWindows returns the shaded time windows, in which a fault was observed. A fault that was never injected has
// none.
func faultWindows(v *assertions.Verdict) []document.Window {
	out := make([]document.Window, 0, len(v.Faults))
	after := func(from time.Duration, span measure.Span) *float64 {
		at := (from + span.Time).Seconds()
		if !span.Known() {
			return nil
		}
		return &at
	}
	for i, f := range v.Faults {
		if !f.Observed.Injected {
			continue
		}
		from, to := f.Observed.From, max(f.Observed.From, f.Observed.To)
		out = append(out, document.Window{Label: document.Words(faultLabel(i)), Name: document.Words(faultName(f)),
			From: from.Seconds(), To: to.Seconds(), Planned: []float64{f.Planned.From.Seconds(), f.Planned.To.Seconds()},
			Noticed: after(from, f.Recovery.Detect), Steady: after(to, f.Recovery.Steady)})
	}
	return out
}

// violationMarks returns the times of violations, if they have one: the first of each anomaly, then the others up to
// the limit.
func violationMarks(v *assertions.Verdict) []document.Moment {
	out, rest := []document.Moment{}, []document.Moment{}
	for _, r := range v.Invariants {
		for _, a := range r.Anomalies {
			label := document.Words(name(r.Name) + ": " + name(a.Name))
			if a.First != nil && a.First.At >= 0 {
				out = append(out, document.Moment{At: a.First.At.Seconds(), Name: label})
			}
			for _, one := range a.Records {
				if one.At >= 0 && (a.First == nil || one.At != a.First.At) {
					rest = append(rest, document.Moment{At: one.At.Seconds(), Name: label})
				}
			}
		}
	}
	out = append(out, rest...)
	return out[:min(len(out), maxMarks)]
}

// newHeat returns the heat map of a run, nil if it has none.
func newHeat(of measure.HeatMap) *document.Heat {
	if len(of.Bounds) == 0 {
		return nil
	}
	out := document.Heat{Step: of.Step.Seconds(), Cells: []int64{}}
	for _, bound := range of.Bounds {
		out.Bounds = append(out.Bounds, bound.Seconds()*1e3)
	}
	for column, counts := range of.Counts {
		for row, n := range counts {
			if n > 0 {
				out.Cells = append(out.Cells, int64(column), int64(row), n)
				out.Most = max(out.Most, n)
			}
		}
	}
	return &out
}

// thinned is the curves of a run, of which every steps make one point.
type thinned struct {
	measure.Series
	length, every int
}

// charts returns the charts of a run. They leave out curves of what not every run has, and that are zero.
func (t thinned) charts(heat *document.Heat) []document.Chart {
	failures := []document.Curve{
		t.rate(t.Retries, document.Curve{Label: "retries", Colour: "retries", Column: "Retries/s"}),
		t.rate(t.DeadLetters, document.Curve{Label: "dead letters", Colour: "dead", Column: "Dead letters/s", Area: true})}
	if notZero(t.Duplicates) {
		failures = append(failures, t.rate(t.Duplicates, document.Curve{Label: "duplicates", Colour: "c4",
			Column: "Duplicates/s", Dashed: true}))
	}
	harness := []document.Curve{
		t.curve(t.Slip, highest, 1, document.Curve{Label: "latest send", Colour: "p50", Column: "Latest send ms"}),
		t.curve(t.Stalled, total, 1, document.Curve{Label: "stood still", Colour: "dead", Column: "Stood still ms",
			Area: true})}
	if notZero(t.CPU) {
		harness = append(harness, t.curve(t.CPU, mean, 1, document.Curve{Label: "processors used", Colour: "lag",
			Column: "Processors", Mean: true, Dashed: true, Right: true}))
	}
	out := []document.Chart{
		{ID: "rates", Title: "Records per second", Unit: "/s", Height: 210, Curves: []document.Curve{
			t.rate(t.Sent, document.Curve{Label: "sent", Colour: "sent", Column: "Sent/s", Area: true}),
			t.rate(t.Acknowledged, document.Curve{Label: "acknowledged", Colour: "c5", Hidden: true}),
			t.rate(t.Processed, document.Curve{Label: "processed", Colour: "processed", Column: "Processed/s"})}},
		{ID: "latency", Title: "Latency of successes, by when they ended (ms, log scale)", Unit: "ms", Height: 230, Log: true,
			Heat: heat, Curves: []document.Curve{
				t.curve(t.SuccessP50, mean, 1, document.Curve{Label: "p50", Colour: "heat-p50", Column: "p50 ms", Mean: true,
					Strong: true}),
				t.curve(t.SuccessP99, highest, 1, document.Curve{Label: "p99", Colour: "heat-p99", Column: "p99 ms",
					Strong: true, Dashed: true})}},
		{ID: "lag", Title: "Lag: records not yet committed, and those in retry", Height: 150, Curves: []document.Curve{
			t.curve(t.Lag, highest, 1, document.Curve{Label: "lag", Colour: "lag", Column: "Lag", Area: true}),
			t.curve(t.InRetry, highest, 1, document.Curve{Label: "retries in flight", Colour: "retries", Column: "In retry",
				Dashed: true})}},
		{ID: "failures", Title: "Retries and dead letters per second", Unit: "/s", Height: 150, Curves: failures},
	}
	return append(append(out, t.instances()...),
		document.Chart{ID: "harness", Title: "The harness itself: late by (ms)", Unit: "ms", Height: 120, Curves: harness},
		document.Chart{Curves: []document.Curve{t.curve(t.Backlog, highest, 1, document.Curve{Column: "Unwritten events"})}})
}

// instances returns the charts of the memory and the processors that the instances used.
func (t thinned) instances() []document.Chart {
	memory := document.Chart{ID: "memory", Title: "Memory of each instance (MiB)", Unit: "MiB", Height: 130}
	processors := document.Chart{ID: "processors", Title: "Processors used by each instance", Height: 110}
	for i, one := range t.Instances[:min(len(t.Instances), pageColours)] {
		label, colour := document.Words(fmt.Sprintf("instance %d", one.Instance)), "c"+strconv.Itoa(i)
		memory.Curves = append(memory.Curves, t.curve(one.RSS, highest, 1.0/(1<<20), document.Curve{Label: label,
			Colour: colour, Column: label + ", MiB"}))
		processors.Curves = append(processors.Curves, t.curve(one.CPU, mean, 1, document.Curve{Label: label,
			Colour: colour, Column: label + ", processors", Mean: true}))
	}
	if len(memory.Curves) == 0 {
		return nil
	}
	return []document.Chart{memory, processors}
}

// rate returns the curve of a count per step as one per second.
func (t thinned) rate(values []float64, of document.Curve) document.Curve {
	of.Mean = true
	return t.curve(values, mean, 1/t.Step.Seconds(), of)
}

// curve merges the values of every steps into one, and applies the factor to it. Values missing at the end are gaps.
func (t thinned) curve(values []float64, merge func([]float64) float64, factor float64,
	of document.Curve) document.Curve {
	of.Values = thin(values, t.length, t.every, merge, factor)
	return of
}

func thin(values []float64, length, every int, merge func([]float64) float64, factor float64) document.Numbers {
	out := make(document.Numbers, 0, length/every+1)
	for from := 0; from < length; from += every {
		part := values[min(from, len(values)):min(from+every, len(values))]
		out = append(out, merge(part)*factor)
	}
	return out
}

func isNumber(v float64) bool { return !math.IsNaN(v) && !math.IsInf(v, 0) }

func notZero(values []float64) bool { return total(values) != 0 }

// mean returns the mean of the values that are numbers, NaN if there are none. It is correct for rates. For p50 it is
// the mean of the parts' medians.
func mean(values []float64) float64 {
	return total(values) / float64(count(values, isNumber))
}

// highest returns the maximum of the values that are numbers, NaN if there are none, so that a thinned curve keeps
// its peaks.
func highest(values []float64) float64 {
	out := math.NaN()
	for _, v := range values {
		if isNumber(v) && !(v <= out) {
			out = v
		}
	}
	return out
}

// total returns the sum of the values that are numbers.
func total(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		if isNumber(v) {
			sum += v
		}
	}
	return sum
}

// percentiles returns the percentile curves, a figure for each latency with a curve for each phase. Successes share
// theirs with the service time, which is dashed.
func percentiles(v *assertions.Verdict) document.Figures {
	known := make(map[string]measure.Latency, len(v.Percentiles))
	for key := range v.Percentiles {
		known[key] = measure.Latency{}
	}
	out := document.Figures{Choose: true, Key: "A curve for each phase. The dashed ones beside successes are their " +
		"service time. Solid: from the planned send time, what a user waits. Dashed: from the start of the first attempt, " +
		"what the consumer would measure of itself. Between them records were waiting."}
	keys := latencyNames(known)
	if at := slices.Index(keys, measure.LatencySuccess); at > 0 { // the one that users wait for comes first
		keys = slices.Insert(slices.Delete(keys, at, at+1), 0, measure.LatencySuccess)
	}
	for n, key := range keys {
		title, span := latencyTitle(key)
		figure := document.Figure{ID: fmt.Sprintf("percentiles-%d", n+1), Title: title, Note: span,
			Words: "The same figures are in the table below.",
			X:     document.Axis{Unit: "nines", High: 1}, Y: document.Axis{Unit: "ms", Log: true, Low: math.Inf(1)}}
		for i, phase := range phaseNames(v.Percentiles[key].Phases, v.Phases) {
			label := phase
			if phase == measure.PhaseAll {
				label = "whole run"
			}
			curve := document.Series{Label: document.Words(strconv.Itoa(i + 1)), Name: document.Words(name(label)),
				Colour: i % pageColours, Hidden: i > 0 && v.Percentiles[key].Phases[phase].Count < fewValues}
			addPercentiles(&figure, v.Percentiles[key], phase, curve)
			if key == measure.LatencySuccess {
				curve.Name, curve.Colour = curve.Name+", service time", curve.Colour+pageColours
				addPercentiles(&figure, v.Percentiles[measure.LatencyService], phase, curve)
			}
		}
		if len(figure.Series) > 0 {
			out.Figures = append(out.Figures, figure)
		}
	}
	return out
}

// addPercentiles adds the curve of a phase to a figure, and widens the figure's axes for it, by whole powers of ten. A
// logarithmic axis has no place for zero.
func addPercentiles(figure *document.Figure, of measure.PercentileCurves, phase string, curve document.Series) {
	for i, value := range of.Phases[phase].Values {
		if isNumber(value) && value > 0 && i < len(of.Nines) {
			curve.X, curve.Y = append(curve.X, of.Nines[i]), append(curve.Y, value)
			figure.X.High = max(figure.X.High, math.Ceil(of.Nines[i]*100)/100)
			figure.Y.Low = min(figure.Y.Low, math.Pow10(int(math.Floor(math.Log10(value)))))
			figure.Y.High = max(figure.Y.High, math.Pow10(int(math.Floor(math.Log10(value)))+1))
		}
	}
	if len(curve.X) > 0 {
		figure.Series = append(figure.Series, curve)
	}
}
