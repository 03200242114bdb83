package reports

// verdict.json and its published schema. The schema is made from the Go types, so the two can't drift apart.

import (
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"

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
	encoder := json.NewEncoder(w)
	// The file stands alone and is read by people: "p99 < 500ms" stays as it is. What is embedded in HTML is encoded apart.
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(complete(run.Verdict)); err != nil {
		return fmt.Errorf("encoding the verdict: %w", err)
	}
	return nil
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
	return &out
}

func completeAnomalies(anomalies []assertions.Anomaly) []assertions.Anomaly {
	out := make([]assertions.Anomaly, len(anomalies))
	for i, a := range anomalies {
		witnesses := make([]assertions.Witness, len(a.Witnesses))
		for j, w := range a.Witnesses {
			w.Biography = orEmpty(w.Biography)
			witnesses[j] = w
		}
		a.Witnesses = witnesses
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

// VerdictSchema returns the JSON Schema (2020-12) of verdict.json. It allows keys that it does not know: a later version may add
// some without a new schema number.
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

// verdictType gives the words that a status can be.
func verdictType(t reflect.Type) *jsonschema.Schema {
	if t != reflect.TypeFor[assertions.Status]() {
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
		"Verdict.Verdict":     "The judgement of the whole run: the worst of its invariants. Thresholds are not part of it.",
		"Verdict.Seed":        "The seed that the plan was made from; the same seed gives the same plan.",
		"Verdict.Rerun":       "The command that runs the same plan again.",
		"Verdict.Reasons":     "Why the verdict is not pass, in sentences, worst first.",
		"Verdict.Latency":     "Latencies by name (send, first_attempt, success, dead_letter, backoff_error, commit_delay, replay, slip), in ns.",
		"Verdict.Environment": "What the run ran on.",
		"Result.Judged":       "How many things were looked at; \"of\" says which.",
		"Result.NotJudged":    "How many things could not be judged, by reason.",
		"Result.Why":          "Why the invariant is inconclusive or not applicable.",
		"Anomaly.Count":       "All occurrences; the witnesses are at most 20 of them.",
		"Witness.Record":      "The record's sequence number, -1 when the story is about a partition or the run.",
		"Witness.Offset":      "The record's offset, -1 when there is none.",
		"Witness.Partition":   "The record's partition, -1 when there is none.",
		"Witness.Command":     "The command that tells the record's whole story; absent when the story is about no one place.",
		"Witness.Biography":   "The record's events in order; the marked ones contradict each other.",
		"Line.Time":           "Time on the run's clock, in ns.",
		"FaultResult.Planned": "When the fault was planned, on the run's clock.",
		"FaultSeen.Effects":   "What the fault did, counted by kind.",
		"Ledger.Late":         "Records handed to the producer more than 10 ms after their intended time.",
		"Health.SlipP99":      "99th percentile of how late records were handed to the producer, in ns.",
		"Threshold.Error":     "Why the expression could not be evaluated; it is then not met.",
	}
	return comments[t.Name()+"."+field]
}
