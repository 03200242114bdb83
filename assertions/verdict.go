package assertions

import (
	"time"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
)

// SchemaVersion is the version of verdict.json.
const SchemaVersion = 1

// Status is the outcome of judging one thing.
type Status string

// The statuses, worst first; NotApplicable does not count towards the overall verdict.
const (
	Fail          Status = "fail"
	Inconclusive  Status = "inconclusive"
	Pass          Status = "pass"
	NotApplicable Status = "not-applicable"
)

// Verdict is the judgement of a run: the content of verdict.json.
type Verdict struct {
	Schema   int    `json:"schema"`
	Verdict  Status `json:"verdict"`
	RunID    string `json:"run_id"`
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed"`
	Subject  string `json:"subject"`
	// Rerun is the command that runs the same plan again.
	Rerun   string    `json:"rerun"`
	Started time.Time `json:"started"`
	// Reasons say why the verdict is not pass, in sentences, worst first.
	Reasons     []string                   `json:"reasons"`
	Invariants  []Result                   `json:"invariants"`
	Faults      []FaultResult              `json:"faults"`
	Thresholds  []measure.Threshold        `json:"thresholds"`
	Latency     map[string]measure.Latency `json:"latency"`
	Throughput  measure.Throughput         `json:"throughput"`
	Ledger      measure.Ledger             `json:"ledger"`
	Health      measure.Health             `json:"health"`
	Phases      []measure.Phase            `json:"phases"`
	Environment map[string]string          `json:"environment"`
	// ThresholdsMissed tells that a threshold was missed; they are no part of Verdict, and verdict.json has each of them.
	ThresholdsMissed bool `json:"-"`
}

// Result is what one invariant says.
type Result struct {
	Name   string `json:"name"`
	Status Status `json:"verdict"`
	// Judged is how many things (Of says which: records, attempts, commits, gaps) were looked at.
	Judged int64  `json:"judged"`
	Of     string `json:"of"`
	// NotJudged counts what could not be judged, by reason ("stall", "fault on the link", …).
	NotJudged map[string]int64 `json:"not_judged,omitempty"`
	// Why explains inconclusive and not-applicable.
	Why       string    `json:"why,omitempty"`
	Anomalies []Anomaly `json:"anomalies"`
}

// Anomaly is one way in which an invariant was violated.
type Anomaly struct {
	Name string `json:"name"`
	// Count of all occurrences; Witnesses holds at most MaxWitnesses of them, shortest first.
	Count     int64     `json:"count"`
	Witnesses []Witness `json:"witnesses"`
}

// MaxWitnesses is how many witnesses of an anomaly are kept in full.
const MaxWitnesses = 20

// Witness is the story of one occurrence.
type Witness struct {
	// Record is the record's sequence number, None when the story is about a partition or the run.
	Record    int32  `json:"record"`
	ID        string `json:"id,omitempty"`
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// Summary says in one sentence what contradicts what.
	Summary string `json:"summary"`
	// Command tells the whole story; "" when it is about no one place.
	Command string `json:"command,omitempty"`
	// Biography is the record's events in order; those marked contradict each other.
	Biography []Line `json:"biography"`
}

// Line is one event of a biography in words.
type Line struct {
	Time   time.Duration `json:"time_ns"`
	Kind   string        `json:"kind"`
	Text   string        `json:"text"`
	Marked bool          `json:"marked,omitempty"`
}

// FaultResult tells what a planned fault did.
type FaultResult struct {
	history.PlannedFault
	Planned  FaultWindow `json:"planned"`
	Observed FaultSeen   `json:"observed"`
}

// FaultWindow is a time window on the run's clock.
type FaultWindow struct {
	From time.Duration `json:"from_ns"`
	To   time.Duration `json:"to_ns"`
}

// FaultSeen is what the history shows of a fault.
type FaultSeen struct {
	Injected bool `json:"injected"`
	Healed   bool `json:"healed"`
	FaultWindow
	// Effects counts what it did, by kind ("connections cut", "requests answered").
	Effects map[string]int64 `json:"effects"`
}
