package assertions

import (
	"time"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
)

// SchemaVersion is the version of verdict.json. 2 added everything that the report draws: conservation, drain,
// recoveries, percentiles, curves and heat map.
const SchemaVersion = 2

// Status is the outcome of judging one thing.
type Status string

// The statuses, worst first; NotApplicable does not count towards the overall verdict.
const (
	Fail          Status = "fail"
	Inconclusive  Status = "inconclusive"
	Pass          Status = "pass"
	NotApplicable Status = "not-applicable"
)

// Unjudged says why nothing was judged of an invariant.
type Unjudged string

// The kinds of not-applicable. Unpromised: the contract does not promise it, or takes it back. Unseen: its evidence
// cannot be observed for this subject (observe: wire). Unexercised: nothing in this run exercised it. Inapplicable: the
// run is of another kind, without a graph, a store or several services.
const (
	Unpromised   Unjudged = "unpromised"
	Unseen       Unjudged = "unseen"
	Unexercised  Unjudged = "unexercised"
	Inapplicable Unjudged = "inapplicable"
)

// Verdict is the judgement of a run: the content of verdict.json.
type Verdict struct {
	Schema   int    `json:"schema"`
	Verdict  Status `json:"verdict"`
	RunID    string `json:"run_id"`
	Scenario string `json:"scenario"`
	Seed     uint64 `json:"seed"`
	Subject  string `json:"subject"`
	// Instances of the subject there were at the start, in the consumer group Group; Topics are those of the run.
	Instances int             `json:"instances,omitempty"`
	Group     string          `json:"group,omitempty"`
	Topics    []history.Topic `json:"topics,omitempty"`
	// Rerun is the command that runs the same plan again.
	Rerun   string    `json:"rerun"`
	Started time.Time `json:"started"`
	// Reasons say why the verdict is not pass, in sentences, worst first: one for each of Roots, then what could not be
	// judged, then the thresholds that were missed.
	Reasons []string `json:"reasons"`
	// Roots are the violations that no other violation explains, each with those that follow from it.
	Roots []Root `json:"roots,omitempty"`
	// Open is what could not be judged: first what concerns the run as a whole, then single invariants.
	Open       []Open   `json:"open,omitempty"`
	Invariants []Result `json:"invariants"`
	// Experimental is what experimental invariants say, which decides nothing.
	Experimental []Result                   `json:"experimental,omitempty"`
	Faults       []FaultResult              `json:"faults"`
	Thresholds   []measure.Threshold        `json:"thresholds"`
	Latency      map[string]measure.Latency `json:"latency"`
	Throughput   measure.Throughput         `json:"throughput"`
	Ledger       measure.Ledger             `json:"ledger"`
	Health       measure.Health             `json:"health"`
	Phases       []measure.Phase            `json:"phases"`
	Environment  map[string]string          `json:"environment"`
	// Logs are what the subject's processes wrote around the first occurrence of each anomaly; LogsNote says why there
	// are none, or not all.
	Logs     []LogExcerpt `json:"logs,omitempty"`
	LogsNote string       `json:"logs_note,omitempty"`
	// Conservation is where every record went; Drain how the run came to its end.
	Conservation measure.Conservation `json:"conservation"`
	Drain        measure.Drain        `json:"drain"`
	// Percentiles by latency, Series and HeatMap are what the report draws.
	Percentiles map[string]measure.PercentileCurves `json:"percentiles"`
	Series      measure.Series                      `json:"series"`
	HeatMap     measure.HeatMap                     `json:"heat_map"`
	// Usage is what the instances of the subject used.
	Usage measure.Usage `json:"usage"`
	// ThresholdsMissed tells that a threshold was missed; they are no part of Verdict, and verdict.json has each of
	// them.
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
	// Open is how many more of the same things there were that could not be judged. NotJudged counts them, and
	// questions about judged things, too.
	Open int64 `json:"open,omitempty"`
	// Why explains inconclusive and not-applicable.
	Why string `json:"why,omitempty"`
	// Unjudged says of not-applicable what it is due to; "" for the other statuses, and in verdicts of an older
	// dlqbench.
	Unjudged  Unjudged  `json:"unjudged,omitempty"`
	Anomalies []Anomaly `json:"anomalies"`
}

// Anomaly is one way in which an invariant was violated.
type Anomaly struct {
	Name string `json:"name"`
	// Count of all occurrences; Counterexamples holds at most MaxCounterexamples of them: that of the record
	// which the reports show, then the shortest.
	Count           int64            `json:"count"`
	Counterexamples []Counterexample `json:"counterexamples"`
	// First is the earliest occurrence, which need not be among the counterexamples; nil where no moment can be told.
	First *Occurrence `json:"first,omitempty"`
	// Records are the places of the earliest MaxRecords occurrences, in the order of time.
	Records []Occurrence `json:"records,omitempty"`
}

// MaxRecords is the largest number of occurrences of an anomaly whose places are kept.
const MaxRecords = 200

// Root is a violation that no other violation explains.
type Root struct {
	Invariant string `json:"invariant"`
	Anomaly   string `json:"anomaly"`
	Count     int64  `json:"count"`
	// Example is the occurrence that every report shows: if there is one, of a record that the consequences concern, too,
	// with the largest margin, and the earliest. Summary says what happened to it.
	Example Occurrence `json:"example"`
	Summary string     `json:"summary,omitempty"`
	// Command prints the trace of the example, or of a record that a consequence concerns; "" if there is none.
	Command string `json:"command,omitempty"`
	// Consequences are the violations that follow from it.
	Consequences []Consequence `json:"consequences,omitempty"`
}

// Open is a question that a run leaves open.
type Open struct {
	// What could not be judged, Why, and what to Do so that it is.
	What string `json:"what"`
	Why  string `json:"why"`
	Do   string `json:"do"`
	// Invariant is its name if the question is whether it held.
	Invariant string `json:"invariant,omitempty"`
}

// Reason says in a sentence why the question is open, and what to do.
func (o Open) Reason() string {
	out := o.Why + "; " + o.Do
	if o.Invariant != "" {
		out = o.Invariant + " can't be judged: " + out
	}
	return out
}

// Consequence is a violation that follows from another.
type Consequence struct {
	Invariant string `json:"invariant"`
	Anomaly   string `json:"anomaly"`
	Count     int64  `json:"count"`
	// Why it follows.
	Why string `json:"why"`
}

// Occurrence says where and when something was violated, without its trace.
type Occurrence struct {
	// Record is the record's sequence number, None when it is about a partition or the run; Key its key, "" for a null
	// key.
	Record    int32  `json:"record"`
	ID        string `json:"id,omitempty"`
	Key       string `json:"key,omitempty"`
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// At is when it was violated, on the run's clock: with the commit that went too far, or else with the last of the
	// events that contradict each other; where something never came, from when it is sure not to come. None (-1) where
	// only all of it together violates, as with waits without jitter.
	At time.Duration `json:"at_ns"`
	// Missing says, where something never came, what makes that sure at At; "" where something came that must not.
	Missing Missing `json:"missing,omitempty"`
	// Phase is the phase of the run at that time; Command tells the record's whole trace. Only First has them.
	Phase   string `json:"phase,omitempty"`
	Command string `json:"command,omitempty"`
}

// Missing is how it is known that what has not come will not come any more.
type Missing string

// Why an event will never come. Committed: the record was committed past before it was finished, so it is not delivered
// again. Drained: it had not come at the end of the drain, in which the subject had its whole time. Replayed: it had
// not come when the replay was over. Audited: the audit did not find it.
const (
	MissingCommitted Missing = "committed"
	MissingDrained   Missing = "drained"
	MissingReplayed  Missing = "replayed"
	MissingAudited   Missing = "audited"
)

// MaxCounterexamples is the largest number of counterexamples of an anomaly kept in full.
const MaxCounterexamples = 20

// Counterexample is the trace of one occurrence.
type Counterexample struct {
	// Record is the record's sequence number, None when the trace is about a partition or the run.
	Record int32  `json:"record"`
	ID     string `json:"id,omitempty"`
	// Key is the record's key, "" for a null key.
	Key       string `json:"key,omitempty"`
	Topic     string `json:"topic,omitempty"`
	Partition int32  `json:"partition"`
	Offset    int64  `json:"offset"`
	// At is when it was violated, and Missing what makes that sure, as in Occurrence.
	At      time.Duration `json:"at_ns,omitempty"`
	Missing Missing       `json:"missing,omitempty"`
	// Margin is by how much time the promise was broken; 0 where it is not a matter of time, or where nothing ever came.
	Margin time.Duration `json:"margin_ns,omitempty"`
	// Summary says in one sentence what contradicts what.
	Summary string `json:"summary"`
	// Command tells the whole trace; "" when it is about no one place.
	Command string `json:"command,omitempty"`
	// Actors take part in the trace, in the order in which a record meets them.
	Actors []Actor `json:"actors,omitempty"`
	// Trace is the record's events in order; those marked contradict each other.
	Trace []Line `json:"trace"`
	// leads: what the others tell follows from it.
	leads bool
}

// Line is one event of a trace in words.
type Line struct {
	Time   time.Duration `json:"time_ns"`
	Kind   string        `json:"kind"`
	Text   string        `json:"text"`
	Marked bool          `json:"marked,omitempty"`
	// From and To name the actors between which it went; without To it happened at From alone, and without either (a
	// fault) at large.
	From string `json:"from,omitempty"`
	To   string `json:"to,omitempty"`
	// Label is the event in a word or two, for a reader who sees between whom it was.
	Label string `json:"label,omitempty"`
	// Failed: an answer that says no, an error, an end that nobody asked for.
	Failed bool `json:"failed,omitempty"`
}

// FaultResult tells what a planned fault did.
type FaultResult struct {
	history.PlannedFault
	Planned  FaultWindow `json:"planned"`
	Observed FaultSeen   `json:"observed"`
	// Recovery is how long it took to feel it, and to be rid of it.
	Recovery measure.Recovery `json:"recovery"`
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
	// Idle says why it probably did nothing, "" if it did something, or was not injected.
	Idle string `json:"idle,omitempty"`
}

// LogExcerpt is what one process wrote around the first occurrence of an anomaly. Judging adds none: whoever has the
// run's directory does.
type LogExcerpt struct {
	Invariant string `json:"invariant"`
	Anomaly   string `json:"anomaly"`
	// Process is "instance 0", "worker 1" …; File is where the lines are, relative to the run's directory.
	Process string `json:"process"`
	File    string `json:"file"`
	// At is the moment around which the lines were written.
	At    time.Duration `json:"at_ns"`
	Lines []LogLine     `json:"lines"`
	// LeftOut is how many lines of the same time are not told.
	LeftOut int64 `json:"left_out,omitempty"`
}

// LogLine is a line of a log; Time is when it was read, to within a tenth of a second, on the run's clock.
type LogLine struct {
	Time time.Duration `json:"time_ns"`
	Text string        `json:"text"`
}
