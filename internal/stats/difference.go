package stats

import (
	"cmp"
	"encoding/json"
	"fmt"
	"math"
	"slices"
)

// Alpha is the rate of false alarms that is accepted for all figures that are compared at once, together.
const Alpha = 0.05

// leastChange is the smallest change, as a share of the median of both, that is ever called one. Latencies come from
// histograms of three digits, so that repetitions can be equal to the last digit; and nobody acts on less.
const leastChange = 0.01

// Difference is how b compares with a. Which direction is the better one is not known here.
//
// Where all figures of both sides are above 0, as times and rates are, they are compared by their ratios: the
// Hodges–Lehmann estimate is the median of all b/a, and the noise is a ratio, too, so that to double is as much as to
// halve. Where some are not (counts of what is rare), by their differences.
type Difference struct {
	// A and B are the medians, CountA and CountB how many figures they are of.
	A, B           float64
	CountA, CountB int
	// Ratio is the estimate: 1.1 means that b is higher by 10 %. Low and High are its interval at the confidence Level:
	// 0.95 where there are enough repetitions, less where even the widest interval does not reach that, 0 for one
	// against one. Where the median of a is 0, there is no ratio: 1 if the shift is 0, too, else an infinity.
	Ratio, Low, High, Level float64
	// Shift is the same in the figure's own unit, beside the median of a.
	Shift, ShiftLow, ShiftHigh float64
	// Noise is the noise floor: 0.04 means that three quarters of all pairs of identical repetitions differ by 4 % at
	// most (by a factor of 1.04, where ratios are compared); Floor is the same in the figure's own unit. Both are NaN
	// where neither side was repeated.
	Noise, Floor float64
	// P is that of the permutation test, Adjusted the same after Holm for all figures that were compared at once.
	P, Adjusted float64
	// Needed is 0, or how many repetitions of each side it would take to call any difference one, where there are too
	// few.
	Needed int
	// Real: it is called a difference. Adjusted is at most Alpha, and it is larger than the noise floor.
	Real bool
	// above: it is larger than the noise floor, on the scale on which it was compared.
	above bool
}

// Pair is the repetitions of one figure on two sides.
type Pair struct{ A, B []float64 }

// Compare compares one figure's repetitions. Values that are not finite are left out.
func Compare(a, b []float64) Difference { return CompareAll([]Pair{{a, b}})[0] }

// CompareAll compares many figures at once, so that with many of them chance alone does not make differences: the rate
// of false alarms is Alpha for all of them together (Holm 1979). Figures that never vary, and those with too few
// repetitions to differ, are no part of the family: they could not give an alarm.
func CompareAll(pairs []Pair) []Difference {
	out := make([]Difference, len(pairs))
	tests := make([]test, len(pairs))
	var family []float64
	var members []int
	varying := 0
	for i, pair := range pairs {
		tests[i] = newTest(pair.A, pair.B)
		out[i] = estimate(finite(pair.A), finite(pair.B))
		out[i].P = tests[i].p(tests[i].distance)
		out[i].Adjusted = out[i].P
		if tests[i].constant() {
			continue
		}
		varying++
		if leastP(out[i].CountA, out[i].CountB) <= Alpha {
			family, members = append(family, out[i].P), append(members, i)
		}
	}
	for k, adjusted := range Holm(family) {
		out[members[k]].Adjusted = adjusted
	}
	for i := range out {
		out[i].decide(max(1, len(family)), varying)
	}
	return out
}

// decide says whether it is a difference, as one of a family; varying is how large that would be if all had enough
// repetitions.
func (d *Difference) decide(family, varying int) {
	if leastP(d.CountA, d.CountB)*float64(family) > Alpha {
		d.Needed = Needed(varying)
		return
	}
	d.Real = d.Adjusted <= Alpha && d.above
}

// Needed is how many repetitions of each side it takes at least to call a difference one where so many figures are
// compared at once: 4 for one, 5 for up to 6.
func Needed(figures int) int {
	n := 2
	for leastP(n, n)*float64(max(1, figures)) > Alpha {
		n++
	}
	return n
}

// Holm adjusts p values that are looked at together: to reject those that are at most alpha keeps the rate of any false
// alarm among them at alpha, however they depend on each other. The order stays.
func Holm(p []float64) []float64 {
	order := make([]int, len(p))
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(i, j int) int { return cmp.Compare(p[i], p[j]) })
	out := make([]float64, len(p))
	highest := 0.0
	for k, i := range order {
		highest = max(highest, min(1, p[i]*float64(len(p)-k)))
		out[i] = highest
	}
	return out
}

// estimate gives the effect, its interval and the noise floor; a and b are sorted and finite.
func estimate(a, b []float64) Difference {
	d := Difference{CountA: len(a), CountB: len(b), Floor: math.NaN(), Noise: math.NaN(), Ratio: 1, Low: 1, High: 1}
	if len(a) > 0 {
		d.A = at(a, 0.5)
	}
	if len(b) > 0 {
		d.B = at(b, 0.5)
	}
	if len(a) == 0 || len(b) == 0 {
		return d
	}
	if a[0] > 0 && b[0] > 0 {
		d.byRatios(each(a, math.Log), each(b, math.Log))
	} else {
		d.byDifferences(a, b)
	}
	return d
}

// byRatios compares figures that are all above 0: ratios are differences of logarithms.
func (d *Difference) byRatios(a, b []float64) {
	shift, low, high, level := hodgesLehmann(a, b)
	d.Ratio, d.Low, d.High, d.Level = math.Exp(shift), math.Exp(low), math.Exp(high), level
	d.Shift, d.ShiftLow, d.ShiftHigh = d.A*(d.Ratio-1), d.A*(d.Low-1), d.A*(d.High-1)
	if noise := Noise(a, b); !math.IsNaN(noise) {
		noise = max(noise, math.Log(1+leastChange))
		d.Noise = math.Exp(noise) - 1
		d.Floor, d.above = d.A*d.Noise, math.Abs(shift) > noise
	}
}

// byDifferences compares figures some of which are 0 or less.
func (d *Difference) byDifferences(a, b []float64) {
	d.Shift, d.ShiftLow, d.ShiftHigh, d.Level = hodgesLehmann(a, b)
	d.Ratio, d.Low, d.High = 1+relative(d.Shift, d.A), 1+relative(d.ShiftLow, d.A), 1+relative(d.ShiftHigh, d.A)
	if noise := Noise(a, b); !math.IsNaN(noise) {
		d.Floor = max(noise, leastChange*Median(each(slices.Concat(a, b), math.Abs)))
		d.Noise, d.above = relative(d.Floor, d.A), math.Abs(d.Shift) > d.Floor
	}
}

// hodgesLehmann is the median of all differences, and its interval.
func hodgesLehmann(a, b []float64) (shift, low, high, level float64) {
	shifts := make([]float64, 0, len(a)*len(b))
	for _, v := range a {
		for _, w := range b {
			shifts = append(shifts, w-v)
		}
	}
	slices.Sort(shifts)
	cut, level := interval(len(a), len(b))
	return at(shifts, 0.5), shifts[cut], shifts[len(shifts)-1-cut], level
}

// each returns what a function makes of each value.
func each(values []float64, of func(float64) float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = of(v)
	}
	return out
}

// relative is a share of a base; of a base of 0 nothing is 0 and everything else has no bound.
func relative(v, base float64) float64 {
	if v == 0 {
		return 0
	}
	return v / math.Abs(base)
}

// interval says how many of the sorted shifts are cut off at each end for a confidence of 95 %, and the confidence that
// this gives: it is the permutation test turned round (Hodges and Lehmann 1963), so that it is exact, too. Ties make it
// wider than needed, never narrower.
func interval(n, m int) (cut int, level float64) {
	const tail = Alpha / 2
	if n+m > exactUpTo {
		// The rank sum of so many is normal as far as anyone can tell.
		deviation := math.Sqrt(float64(n) * float64(m) * float64(n+m+1) / 12)
		return max(0, int(math.Floor(float64(n)*float64(m)/2-1.96*deviation))), 1 - Alpha
	}
	ranks := make([]int, n+m)
	for i := range ranks {
		ranks[i] = i + 1
	}
	small := min(n, m)
	least := small * (small + 1) / 2
	below, cut := 0.0, -1
	for _, share := range sums(ranks, small)[least:] {
		if cut >= 0 && below+share > tail {
			break
		}
		below += share
		cut++
	}
	return cut, max(0, 1-2*below)
}

// differenceJSON is a Difference for JSON, which knows no infinities: they are null.
type differenceJSON struct {
	A         float64  `json:"a"`
	B         float64  `json:"b"`
	CountA    int      `json:"count_a"`
	CountB    int      `json:"count_b"`
	Shift     float64  `json:"shift"`
	ShiftLow  float64  `json:"shift_low"`
	ShiftHigh float64  `json:"shift_high"`
	Level     float64  `json:"level"`
	Ratio     *float64 `json:"ratio"`
	Low       *float64 `json:"ratio_low"`
	High      *float64 `json:"ratio_high"`
	Floor     *float64 `json:"noise_floor"`
	Noise     *float64 `json:"noise"`
	P         float64  `json:"p"`
	Adjusted  float64  `json:"p_adjusted"`
	Needed    int      `json:"repetitions_needed,omitempty"`
	Real      bool     `json:"real"`
}

// MarshalJSON writes a difference; a ratio or a noise that there is none of is null.
func (d Difference) MarshalJSON() ([]byte, error) {
	return json.Marshal(differenceJSON{
		A: d.A, B: d.B, CountA: d.CountA, CountB: d.CountB, Shift: d.Shift, ShiftLow: d.ShiftLow, ShiftHigh: d.ShiftHigh,
		Level: d.Level,
		Ratio: known(d.Ratio), Low: known(d.Low), High: known(d.High), Floor: known(d.Floor), Noise: known(d.Noise),
		P: d.P, Adjusted: d.Adjusted, Needed: d.Needed, Real: d.Real,
	})
}

// UnmarshalJSON reads what MarshalJSON wrote; null becomes NaN.
func (d *Difference) UnmarshalJSON(data []byte) error {
	var in differenceJSON
	if err := json.Unmarshal(data, &in); err != nil {
		return fmt.Errorf("reading a difference: %w", err)
	}
	*d = Difference{
		A: in.A, B: in.B, CountA: in.CountA, CountB: in.CountB, Shift: in.Shift, ShiftLow: in.ShiftLow,
		ShiftHigh: in.ShiftHigh, Level: in.Level,
		Ratio: value(in.Ratio), Low: value(in.Low), High: value(in.High), Floor: value(in.Floor), Noise: value(in.Noise),
		P: in.P, Adjusted: in.Adjusted, Needed: in.Needed, Real: in.Real,
	}
	return nil
}

func known(v float64) *float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return nil
	}
	return &v
}

func value(v *float64) float64 {
	if v == nil {
		return math.NaN()
	}
	return *v
}
