package stats

import (
	"encoding/json"
	"math"
	"math/big"
	"math/bits"
	"math/rand/v2"
	"slices"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestSummarize(t *testing.T) {
	got := Summarize([]float64{5, math.NaN(), 1, 3, 2, math.Inf(1), 4})
	want := Summary{Count: 5, Median: 3, Q1: 2, Q3: 4, Min: 1, Max: 5}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	if spread := got.Spread(); math.Abs(spread-2.0/3) > 1e-12 {
		t.Errorf("spread %v, want 2/3", spread)
	}
	if got := Summarize(nil); got != (Summary{}) || got.Spread() != 0 {
		t.Errorf("of nothing: %+v", got)
	}
	if m := Median([]float64{4, 1, 3, 2}); m != 2.5 {
		t.Errorf("median %v, want 2.5", m)
	}
	if !math.IsNaN(Median(nil)) {
		t.Error("nothing has a median")
	}
}

// By hand: the pairs of one group differ by 1, 2, 1, of the other by 10; three quarters of 1, 1, 2, 10 end at 4.
func TestNoiseIsThatOfRepetitionsOnly(t *testing.T) {
	if got := Noise([]float64{1, 2, 3}, []float64{100, 110}, []float64{5000}); got != 4 {
		t.Errorf("got %v, want 4", got)
	}
	if got := Noise([]float64{1}, []float64{9}); !math.IsNaN(got) {
		t.Errorf("nothing was repeated, but the noise is %v", got)
	}
	if got := RelativeNoise([]float64{99, 101}, []float64{990, 1010}, []float64{0, 0, 5}); math.Abs(got-0.02) > 1e-12 {
		t.Errorf("got %v, want 0.02", got)
	}
}

// The reference counts every deal by itself.
func bruteP(a, b []float64) float64 {
	all := slices.Concat(a, b)
	rank := func(v float64) float64 {
		below, equal := 0, 0
		for _, w := range all {
			if w < v {
				below++
			} else if w == v {
				equal++
			}
		}
		return float64(below) + float64(equal+1)/2
	}
	mean := float64(len(a)) * float64(len(all)+1) / 2
	seen := 0.0
	for _, v := range a {
		seen += rank(v)
	}
	deals, beyond := 0, 0
	for mask := range uint(1) << len(all) {
		if bits.OnesCount(mask) != len(a) {
			continue
		}
		sum := 0.0
		for i, v := range all {
			if mask>>i&1 == 1 {
				sum += rank(v)
			}
		}
		deals++
		if math.Abs(sum-mean) >= math.Abs(seen-mean)-1e-9 {
			beyond++
		}
	}
	return float64(beyond) / float64(deals)
}

func permutationP(a, b []float64) float64 {
	t := newTest(a, b)
	return t.p(t.distance)
}

func TestPermutationPIsExact(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		// Few different values make ties.
		figures := rapid.SliceOfN(rapid.Map(rapid.IntRange(0, 5), func(i int) float64 { return float64(i) }), 1, 6)
		if rapid.Bool().Draw(t, "no ties") {
			figures = rapid.SliceOfN(rapid.Float64Range(0, 1e6), 1, 6)
		}
		a, b := figures.Draw(t, "a"), figures.Draw(t, "b")
		if got, want := permutationP(a, b), bruteP(a, b); math.Abs(got-want) > 1e-9 {
			t.Fatalf("p = %v, counting every deal gives %v", got, want)
		}
	})
}

func TestPermutationPByTheBook(t *testing.T) {
	tests := []struct {
		a, b []float64
		want float64
	}{
		{[]float64{1}, []float64{2}, 1},
		{[]float64{1, 2, 3}, []float64{4, 5, 6}, 2.0 / 20},
		{[]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}, 2.0 / 70},
		{[]float64{1, 2, 3, 4, 5}, []float64{6, 7, 8, 9, 10}, 2.0 / 252},
		{[]float64{7, 7, 7}, []float64{7, 7, 7}, 1},
		{nil, []float64{1, 2}, 1},
	}
	for _, test := range tests {
		if got := permutationP(test.a, test.b); math.Abs(got-test.want) > 1e-12 {
			t.Errorf("%v against %v: p = %v, want %v", test.a, test.b, got, test.want)
		}
	}
}

// Beyond exactUpTo p is drawn: it stays close to the exact one, which the same code gives one figure below that.
func TestDrawnPIsCloseToTheExactOne(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 3))
	for _, shift := range []float64{0, 0.3, 0.5} {
		a, b := sample(random, 50, 1), sample(random, 50, 1)
		for i := range b {
			b[i] += shift
		}
		tested := newTest(a, b)
		exact, drawn := tested.p(tested.distance), tested.drawn(tested.distance)
		if bound := 5*math.Sqrt(exact*(1-exact)/draws) + 2.0/draws; math.Abs(exact-drawn) > bound {
			t.Errorf("shift %v: drawn %v, exact %v, more than %v apart", shift, drawn, exact, bound)
		}
	}
	a, b := sample(random, 60, 1), sample(random, 60, 1)
	if first, second := permutationP(a, b), permutationP(b, a); first != second || first != permutationP(a, b) {
		t.Errorf("the same values give %v and %v", first, second)
	}
	for i := range b {
		b[i] += 100
	}
	if p := permutationP(a, b); p <= 0 || p > 1e-4 {
		t.Errorf("far apart, p = %v", p)
	}
}

// sample draws figures as runs give them: skewed, with a wild one now and then.
func sample(random *rand.Rand, n int, level float64) []float64 {
	out := make([]float64, n)
	for i := range out {
		out[i] = level * math.Exp(0.05*random.NormFloat64())
		if random.IntN(15) == 0 {
			out[i] *= 1 + random.Float64()
		}
	}
	return out
}

func drawFigures(t *rapid.T, name string, least int) []float64 {
	return rapid.SliceOfN(rapid.Float64Range(0.5, 1e4), least, 8).Draw(t, name)
}

func TestCompareIsSymmetric(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawFigures(t, "a", 1), drawFigures(t, "b", 1)
		there, back := Compare(a, b), Compare(b, a)
		if there.P != back.P || there.Real != back.Real || there.Needed != back.Needed || there.Level != back.Level {
			t.Fatalf("there %+v, back %+v", there, back)
		}
		if !near(there.Ratio, 1/back.Ratio) || !near(there.Low, 1/back.High) || !near(there.Noise, back.Noise) {
			t.Fatalf("there %+v, back %+v", there, back)
		}
		a[0], b[0] = 0, 0 // then differences are compared
		there, back = Compare(a, b), Compare(b, a)
		if there.Real != back.Real || !near(there.Shift, -back.Shift) ||
			!near(there.ShiftLow, -back.ShiftHigh) || !near(there.Floor, back.Floor) {
			t.Fatalf("there %+v, back %+v", there, back)
		}
	})
}

func TestCompareDoesNotMindTheOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawFigures(t, "a", 1), drawFigures(t, "b", 1)
		if got, want := Compare(rapid.Permutation(a).Draw(t, "dealt a"), rapid.Permutation(b).Draw(t, "dealt b")),
			Compare(a, b); !same(got, want) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

// The same figures in ms or in µs are the same.
func TestCompareDoesNotMindTheUnit(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		a, b := drawFigures(t, "a", 1), drawFigures(t, "b", 1)
		unit := math.Pow(2, float64(rapid.IntRange(-10, 10).Draw(t, "unit"))) // without rounding
		got, want := Compare(scaled(a, unit), scaled(b, unit)), Compare(a, b)
		if got.P != want.P || got.Real != want.Real || !near(got.Ratio, want.Ratio) || !near(got.Low, want.Low) ||
			!near(got.High, want.High) || !near(got.Noise, want.Noise) || !near(got.Shift, want.Shift*unit) {
			t.Fatalf("got %+v, want %+v", got, want)
		}
	})
}

func scaled(values []float64, by float64) []float64 {
	out := make([]float64, len(values))
	for i, v := range values {
		out[i] = v * by
	}
	return out
}

func TestCompareHoldsTogether(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		d := Compare(drawFigures(t, "a", 0), drawFigures(t, "b", 0))
		switch {
		case d.ShiftLow > d.Shift || d.Shift > d.ShiftHigh, d.Low > d.Ratio || d.Ratio > d.High:
			t.Fatalf("the effect is not in its interval: %+v", d)
		case d.P <= 0 || d.P > 1 || d.Adjusted < d.P:
			t.Fatalf("no probability: %+v", d)
		case d.Real && (d.Needed > 0 || d.Adjusted > Alpha || max(d.Ratio, 1/d.Ratio) <= 1+d.Noise):
			t.Fatalf("called one against its own rules: %+v", d)
		// even if the sides were as far apart as can be, chance makes that too often
		case d.Real && deals(d.CountA, d.CountB) < 2/Alpha:
			t.Fatalf("called one with too few repetitions: %+v", d)
		}
	})
}

// deals is the number of ways to deal n+m values to sides of n and m.
func deals(n, m int) float64 {
	return float64(new(big.Int).Binomial(int64(n+m), int64(n)).Int64())
}

// Both sides come from the same distribution, thousands of times: no more than Alpha of them may be called different,
// whatever the sizes.
func TestFalseAlarmsStayWithinTheBound(t *testing.T) {
	const trials = 2500
	random := rand.New(rand.NewPCG(7, 11))
	for _, size := range []int{1, 3, 4, 5, 7, 12} {
		alarms, small, covered := 0, 0, 0
		level := 0.0
		for range trials {
			d := Compare(sample(random, size, 100), sample(random, size, 100))
			level = d.Level
			if d.Real {
				alarms++
			}
			if d.P <= Alpha {
				small++
			}
			if d.ShiftLow <= 0 && d.ShiftHigh >= 0 {
				covered++
			}
		}
		most := int(trials*Alpha + 4*math.Sqrt(trials*Alpha*(1-Alpha)))
		if small > most || alarms > small {
			t.Errorf("%d repetitions: %d of %d have p ≤ %v, and %d are called different; at most %d may", size, small, trials,
				Alpha, alarms, most)
		}
		if least := trials*level - 4*math.Sqrt(trials*level*(1-level)) - 1; float64(covered) < least {
			t.Errorf("%d repetitions: the interval of %v holds the truth %d times of %d", size, level, covered, trials)
		}
	}
}

// Twenty figures at once, all without any difference: that one of them is called one must stay rare.
func TestManyFiguresDoNotCryWolf(t *testing.T) {
	const trials, figures = 1000, 20
	random := rand.New(rand.NewPCG(5, 8))
	alone, together := 0, 0
	for range trials {
		pairs := make([]Pair, figures)
		singly := false
		for i := range pairs {
			pairs[i] = Pair{sample(random, 7, 100), sample(random, 7, 100)}
			singly = singly || permutationP(pairs[i].A, pairs[i].B) <= Alpha
		}
		if singly {
			alone++
		}
		if slices.ContainsFunc(CompareAll(pairs), func(d Difference) bool { return d.Adjusted <= Alpha }) {
			together++
		}
	}
	if most := int(trials*Alpha + 4*math.Sqrt(trials*Alpha*(1-Alpha))); together > most {
		t.Errorf("an alarm in %d of %d, at most %d may have one", together, trials, most)
	}
	if alone < trials/3 {
		t.Errorf("without the correction only %d of %d had an alarm: this test shows nothing", alone, trials)
	}
}

func TestARealShiftIsFound(t *testing.T) {
	const trials = 400
	random := rand.New(rand.NewPCG(1, 2))
	for size, least := range map[int]int{5: 70, 8: 90} {
		found := 0
		for range trials {
			if d := Compare(sample(random, size, 100), sample(random, size, 140)); d.Real && d.Ratio > 1.1 {
				found++
			}
		}
		if found < trials*least/100 {
			t.Errorf("%d repetitions: a shift by 40 %% was found %d times of %d, want %d %%", size, found, trials, least)
		}
	}
}

// However far apart: too few repetitions can't show it, and it says how many could.
func TestTooFewRepetitions(t *testing.T) {
	tests := []struct{ a, b, needed int }{{1, 1, 4}, {2, 2, 4}, {3, 3, 4}, {1, 38, 4}, {1, 39, 0}, {4, 4, 0}, {3, 5, 0},
		{0, 9, 4}}
	for _, test := range tests {
		a, b := make([]float64, test.a), make([]float64, test.b)
		for i := range a {
			a[i] = 100 + float64(i)/10
		}
		for i := range b {
			b[i] = 1000 + float64(i)/10
		}
		d := Compare(a, b)
		if d.Needed != test.needed || d.Real != (test.needed == 0) {
			t.Errorf("%d against %d: needed %d, real %v; want %d", test.a, test.b, d.Needed, d.Real, test.needed)
		}
	}
	for figures, want := range map[int]int{0: 4, 1: 4, 2: 5, 6: 5, 7: 6, 23: 6, 24: 7, 85: 7} {
		if got := Needed(figures); got != want {
			t.Errorf("for %d figures: %d, want %d", figures, got, want)
		}
	}
}

// A clear shift that is smaller than what identical repetitions differ by is not called one, however small p is.
func TestBelowTheNoiseIsNoDifference(t *testing.T) {
	var a, b []float64
	for i := range 60 {
		at := 100 + 20*float64(i)/60
		a, b = append(a, at), append(b, at+6)
	}
	if d := Compare(a, b); d.P > Alpha || d.Real || d.Shift >= d.Floor {
		t.Errorf("%+v", d)
	}
	// A hundredth is never acted on, even where repetitions don't differ at all.
	if d := Compare([]float64{1000, 1000, 1000, 1000}, []float64{1001, 1001, 1001, 1001}); d.Real || d.P > Alpha {
		t.Errorf("%+v", d)
	}
	if d := Compare([]float64{1000, 1000, 1000, 1000}, []float64{1020, 1020, 1020, 1020}); !d.Real {
		t.Errorf("%+v", d)
	}
}

func TestCountsThatAreZero(t *testing.T) {
	d := Compare([]float64{0, 0, 1, 1, 0}, []float64{50, 60, 55, 52, 58})
	if !d.Real || d.Shift != 55 || !math.IsInf(d.Ratio, 1) {
		t.Errorf("from nothing to many: %+v", d)
	}
	d = Compare([]float64{50, 60, 55, 52, 58}, []float64{0, 0, 0, 0, 0})
	if !d.Real || d.Ratio > 0.01 {
		t.Errorf("from many to nothing: %+v", d)
	}
	d = Compare(make([]float64, 9), make([]float64, 9))
	if d.Real || d.Ratio != 1 || d.P != 1 || d.Needed != 0 {
		t.Errorf("from nothing to nothing: %+v", d)
	}
}

// The wild repetition that any series has neither makes a difference nor hides one.
func TestOneWildRepetition(t *testing.T) {
	if d := Compare([]float64{10, 11, 10.5, 10.2, 10.8}, []float64{10.1, 10.9, 10.4, 10.6, 900}); d.Real || d.Ratio > 1.1 {
		t.Errorf("made a difference: %+v", d)
	}
	if d := Compare([]float64{10, 11, 10.5, 10.2, 10.8}, []float64{15.1, 15.9, 15.4, 15.6, 900}); !d.Real ||
		d.Ratio > 1.6 {
		t.Errorf("hid one: %+v", d)
	}
}

func TestHolm(t *testing.T) {
	got := Holm([]float64{0.01, 0.04, 0.03, 0.005})
	want := []float64{0.03, 0.06, 0.06, 0.02}
	for i := range want {
		if !near(got[i], want[i]) {
			t.Fatalf("got %v, want %v", got, want)
		}
	}
	if got := Holm(nil); len(got) != 0 {
		t.Errorf("of nothing: %v", got)
	}
}

// What can't vary, and what was not repeated, costs the others nothing.
func TestTheFamilyIsWhatCouldDiffer(t *testing.T) {
	a, b := []float64{1, 2, 3, 4}, []float64{11, 12, 13, 14}
	constant := Pair{[]float64{7, 7, 7, 7}, []float64{7, 7, 7, 7}}
	once := Pair{[]float64{1}, []float64{2}}
	all := CompareAll([]Pair{{a, b}, constant, once, constant})
	if !all[0].Real || all[0].Adjusted != all[0].P {
		t.Errorf("%+v", all[0])
	}
	if all[2].Needed != 5 || all[2].Real {
		t.Errorf("with it the family has two: %+v", all[2])
	}
	if both := CompareAll([]Pair{{a, b}, {a, b}}); both[0].Real || both[0].Needed != 5 {
		t.Errorf("two at once need five repetitions: %+v", both[0])
	}
}

func TestDifferenceJSON(t *testing.T) {
	for _, d := range []Difference{
		Compare([]float64{1, 2, 3, 4}, []float64{5, 6, 7, 8}), Compare([]float64{0}, []float64{5}), Compare(nil, nil),
	} {
		data := must.Get(json.Marshal(d))(t)
		var back Difference
		must.Do(t, json.Unmarshal(data, &back))
		again, err := json.Marshal(back)
		if err != nil || string(again) != string(data) {
			t.Errorf("%s became %s (%v)", data, again, err)
		}
	}
	if err := new(Difference).UnmarshalJSON([]byte(`{"a": "x"}`)); err == nil {
		t.Error("a text is no figure")
	}
}

func near(a, b float64) bool {
	return a == b || math.Abs(a-b) <= 1e-9*max(1, math.Abs(a), math.Abs(b)) || math.IsNaN(a) && math.IsNaN(b)
}

func same(a, b Difference) bool {
	left, err1 := json.Marshal(a)
	right, err2 := json.Marshal(b)
	return err1 == nil && err2 == nil && string(left) == string(right)
}
