package bench

// The search for the highest rate that a cell holds. What to try next follows from what was tried, and from nothing
// else: so an interrupted search goes on where it was.

import (
	"math"

	"github.com/dlqbench/dlqbench/reports"
)

// leastPrecision is how well a rate can be known: runs of the same plan differ more than that.
const leastPrecision = 0.01

// growth is by how much a rate that held is exceeded next, until one does not hold.
const growth = 2

// next says which rate to try after these probes; done when the search is over.
func (s Search) next(probes []reports.BenchProbe) (rate float64, done bool) {
	found, rate := s.walk(probes)
	return rate, found.Limit != ""
}

// found is what the probes have shown so far; its Limit is "" as long as the search goes on.
func (s Search) found(probes []reports.BenchProbe) reports.BenchSearch {
	found, _ := s.walk(probes)
	found.Probes = probes
	return found
}

// walk goes the way that the probes went: up by doubling until a rate does not hold, then bisecting between the last
// that did and the first that did not, on a logarithmic scale. It returns the rate that is to be tried next.
func (s Search) walk(probes []reports.BenchProbe) (reports.BenchSearch, float64) {
	var found reports.BenchSearch
	above := reports.BenchHeld // what the rate above showed
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

// limitOf is what a rate that was not held says: of the consumer, or of the harness alone.
func limitOf(above reports.BenchHold, consumers reports.BenchLimit) reports.BenchLimit {
	if above == reports.BenchUnproven {
		return reports.BenchLimitHarness
	}
	return consumers
}

// decide says whether a rate is held, as soon as that is known. One probe that held is enough: noise makes a consumer
// slower, never faster. One that did not is repeated, since the machine may have had something else to do; of three the
// majority decides.
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

// round keeps three digits of a rate: it is not known better, and is written in commands.
func round(rate float64) float64 {
	unit := math.Pow(10, math.Floor(math.Log10(rate))-2)
	return max(math.Round(rate/unit)*unit, 1e-3)
}

// bounds are how many probes a search takes at least and at most.
func (s Search) bounds() (least, most int) {
	up := math.Ceil(math.Log(s.Highest.PerSecond()/s.Lowest.PerSecond()) / math.Log(growth))
	bisections := math.Ceil(math.Log2(math.Log(growth) / math.Log1p(s.Precision.Share())))
	return 2, int(max(up, 0)) + 3 + 3*int(max(bisections, 0))
}
