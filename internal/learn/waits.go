package learn

// The waits between attempts, and the backoff that fits them.

import (
	"math"
	"slices"
	"time"
)

const (
	// leastGaps is how many first waits there must be before anything is said of waits.
	leastGaps = 3
	// atOnce is the longest first wait that is none: the time of a call, a timer or a fetch under way.
	atOnce = 3 * time.Millisecond
	// grows is by how much a wait must be longer than the one before to be a later step of the same backoff.
	grows = 1.15
	// near is how far a ratio of two waits may be from a common multiplier.
	near = 0.12
)

// backoff is a promise of waits: never earlier than min(cap, initial·multiplier^(k−1)) after the k-th attempt. Jitter
// is no part of it: how far waits are spread by a busy machine or a fetch under way can't be told from a random wait.
type backoff struct {
	initial, cap time.Duration
	multiplier   float64
}

// wait returns the promised wait after the k-th attempt, from 1.
func (b backoff) wait(k int) time.Duration {
	wait := time.Duration(float64(b.initial) * math.Pow(b.multiplier, float64(k-1)))
	if b.cap > 0 {
		return min(wait, b.cap)
	}
	return wait
}

// fit finds a backoff with figures that people write, which no wait contradicts by being shorter. gaps holds the waits
// after the first attempt, after the second, and so on. ok is false if there are too few, or if they are no waits.
func fit(gaps [][]time.Duration) (b backoff, ok bool) {
	least := shortest(gaps)
	if len(least) == 0 || len(gaps[0]) < leastGaps || least[0] < atOnce {
		return b, false
	}
	limit := limitOf(least)
	for _, multiplier := range multipliers(least) {
		for initial := roundDown(least[0]); initial >= least[0]*lowest/100; initial = roundDown(initial - 1) {
			b = backoff{initial: initial, multiplier: multiplier, cap: limit}
			if !b.contradicted(least) {
				return b, true
			}
		}
	}
	return backoff{initial: roundDown(slices.Min(least)), multiplier: 1}, true
}

// lowest is the smallest initial wait that is tried, in percent of the shortest one seen: jitter may have shortened it.
const lowest = 60

// shortest returns the shortest wait after each attempt.
func shortest(gaps [][]time.Duration) []time.Duration {
	var least []time.Duration
	for _, of := range gaps {
		if len(of) == 0 {
			break
		}
		least = append(least, slices.Min(of))
	}
	return least
}

// limitOf returns the wait from which on waits don't grow any more, 0 if they grow to the end or never do.
func limitOf(least []time.Duration) time.Duration {
	from := len(least)
	for from > 1 && float64(least[from-1]) < grows*float64(least[from-2]) {
		from--
	}
	if from == len(least) || from == 1 {
		return 0
	}
	return roundDown(slices.Min(least[from-1:]))
}

// multipliers returns the multipliers to try, the likeliest first.
func multipliers(least []time.Duration) []float64 {
	if len(least) == 1 {
		return []float64{1}
	}
	first := multiplier(float64(least[1]) / float64(least[0]))
	all := []float64{first}
	for _, smaller := range []float64{3, 2, 1.5, 1.2} {
		if smaller < first {
			all = append(all, smaller)
		}
	}
	return append(all, 1)
}

// contradicted reports whether a wait was shorter than promised.
func (b backoff) contradicted(least []time.Duration) bool {
	for k, wait := range least {
		if wait < b.wait(k+1) {
			return true
		}
	}
	return false
}

// multiplier returns the common multiplier that the ratio is near to, else the ratio rounded down to a tenth; 1 if the
// waits don't grow.
func multiplier(ratio float64) float64 {
	if ratio < grows {
		return 1
	}
	for _, common := range []float64{1.5, 2, 2.5, 3, 4, 5, 10} {
		if math.Abs(ratio/common-1) <= near {
			return common
		}
	}
	return math.Floor(ratio*10) / 10
}

// mantissas are the figures that people write.
func mantissas() []float64 { return []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7.5, 8, 9} }

// roundDown returns the largest duration with such a figure that is not longer.
func roundDown(d time.Duration) time.Duration {
	if d <= 0 {
		return 0
	}
	step := math.Pow(10, math.Floor(math.Log10(float64(d))))
	best := step
	for _, m := range mantissas() {
		if m*step <= float64(d) {
			best = m * step
		}
	}
	return time.Duration(best)
}

// roundUp returns the smallest duration with such a figure that is not shorter.
func roundUp(d time.Duration) time.Duration {
	down := roundDown(d)
	if down == d || d <= 0 {
		return d
	}
	step := math.Pow(10, math.Floor(math.Log10(float64(d))))
	for _, m := range append(mantissas(), 10) {
		if m*step >= float64(d) {
			return time.Duration(m * step)
		}
	}
	return d
}
