package reports

// This file writes verdict.json and its published schema. A test generates the schema from the Go types, so that they
// always agree.

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"regexp"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
)

// VerdictSchemaID identifies the schema of verdict.json.
const VerdictSchemaID = "https://github.com/dlqbench/dlqbench/reports/verdict.schema.json"

//go:embed verdict.schema.json
var verdictSchemaText []byte

// VerdictSchema returns the JSON Schema (2020-12) of verdict.json. It allows unknown keys, because a later version
// may add some without a new schema number.
func VerdictSchema() ([]byte, error) { return bytes.Clone(verdictSchemaText), nil }

// JSON writes verdict.json: indented, keys always in the same order, lists and tables never null. It validates against
// VerdictSchema.
func JSON(w io.Writer, run Run) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	var out bytes.Buffer
	encoder := json.NewEncoder(&out)
	// The file stands alone and is read by people, so "p99 < 500ms" is not escaped. Data embedded in HTML is encoded
	// separately.
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

// numbers matches an indented list of numbers. A JSON string contains no line break, so it cannot match inside one.
var numbers = regexp.MustCompile(`\[\n[-0-9nul.eE+, \n]*\]`)

// onOneLine removes the white space: a curve is not easier to read on 600 lines.
func onOneLine(list []byte) []byte {
	return bytes.ReplaceAll(bytes.Join(bytes.Fields(list), nil), []byte(","), []byte(", "))
}

// complete returns a copy in which no list or table is nil and every figure is finite.
func complete(v *assertions.Verdict) *assertions.Verdict {
	out := *v
	out.Reasons = orEmpty(v.Reasons)
	out.Thresholds = orEmpty(v.Thresholds)
	out.Phases = orEmpty(v.Phases)
	out.Environment = orEmptyMap(v.Environment)
	out.Throughput = measure.Throughput{
		Offered: finite(v.Throughput.Offered), Sent: finite(v.Throughput.Sent), Processed: finite(v.Throughput.Processed),
	}
	out.Invariants = completeResults(v.Invariants)
	if len(v.Experimental) > 0 {
		out.Experimental = completeResults(v.Experimental)
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

// completeFigures does the same for the figures that the report draws.
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

func completeResults(results []assertions.Result) []assertions.Result {
	out := make([]assertions.Result, len(results))
	for i, r := range results {
		r.Anomalies = completeAnomalies(r.Anomalies)
		out[i] = r
	}
	return out
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

// finite replaces a rate over no time, which is not a number, by 0, because JSON has only numbers.
func finite(v float64) float64 {
	if math.IsNaN(v) || math.IsInf(v, 0) {
		return 0
	}
	return v
}
