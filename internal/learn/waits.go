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
	// grows is by how much a wait must be longer than another one to be more than that with some noise: a later step of
	// the same backoff.
	grows = 1.15
	// early is the time by which a timer may end too soon: those of .NET count by a coarse clock of the kernel, whose tick
	// is 4 ms on most machines. It is at most the earlyShare-th part of a wait, less than the distance between two figures
	// that people write. The judge allows for longer ticks, too (assertions/tolerances.go).
	early      = 5 * time.Millisecond
	earlyShare = 20
	// jitters is the share of the shortest wait from which on a spread may be jitter.
	jitters = 0.15
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

// fit finds a backoff with figures that people write that fits the waits. gaps holds the waits after the first attempt,
// after the second, and so on. ok is false if there are too few, or if they are no waits.
//
// A wait may be longer than the consumer meant, by a timer, a busy machine or a fetch under way, and shorter only by as
// much as a timer may be early. So no promise is longer than the shortest wait seen and that. By what the first wait is
// longer than the promised one, the others may be, too: a call and a busy machine take their time on top of each. Of
// several that fit, the one that supposes the least of it is taken, and of these the one that grows least. A cap is the
// last resort.
func fit(gaps [][]time.Duration) (b backoff, ok bool) {
	steps := stepsOf(gaps)
	if len(steps) == 0 || len(gaps[0]) < leastGaps || steps[0].most < atOnce {
		return b, false
	}
	// The last wait may be the first that the cap shortens: then nothing shows that waits don't grow beyond it.
	for _, limit := range []time.Duration{limitOf(steps), roundDown(steps[len(steps)-1].most)} {
		least := steps[0].written()
		for initial := roundDown(steps[0].most); initial >= least; initial = roundDown(initial - 1) {
			b = backoff{initial: initial, cap: limit}
			for _, b.multiplier = range []float64{1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 10} {
				if b.fits(steps) {
					if b.cap > 0 && b.cap <= b.initial {
						b = backoff{initial: b.cap, multiplier: 1}
					}
					return b, true
				}
			}
		}
	}
	return backoff{initial: slices.MinFunc(steps, step.compare).written(), multiplier: 1}, true
}

// step is what the waits after one attempt say of the promised one: it is not longer than most, the shortest wait seen
// and what a timer may be early, and probably not shorter than least.
type step struct{ least, most time.Duration }

func (s step) compare(other step) int { return int(s.most - other.most) }

// written returns the least wait with a figure that people write that it can be.
func (s step) written() time.Duration {
	if wait := roundUp(s.least); wait > 0 && wait <= s.most {
		return wait
	}
	return roundDown(s.most)
}

// stepsOf returns the steps, up to the first without a wait. The shortest of n waits that are spread evenly over a
// range is longer than its lower end by the n-th part of it, on average; three times that is allowed for. One wait that
// a busy machine made long says nothing about it.
func stepsOf(gaps [][]time.Duration) []step {
	var steps []step
	for _, of := range gaps {
		if len(of) == 0 {
			break
		}
		shortest := slices.Min(of)
		steps = append(steps, step{
			least: shortest - 3*spreadOf(of)/time.Duration(len(of)) - shortest/50, most: shortest + earlyIn(shortest),
		})
	}
	return steps
}

// earlyIn returns by how much a timer may have shortened the wait.
func earlyIn(wait time.Duration) time.Duration { return min(early, wait/earlyShare) }

// leastOf returns a wait that is certainly no longer than the first one that is meant: less than atOnce if there may be
// none, as with random waits from zero on, or with copies that are tried as soon as they are read. wide: nothing else
// is certain, because the first waits are not close together at their lower end: a fetch under way or a busy machine
// may have made each of them longer. gaps[0] has leastGaps or more.
func leastOf(gaps [][]time.Duration) (least time.Duration, wide bool) {
	first := slices.Sorted(slices.Values(gaps[0]))
	return roundDown(stepsOf(gaps)[0].least), float64(first[leastGaps-1]) > grows*float64(first[0])
}

// spreadOf is the width of the range over which waits are spread: twice that of its lower half.
func spreadOf(waits []time.Duration) time.Duration {
	sorted := slices.Sorted(slices.Values(waits))
	return 2 * (sorted[len(sorted)/2] - sorted[0])
}

// limitOf returns the wait from which on waits don't grow any more, 0 if they grow to the end or never do.
func limitOf(steps []step) time.Duration {
	from := len(steps)
	for from > 1 && float64(steps[from-1].most) < grows*float64(steps[from-2].most) {
		from--
	}
	if from == len(steps) || from == 1 {
		return 0
	}
	return roundDown(slices.MinFunc(steps[from-1:], step.compare).most)
}

// fits reports whether every step can be the promised wait. Where waits have reached the cap, they may be longer.
func (b backoff) fits(steps []step) bool {
	late := steps[0].most - b.wait(1)
	for k, one := range steps {
		wait := b.wait(k + 1)
		if wait > one.most || wait < one.least-late && (b.cap == 0 || wait < b.cap) && k > 0 {
			return false
		}
	}
	return true
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
