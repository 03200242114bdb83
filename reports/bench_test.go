package reports

import (
	"fmt"
	"io"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// benchSample is a repetition with predictable figures: p99 is the latency, rate the number of records finished per
// second.
func benchSample(number int, p99 time.Duration, rate float64) BenchRepetition {
	quantiles := measure.Quantiles{Count: 4000, P50: p99 / 10, P90: p99 / 2, P99: p99, P999: 2 * p99, Max: 3 * p99}
	histogram := hdrhistogram.New(1, 600_000_000, 3)
	_ = histogram.RecordValues(int64(p99/10/time.Microsecond), 3960)
	_ = histogram.RecordValues(int64(p99/time.Microsecond), 40)
	encoded, err := EncodeHDR(histogram)
	if err != nil {
		panic(err)
	}
	return BenchRepetition{Number: number, Run: BenchRun{
		Verdict: assertions.Pass, Started: time.Date(2026, 3, 1, 10, number, 0, 0, time.UTC), Elapsed: 9 * sec,
		SetUp:      700 * ms,
		Dir:        fmt.Sprintf("runs/20260301-10%02d00-smoke", number),
		Command:    "dlqbench run smoke --seed 7 --set subject.reference.max_in_flight=8",
		Throughput: measure.Throughput{Offered: 600, Sent: 600, Processed: rate},
		Latency: map[string]BenchLatency{
			measure.LatencySuccess: {Quantiles: quantiles, Phases: map[string]measure.Quantiles{"steady": quantiles},
				HDR: encoded},
			measure.LatencySlip: {Quantiles: measure.Quantiles{Count: 4000, P99: ms}},
		},
		Ledger: measure.Ledger{Planned: 4000, Sent: 4000, Acknowledged: 4000, Succeeded: 3900, DeadLettered: 100,
			Attempts: 4300, Duplicates: int64(number)},
		LagMax: 120, Drain: 300 * ms, Drained: true, Health: measure.Health{SlipP99: ms},
		Invariants: []BenchInvariant{
			{Name: "no-loss", Verdict: assertions.Pass, Judged: 4000},
			{Name: "replay-round-trip", Verdict: assertions.NotApplicable, Why: "nothing was replayed"},
		},
		Thresholds: []measure.Threshold{{Expression: "count.unfinished == 0", Met: true, Actual: "0"}},
		Recovery: []BenchRecovery{{Fault: "slow-downstream", What: "every attempt is answered 40 ms later", From: 2 * sec,
			To: 4 * sec, Recovery: measure.Recovery{Steady: measure.Span{State: measure.SpanKnown, Time: 250 * ms}}}},
	}}
}

// fixedResults has three cells: one that is ok, one that is faster, and one that is fastest and loses records.
func fixedResults() Bench {
	bench := Bench{
		Name: "concurrency", Description: "How many at a time.", File: "concurrency.yaml", SpecHash: "0123abcd",
		Version:     "v1.2.3",
		Environment: map[string]string{"cpus": "2", "kafka": "embedded"}, Scenario: "smoke", Subject: "reference", Seed: 7,
		Mode:    BenchFixed,
		Started: time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC), Elapsed: 140 * sec,
		Overhead:    BenchOverhead{Runs: 135 * sec, Share: 5.0 / 135},
		Repetitions: 5, Axes: []BenchAxis{{Path: "subject.reference.max_in_flight", Values: []string{"8", "64", "2000"}}},
		Faults: []string{"slow"},
	}
	for i, value := range bench.Axes[0].Values {
		cell := BenchCell{
			Number: i + 1, Name: "max_in_flight=" + value + ", slow",
			Settings: []BenchSetting{{Path: bench.Axes[0].Path, Value: value}}, Faults: "slow", State: BenchOK,
		}
		for n := 1; n <= 5; n++ {
			cell.Repetitions = append(cell.Repetitions, benchSample(n, time.Duration(400/(i+1)+n)*ms, float64(300*(i+1)+n)))
		}
		bench.Cells = append(bench.Cells, cell)
	}
	broken := &bench.Cells[2]
	broken.State, broken.Why, broken.Command = BenchBroken, []string{"no-loss was violated: 3 × lost"},
		"dlqbench run smoke --seed 7 --set subject.reference.max_in_flight=2000"
	broken.Repetitions[1].Run.Verdict, broken.Repetitions[1].Run.Reasons = assertions.Fail,
		[]string{"no-loss was violated"}
	broken.Repetitions[1].Run.Invariants[0] = BenchInvariant{Name: "no-loss", Verdict: assertions.Fail, Judged: 4000,
		Anomalies: map[string]int64{"lost": 3}}
	broken.Repetitions[4] = BenchRepetition{Number: 5, Run: BenchRun{Error: "starting Kafka: the port is taken"}}
	return bench
}

// searchResults has a cell whose limit is the consumer, and one whose limit is the harness.
func searchResults() Bench {
	bench := fixedResults()
	bench.Name, bench.Mode, bench.Bound, bench.Cells, bench.Axes[0].Values, bench.Interrupted = "highest-rate",
		BenchMaxThroughput, "latency.success.p99 < 200ms", bench.Cells[:2], []string{"8", "64"}, true
	for i := range bench.Cells {
		for j := range bench.Cells[i].Repetitions {
			repetition := &bench.Cells[i].Repetitions[j]
			rate := float64(800*(i+1) + 10*j)
			repetition.Search = &BenchSearch{Rate: rate, Above: 1.1 * rate, Limit: BenchLimitConsumer, Probes: []BenchProbe{
				{Rate: rate, Hold: BenchHeld, Run: repetition.Run.WithoutHistograms()},
				{Rate: 1.1 * rate, Hold: BenchNotHeld, Why: []string{"latency.success.p99 < 200ms was missed: 240ms"},
					Run: repetition.Run.WithoutHistograms()},
			}}
		}
	}
	last := bench.Cells[1].Repetitions[4].Search
	last.Limit, last.Probes[1].Hold, last.Probes[1].Why = BenchLimitHarness, BenchUnproven,
		[]string{"the load generator could not keep its schedule"}
	bench.Cells[1].Why = []string{"repetition 5: the consumer holds at least 1,640/s; whether it holds more this " +
		"machine can't show"}
	return bench
}

func partsResults(mode BenchMode) Bench {
	bench := fixedResults()
	bench.Name, bench.Mode, bench.Cells, bench.Axes, bench.Faults = string(mode), mode, bench.Cells[:1], nil, nil
	for i := range bench.Cells[0].Repetitions {
		var parts []BenchPart
		for k := range time.Duration(3) {
			parts = append(parts, BenchPart{From: k * sec, To: (k + 1) * sec, Rate: 100 * float64(k+1), Sent: 100 * float64(k+1),
				Processed: 90 * float64(k+1),
				Success:   measure.Quantiles{Count: 100, P99: (100 + 50*k + time.Duration(i)) * ms}, Backlog: 10 * int64(k)})
		}
		if mode == BenchSoak {
			bench.Cells[0].Repetitions[i].Drift = &BenchDrift{Parts: parts}
			continue
		}
		bench.Cells[0].Repetitions[i].Knee = &BenchKnee{Parts: parts, Rate: 200, Above: 300,
			Why: "the backlog grew by 30 records/s", Limit: BenchLimitConsumer}
	}
	return bench
}

func someAdvice() []BenchAdvice {
	return []BenchAdvice{
		{Text: "Don't use max_in_flight=2000, slow: it breaks a promise, however fast it is.",
			Evidence: []string{"no-loss was violated: 3 × lost", ShownBy + "dlqbench run smoke --seed 7"}, Cells: []int{3}},
		{Text: "Prefer max_in_flight=64 to max_in_flight=8: it has better p99 of success latency.",
			Evidence: []string{"p99 of success latency: 203 ms with max_in_flight=64, 403 ms with max_in_flight=8"},
			Cells:    []int{1, 2}},
	}
}

func allResults() map[string]Bench {
	return map[string]Bench{
		"results-fixed": fixedResults(), "results-search": searchResults(), "results-soak": partsResults(BenchSoak),
		"results-step": partsResults(BenchStep), "results-empty": {Name: "nothing", Mode: BenchFixed},
	}
}

// TestBenchGolden compares the formats of a bench's results with golden files. After an intended change run it with
// UPDATE_GOLDEN=1 and check the diff.
func TestBenchGolden(t *testing.T) {
	formats := map[string]func(io.Writer, Bench) error{"json": BenchJSON, "csv": BenchCSV, "cells.csv": BenchCellsCSV}
	for fixture, bench := range allResults() {
		bench.Advice = someAdvice()
		for extension, to := range formats {
			t.Run(fixture+"."+extension, func(t *testing.T) {
				var b strings.Builder
				must.Do(t, to(&b, bench))
				golden.Check(t, filepath.Join("testdata", fixture+"."+extension), b.String())
			})
		}
	}
}

// TestBenchComesBack checks that written results are read back unchanged, with empty lists in place of nil.
func TestBenchComesBack(t *testing.T) {
	for fixture, bench := range allResults() {
		var b strings.Builder
		must.Do(t, BenchJSON(&b, bench))
		if strings.Contains(b.String(), ": null") {
			t.Errorf("%s has a null", fixture)
		}
		got := must.Get(ReadBench(strings.NewReader(b.String())))(t)
		bench.Schema = BenchSchema
		if want := complete(bench); !reflect.DeepEqual(got, want) {
			t.Errorf("%s came back as\n%+v\nwant\n%+v", fixture, got, want)
		}
	}
}

func TestReadBenchRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"":                               "no results.json",
		"[]":                             "no results.json",
		"{}":                             "no results.json of a bench",
		`{"schema": 1}`:                  "no results.json of a bench",
		`{"schema": 2, "cells": []}`:     "they have schema 2, and this version of dlqbench reads 1",
		`{"schema": 1, "cells": [1]}`:    "reading the results",
		`{"schema": "one", "cells": []}`: "no results.json",
	} {
		if _, err := ReadBench(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// FuzzReadBench: reading any file gives either an error or results that can be written again.
func FuzzReadBench(f *testing.F) {
	for _, text := range []string{`{"schema":1,"cells":[]}`,
		`{"schema":1,"cells":[{"repetitions":[{"search":{"probes":[{}]}}]}]}`,
		`{"schema":1,"cells":[{}],"axes":[{}],"advice":[{}]}`, "{", "null"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		bench, err := ReadBench(strings.NewReader(text))
		if err != nil {
			return
		}
		for _, render := range []func(io.Writer, Bench) error{BenchJSON, BenchCSV, BenchCellsCSV} {
			if err := render(io.Discard, bench); err != nil {
				t.Errorf("it can't be written again: %v", err)
			}
		}
	})
}

// TestHistogramsComeBack checks that the overlaid histograms equal the measured ones.
func TestHistogramsComeBack(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		histogram := hdrhistogram.New(1, 600_000_000, 3)
		for _, v := range rapid.SliceOf(rapid.Int64Range(1, 600_000_000)).Draw(t, "values") {
			_ = histogram.RecordValue(v)
		}
		encoded := must.Get(EncodeHDR(histogram))(t)
		got, err := BenchLatency{HDR: encoded}.Histogram()
		if err != nil || !histogram.Equals(got) {
			t.Fatalf("%v: %v", err, got)
		}
	})
	if none, err := (BenchLatency{}).Histogram(); none != nil || err != nil {
		t.Errorf("%v, %v", none, err)
	}
	if _, err := (BenchLatency{HDR: "AAAA"}).Histogram(); err == nil {
		t.Error("four letters are read as a histogram")
	}
}

// TestUsableFigures: repetitions that prove nothing, that could not be run, or whose rate the harness limited give no
// figures of the consumer.
func TestUsableFigures(t *testing.T) {
	held, _ := BenchMaxThroughput.Figure("rate.held")
	p99, _ := BenchMaxThroughput.Figure("latency.success.p99")
	bench := searchResults()
	if got := len(bench.Cells[0].Figures(held)); got != 5 {
		t.Errorf("five searches have %d rates", got)
	}
	if got := len(bench.Cells[1].Figures(held)); got != 4 {
		t.Errorf("a rate that the harness limited counts: %d", got)
	}
	cell := fixedResults().Cells[2]
	cell.Repetitions[0].Run.Verdict = assertions.Inconclusive
	if got := len(cell.Figures(p99)); got != 3 {
		t.Errorf("of an inconclusive, a failed and an unrun repetition and two others %d count, want 3", got)
	}
	bench.Cells[1].Repetitions[4].Search.Rate = 0
	if p99s := len(bench.Cells[1].Figures(p99)); p99s != 4 {
		t.Errorf("a search that could try nothing counts: %d", p99s)
	}
	open := bench.Cells[0]
	open.Repetitions[0].Search.Limit = ""
	if got := len(open.Figures(held)); got != 4 {
		t.Errorf("a search that is not over counts: %d", got)
	}
}

// TestTablesAreNoPrograms: text that a spreadsheet would take for a formula stays text.
func TestTablesAreNoPrograms(t *testing.T) {
	bench := fixedResults()
	bench.Cells[0].Repetitions[0].Run.Error = "=HYPERLINK(\"http://example.com\")"
	bench.Cells[0].Repetitions[0].Run.BacklogGrowth = -12.5
	var b strings.Builder
	must.Do(t, BenchCSV(&b, bench))
	if !strings.Contains(b.String(), `'=HYPERLINK`) || !strings.Contains(b.String(), ",-12.5,") {
		t.Errorf("%s", b.String())
	}
}

func TestBenchRunLine(t *testing.T) {
	fixed, search := fixedResults(), searchResults()
	for _, test := range []struct {
		bench            Bench
		cell, repetition int
		want             string
	}{
		{fixed, 1, 1, "PASS          max_in_flight=8, slow, repetition 1: 301/s of 600/s, p99 401 ms\n"},
		{fixed, 3, 2, "FAIL          max_in_flight=2000, slow, repetition 2: 902/s of 600/s, p99 135 ms\n"},
		{fixed, 3, 5, "NOT RUN       max_in_flight=2000, slow, repetition 5: starting Kafka: the port is taken\n"},
		{search, 1, 1, "PASS          max_in_flight=8, slow, repetition 1: 301/s of 600/s, p99 401 ms; the search found " +
			"800/s (limit: consumer)\n"},
	} {
		var b strings.Builder
		if err := BenchRunLine(&b, test.bench, test.cell, test.repetition,
			test.bench.Cells[test.cell-1].Repetitions[test.repetition-1].Run); err != nil || b.String() != test.want {
			t.Errorf("%v: %q, want %q", err, b.String(), test.want)
		}
	}
}
