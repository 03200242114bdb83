package reports

// This file prepares the data of the charts, all from the verdict: the run's curves reduced to screen resolution, the
// heat map, the percentile curves, and the marks on the time axis.

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
)

const (
	// maxPoints is the maximum number of points of a curve.
	maxPoints = 600
	// maxMarks is the maximum number of violations marked on the time axis.
	maxMarks = 300
	// maxInstances is the maximum number of instances drawn, which is the number of colours.
	maxInstances = 8
)

// figure is a number in JSON. NaN, for a missing measurement, becomes null, which is a gap in the curve.
type figure float64

// MarshalJSON writes six significant digits, more than a screen shows.
func (f figure) MarshalJSON() ([]byte, error) {
	v := float64(f)
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return []byte("null"), nil
	}
	return strconv.AppendFloat(nil, v, 'g', 6, 64), nil
}

type chartData struct {
	// Time is the x axis of the curves, in seconds on the run's clock.
	Time   []figure            `json:"time"`
	End    figure              `json:"end"`
	Curves map[string][]figure `json:"curves"`
	Heat   chartHeat           `json:"heat"`
	Faults []chartFault        `json:"faults"`
	Phases []chartWindow       `json:"phases"`
	// Marks are the moments of violations.
	Marks []chartMark `json:"marks"`
	// Percentiles by latency, in the order in which they are offered.
	Percentiles []chartLatency `json:"percentiles"`
	// Instances have the curves rssN, in MiB, and cpuN, where N is their index here.
	Instances []string `json:"instances"`
}

type chartWindow struct {
	Label string `json:"label"`
	Name  string `json:"name"`
	From  figure `json:"from"`
	To    figure `json:"to"`
}

// chartFault is a fault as it was observed, with the times that were planned and told of it. What is not known is null.
type chartFault struct {
	chartWindow
	PlannedFrom figure `json:"plannedFrom"`
	PlannedTo   figure `json:"plannedTo"`
	Detected    figure `json:"detected"`
	Steady      figure `json:"steady"`
}

type chartMark struct {
	At   figure `json:"at"`
	Name string `json:"name"`
}

// chartHeat is the heat map. Bounds are the rows' in ms; Cells are column, row, count of those that are not empty, one
// after the other.
type chartHeat struct {
	Step   figure   `json:"step"`
	Bounds []figure `json:"bounds"`
	Most   int64    `json:"most"`
	Cells  []int64  `json:"cells"`
}

type chartLatency struct {
	Key   string `json:"key"`
	Title string `json:"title"`
	Span  string `json:"span"`
	// Nines is the x axis: log10(1/(1-q)), so 1 is p90 and 2 is p99.
	Nines  []figure     `json:"nines"`
	Phases []chartPhase `json:"phases"`
}

type chartPhase struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
	// Values are in ms, one per point of Nines; null where the phase has too few values to tell. Service, of successes
	// only, is the service time beside them.
	Values  []figure `json:"values"`
	Service []figure `json:"service,omitempty"`
}

func newChartData(run Run) chartData {
	v := run.Verdict
	out := chartData{
		End: seconds(ended(v)), Curves: map[string][]figure{}, Faults: chartFaults(v), Phases: []chartWindow{},
		Marks:       chartMarks(v),
		Percentiles: chartPercentiles(v), Time: []figure{}, Heat: newChartHeat(v.HeatMap), Instances: []string{},
	}
	for _, p := range v.Phases {
		out.Phases = append(out.Phases, chartWindow{Name: name(p.Name), From: seconds(p.From), To: seconds(p.To)})
	}
	out.addCurves(v.Series)
	return out
}

// hasCurves reports whether there is anything to draw on the time axis.
func hasCurves(v *assertions.Verdict) bool {
	return v.Series.Step > 0 && len(v.Series.Sent)+len(v.Series.Processed)+len(v.Series.Lag) > 0
}

func seconds(d time.Duration) figure { return figure(d.Seconds()) }

// chartFaults returns the shaded time windows, in which a fault was observed. A fault that was never injected has
// none.
func chartFaults(v *assertions.Verdict) []chartFault {
	out := make([]chartFault, 0, len(v.Faults))
	moment := func(from time.Duration, span measure.Span) figure {
		if !span.Known() {
			return figure(math.NaN())
		}
		return seconds(from + span.Time)
	}
	for i, f := range v.Faults {
		if !f.Observed.Injected {
			continue
		}
		from, to := f.Observed.From, max(f.Observed.From, f.Observed.To)
		out = append(out, chartFault{
			chartWindow: chartWindow{Label: faultLabel(i), Name: faultName(f), From: seconds(from), To: seconds(to)},
			PlannedFrom: seconds(f.Planned.From), PlannedTo: seconds(f.Planned.To),
			Detected: moment(from, f.Recovery.Detect), Steady: moment(to, f.Recovery.Steady),
		})
	}
	return out
}

func faultLabel(index int) string { return "F" + strconv.Itoa(index+1) }

// chartMarks returns the times of violations, if they have one: the first of each anomaly, then the others up to the
// limit.
func chartMarks(v *assertions.Verdict) []chartMark {
	out, rest := []chartMark{}, []chartMark{}
	for _, r := range v.Invariants {
		for _, a := range r.Anomalies {
			label := name(r.Name) + ": " + name(a.Name)
			if a.First != nil && a.First.At >= 0 {
				out = append(out, chartMark{At: seconds(a.First.At), Name: label})
			}
			for _, one := range a.Records {
				if one.At >= 0 && (a.First == nil || one.At != a.First.At) {
					rest = append(rest, chartMark{At: seconds(one.At), Name: label})
				}
			}
		}
	}
	out = append(out, rest...)
	return out[:min(len(out), maxMarks)]
}

func newChartHeat(heat measure.HeatMap) chartHeat {
	out := chartHeat{Step: seconds(heat.Step), Bounds: []figure{}, Cells: []int64{}}
	for _, bound := range heat.Bounds {
		out.Bounds = append(out.Bounds, figure(bound.Seconds()*1e3))
	}
	for column, counts := range heat.Counts {
		for row, n := range counts {
			if n > 0 {
				out.Cells = append(out.Cells, int64(column), int64(row), n)
				out.Most = max(out.Most, n)
			}
		}
	}
	return out
}

// chartCurve is a curve of the run, the function that merges several of its values into one point, and the factor
// applied to a point.
type chartCurve struct {
	name   string
	values []float64
	merge  func([]float64) float64
	factor float64
}

func (d *chartData) addCurves(s measure.Series) {
	if s.Step <= 0 {
		return
	}
	perSecond := 1 / s.Step.Seconds()
	curves := []chartCurve{
		{"sent", s.Sent, mean, perSecond}, {"acknowledged", s.Acknowledged, mean, perSecond},
		{"processed", s.Processed, mean, perSecond},
		{"deadLetters", s.DeadLetters, mean, perSecond}, {"retries", s.Retries, mean, perSecond},
		{"duplicates", s.Duplicates, mean, perSecond},
		{"inRetry", s.InRetry, highest, 1}, {"lag", s.Lag, highest, 1}, {"p50", s.SuccessP50, mean, 1},
		{"p99", s.SuccessP99, highest, 1},
		{"slip", s.Slip, highest, 1}, {"stalled", s.Stalled, total, 1}, {"backlog", s.Backlog, highest, 1},
		{"cpu", s.CPU, mean, 1},
	}
	for i, one := range s.Instances[:min(len(s.Instances), maxInstances)] {
		number := strconv.Itoa(i)
		d.Instances = append(d.Instances, "instance "+strconv.Itoa(int(one.Instance)))
		curves = append(curves, chartCurve{"rss" + number, one.RSS, highest, 1.0 / (1 << 20)},
			chartCurve{"cpu" + number, one.CPU, mean, 1})
	}
	length := 0
	for _, c := range curves {
		length = max(length, len(c.values))
	}
	if length == 0 {
		return
	}
	every := (length + maxPoints - 1) / maxPoints
	for from := 0; from < length; from += every {
		middle := (float64(from) + float64(min(from+every, length))) / 2
		d.Time = append(d.Time, figure(middle*s.Step.Seconds()))
	}
	for _, c := range curves {
		d.Curves[c.name] = thin(c.values, length, every, c.merge, c.factor)
	}
}

// thin merges every consecutive values into one. Values missing at the end are gaps.
func thin(values []float64, length, every int, merge func([]float64) float64, factor float64) []figure {
	out := make([]figure, 0, length/every+1)
	for from := 0; from < length; from += every {
		part := values[min(from, len(values)):min(from+every, len(values))]
		out = append(out, figure(merge(part)*factor))
	}
	return out
}

// mean returns the mean of the values that are numbers, NaN if there are none. It is correct for rates. For p50 it is
// the mean of the parts' medians.
func mean(values []float64) float64 {
	sum, n := 0.0, 0
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			sum += v
			n++
		}
	}
	return sum / float64(n)
}

// highest returns the maximum of the values that are numbers, NaN if there are none, so that a thinned curve keeps
// its peaks.
func highest(values []float64) float64 {
	out := math.NaN()
	for _, v := range values {
		if !math.IsInf(v, 0) && !(v <= out) && !math.IsNaN(v) {
			out = v
		}
	}
	return out
}

// total returns the sum of the values that are numbers.
func total(values []float64) float64 {
	sum := 0.0
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			sum += v
		}
	}
	return sum
}

// chartPercentiles returns the percentile curves, with a separate axis for each latency. Successes share theirs with
// the service time.
func chartPercentiles(v *assertions.Verdict) []chartLatency {
	known := make(map[string]measure.Latency, len(v.Percentiles))
	for key := range v.Percentiles {
		known[key] = measure.Latency{}
	}
	out := []chartLatency{}
	for _, key := range latencyNames(known) {
		curves := v.Percentiles[key]
		title, span := latencyTitle(key)
		latency := chartLatency{Key: name(key), Title: title, Span: span, Nines: []figure{}, Phases: []chartPhase{}}
		axis, service := curves.Nines, measure.PercentileCurves{}
		if key == measure.LatencySuccess {
			service = v.Percentiles[measure.LatencyService]
			axis = slices.Concat(axis, service.Nines)
			slices.Sort(axis)
			axis = slices.Compact(axis)
		}
		for _, x := range axis {
			latency.Nines = append(latency.Nines, figure(x))
		}
		for _, phase := range phaseNames(curves.Phases, v.Phases) {
			one := chartPhase{Name: name(phase), Count: curves.Phases[phase].Count,
				Values: onAxis(axis, curves.Nines, curves.Phases[phase].Values)}
			if worked, ok := service.Phases[phase]; ok {
				one.Service = onAxis(axis, service.Nines, worked.Values)
			}
			latency.Phases = append(latency.Phases, one)
		}
		out = append(out, latency)
	}
	return out
}

// onAxis maps the values, which belong to the points of own, to an axis that has all of these points and perhaps
// more.
func onAxis(axis, own, values measure.Curve) []figure {
	out := make([]figure, len(axis))
	at := 0
	for i, x := range axis {
		out[i] = figure(math.NaN())
		if at < len(own) && at < len(values) && own[at] == x {
			out[i] = figure(values[at])
			at++
		}
	}
	return out
}
