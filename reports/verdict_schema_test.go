package reports

// The published schema of verdict.json, generated from the Go types. It is generated in a test, so that the program
// does not contain the library for it.

import (
	"cmp"
	"encoding/json"
	"fmt"
	"reflect"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/testkit/golden"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

//go:generate env UPDATE_GOLDEN=1 go test -run TestVerdictSchemaIsTheCommittedOne .

func TestVerdictSchemaIsTheCommittedOne(t *testing.T) {
	got := must.Get(generateVerdictSchema())(t)
	golden.Check(t, "verdict.schema.json", string(got))
}

// generateVerdictSchema generates the schema of verdict.json. It allows additional keys, see VerdictSchema.
func generateVerdictSchema() ([]byte, error) {
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

// verdictType returns the schemas of a status and of a curve.
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

// verdictComment describes the keys whose names do not explain them.
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
		"Health.CPU": "Processors that the harness used on average under load; 0 where that was not sampled.",
		"Verdict.Experimental": "What experimental invariants say; it decides nothing, neither the verdict nor what is " +
			"required. Absent where there are none.",
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
	return cmp.Or(violationComment(t.Name()+"."+field), usageComment(t.Name()+"."+field))
}

// usageComment describes the keys about the subject's resource usage.
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

// violationComment describes the keys about the place and time of a violation.
func violationComment(key string) string {
	return map[string]string{
		"Verdict.Topics": "The topics of the run.",
		"Verdict.Logs": "What the subject's processes wrote around the first occurrence of each anomaly; passwords " +
			"are masked.",
		"Verdict.Roots": "The violations that no other violation explains, each with those that follow from it. The first " +
			"reasons are one for each.",
		"Verdict.Open": "What could not be judged: first what concerns the run as a whole, then single invariants. The " +
			"reasons after those of the roots are one for each.",
		"Open.What":      "What could not be judged: an invariant, or a question in words.",
		"Open.Do":        "What to do so that a run judges it.",
		"Open.Invariant": "Its name if the question is whether it held; otherwise absent.",
		"Root.Example": "The occurrence that every report shows: of a record that the consequences concern, too, if there " +
			"is one, with the largest margin, and the earliest.",
		"Root.Command":          "The command that prints the trace of the example, or of a record of a consequence.",
		"Consequence.Why":       "Why it may follow from the root, or from another of its consequences.",
		"Counterexample.At":     "As in Occurrence; absent in verdicts of older versions.",
		"Counterexample.Margin": "By how much the promise was broken, in ns; absent where it is not a matter of time.",
		"Verdict.LogsNote":      "Why there are no lines of logs, or not all.",
		"Anomaly.First":         "The earliest occurrence; absent where no moment can be told.",
		"Anomaly.Records":       "The places of the earliest occurrences, at most 200, in the order of time.",
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
