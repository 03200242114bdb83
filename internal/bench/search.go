package bench

// This file searches for the highest rate that a cell holds. The next rate follows from the probes alone, so that an
// interrupted search can be resumed.

import (
	"math"

	"github.com/dlqbench/dlqbench/reports"
)

// leastPrecision is the best precision of a rate. Runs of the same plan differ by more.
const leastPrecision = 0.01

// growth is the factor from a rate that held to the next one, until one does not hold.
const growth = 2

// next returns the rate to try after these probes. done reports that the search is over.
func (s Search) next(probes []reports.BenchProbe) (rate float64, done bool) {
	found, rate := s.walk(probes)
	return rate, found.Limit != ""
}

// found is the result of the probes so far. Its Limit is "" as long as the search continues.
func (s Search) found(probes []reports.BenchProbe) reports.BenchSearch {
	found, _ := s.walk(probes)
	found.Probes = probes
	return found
}

// walk follows the probes: it doubles the rate until one does not hold, and then bisects, on a logarithmic scale,
// between the highest rate that held and the lowest that did not. It returns the next rate to try.
func (s Search) walk(probes []reports.BenchProbe) (reports.BenchSearch, float64) {
	var found reports.BenchSearch
	above := reports.BenchHeld // the result at the rate above
	highest, rate := s.Highest.PerSecond(), s.Lowest.PerSecond()
	for {
		hold, decided := decide(probes, rate)
		switch {
		case !decided:
			return found, rate
		case hold == reports.BenchHeld:
			found.Rate = rate
		default:
			found.Above, above = rate, hold
		}
		switch {
		case found.Rate == 0:
			found.Limit = limitOf(above, reports.BenchLimitNone)
			return found, 0
		case found.Above == 0 && rate >= highest:
			found.Limit = reports.BenchLimitHighest
			return found, 0
		case found.Above == 0:
			rate = min(rate*growth, highest)
			continue
		}
		rate = round(math.Sqrt(found.Rate * found.Above))
		if found.Above <= found.Rate*(1+s.Precision.Share()) || rate <= found.Rate || rate >= found.Above {
			found.Limit = limitOf(above, reports.BenchLimitConsumer)
			return found, 0
		}
	}
}

// limitOf is the limit that a rate that was not held shows: the consumer's, or only the harness's.
func limitOf(above reports.BenchHold, consumers reports.BenchLimit) reports.BenchLimit {
	if above == reports.BenchUnproven {
		return reports.BenchLimitHarness
	}
	return consumers
}

// decide reports whether a rate is held, as soon as that is known. One probe that held suffices, because noise makes a
// consumer slower, never faster. A probe that did not hold is repeated, because the machine may have been busy; of
// three, the majority decides.
func decide(probes []reports.BenchProbe, rate float64) (hold reports.BenchHold, decided bool) {
	count := map[reports.BenchHold]int{}
	for _, probe := range probes {
		if probe.Rate == rate {
			count[probe.Hold]++
		}
	}
	switch {
	case count[reports.BenchHeld] > 0:
		return reports.BenchHeld, true
	case count[reports.BenchNotHeld] > 1:
		return reports.BenchNotHeld, true
	case count[reports.BenchUnproven] > 1:
		return reports.BenchUnproven, true
	}
	return "", false
}

// round rounds a rate to three digits: it is not known more precisely, and it appears in commands.
func round(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	return max(math.Round(rate/unit)*unit, 1e-3)
}

// bounds are the minimum and maximum number of probes of a search.
func (s Search) bounds() (least, most int) {
	up := math.Ceil(math.Log(s.Highest.PerSecond()/s.Lowest.PerSecond()) / math.Log(growth))
	bisections := math.Ceil(math.Log2(math.Log(growth) / math.Log1p(s.Precision.Share())))
	return 2, int(max(up, 0)) + 3 + 3*int(max(bisections, 0))
}
