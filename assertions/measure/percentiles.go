package measure

import (
	"encoding/json"
	"fmt"
	"math"
	"slices"
	"strconv"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The percentile curves have this many points per factor of ten in 1/(1-q), up to maxNines nines.
const (
	pointsPerNine = 20
	maxNines      = 6
)

// PercentileCurves are the percentiles of one latency on one axis.
type PercentileCurves struct {
	// Nines is the axis: log10(1/(1-q)), so 1 is p90 and 2 is p99.
	Nines Curve `json:"nines"`
	// Phases by name, PhaseAll included; those that have samples.
	Phases map[string]PercentileCurve `json:"phases"`
}

// PercentileCurve is that of one phase.
type PercentileCurve struct {
	Count int64 `json:"count"`
	// Values are in ms, one per point of Nines; NaN where the phase has too few samples to tell. The last one is the
	// largest sample, unless there are more than a million.
	Values Curve `json:"ms"`
}

// Percentiles returns the percentile curves of all latencies that have samples.
func (m *Measurements) Percentiles() map[string]PercentileCurves {
	all := map[string]PercentileCurves{}
	for name, phases := range m.Histograms {
		filled := map[string]*hdrhistogram.Histogram{}
		for phase, histogram := range phases {
			if histogram != nil && histogram.TotalCount() > 0 {
				filled[phase] = histogram
			}
		}
		if len(filled) == 0 {
			continue
		}
		curves := PercentileCurves{Nines: nines(filled), Phases: map[string]PercentileCurve{}}
		for phase, histogram := range filled {
			curves.Phases[phase] = percentileCurve(histogram, curves.Nines)
		}
		all[name] = curves
	}
	return all
}

// lastNine returns the end of a histogram's curve: the percentile that only its largest value exceeds.
func lastNine(h *hdrhistogram.Histogram) float64 {
	return min(math.Log10(float64(h.TotalCount())), maxNines)
}

// nines returns the points of the axis: a grid, and the ends of all curves.
func nines(histograms map[string]*hdrhistogram.Histogram) Curve {
	var out Curve
	end := 0.0
	for _, h := range histograms {
		out = append(out, lastNine(h))
		end = max(end, lastNine(h))
	}
	for i := 0; float64(i)/pointsPerNine < end; i++ {
		out = append(out, float64(i)/pointsPerNine)
	}
	slices.Sort(out)
	return slices.Compact(out)
}

func percentileCurve(h *hdrhistogram.Histogram, axis Curve) PercentileCurve {
	end := lastNine(h)
	asked := make([]float64, len(axis))
	for i, x := range axis {
		asked[i] = 100 * (1 - math.Pow(10, -x))
	}
	values := h.ValueAtPercentilesSlice(asked)
	out := PercentileCurve{Count: h.TotalCount(), Values: make(Curve, len(axis))}
	for i, x := range axis {
		switch {
		case x < end:
			out.Values[i] = float64(values[i]) / 1e3
		case x == end && end < maxNines:
			out.Values[i] = float64(h.ValueAtPercentile(100)) / 1e3
		default:
			out.Values[i] = math.NaN()
		}
	}
	return out
}

// MarshalJSON writes whole numbers unchanged, other numbers with six significant digits, which is more than a screen
// shows, and null for NaN.
func (c Curve) MarshalJSON() ([]byte, error) {
	out := append(make([]byte, 0, 8*len(c)+2), '[')
	for i, v := range c {
		if i > 0 {
			out = append(out, ',')
		}
		switch {
		case math.IsNaN(v) || math.IsInf(v, 0):
			out = append(out, "null"...)
		case v == math.Trunc(v) && math.Abs(v) < 1<<53:
			out = strconv.AppendInt(out, int64(v), 10)
		default:
			out = strconv.AppendFloat(out, v, 'g', 6, 64)
		}
	}
	return append(out, ']'), nil
}

// UnmarshalJSON reads the format of MarshalJSON.
func (c *Curve) UnmarshalJSON(data []byte) error {
	var values []*float64
	if err := json.Unmarshal(data, &values); err != nil {
		return fmt.Errorf("reading a curve: %w", err)
	}
	*c = make(Curve, len(values))
	for i, value := range values {
		(*c)[i] = math.NaN()
		if value != nil {
			(*c)[i] = *value
		}
	}
	return nil
}
