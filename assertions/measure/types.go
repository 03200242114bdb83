// Package measure derives figures from a history: latencies as HDR histograms per phase, throughput, lag, the ledger of
// records, the health of the harness, and the thresholds that a scenario sets on them. It judges no invariant.
package measure

import (
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"
)

// The names of the latency histograms.
const (
	LatencySend         = "send"          // intended send time to acknowledged
	LatencyFirstAttempt = "first_attempt" // acknowledged to start of the first attempt
	LatencySuccess      = "success"       // intended send time to end of the successful attempt
	LatencyDeadLetter   = "dead_letter"   // intended send time to acknowledged in the DLQ
	LatencyBackoffError = "backoff_error" // actual gap minus promised wait (early counts as 0)
	LatencyCommitDelay  = "commit_delay"  // terminal to covered by an accepted commit
	LatencyReplay       = "replay"        // dead letter republished to terminal again
	LatencySlip         = "slip"          // intended send time to handed to the producer
)

// PhaseAll is the phase name of a histogram over the whole run without its warm-up. In a phase's own histogram are the operations of the
// records that were intended to be sent in it, whenever they ended: a record sent while a fault was on and finished after it is slow because
// of the fault. A replay counts in the phase in which its dead letter was sent back.
const PhaseAll = "all"

// Latency summarises one histogram; durations are in ns.
type Latency struct {
	Quantiles
	Phases map[string]Quantiles `json:"phases"`
}

// Quantiles of a histogram.
type Quantiles struct {
	Count int64         `json:"count"`
	P50   time.Duration `json:"p50_ns"`
	P90   time.Duration `json:"p90_ns"`
	P99   time.Duration `json:"p99_ns"`
	P999  time.Duration `json:"p999_ns"`
	Max   time.Duration `json:"max_ns"`
}

// Throughput in records per second over the steady and fault phases.
type Throughput struct {
	Offered   float64 `json:"offered_per_s"`
	Sent      float64 `json:"sent_per_s"`
	Processed float64 `json:"processed_per_s"`
}

// Ledger counts what became of the records, those of the warm-up included. A dead letter that was replayed and then succeeded counts under
// both.
type Ledger struct {
	Planned      int64 `json:"planned"`
	Sent         int64 `json:"sent"`
	Acknowledged int64 `json:"acknowledged"`
	// Late is how many were handed over more than 10 ms after their intended time.
	Late         int64 `json:"late"`
	Succeeded    int64 `json:"succeeded"`
	Logical      int64 `json:"logical"`
	DeadLettered int64 `json:"dead_lettered"`
	Unfinished   int64 `json:"unfinished"`
	Attempts     int64 `json:"attempts"`
	// Duplicates is the number of records that succeeded more than once.
	Duplicates int64 `json:"duplicates"`
	// Replayed is the number of records whose dead letter was sent back and acknowledged.
	Replayed int64 `json:"replayed"`
}

// Health of the harness and of what it had to measure with.
type Health struct {
	SlipP99 time.Duration `json:"slip_p99_ns"`
	Stalls  int64         `json:"stalls"`
	Stalled time.Duration `json:"stalled_ns"`
	Worst   time.Duration `json:"worst_stall_ns"`
}

// Phase is one phase of the run on its clock.
type Phase struct {
	Name string        `json:"name"`
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
}

// Threshold is one evaluated expression.
type Threshold struct {
	Expression string `json:"expression"`
	Met        bool   `json:"met"`
	// Actual is the value of the left-hand side as text, where it can be told.
	Actual string `json:"actual,omitempty"`
	// Error says why it could not be evaluated (no data is never "met").
	Error string `json:"error,omitempty"`
}

// Measurements is everything measured in a run.
type Measurements struct {
	// Histograms by latency name, then by phase (PhaseAll included); values in microseconds, 1 µs to 10 min, 3 digits.
	Histograms map[string]map[string]*hdrhistogram.Histogram
	Throughput Throughput
	Ledger     Ledger
	Health     Health
	Phases     []Phase
	// DrainTime is from heal to the moment the last record was terminal and committed.
	DrainTime time.Duration
	// Drained tells that the run did get there; if not, DrainTime means nothing.
	Drained bool
	// Started is when the run's clock showed 0.
	Started time.Time
	LagMax  int64
	LagEnd  int64
	Series  Series
}

// Series are the run's curves, one value per Step from 0.
type Series struct {
	Step time.Duration
	// Rates are counts per step.
	Sent, Processed, DeadLetters, Attempts, Retries []float64
	// Lag is the number of acknowledged records not yet covered by an accepted commit, at the end of each step.
	Lag []float64
	// SuccessP50 and SuccessP99 are the latencies of the successes that ended in the step, in ms; NaN where there were none.
	SuccessP50, SuccessP99 []float64
}
