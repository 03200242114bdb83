package reports

// The figures behind the charts: the run's curves thinned out to what a screen can show, and the histograms as percentile curves.

import (
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
)

// maxPoints is how many points a curve keeps.
const maxPoints = 600

// percentile curves have this many points per factor of ten in 1/(1-q), up to maxNines nines.
const (
	pointsPerNine = 20
	maxNines      = 6
)

// figure is a number in JSON; what is no number (nothing was there to measure) becomes null, which is a gap in the curve.
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
	Faults []chartWindow       `json:"faults"`
	Phases []chartWindow       `json:"phases"`
	// Percentiles by latency, in the order in which they are offered.
	Percentiles []chartLatency `json:"percentiles"`
}

type chartWindow struct {
	Label string `json:"label"`
	Name  string `json:"name"`
	From  figure `json:"from"`
	To    figure `json:"to"`
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
	// Values are in ms, one per point of Nines; null where the phase has too few values to tell.
	Values []figure `json:"values"`
}

func newChartData(run Run) chartData {
	v := run.Verdict
	out := chartData{
		End: seconds(ended(v)), Curves: map[string][]figure{}, Faults: faultWindows(v), Phases: []chartWindow{},
		Percentiles: []chartLatency{}, Time: []figure{},
	}
	for _, p := range v.Phases {
		out.Phases = append(out.Phases, chartWindow{Name: name(p.Name), From: seconds(p.From), To: seconds(p.To)})
	}
	if run.Measurements != nil {
		out.addCurves(run.Measurements.Series)
		out.Percentiles = percentiles(run.Measurements, v.Phases)
	}
	return out
}

func seconds(d time.Duration) figure { return figure(d.Seconds()) }

// faultWindows are the times that are shaded: when a fault was seen, or when it should have been where it was not.
func faultWindows(v *assertions.Verdict) []chartWindow {
	out := make([]chartWindow, 0, len(v.Faults))
	for i, f := range v.Faults {
		if !f.Observed.Injected {
			continue
		}
		out = append(out, chartWindow{
			Label: faultLabel(i), Name: faultName(f), From: seconds(f.Observed.From), To: seconds(max(f.Observed.From, f.Observed.To)),
		})
	}
	return out
}

func faultLabel(index int) string { return "F" + strconv.Itoa(index+1) }

func (d *chartData) addCurves(s measure.Series) {
	if s.Step <= 0 {
		return
	}
	perSecond := 1 / s.Step.Seconds()
	curves := []struct {
		name   string
		values []float64
		merge  func([]float64) float64
		factor float64
	}{
		{"sent", s.Sent, mean, perSecond}, {"processed", s.Processed, mean, perSecond},
		{"deadLetters", s.DeadLetters, mean, perSecond}, {"retries", s.Retries, mean, perSecond},
		{"lag", s.Lag, highest, 1}, {"p50", s.SuccessP50, mean, 1}, {"p99", s.SuccessP99, highest, 1},
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

// thin merges every so many values into one; values that are missing at the end are gaps.
func thin(values []float64, length, every int, merge func([]float64) float64, factor float64) []figure {
	out := make([]figure, 0, length/every+1)
	for from := 0; from < length; from += every {
		part := values[min(from, len(values)):min(from+every, len(values))]
		out = append(out, figure(merge(part)*factor))
	}
	return out
}

// mean of the values that are numbers; NaN where there are none. Right for rates; for p50, the middle of the parts' medians.
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

// highest of the values that are numbers; NaN where there are none. A thinned curve must not lose its peaks.
func highest(values []float64) float64 {
	out := math.NaN()
	for _, v := range values {
		if !math.IsInf(v, 0) && !(v <= out) && !math.IsNaN(v) {
			out = v
		}
	}
	return out
}

func percentiles(m *measure.Measurements, phases []measure.Phase) []chartLatency {
	known := make(map[string]measure.Latency, len(m.Histograms))
	for key := range m.Histograms {
		known[key] = measure.Latency{}
	}
	out := []chartLatency{}
	for _, key := range latencyNames(known) {
		filled := map[string]*hdrhistogram.Histogram{}
		for phase, h := range m.Histograms[key] {
			if h != nil && h.TotalCount() > 0 {
				filled[phase] = h
			}
		}
		if len(filled) == 0 {
			continue
		}
		title, span := latencyTitle(key)
		latency := chartLatency{Key: name(key), Title: title, Span: span, Nines: nines(filled)}
		for _, phase := range phaseNames(filled, phases) {
			latency.Phases = append(latency.Phases, percentileCurve(name(phase), filled[phase], latency.Nines))
		}
		out = append(out, latency)
	}
	return out
}

// lastNine is where the curve of a histogram ends: at the percentile that only its largest value is above.
func lastNine(h *hdrhistogram.Histogram) float64 {
	return min(math.Log10(float64(h.TotalCount())), maxNines)
}

// nines are the points of the percentile axis: a grid, and the ends of all curves.
func nines(histograms map[string]*hdrhistogram.Histogram) []figure {
	var out []figure
	end := 0.0
	for _, h := range histograms {
		out = append(out, figure(lastNine(h)))
		end = max(end, lastNine(h))
	}
	for i := 0; float64(i)/pointsPerNine < end; i++ {
		out = append(out, figure(float64(i)/pointsPerNine))
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func percentileCurve(phase string, h *hdrhistogram.Histogram, axis []figure) chartPhase {
	end := lastNine(h)
	asked := make([]float64, len(axis))
	for i, x := range axis {
		asked[i] = 100 * (1 - math.Pow(10, -float64(x)))
	}
	values := h.ValueAtPercentilesSlice(asked)
	out := chartPhase{Name: phase, Count: h.TotalCount(), Values: make([]figure, len(axis))}
	for i, x := range axis {
		switch {
		case float64(x) < end:
			out.Values[i] = figure(float64(values[i]) / 1e3)
		case float64(x) == end && end < maxNines:
			out.Values[i] = figure(float64(h.Max()) / 1e3)
		default:
			out.Values[i] = figure(math.NaN())
		}
	}
	return out
}
