package stats

import (
	"math"
	"slices"
)

// Summary is what is told of one figure's repetitions.
type Summary struct {
	Count int `json:"count"`
	// Median, and the quartiles around it. With fewer than four figures the quartiles lie between figures; with none
	// all are 0.
	Median float64 `json:"median"`
	Q1     float64 `json:"q1"`
	Q3     float64 `json:"q3"`
	Min    float64 `json:"min"`
	Max    float64 `json:"max"`
}

// Summarize summarises the finite ones of the values.
func Summarize(values []float64) Summary {
	sorted := finite(values)
	if len(sorted) == 0 {
		return Summary{}
	}
	return Summary{
		Count: len(sorted), Median: at(sorted, 0.5), Q1: at(sorted, 0.25), Q3: at(sorted, 0.75), Min: sorted[0],
		Max: sorted[len(sorted)-1],
	}
}

// Spread is the width of the middle half, as a share of the median: 0.04 is 4 %. It is 0 where the median is.
func (s Summary) Spread() float64 {
	if s.Median == 0 {
		return 0
	}
	return (s.Q3 - s.Q1) / math.Abs(s.Median)
}

// Median is the middle one of the finite values, or the mean of the two in the middle; NaN if there are none.
func Median(values []float64) float64 { return Quantile(values, 0.5) }

// Quantile is the value below which the share q (0 to 1) of the finite values lies, straight lines between them (type 7
// of Hyndman and Fan); NaN if there are none.
func Quantile(values []float64, q float64) float64 {
	sorted := finite(values)
	if len(sorted) == 0 {
		return math.NaN()
	}
	return at(sorted, q)
}

// at is the quantile of sorted values.
func at(sorted []float64, q float64) float64 {
	place := min(max(q, 0), 1) * float64(len(sorted)-1)
	low := int(place)
	high := min(low+1, len(sorted)-1)
	if sorted[low] == sorted[high] {
		return sorted[low] // no rounding between equals
	}
	return sorted[low] + (place-float64(low))*(sorted[high]-sorted[low])
}

// finite returns the finite values, sorted.
func finite(values []float64) []float64 {
	out := make([]float64, 0, len(values))
	for _, v := range values {
		if !math.IsNaN(v) && !math.IsInf(v, 0) {
			out = append(out, v)
		}
	}
	slices.Sort(out)
	return out
}

// noiseQuantile: three quarters of all pairs of identical repetitions differ by no more than the noise floor. One wild
// repetition in ten is part of a fifth of the pairs of its side, so that it alone does not lift the floor.
const noiseQuantile = 0.75

// Noise is the noise floor in the figure's own unit: what three quarters of all pairs of identical repetitions differ
// by at most. Only values of one group are taken for repetitions of each other. It is NaN where no group has two.
func Noise(groups ...[]float64) float64 {
	var differences []float64
	for _, group := range groups {
		sorted := finite(group)
		for i, v := range sorted {
			for _, w := range sorted[i+1:] {
				differences = append(differences, w-v)
			}
		}
	}
	return Quantile(differences, noiseQuantile)
}

// RelativeNoise is the noise floor of groups whose levels differ, as a share of a group's median: 0.04 is 4 %. Groups
// with a median of 0 say nothing about it. It is NaN where no group has two repetitions.
func RelativeNoise(groups ...[]float64) float64 {
	var scaled [][]float64
	for _, group := range groups {
		median := math.Abs(Median(group))
		if median == 0 || math.IsNaN(median) {
			continue
		}
		scaled = append(scaled, each(group, func(v float64) float64 { return v / median }))
	}
	return Noise(scaled...)
}
