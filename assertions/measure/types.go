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
	LatencySuccess      = "success"       // intended send time to end of the successful attempt: what a user waits
	// start of the first attempt (after a replay: the first since) to end of the successful attempt
	LatencyService      = "service"
	LatencyDeadLetter   = "dead_letter"   // intended send time to acknowledged in the DLQ
	LatencyBackoffError = "backoff_error" // actual gap minus promised wait (early counts as 0)
	LatencyCommitDelay  = "commit_delay"  // terminal to covered by an accepted commit
	LatencyReplay       = "replay"        // dead letter republished to terminal again
	LatencySlip         = "slip"          // intended send time to handed to the producer
)

// PhaseAll is the phase name of a histogram over the whole run without its warm-up. The histogram of a phase covers the
// records that were intended to be sent in it, whenever their operations ended: a record that was sent during a fault
// and finished after it is slow because of the fault. A replay counts in the phase in which its dead letter was sent
// back.
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

// Ledger counts what became of the records, those of the warm-up included. A dead letter that was replayed and then
// succeeded counts under both.
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
	// Held is the number of records that are left because the subject has halted, as its contract says (poison: halt).
	Held int64 `json:"held,omitempty"`
	// Forfeited is the number of records that a commit passed by time (commits: auto) and whose process was cut short.
	Forfeited int64 `json:"forfeited,omitempty"`
	Attempts  int64 `json:"attempts"`
	// Duplicates is the number of records that succeeded more than once. A record that the workload produced twice may
	// succeed twice.
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
	// SlipMax is the largest schedule slip.
	SlipMax time.Duration `json:"slip_max_ns"`
	// BacklogMax is the most events that ever waited for the history's disk, as sampled; at a million of them the
	// recorder gives up.
	BacklogMax int64 `json:"backlog_max"`
	// CPU is how many processors the harness used on average over the phases steady and fault, CPUMax in its busiest
	// 100 ms or more (as sampled); with the embedded Kafka that is part of it. 0 where it was not sampled.
	CPU    float64 `json:"cpu"`
	CPUMax float64 `json:"cpu_max"`
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
	// Actual is the value of the left-hand side as text, where it can be told. It is exact; reports print Shown.
	Actual string `json:"actual,omitempty"`
	// Error says why it could not be evaluated (no data is never "met").
	Error string `json:"error,omitempty"`
}

// Measurements holds all measurements of a run.
type Measurements struct {
	// Histograms by latency name, then by phase (PhaseAll included); values in microseconds, 1 µs to 10 min, 3 digits.
	Histograms map[string]map[string]*hdrhistogram.Histogram
	Throughput Throughput
	Ledger     Ledger
	// Conservation accounts for every record.
	Conservation Conservation
	Health       Health
	Phases       []Phase
	// Recoveries holds the recovery from each fault, by the fault's index in the header.
	Recoveries []Recovery
	// DrainTime is the time from heal until the last record was terminal and committed.
	DrainTime time.Duration
	// Drained reports whether the run reached that point; if not, DrainTime has no meaning.
	Drained bool
	// Started is the wall-clock time at which the run's clock showed 0.
	Started time.Time
	LagMax  int64
	LagEnd  int64
	Series  Series
	HeatMap HeatMap
	// Usage is the resource usage of the subject's instances.
	Usage Usage

	wireOnly bool // no attempt can be seen
}

// Drain is how the run came to its end.
type Drain struct {
	// Drained tells that every acknowledged record was finished and committed; Time is from heal until then, 0 if it
	// never was.
	Drained bool          `json:"drained"`
	Time    time.Duration `json:"ns"`
	// LagMax and LagEnd are the lag at its highest and at the end of the run.
	LagMax int64 `json:"lag_max"`
	LagEnd int64 `json:"lag_end"`
}

// Drain returns a summary of the drain.
func (m *Measurements) Drain() Drain {
	out := Drain{Drained: m.Drained, LagMax: m.LagMax, LagEnd: m.LagEnd}
	if m.Drained {
		out.Time = m.DrainTime
	}
	return out
}

// Curve is a list of values, one per step; NaN, in JSON null, where there is none.
type Curve []float64

// Series are the run's curves on one time axis, one value per Step from 0. They have at most 600 points, however long
// the run is.
type Series struct {
	Step time.Duration `json:"step_ns"`
	// Counts per step. Their totals are those of the Ledger; but Processed counts a record again that is processed
	// again after its replay, and Retries are the attempts beyond a record's first.
	Sent         Curve `json:"sent"`
	Acknowledged Curve `json:"acknowledged"`
	Processed    Curve `json:"processed"`
	DeadLetters  Curve `json:"dead_letters"`
	Attempts     Curve `json:"attempts"`
	Retries      Curve `json:"retries"`
	Duplicates   Curve `json:"duplicates"`
	// InRetry is the number of records that have failed and are not finished yet, at the end of each step: those in
	// backoff, in a retry topic or in another attempt.
	InRetry Curve `json:"retries_in_flight"`
	// Lag is the number of acknowledged records not yet covered by an accepted commit, at the end of each step.
	Lag Curve `json:"lag"`
	// SuccessP50 and SuccessP99 are the latencies of the successes that ended in the step, in ms; NaN where there were
	// none.
	SuccessP50 Curve `json:"success_p50_ms"`
	SuccessP99 Curve `json:"success_p99_ms"`
	// The harness itself: the largest schedule slip of what was sent in the step, and how long the harness could not
	// run, in ms; the events that waited for the disk; the processors that it used. The last two are NaN where they
	// were not sampled.
	Slip    Curve `json:"slip_max_ms"`
	Stalled Curve `json:"stalled_ms"`
	Backlog Curve `json:"backlog"`
	CPU     Curve `json:"cpu"`
	// Instances have what those of the subject used.
	Instances []InstanceCurves `json:"instances,omitempty"`
}

// HeatMap counts the successes by when they ended and how long they took since their intended send time. What it counts
// in all is the number of samples of LatencySuccess, those of the warm-up included.
type HeatMap struct {
	Step time.Duration `json:"step_ns"`
	// Bounds of the rows: row i is from Bounds[i] up to, not including, Bounds[i+1]. There are at most 64 rows, of
	// equal ratio above 32 µs.
	Bounds []time.Duration `json:"bounds_ns"`
	// Counts by column (from 0, one per Step, at most 300) and row; a column with nothing in it is empty.
	Counts [][]int64 `json:"counts"`
}

// Conservation accounts for the records: every planned one is in exactly one entry.
type Conservation struct {
	Planned int64   `json:"planned"`
	Entries []Entry `json:"entries"`
	// Notes are about records that are in the entries already.
	Notes []Entry `json:"notes"`
	// Unseen tells that the subject is observed on the wire only: of records that it committed, nothing shows whether
	// they were processed.
	Unseen bool `json:"unseen,omitempty"`
}

// The names of entries. The first seven are regular ends of a record; the others are differences, which should have no
// records.
const (
	EntrySucceeded    = "succeeded"
	EntryDeadLettered = "dead_lettered"
	// dead-lettered, sent back (by a replay, or by the dead-letter store's workers), then succeeded
	EntryReplayed = "replayed"
	EntryLogical  = "logical"
	// the contract requires no more: a tombstone that is skipped, a subject that is observed on the wire only
	EntryCommitted = "committed"
	// left at or behind a record at which the subject has halted, as the contract says
	EntryHeld = "held"
	// committed by time, as the contract says (commits: auto), by a process that was then cut short
	EntryForfeited = "forfeited"

	EntryUnfinished     = "unfinished"     // acknowledged, and without an end
	EntryEndedTwice     = "ended_twice"    // both processed and dead-lettered, without a replay
	EntryUnacknowledged = "unacknowledged" // sent, and the producer gave up: it may or may not be in the topic
	EntryNotSent        = "not_sent"       // the run ended before its scheduled time

	NoteDuplicates = "duplicates" // succeeded more than once, each copy of those that were produced twice
	// processed or dead-lettered, although it was never acknowledged: the acknowledgement was lost
	NoteUnasked  = "unasked"
	NoteRepeated = "repeated" // the workload produced them twice
)

// MaxEntryRecords is the largest number of records listed for a difference.
const MaxEntryRecords = 50

// Entry is a number of records that are alike.
type Entry struct {
	Name  string `json:"name"`
	Count int64  `json:"count"`
	// Difference tells that there should be none.
	Difference bool `json:"difference,omitempty"`
	// Records are the first of them, at most MaxEntryRecords; of the differences and notes only.
	Records []EntryRecord `json:"records"`
}

// EntryRecord is one record of an entry.
type EntryRecord struct {
	Record int32  `json:"record"`
	ID     string `json:"id"`
	Topic  string `json:"topic,omitempty"`
	// Partition and Offset are -1 where they are not known.
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}
