package reports

// Realistic benches: a matrix with a broken and an inconclusive cell, a search, one that proves nothing, and one full
// of hostile texts.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
)

func benchFixtures() map[string]Bench {
	empty := Bench{Name: "empty", Scenario: "smoke", Mode: BenchFixed}
	return map[string]Bench{"matrix": matrixBench(), "search": searchBench(), "soak": soakBench(), "empty": empty}
}

// matrixBench crosses concurrency with ordering. Higher concurrency is faster. Without ordering it is fastest, and
// broken.
func matrixBench() Bench {
	bench := Bench{
		Schema: BenchSchema, Name: "concurrency",
		Description: "How many records one instance works on at a time, against the order that it keeps.",
		File:        "bench/concurrency.yaml", SpecHash: "5f1c0ffee", Version: "1.4.0", Scenario: "dlq-publish-failure",
		Subject: "reference", Seed: 42, Mode: BenchFixed,
		Environment: map[string]string{"cpus": "2", "kafka": "embedded, 3 brokers", "os": "linux", "arch": "amd64",
			"go": "go1.26.8", EnvironmentLoad: "9f86d081"},
		Started: time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC), Elapsed: 14 * time.Minute,
		Overhead:    BenchOverhead{Runs: 13*time.Minute + 40*sec, Share: 0.024},
		Repetitions: 5, Axes: []BenchAxis{{Path: "subject.reference.max_in_flight", Values: []string{"1", "8", "64"}},
			{Path: "subject.reference.ordering", Values: []string{"key", "none"}}},
	}
	for i, concurrency := range []string{"1", "8", "64"} {
		for j, ordering := range []string{"key", "none"} {
			n := 2*i + j + 1
			cell := BenchCell{
				Number: n, Name: fmt.Sprintf("max_in_flight=%s ordering=%s", concurrency, ordering), State: BenchOK,
				Settings: []BenchSetting{{bench.Axes[0].Path, concurrency}, {bench.Axes[1].Path, ordering}},
			}
			for r := range 5 {
				cell.Repetitions = append(cell.Repetitions,
					fixtureRepetition(n, r+1, 900*math.Pow(1.7, float64(i))*(1+0.12*float64(j)), 40*math.Pow(0.62, float64(i))))
			}
			bench.Cells = append(bench.Cells, cell)
		}
	}
	breakCell(&bench.Cells[5])
	for i := range bench.Cells[0].Repetitions { // a single thread is too slow for the load
		bench.Cells[0].Repetitions[i].Run.Behind = "the backlog grew by 3,100/s: 3,999/s were sent, 900/s were finished"
	}
	open := &bench.Cells[3]
	open.State, open.Why = BenchInconclusive,
		[]string{"no repetition proved anything: the generator could not keep its schedule"}
	open.Repetitions[0].Run.Verdict, open.Repetitions[1].Run.Verdict = assertions.Inconclusive, assertions.Inconclusive
	bench.Advice = []BenchAdvice{
		{
			Text: "Set subject.reference.max_in_flight to 64 and keep ordering by key: it is the fastest that keeps every " +
				"promise.", Cells: []int{5},
			Evidence: []string{"throughput 2,600/s, against 901/s with 1 (× 2.9, noise 2.6 %, p 0.008)",
				"success p99 15.4 ms, against 40.1 ms"},
		},
		{Text: "Don't use ordering none at this concurrency: it loses records.", Cells: []int{6},
			Evidence: []string{"no-loss: lost × 14 in 5 of 5 runs"}},
	}
	return bench
}

func breakCell(cell *BenchCell) {
	cell.State, cell.Why = BenchBroken, []string{"no-loss is violated: lost × 14 in 5 of 5 repetitions"}
	cell.Command = "dlqbench run dlq-publish-failure --seed 42 --set subject.reference.ordering=none"
	for i := range cell.Repetitions {
		cell.Repetitions[i].Run.Verdict = assertions.Fail
		cell.Repetitions[i].Run.Invariants = []BenchInvariant{{Name: "no-loss", Verdict: assertions.Fail, Judged: 30000,
			Anomalies: map[string]int64{"lost": 14}}}
	}
}

// fixtureRepetition is a run at about the given rate, with a p99 of about the given number of ms. number and
// repetition determine every figure.
func fixtureRepetition(cell, repetition int, perSecond, p99 float64) BenchRepetition {
	random := rand.New(rand.NewPCG(uint64(cell), uint64(repetition)))
	near := func(v float64) float64 { return v * math.Exp(0.015*random.NormFloat64()) }
	run := BenchRun{
		Verdict: assertions.Pass, Started: time.Date(2026, 3, 14, 15, 10, 0, 0, time.UTC), Elapsed: 25 * sec,
		Dir:        fmt.Sprintf("bench/runs/%02d-%d", cell, repetition),
		Command:    fmt.Sprintf("dlqbench run dlq-publish-failure --seed 42 --cell %d", cell),
		Throughput: measure.Throughput{Offered: 4000, Sent: 3999, Processed: math.Round(near(perSecond)*10) / 10},
		Latency:    map[string]BenchLatency{},
		Ledger: measure.Ledger{Planned: 30012, Sent: 30012, Acknowledged: 30000, Succeeded: 28810, DeadLettered: 890,
			Logical: 300, Attempts: 34518, Duplicates: int64(near(40) * float64(2+(cell*5)%7))},
		Drained: true, Drain: time.Duration(near(2.8) * 1e9).Round(ms), LagMax: 4120,
		Invariants: []BenchInvariant{{Name: "no-loss", Verdict: assertions.Pass, Judged: 30000}},
	}
	for i, latency := range []string{measure.LatencySuccess, measure.LatencyDeadLetter, measure.LatencyCommitDelay} {
		h := hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)
		middle := near(p99) * 1000 / 10 * []float64{1, 30, 3}[i]
		for range 2000 {
			_ = h.RecordValue(int64(max(1, middle*math.Exp(random.NormFloat64()))))
		}
		encoded, err := EncodeHDR(h)
		if err != nil {
			panic(err)
		}
		at := func(p float64) time.Duration { return time.Duration(h.ValueAtPercentile(p)) * time.Microsecond }
		run.Latency[latency] = BenchLatency{HDR: encoded, Quantiles: measure.Quantiles{
			Count: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
			Max: time.Duration(h.Max()) * time.Microsecond,
		}}
	}
	known := func(v float64) measure.Span {
		return measure.Span{State: measure.SpanKnown, Time: time.Duration(near(v) * 1e9).Round(100 * ms)}
	}
	run.Recovery = []BenchRecovery{
		{Fault: "dlq-refuses", What: "Produce to dlq answered NOT_ENOUGH_REPLICAS", From: 4 * sec, To: 9 * sec,
			Recovery: measure.Recovery{Steady: known(3.2 / float64(cell))}},
		{Fault: "kill-1", What: "KILL instance 1", From: 10 * sec, To: 11 * sec,
			Recovery: measure.Recovery{Steady: known(1.4)}},
	}
	if cell == 1 && repetition == 2 {
		run.Recovery[1].Steady = measure.Span{State: measure.SpanNever, Note: "the run was over first"}
	}
	return BenchRepetition{Number: repetition, Run: run}
}

// searchBench searches for the highest rate. It has ten cells, so that colours and numbers wrap around.
func searchBench() Bench {
	bench := matrixBench()
	bench.Name, bench.Mode, bench.Bound, bench.Advice, bench.Cells = "highest rate", BenchMaxThroughput,
		"latency.success.p99 < 200ms", nil, nil
	bench.Repetitions, bench.Interrupted = 3, true
	for n := 1; n <= 10; n++ {
		cell := BenchCell{Number: n, Name: fmt.Sprintf("max_poll_records=%d", 100*n), State: BenchOK,
			Settings: []BenchSetting{{"subject.reference.max_poll_records", fmt.Sprint(100 * n)}}}
		for r := 1; r <= 3; r++ {
			repetition := fixtureRepetition(n, r, 500*float64(n), 20+float64(n)*12+float64((n*7)%10)*5)
			repetition.Search = &BenchSearch{Rate: 500 * float64(n), Above: 500*float64(n) + 100, Limit: BenchLimitConsumer,
				Probes: []BenchProbe{
					{Rate: 500 * float64(n), Hold: BenchHeld}, {Rate: 500*float64(n) + 100, Hold: BenchNotHeld,
						Why: []string{"success p99 was 340 ms, over 200 ms"}},
				}}
			cell.Repetitions = append(cell.Repetitions, repetition)
		}
		bench.Cells = append(bench.Cells, cell)
	}
	bench.Cells[9].State, bench.Cells[9].Repetitions = BenchNotRun, nil
	return bench
}

func soakBench() Bench {
	bench := matrixBench()
	bench.Name, bench.Mode, bench.Cells, bench.Advice = "an hour", BenchSoak, bench.Cells[:1], nil
	for i := range bench.Cells[0].Repetitions {
		part := BenchPart{From: 10 * sec, To: 20 * sec, Rate: 400, Sent: 400, Processed: 398,
			Success: measure.Quantiles{Count: 4000, P99: 40 * ms}}
		later := part
		later.From, later.To, later.Success.P99, later.Backlog = 20*sec, 30*sec, 48*ms, 12
		bench.Cells[0].Repetitions[i].Drift = &BenchDrift{Parts: []BenchPart{part, later}}
	}
	return bench
}

// injectedBench has the same text in every place that can hold a text from outside.
func injectedBench(payload string) Bench {
	bench := matrixBench()
	bench.Name, bench.Description, bench.File, bench.SpecHash, bench.Version = payload, payload, payload, payload, payload
	bench.Scenario, bench.Subject, bench.Bound, bench.Environment = payload, payload, payload,
		map[string]string{payload: payload}
	bench.Axes[0].Path = payload
	for i := range bench.Cells {
		cell := &bench.Cells[i]
		cell.Name, cell.Workload, cell.Faults, cell.Why, cell.Command = payload, payload, payload, []string{payload}, payload
		cell.Settings = []BenchSetting{{payload, payload}}
		for j := range cell.Repetitions {
			run := &cell.Repetitions[j].Run
			run.Dir, run.Command, run.Error, run.Reasons = payload, payload, payload, []string{payload}
			run.Invariants = []BenchInvariant{{Name: payload, Verdict: assertions.Fail, Anomalies: map[string]int64{payload: 1},
				Why: payload}}
			for k := range run.Recovery {
				run.Recovery[k].Fault, run.Recovery[k].What, run.Recovery[k].Steady.Note = payload, payload, payload
			}
			cell.Repetitions[j].Search = &BenchSearch{Limit: BenchLimitConsumer,
				Probes: []BenchProbe{{Hold: BenchHold(payload), Why: []string{payload}}}}
		}
		if i == 0 {
			cell.Repetitions[0].Run.Verdict = assertions.Status(payload)
		}
	}
	bench.Cells[1].State = BenchState(payload)
	bench.Advice = []BenchAdvice{{Text: payload, Evidence: []string{payload}, Cells: []int{1, 99}}}
	return bench
}
