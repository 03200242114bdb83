package main

// Section 5 measures everything together, as in a run, with the consumer as a separate process.

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// lineScenario is a load like that of a real run: some records fail and are retried, some are dead-lettered.
const lineScenario = `
name: bench-line
description: What the whole line costs.
subject: {reference: {instances: 1, retry_backoff_ms: 50, max_retry_backoff_ms: 200, retry_jitter_ms: 20}}
workload:
  rate: 20000/s
  duration: 10s
  warm_up: 1s
  keys: {count: 10000}
  outcomes: {success: 990, transient: {weight: 6, failures: 1}, exhausted: 1, permanent: 2, logical: 1}
`

func measureLine(ctx context.Context, o options) (section, error) {
	scenario, err := scenarios.Parse("bench-line.yaml", []byte(lineScenario))
	if err != nil {
		return section{}, err
	}
	used := &usage{}
	children := processorTime(syscall.RUSAGE_CHILDREN)
	outcome, err := run.Run(ctx, run.Options{
		Scenario: scenario, Source: []byte(lineScenario), Out: o.dir, Executable: o.executable,
		Rerun: "bench -only 5 # seed %d", Version: "bench", Log: zerolog.Nop(), Watch: used.see,
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return section{}, err
	}
	used.consumer = processorTime(syscall.RUSAGE_CHILDREN) - children
	verdict := outcome.Judged.Verdict
	judged := string(verdict.Verdict)
	if verdict.Verdict != assertions.Pass {
		judged = fmt.Sprintf("%s: %v", verdict.Verdict, verdict.Reasons)
	}
	return section{
		Title: "The whole line: workload → embedded Kafka → tap → link → reference consumer (a process) → stub → commits",
		How: []string{
			"20,000 records/s for 10 s after 1 s of warm-up, 1 broker, 1 consumer; 1 % of the records fail at first or for " +
				"good. One run, no pairs:",
			"what else the machine does meanwhile shows in it. Judged: " + judged,
		},
		Rows: append(lineRows(verdict, outcome.Judged.Measurements), used.rows(verdict.Ledger)...),
	}, nil
}

func lineRows(verdict *assertions.Verdict, m *measure.Measurements) []row {
	millis := func(d time.Duration) float64 { return d.Seconds() * 1e3 }
	through, slip, success := verdict.Throughput, verdict.Latency[measure.LatencySlip],
		verdict.Latency[measure.LatencySuccess]
	drain := row{Name: "drained after the load", Value: millis(m.DrainTime), Unit: "ms",
		Detail: fmt.Sprintf("the largest lag was %d records", m.LagMax)}
	if !m.Drained {
		drain = row{Name: "not drained: records unfinished", Value: float64(verdict.Ledger.Unfinished)}
	}
	return []row{
		{Name: "processed, of what was offered", Value: through.Processed / through.Offered, Unit: "×", Goal: "≥ 0.99×",
			Detail: fmt.Sprintf("%s of %s", number(through.Processed, "/s"), number(through.Offered, "/s"))},
		drain,
		{Name: "schedule slip p50", Value: millis(slip.P50), Unit: "ms"},
		{Name: "schedule slip p99", Value: millis(slip.P99), Unit: "ms", Goal: "≤ 2 ms",
			Detail: fmt.Sprintf("at most %.1f ms; the harness itself was held up %d times for more than 10 ms", millis(slip.Max),
				verdict.Health.Stalls)},
		{Name: "success latency p50", Value: millis(success.P50), Unit: "ms"},
		{Name: "success latency p99", Value: millis(success.P99), Unit: "ms"},
	}
}

// usage is the processor time of the two sides. The harness's time is measured from the first snapshot of the load to
// the first one of its end.
type usage struct {
	mu                sync.Mutex
	loaded, over      bool
	began, ended      time.Duration
	harness, consumer time.Duration
}

// see is called several times a second.
func (u *usage) see(snapshot reports.Snapshot) {
	u.mu.Lock()
	defer u.mu.Unlock()
	load := snapshot.Phase == history.PhaseWarmup || snapshot.Phase == history.PhaseSteady
	switch {
	case load && !u.loaded:
		u.loaded, u.began = true, processorTime(syscall.RUSAGE_SELF)
	case u.loaded && !load && !u.over:
		u.over, u.ended = true, processorTime(syscall.RUSAGE_SELF)
		u.harness = u.ended - u.began
	}
}

func (u *usage) rows(ledger measure.Ledger) []row {
	u.mu.Lock()
	defer u.mu.Unlock()
	perRecord := func(name string, took time.Duration, detail string) row {
		micros := took.Seconds() * 1e6 / float64(max(ledger.Sent, 1))
		return row{Name: name, Value: micros, Unit: "µs", Detail: fmt.Sprintf("%.0f %% of one core at 20,000 records/s; %s",
			micros*2, detail)}
	}
	return []row{
		perRecord("processor time per record, harness", u.harness, "Kafka, workload, tap, links, stub, history"),
		perRecord("processor time per record, consumer", u.consumer, "its whole life"),
	}
}
