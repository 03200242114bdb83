package reports

// This file defines the figures of a bench by the names that thresholds use, so that tables, advice and comparisons
// refer to the same figures.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/assertions/measure"
)

// BenchUnit is the unit of a figure.
type BenchUnit string

// The units. Times are in seconds, shares from 0 to 1.
const (
	BenchUnitRate  BenchUnit = "per_s"
	BenchUnitTime  BenchUnit = "s"
	BenchUnitShare BenchUnit = "share"
	BenchUnitCount BenchUnit = "count"
	BenchUnitSize  BenchUnit = "bytes"
)

// BenchFigure is a figure that each repetition has.
type BenchFigure struct {
	// Name is the name in thresholds, if they have the figure: latency.success.p99. Words is the name for people.
	Name  string
	Words string
	Unit  BenchUnit
	// Higher: higher values are better. Otherwise lower values are.
	Higher bool
	// Of returns the value, and false if the repetition does not have it.
	Of func(BenchRepetition) (float64, bool)
}

// BenchFigures returns the figures of a bench in this mode, the most informative first.
func BenchFigures(mode BenchMode) []BenchFigure {
	p50 := func(q measure.Quantiles) time.Duration { return q.P50 }
	p99 := func(q measure.Quantiles) time.Duration { return q.P99 }
	figures := []BenchFigure{
		{Name: "throughput.processed", Words: "throughput", Unit: BenchUnitRate, Higher: true,
			Of: func(r BenchRepetition) (float64, bool) {
				return r.Run.Throughput.Processed, r.Run.Throughput.Offered > 0
			}},
		latencyFigure(measure.LatencySuccess, "success", p50, "p50"),
		latencyFigure(measure.LatencySuccess, "success", p99, "p99"),
		latencyFigure(measure.LatencyDeadLetter, "dead letter", p99, "p99"),
		latencyFigure(measure.LatencyCommitDelay, "commit delay", p99, "p99"),
		{Name: "share.duplicates", Words: "duplicates", Unit: BenchUnitShare, Of: func(r BenchRepetition) (float64, bool) {
			return float64(r.Run.Ledger.Duplicates) / float64(max(r.Run.Ledger.Acknowledged, 1)), r.Run.Ledger.Acknowledged > 0
		}},
		{Name: "recovery.drain", Words: "drain", Unit: BenchUnitTime, Of: func(r BenchRepetition) (float64, bool) {
			return r.Run.Drain.Seconds(), r.Run.Drained
		}},
		{Name: "recovery.steady", Words: "longest recovery", Unit: BenchUnitTime, Of: longestRecovery},
	}
	return append(mode.Own(), figures...)
}

// latencyFigure is a quantile of a latency, whose name in thresholds ends with suffix.
func latencyFigure(name, words string, quantile func(measure.Quantiles) time.Duration, suffix string) BenchFigure {
	return BenchFigure{Name: "latency." + name + "." + suffix, Words: words + " " + suffix, Unit: BenchUnitTime,
		Of: func(r BenchRepetition) (float64, bool) {
			of := r.Run.Latency[name]
			return quantile(of.Quantiles).Seconds(), of.Count > 0
		}}
}

// RateHeld is the figure of a search.
const RateHeld = "rate.held"

// Own returns the figures that only a bench in this mode has. A rate limited by the harness says nothing about the
// consumer and is not a figure.
func (m BenchMode) Own() []BenchFigure {
	switch m {
	case BenchMaxThroughput:
		return []BenchFigure{{Name: RateHeld, Words: "highest rate held", Unit: BenchUnitRate, Higher: true,
			Of: func(r BenchRepetition) (float64, bool) {
				if r.Search == nil {
					return 0, false
				}
				return r.Search.Rate, r.Search.Limit == BenchLimitConsumer || r.Search.Limit == BenchLimitNone
			}}}
	case BenchStep:
		return []BenchFigure{{Name: "rate.knee", Words: "highest step held", Unit: BenchUnitRate, Higher: true,
			Of: func(r BenchRepetition) (float64, bool) {
				if r.Knee == nil {
					return 0, false
				}
				return r.Knee.Rate, r.Knee.Limit == BenchLimitConsumer || r.Knee.Limit == BenchLimitNone
			}}}
	case BenchSoak:
		return []BenchFigure{
			{Name: "drift.p99", Words: "drift of p99", Unit: BenchUnitCount,
				Of: func(r BenchRepetition) (float64, bool) {
					if r.Drift == nil || len(r.Drift.Parts) < 2 || r.Drift.Parts[0].Success.P99 == 0 {
						return 0, false
					}
					return r.Drift.Parts[len(r.Drift.Parts)-1].Success.P99.Seconds() / r.Drift.Parts[0].Success.P99.Seconds(), true
				}},
			{Name: "drift.backlog", Words: "backlog growth", Unit: BenchUnitRate,
				Of: func(r BenchRepetition) (float64, bool) {
					return r.Run.BacklogGrowth, r.Drift != nil && len(r.Drift.Parts) > 0
				}},
		}
	}
	return nil
}

// longestRecovery returns the longest time from a fault's end until the consumer was steady again.
func longestRecovery(r BenchRepetition) (float64, bool) {
	longest, found := time.Duration(0), false
	for _, recovery := range r.Run.Recovery {
		if recovery.Steady.Known() {
			longest, found = max(longest, recovery.Steady.Time), true
		}
	}
	return longest.Seconds(), found
}

// Figures returns a figure's values in the cell's usable repetitions.
func (c BenchCell) Figures(figure BenchFigure) (values []float64) {
	for _, repetition := range c.Repetitions {
		if !repetition.Finished() || !repetition.Usable() {
			continue
		}
		if value, found := figure.Of(repetition); found {
			values = append(values, value)
		}
	}
	return values
}

// Figure returns the figure with that name.
func (m BenchMode) Figure(name string) (BenchFigure, bool) {
	figures := BenchFigures(m)
	at := slices.IndexFunc(figures, func(f BenchFigure) bool { return f.Name == name })
	if at < 0 {
		return BenchFigure{}, false
	}
	return figures[at], true
}
