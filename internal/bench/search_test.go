package bench

import (
	"math"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

// searched runs a search to its end. probe gives the result of a probe at a rate.
func searched(t *rapid.T, search Search, probe func(rate float64) reports.BenchHold) reports.BenchSearch {
	var probes []reports.BenchProbe
	_, most := search.bounds()
	for range most + 1 {
		rate, done := search.next(probes)
		if done {
			return search.found(probes)
		}
		if rate > search.Highest.PerSecond() || rate < search.Lowest.PerSecond() {
			t.Fatalf("it tries %v, outside of %v to %v", rate, search.Lowest, search.Highest)
		}
		probes = append(probes, reports.BenchProbe{Rate: rate, Hold: probe(rate)})
	}
	t.Fatalf("it is not over after %d probes, which is more than it may take", len(probes))
	return reports.BenchSearch{}
}

func anySearch(t *rapid.T) Search {
	lowest := rapid.Float64Range(1, 2000).Draw(t, "lowest")
	return Search{
		Lowest: units.Rate(lowest), Highest: units.Rate(lowest * rapid.Float64Range(1, 500).Draw(t, "highest")),
		Precision: units.Percent(rapid.Float64Range(0.02, 0.5).Draw(t, "precision")),
	}
}

// TestSearchFindsTheKnee checks that, for a consumer that holds every rate below its limit and none above, the limit is
// found with the requested precision.
func TestSearchFindsTheKnee(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		search := anySearch(t)
		limit := rapid.Float64Range(search.Lowest.PerSecond()/2, 2*search.Highest.PerSecond()).Draw(t, "limit")
		found := searched(t, search, func(rate float64) reports.BenchHold {
			if rate <= limit {
				return reports.BenchHeld
			}
			return reports.BenchNotHeld
		})
		switch found.Limit {
		case reports.BenchLimitNone:
			if limit >= search.Lowest.PerSecond() || found.Rate != 0 {
				t.Fatalf("nothing held, with a limit of %v: %+v", limit, found)
			}
		case reports.BenchLimitHighest:
			if limit < search.Highest.PerSecond() || found.Rate != search.Highest.PerSecond() {
				t.Fatalf("the highest rate held, with a limit of %v: %+v", limit, found)
			}
		case reports.BenchLimitConsumer:
			// Rates have three digits.
			if found.Rate > limit || found.Above <= limit || found.Above > found.Rate*(1+search.Precision.Share())*1.011 {
				t.Fatalf("%v to %v, with a limit of %v", found.Rate, found.Above, limit)
			}
		default:
			t.Fatalf("the limit is %q", found.Limit)
		}
	})
}

// TestSearchInNoise checks a consumer that sometimes falls short of what it can do, and never exceeds it.
func TestSearchInNoise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		search := Search{Lowest: 100, Highest: 100_000, Precision: 0.1}
		limit := rapid.Float64Range(200, 50_000).Draw(t, "limit")
		hiccups := rapid.SliceOfN(rapid.IntRange(0, 9), 64, 64).Draw(t, "hiccups")
		n, bad := 0, 0
		found := searched(t, search, func(rate float64) reports.BenchHold {
			n++
			// One probe in ten fails by chance, but never two in a row.
			if hiccups[n%len(hiccups)] == 0 && bad != n-1 {
				bad = n
				return reports.BenchNotHeld
			}
			if rate <= limit {
				return reports.BenchHeld
			}
			return reports.BenchNotHeld
		})
		if found.Rate > limit || found.Rate < limit/1.12 {
			t.Fatalf("it found %v of %v", found.Rate, limit)
		}
	})
}

// TestSearchAtTheHarnessLimit checks that a limit of the load generator is never attributed to the consumer.
func TestSearchAtTheHarnessLimit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		search := anySearch(t)
		consumer := rapid.Float64Range(search.Lowest.PerSecond()/2, 2*search.Highest.PerSecond()).Draw(t, "consumer")
		harness := rapid.Float64Range(search.Lowest.PerSecond()/2, 2*search.Highest.PerSecond()).Draw(t, "harness")
		found := searched(t, search, func(rate float64) reports.BenchHold {
			switch {
			case rate > harness:
				return reports.BenchUnproven
			case rate > consumer:
				return reports.BenchNotHeld
			}
			return reports.BenchHeld
		})
		if found.Rate > min(consumer, harness) {
			t.Fatalf("%v held, with limits of %v and %v", found.Rate, consumer, harness)
		}
		switch found.Limit {
		case reports.BenchLimitConsumer, reports.BenchLimitNone:
			if found.Above > harness || found.Above <= consumer {
				t.Fatalf("%v is put down to a consumer that holds %v, where the harness manages %v", found.Above, consumer, harness)
			}
		case reports.BenchLimitHarness:
			if found.Above <= harness {
				t.Fatalf("%v is put down to the harness, which manages %v", found.Above, harness)
			}
		}
	})
}

// A search in which every rate up to the maximum holds needs no more probes than doubling does.
func TestSearchGoesUpByDoubling(t *testing.T) {
	search := Search{Lowest: 100, Highest: 1000, Precision: 0.1}
	var rates []float64
	var probes []reports.BenchProbe
	for {
		rate, done := search.next(probes)
		if done {
			break
		}
		rates = append(rates, rate)
		probes = append(probes, reports.BenchProbe{Rate: rate, Hold: reports.BenchHeld})
	}
	want := []float64{100, 200, 400, 800, 1000}
	if len(rates) != len(want) || rates[4] != 1000 || rates[1] != 200 {
		t.Errorf("it tried %v, want %v", rates, want)
	}
}

// A probe that did not hold is repeated; two of three decide.
func TestDecide(t *testing.T) {
	const held, not, open = reports.BenchHeld, reports.BenchNotHeld, reports.BenchUnproven
	for _, test := range []struct {
		probes  []reports.BenchHold
		want    reports.BenchHold
		decided bool
	}{
		{nil, "", false}, {[]reports.BenchHold{held}, held, true}, {[]reports.BenchHold{not}, "", false},
		{[]reports.BenchHold{open}, "", false},
		{[]reports.BenchHold{not, held}, held, true}, {[]reports.BenchHold{not, not}, not, true},
		{[]reports.BenchHold{open, open}, open, true},
		{[]reports.BenchHold{not, open}, "", false}, {[]reports.BenchHold{open, not, open}, open, true},
		{[]reports.BenchHold{not, open, not}, not, true}, {[]reports.BenchHold{open, not, held}, held, true},
	} {
		var probes []reports.BenchProbe
		for _, hold := range test.probes {
			probes = append(probes, reports.BenchProbe{Rate: 7, Hold: hold}, reports.BenchProbe{Rate: 8, Hold: held})
		}
		if got, decided := decide(probes, 7); got != test.want || decided != test.decided {
			t.Errorf("%v: %q, %v; want %q, %v", test.probes, got, decided, test.want, test.decided)
		}
	}
}

func TestRound(t *testing.T) {
	for rate, want := range map[float64]float64{1234.5: 1230, 99.95: 100, 1: 1, 0.12345: 0.123, 100_000: 100_000,
		141.42: 141} {
		if got := round(rate); math.Abs(got-want) > 1e-9 {
			t.Errorf("round(%v) = %v, want %v", rate, got, want)
		}
	}
}
