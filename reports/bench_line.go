package reports

// This file writes the line about each run of a bench as it ends.

import (
	"fmt"
	"io"
	"strings"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/units"
)

// BenchRunLine writes one line about a run: the given repetition of the cell with this number.
func BenchRunLine(w io.Writer, bench Bench, cell, repetition int, run BenchRun) error {
	var b strings.Builder
	of := bench.Cells[cell-1]
	word := strings.ToUpper(string(run.Verdict))
	if run.Error != "" {
		word = "NOT RUN"
	}
	fmt.Fprintf(&b, "%-12s  %s, repetition %d", word, name(of.Name), repetition)
	if run.Error != "" {
		fmt.Fprintf(&b, ": %s", text(run.Error))
	}
	if run.Behind != "" {
		b.WriteString(": CAN'T KEEP UP")
	}
	if run.Throughput.Offered > 0 {
		fmt.Fprintf(&b, ": %s of %s", units.PerSecond(run.Throughput.Processed), units.PerSecond(run.Throughput.Offered))
	}
	if success := run.Latency[measure.LatencySuccess]; success.Count > 0 {
		fmt.Fprintf(&b, ", p99 %s", units.Text(success.P99))
	}
	for _, one := range of.Repetitions {
		if one.Number == repetition && run.Error == "" {
			b.WriteString(shown(one))
		}
	}
	b.WriteString("\n")
	_, err := io.WriteString(w, b.String())
	return err
}

// shown describes the result of a repetition, or of the last probe of its search.
func shown(of BenchRepetition) string {
	switch {
	case of.Search != nil && of.Search.Limit != "":
		return fmt.Sprintf("; the search found %s (limit: %s)", units.PerSecond(of.Search.Rate), of.Search.Limit)
	case of.Search != nil:
		last := of.Search.Probes[len(of.Search.Probes)-1]
		return fmt.Sprintf("; at %s %s", units.PerSecond(last.Rate), last.Hold)
	case of.Knee != nil:
		return fmt.Sprintf("; keeps up with %s (limit: %s)", units.PerSecond(of.Knee.Rate), of.Knee.Limit)
	}
	return ""
}
