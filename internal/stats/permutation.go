package stats

import (
	"math"
	"math/rand/v2"
	"slices"
)

// exactUpTo is for how many figures on both sides together all permutations are counted: some 40 million additions for
// the most of them. For more, draws are counted.
const exactUpTo = 100

// draws is how many random permutations stand for all: the least p is then 1/20,001, and one of 5 % is known to ± 0.3
// %.
const draws = 20_000

// test is one permutation test of the rank sum, with the doubled mid-ranks (so that they are whole numbers) of all
// values, and how the smaller side stands. Its two-sided p is how often a random deal of the same values to two sides
// of the same sizes is at least as far apart as the two sides are. Up to exactUpTo values on both sides together all
// deals count, so that it is exact with any ties; beyond, it is estimated from draws of a fixed seed (and is never 0).
// The order of values does not matter, nor which side is which.
type test struct {
	ranks []int
	// small is the size of the smaller side, large that of the other; total is the sum of all ranks.
	small, large, total int
	// distance is how far the smaller side's rank sum is from its mean, times the number of all values (which keeps it
	// a whole number).
	distance int
}

func newTest(a, b []float64) test {
	a, b = finite(a), finite(b)
	if len(a) > len(b) {
		a, b = b, a
	}
	all := slices.Sorted(slices.Values(slices.Concat(a, b)))
	t := test{small: len(a), large: len(b), ranks: make([]int, len(all))}
	rank := map[float64]int{}
	for from := 0; from < len(all); {
		to := from
		for to < len(all) && all[to] == all[from] {
			to++
		}
		rank[all[from]] = from + to + 1 // twice the mean of the ranks from+1 … to
		for i := from; i < to; i++ {
			t.ranks[i] = from + to + 1
			t.total += from + to + 1
		}
		from = to
	}
	sum := 0
	for _, v := range a {
		sum += rank[v]
	}
	t.distance = t.from(sum)
	return t
}

// from is the distance of a rank sum of the smaller side from its mean.
func (t test) from(sum int) int {
	d := sum*len(t.ranks) - t.small*t.total
	return max(d, -d)
}

// p is the share of all deals whose distance is at least this; 1 where a side is empty.
func (t test) p(distance int) float64 {
	if t.small == 0 || distance == 0 {
		return 1
	}
	if len(t.ranks) > exactUpTo {
		return t.drawn(distance)
	}
	p := 0.0
	for sum, share := range sums(t.ranks, t.small) {
		if share > 0 && t.from(sum) >= distance {
			p += share
		}
	}
	return min(p, 1)
}

// drawn estimates p. What was seen is counted as one of the draws, so that the estimate is never too small a promise
// (Phipson and Smyth 2010).
func (t test) drawn(distance int) float64 {
	random := rand.New(rand.NewPCG(uint64(len(t.ranks)), uint64(t.small)))
	dealt := slices.Clone(t.ranks)
	beyond := 1
	for range draws {
		sum := 0
		for i := range t.small {
			j := i + random.IntN(len(dealt)-i)
			dealt[i], dealt[j] = dealt[j], dealt[i]
			sum += dealt[i]
		}
		if t.from(sum) >= distance {
			beyond++
		}
	}
	return float64(beyond) / (draws + 1)
}

// constant tells that all values are the same: there is nothing to test.
func (t test) constant() bool {
	return len(t.ranks) == 0 || t.ranks[0] == t.ranks[len(t.ranks)-1]
}

// sums returns, by sum, the share of all choices of n of the ranks that have it. It walks through the ranks and keeps,
// for every number of chosen ones, how often each sum came about: all permutations are counted without making one.
func sums(ranks []int, n int) []float64 {
	most := 0
	for _, rank := range ranks[len(ranks)-n:] { // ranks are sorted
		most += rank
	}
	// chosen[k][s] is the probability that k of the ranks seen so far are chosen and have the sum s, where each rank is
	// taken as in a draw without replacement: weights stay near 1, where counts of choices would leave the range of
	// exact numbers.
	chosen := make([][]float64, n+1)
	for k := range chosen {
		chosen[k] = make([]float64, most+1)
	}
	chosen[0][0] = 1
	for i, rank := range ranks {
		for k := min(n, i+1); k >= 0; k-- {
			// Of the len−i ranks that are left, n−k are still to be chosen.
			left := float64(len(ranks) - i)
			skip := max(0, 1-float64(n-k)/left)
			row := chosen[k]
			for s := range row {
				row[s] *= skip
			}
			if k == 0 {
				continue
			}
			take := min(1, float64(n-k+1)/left)
			for s, share := range chosen[k-1][:most+1-min(rank, most+1)] {
				row[s+rank] += share * take
			}
		}
	}
	return chosen[n]
}

// leastP is the smallest two-sided p that n against m values without ties can have: 2 of all deals, those where every
// value of one side is above every value of the other.
func leastP(n, m int) float64 {
	if n == 0 || m == 0 {
		return 1
	}
	ways := 1.0 // of choosing n of n+m
	for i := range min(n, m) {
		ways *= float64(n+m-i) / float64(i+1)
		if math.IsInf(ways, 1) {
			return 0
		}
	}
	return min(1, 2/ways)
}
