package cost

// This file measures whole runs: workload → embedded Kafka → tap → link → reference consumer (a process) → stub →
// commits.

import (
	"encoding/json"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/livemetrics"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// wholeRun is a load like that of a real run: some records fail and are retried, some are dead-lettered.
const wholeRun = `
name: bench-run
description: The cost of a whole run.
subject: {reference: {instances: 1, retry_backoff_ms: 50, max_retry_backoff_ms: 200, retry_jitter_ms: 20}}
workload:
  rate: 20000/s
  duration: DURATION
  warm_up: 1s
  keys: {count: 10000}
  outcomes: {success: 990, transient: {weight: 6, failures: 1}, exhausted: 1, permanent: 2, logical: 1}
expect: {max_slip: 1m, drain: 5m}
`

// runOnce runs it and returns what was judged.
func runOnce(b *testing.B, duration string, watch func(reports.Snapshot)) *run.Outcome {
	source := []byte(strings.Replace(wholeRun, "DURATION", duration, 1))
	return must(run.Run(b.Context(), run.Options{
		Scenario: must(scenarios.Parse("bench-run.yaml", source))(b), Source: source, Out: b.TempDir(), Executable: *program,
		Rerun: "make bench BENCH=Run # seed %d", Version: "bench", Log: zerolog.Nop(), Watch: watch,
	}))(b)
}

// BenchmarkRun offers 20,000 records/s for 10 s to one consumer on one broker.
func BenchmarkRun(b *testing.B) {
	for b.Loop() {
		used := &usage{}
		children := processorTime(syscall.RUSAGE_CHILDREN)
		outcome := runOnce(b, "10s", used.see)
		consumer := processorTime(syscall.RUSAGE_CHILDREN) - children
		verdict, measured := outcome.Judged.Verdict, outcome.Judged.Measurements
		if verdict.Verdict != assertions.Pass {
			b.Logf("judged %s: %v", verdict.Verdict, verdict.Reasons)
		}
		sent := float64(max(verdict.Ledger.Sent, 1))
		millis := func(d time.Duration, unit string) { b.ReportMetric(d.Seconds()*1e3, unit) }
		b.ReportMetric(0, "ns/op")
		b.ReportMetric(100*verdict.Throughput.Processed/verdict.Throughput.Offered, "processed-%")
		b.ReportMetric(float64(verdict.Ledger.Unfinished), "unfinished")
		millis(measured.DrainTime, "drain-ms")
		millis(verdict.Latency[measure.LatencySlip].P50, "slip-p50-ms")
		millis(verdict.Latency[measure.LatencySlip].P99, "slip-p99-ms")
		b.ReportMetric(float64(verdict.Health.Stalls), "stalls")
		millis(verdict.Latency[measure.LatencySuccess].P50, "success-p50-ms")
		millis(verdict.Latency[measure.LatencySuccess].P99, "success-p99-ms")
		b.ReportMetric(used.harness().Seconds()*1e6/sent, "harness-cpu-µs/record")
		b.ReportMetric(consumer.Seconds()*1e6/sent, "consumer-cpu-µs/record")
	}
}

// usage is the processor time of the harness, from the first snapshot of the load to the first one of its end.
type usage struct {
	mu           sync.Mutex
	loaded, over bool
	began, ended time.Duration
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
	}
}

func (u *usage) harness() time.Duration {
	u.mu.Lock()
	defer u.mu.Unlock()
	return u.ended - u.began
}

// viewers is large because the cost of one viewer, two hundredths at most by the goal, would be lost in the noise:
// rounds differ by a tenth.
const viewers = 20

// BenchmarkViewers compares a run that nobody watches with one that 20 watch, each with a snapshot every 200 ms, as
// JSON and as metrics, and a scrape each second.
func BenchmarkViewers(b *testing.B) {
	for _, way := range []string{"unwatched", "watched"} {
		b.Run("way="+way, func(b *testing.B) {
			for b.Loop() {
				var viewed time.Duration // written by one goroutine, which ends with the run
				var watch func(reports.Snapshot)
				if way == "watched" {
					watch = watcher(&viewed)
				}
				own, children, began := processorTime(syscall.RUSAGE_SELF), processorTime(syscall.RUSAGE_CHILDREN), time.Now()
				outcome := runOnce(b, "3s", watch)
				took := time.Since(began)
				own, children = processorTime(syscall.RUSAGE_SELF)-own, processorTime(syscall.RUSAGE_CHILDREN)-children
				if !outcome.Judged.Measurements.Drained {
					b.Fatal("the consumer could not finish in time")
				}
				records := float64(outcome.Judged.Verdict.Ledger.Acknowledged)
				b.ReportMetric(0, "ns/op")
				b.ReportMetric(records/(4*time.Second+outcome.Judged.Measurements.DrainTime).Seconds(), "records/s")
				b.ReportMetric(own.Seconds()*1e6/records, "harness-cpu-µs/record")
				b.ReportMetric(children.Seconds()*1e6/records, "consumer-cpu-µs/record")
				b.ReportMetric(100*viewed.Seconds()/took.Seconds(), "viewing-%")
			}
		})
	}
}

// watcher processes a snapshot like each viewer's page and Prometheus do, and adds up the elapsed time, which on a busy
// machine exceeds the time needed.
func watcher(spent *time.Duration) func(reports.Snapshot) {
	metrics := livemetrics.New("bench")
	update, _ := metrics.Watch()
	count := 0
	return func(snapshot reports.Snapshot) {
		began := time.Now()
		defer func() { *spent += time.Since(began) }()
		count++
		for range viewers {
			update(snapshot)
			_ = json.NewEncoder(io.Discard).Encode(snapshot)
			if count%5 == 0 {
				metrics.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
			}
		}
	}
}
