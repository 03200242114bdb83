package main

import (
	"slices"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
)

// Figures from a history on which judging ends early, or finds anomalies, are meaningless.
func TestStoryIsACorrectRunInWhichEverythingIsJudged(t *testing.T) {
	for _, s := range []story{{records: 3000, attempts: 1}, {records: 2000, attempts: 23}} {
		verdict, _, err := assertions.Judge(s)
		if err != nil || verdict.Verdict != assertions.Pass {
			t.Fatalf("%+v is judged %v: %v", s, verdict, err)
		}
		judged := map[string]int64{}
		for _, result := range verdict.Invariants {
			judged[result.Name] = result.Judged
		}
		want := map[string]int64{
			"no-loss": int64(s.records), "bounded-retries": int64(s.records), "dlq-fidelity": int64(s.records / 50),
			"dlq-once":   int64(s.records / 50),
			"duplicates": int64(s.records - s.records/50), "ordering": int64(s.records - storyKeys),
		}
		for name, count := range want {
			if judged[name] != count {
				t.Errorf("%+v: %s judged %d of %d", s, name, judged[name], count)
			}
		}
	}
}

func TestStoryIsSortedByTime(t *testing.T) {
	events := story{records: 1000, attempts: 2}.events()
	if !slices.IsSortedFunc(events, func(a, b history.Event) int { return int(a.Time - b.Time) }) {
		t.Error("the events are not sorted by time")
	}
}

func TestInTurns(t *testing.T) {
	var order []int
	way := func(i int) func() (sample, error) {
		return func() (sample, error) { order = append(order, i); return sample{count: len(order)}, nil }
	}
	all, err := inTurns(3, []func() (sample, error){way(0), way(1)})
	if err != nil {
		t.Fatal(err)
	}
	if want := []int{0, 1, 1, 0, 0, 1, 1, 0}; !slices.Equal(order, want) {
		t.Errorf("the order was %v, want %v", order, want)
	}
	counts := func(samples []sample) []float64 {
		return each(samples, func(s sample) float64 { return float64(s.count) })
	}
	if got := counts(all[0]); !slices.Equal(got, []float64{4, 5, 8}) {
		t.Errorf("the first way has the measurements %v: the first round must not count", got)
	}
	if got := counts(all[1]); !slices.Equal(got, []float64{3, 6, 7}) {
		t.Errorf("the second way has the measurements %v", got)
	}
}

func TestRatiosCompareRoundByRound(t *testing.T) {
	count := func(s sample) float64 { return float64(s.count) }
	got := ratios("r", "", []sample{{count: 10}, {count: 30}, {count: 1}}, []sample{{count: 20}, {count: 30}, {count: 10}},
		count, "/s")
	if got.Value != 0.5 || got.Min != 0.1 || got.Max != 1 || got.Count != 3 || got.Detail != "10.0 /s against 20.0 /s" {
		t.Errorf("got %+v", got)
	}
	if even := summary("s", "", []float64{4, 1, 2, 3}); even.Value != 2.5 {
		t.Errorf("the median of 1 to 4 is given as %v", even.Value)
	}
}

func TestNumber(t *testing.T) {
	for _, c := range []struct {
		value float64
		unit  string
		want  string
	}{
		{0.914, "×", "0.91×"}, {0, "ms", "0 ms"}, {0.4567, "ms", "0.457 ms"}, {0.00123, "µs", "0.001 µs"},
		{12.34, "µs", "12.3 µs"},
		{-0.2, "µs", "-0.200 µs"}, {123.4, "bytes", "123 bytes"}, {9999, "/s", "9999 /s"}, {20000, "/s", "20.0 k/s"},
		{3_670_000, "events/s", "3.67 M events/s"}, {714_321, "/s", "714 k/s"}, {5, "", "5.00"},
	} {
		if got := number(c.value, c.unit); got != c.want {
			t.Errorf("number(%v, %q) = %q, want %q", c.value, c.unit, got, c.want)
		}
	}
}
