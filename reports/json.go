package reports

// verdict.json and its published schema. The schema is made from the Go types, so the two can't drift apart.

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"

	"github.com/invopop/jsonschema"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
)

// VerdictSchemaID identifies the schema of verdict.json.
const VerdictSchemaID = "https://github.com/dlqbench/dlqbench/reports/verdict.schema.json"

// JSON writes verdict.json: indented, keys always in the same order, lists and tables never null. It validates against
// VerdictSchema.
func JSON(w io.Writer, run Run) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	// The file stands alone and is read by people: "p99 < 500ms" stays as it is. What is embedded in HTML is encoded
	// apart.
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(complete(run.Verdict)); err != nil {
		return fmt.Errorf("encoding the verdict: %w", err)
	}
	if _, err := w.Write(numbers.ReplaceAllFunc(out.Bytes(), onOneLine)); err != nil {
		return fmt.Errorf("writing the verdict: %w", err)
	}
	return nil
}

// numbers matches an indented list of numbers. A text has no line break in JSON, so there is none in it.
var numbers = regexp.MustCompile(`\[\n[-0-9nul.eE+, \n]*\]`)

// onOneLine takes the spaces out: a curve of 600 lines is no easier to read.
func onOneLine(list []byte) []byte {
	return bytes.ReplaceAll(bytes.Join(bytes.Fields(list), nil), []byte(","), []byte(", "))
}

// complete returns a copy in which no list or table is nil, and every figure is a number.
func complete(v *assertions.Verdict) *assertions.Verdict {
	out := *v
	out.Reasons = orEmpty(v.Reasons)
	out.Thresholds = orEmpty(v.Thresholds)
	out.Phases = orEmpty(v.Phases)
	out.Environment = orEmptyMap(v.Environment)
	out.Throughput = measure.Throughput{
		Offered: finite(v.Throughput.Offered), Sent: finite(v.Throughput.Sent), Processed: finite(v.Throughput.Processed),
	}
	out.Invariants = make([]assertions.Result, len(v.Invariants))
	for i, r := range v.Invariants {
		r.Anomalies = completeAnomalies(r.Anomalies)
		out.Invariants[i] = r
	}
	out.Faults = make([]assertions.FaultResult, len(v.Faults))
	for i, f := range v.Faults {
		f.Observed.Effects = orEmptyMap(f.Observed.Effects)
		out.Faults[i] = f
	}
	out.Latency = make(map[string]measure.Latency, len(v.Latency))
	for key, l := range v.Latency {
		l.Phases = orEmptyMap(l.Phases)
		out.Latency[key] = l
	}
	completeFigures(&out)
	return &out
}

// completeFigures does the same for what the report draws.
func completeFigures(v *assertions.Verdict) {
	v.Conservation.Entries, v.Conservation.Notes = completeEntries(v.Conservation.Entries),
		completeEntries(v.Conservation.Notes)
	percentiles := make(map[string]measure.PercentileCurves, len(v.Percentiles))
	for key, curves := range v.Percentiles {
		curves.Phases = orEmptyMap(curves.Phases)
		percentiles[key] = curves
	}
	v.Percentiles = percentiles
	v.HeatMap.Bounds = orEmpty(v.HeatMap.Bounds)
	counts := make([][]int64, len(v.HeatMap.Counts))
	for i, column := range v.HeatMap.Counts {
		counts[i] = orEmpty(column)
	}
	v.HeatMap.Counts = counts
	v.Health.CPU, v.Health.CPUMax = finite(v.Health.CPU), finite(v.Health.CPUMax)
	v.Usage.Instances = orEmpty(v.Usage.Instances)
}

func completeEntries(entries []measure.Entry) []measure.Entry {
	out := make([]measure.Entry, len(entries))
	for i, entry := range entries {
		entry.Records = orEmpty(entry.Records)
		out[i] = entry
	}
	return out
}

func completeAnomalies(anomalies []assertions.Anomaly) []assertions.Anomaly {
	out := make([]assertions.Anomaly, len(anomalies))
	for i, a := range anomalies {
		counterexamples := make([]assertions.Counterexample, len(a.Counterexamples))
		for j, w := range a.Counterexamples {
			w.Trace = orEmpty(w.Trace)
			counterexamples[j] = w
		}
		a.Counterexamples = counterexamples
		out[i] = a
	}
	return out
}

func orEmpty[T any](list []T) []T {
	if list == nil {
		return []T{}
	}
	return list
}

func orEmptyMap[V any](m map[string]V) map[string]V {
	if m == nil {
		return map[string]V{}
	}
	return m
}

// finite makes a rate over no time at all, which is no number, 0: JSON knows no other.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}

// VerdictSchema returns the JSON Schema (2020-12) of verdict.json. It allows keys that it does not know: a later
// version may add some without a new schema number.
func VerdictSchema() ([]byte, error) {
	reflector := &jsonschema.Reflector{
		AllowAdditionalProperties: true,
		ExpandedStruct:            true,
		LookupComment:             verdictComment,
		Mapper:                    verdictType,
	}
	schema := reflector.Reflect(&assertions.Verdict{})
	schema.ID = VerdictSchemaID
	schema.Title = "dlqbench verdict"
	out, err := json.MarshalIndent(schema, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the schema of verdict.json: %w", err)
	}
	return append(out, '\n'), nil
}

// verdictType gives the words that a status can be, and what a curve is.
func verdictType(t reflect.Type) *jsonschema.Schema {
	switch t {
	case reflect.TypeFor[measure.Curve]():
		return &jsonschema.Schema{
			Type: "array", Items: &jsonschema.Schema{OneOf: []*jsonschema.Schema{{Type: "number"}, {Type: "null"}}},
			Description: "One value per step; null where there is none.",
		}
	case reflect.TypeFor[assertions.Status]():
	default:
		return nil
	}
	return &jsonschema.Schema{
		Type: "string",
		Enum: []any{assertions.Fail, assertions.Inconclusive, assertions.Pass, assertions.NotApplicable},
	}
}

// verdictComment says what the keys mean whose names don't.
func verdictComment(t reflect.Type, field string) string {
	comments := map[string]string{
		"Verdict.Verdict": "The judgement of the whole run: the worst of its invariants. Thresholds are not " +
			"part of it.",
		"Verdict.Seed":    "The seed that the plan was made from; the same seed gives the same plan.",
		"Verdict.Rerun":   "The command that runs the same plan again.",
		"Verdict.Reasons": "Why the verdict is not pass, in sentences, worst first.",
		"Verdict.Latency": "Latencies by name (send, first_attempt, success, service, dead_letter, backoff_error, " +
			"commit_delay, replay, slip), in ns.",
		"Verdict.Drain": "How the run came to its end: whether every acknowledged record was finished and " +
			"committed, and how long after heal.",
		"Verdict.Percentiles": "Percentile curves by latency and phase. Intended time is success, service time is " +
			"service: what lies between them is waiting.",
		"Verdict.Series":  "The run's curves on one time axis from 0, at most 600 steps.",
		"Verdict.HeatMap": "The successes by when they ended and how long they took.",
		"HeatMap.Bounds":  "Row i is from bound i up to, not including, bound i+1; in ns.",
		"HeatMap.Counts": "By column (one per step from 0, at most 300), then by row; a column with nothing in it " +
			"is empty.",
		"PercentileCurves.Nines": "The axis: log10(1/(1-q)), so 1 is p90 and 2 is p99.",
		"PercentileCurve.Values": "In ms, one per point of the axis.",
		"FaultResult.Recovery":   "How long it took to feel the fault and to be rid of it; see docs/figures.md.",
		"Recovery.Effect":        "From the fault's start to the first thing that it did.",
		"Recovery.Detect":        "From the fault's start to the first sign of it on the subject's side.",
		"Recovery.CatchUp":       "From the fault's end until the lag is no higher than before it.",
		"Recovery.Steady":        "From the fault's end until throughput and p99 are in their bands for a second.",
		"Recovery.Before":        "What the calm before the fault was like; absent where there was none.",
		"Recovery.LagPeak":       "The highest lag from the fault's start until it was caught up with.",
		"Span.State":             "known; untold: it can't be told; never: it did not come about before the run was over.",
		"Span.Time":              "In ns; 0 unless it is known.",
		"Span.Note":              "By what it was seen, or why it isn't known.",
		"Conservation.Entries":   "Every planned record is in exactly one of them.",
		"Conservation.Notes":     "Remarks about records that are in the entries already.",
		"Entry.Difference":       "There should be no such records.",
		"Entry.Records":          "The first of them, at most 50; of differences and notes only.",
		"Series.InRetry":         "Records that have failed and are not finished yet, at the end of each step.",
		"Series.Lag":             "Acknowledged records not yet covered by an accepted commit, at the end of each step.",
		"Health.BacklogMax": "The most events that ever waited to be written to the history; at a million the " +
			"recorder gives up.",
		"Health.CPU":          "Processors that the harness used on average under load; 0 where that was not sampled.",
		"Verdict.Environment": "What the run ran on.",
		"Result.Judged":       "How many things were looked at; \"of\" says which.",
		"Result.NotJudged":    "How many things could not be judged, by reason.",
		"Result.Why":          "Why the invariant is inconclusive or not applicable.",
		"Result.Open": "How many more of the same things could not be judged; not_judged counts them, and " +
			"questions about judged things, too.",
		"Result.Unjudged": "Of not-applicable, what it is due to. unpromised: the contract does not promise it; unseen: " +
			"what it needs can't be seen of this subject; unexercised: nothing in this run put it to the test; inapplicable: " +
			"the run is of another kind (no store, no graph). Absent in verdicts of older versions.",
		"Anomaly.Count":            "All occurrences; the counterexamples are at most 20 of them.",
		"Counterexample.Record":    "The record's sequence number, -1 when the trace is about a partition or the run.",
		"Counterexample.Offset":    "The record's offset, -1 when there is none.",
		"Counterexample.Partition": "The record's partition, -1 when there is none.",
		"Counterexample.Command": "The command that prints the whole trace; absent when the trace is about no " +
			"one place.",
		"Counterexample.Trace": "The record's events in order; the marked ones contradict each other.",
		"Line.Time":            "Time on the run's clock, in ns.",
		"FaultResult.Planned":  "When the fault was planned, on the run's clock.",
		"FaultSeen.Effects":    "What the fault did, counted by kind.",
		"FaultSeen.Idle":       "Why the fault probably did nothing, where it was injected and did nothing.",
		"Ledger.Late":          "Records handed to the producer more than 10 ms after their intended time.",
		"Health.SlipP99":       "99th percentile of how late records were handed to the producer, in ns.",
		"Threshold.Error":      "Why the expression could not be evaluated; it is then not met.",
	}
	if told, ok := comments[t.Name()+"."+field]; ok {
		return told
	}
	return cmp.Or(storyComment(t.Name()+"."+field), usageComment(t.Name()+"."+field))
}

// usageComment says it of what the subject used.
func usageComment(key string) string {
	return map[string]string{
		"Verdict.Usage":        "What the instances of the subject used: all processes of each together, read once a second.",
		"Usage.Instances":      "Those that were measured; none where they can't be, or in histories of older versions.",
		"Usage.Busiest":        "The record with the most attempts within one second; absent where no attempt was seen.",
		"InstanceUsage.RSSMax": "The most resident memory over the whole run, in bytes. What processes share counts in each.",
		"InstanceUsage.RSSGrowth": "By how many bytes one of its processes grew under load: the median of the last third " +
			"of its readings in the phases steady and fault, from when it was ready, less that of the first third. Absent " +
			"with less than ten such readings.",
		"InstanceUsage.CPUMean": "Processors used on average over the phases steady and fault; absent where they were " +
			"not read.",
		"InstanceUsage.CPUMax": "Processors used between those two readings in these phases between which it used most.",
		"BusiestRecord.At":     "The end of that second, on the run's clock, in ns.",
		"Series.Instances":     "What each instance used; null where it was not running, or not measured.",
	}[key]
}

// storyComment says it of the keys that tell where and when something was violated.
func storyComment(key string) string {
	return map[string]string{
		"Verdict.Topics": "The topics of the run.",
		"Verdict.Logs": "What the subject's processes wrote around the first occurrence of each anomaly; passwords " +
			"are masked.",
		"Verdict.LogsNote": "Why there are no lines of logs, or not all.",
		"Anomaly.First":    "The earliest occurrence; absent where no moment can be told.",
		"Anomaly.Records":  "The places of the first occurrences that were found, at most 200.",
		"Occurrence.At": "When it was violated, on the run's clock, in ns: with the commit that went too far, or else " +
			"with the last of the events that contradict each other; of what never came, from when it is sure not to come " +
			"(missing); -1 where it has no moment.",
		"Occurrence.Missing": "Only of what never came, why it is sure at at_ns that it won't: committed past (committed), " +
			"the drain or the replay was over (drained, replayed), the audit did not find it (audited).",
		"Occurrence.Record":     "The record's sequence number, -1 when it is about a partition or the run.",
		"Occurrence.Phase":      "The phase of the run at that time; of the first occurrence only.",
		"Counterexample.Key":    "The record's key; absent for a null key.",
		"Counterexample.Actors": "Who takes part, in the order in which a record meets them.",
		"Line.From":             "Who did it: the name of an actor; absent where it concerns everybody (a fault).",
		"Line.To":               "To whom; absent where it happened at from alone.",
		"Line.Label":            "The event in a word or two.",
		"Line.Failed":           "An answer that says no, an error, an end that nobody asked for.",
		"LogExcerpt.File":       "Where the lines are, relative to the run's directory.",
		"LogExcerpt.At":         "The moment around which they were written, on the run's clock, in ns.",
		"LogExcerpt.LeftOut":    "How many lines of the same time are not told.",
		"LogLine.Time":          "When the line was read, to within 100 ms, on the run's clock, in ns.",
	}[key]
}
