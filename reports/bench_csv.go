package reports

// This file writes a bench as tables, for spreadsheets and notebooks.

import (
	"encoding/csv"
	"fmt"
	"io"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/internal/stats"
)

// column is one column of a table over rows of type R.
type column[R any] struct {
	name string
	of   func(R) string
}

// csvRow is a repetition with its cell.
type csvRow struct {
	cell       BenchCell
	repetition BenchRepetition
}

// BenchCSV writes a row for each repetition. Times are in milliseconds if the column says so, otherwise in seconds.
func BenchCSV(w io.Writer, bench Bench) error {
	var rows []csvRow
	for _, cell := range bench.Cells {
		for _, repetition := range cell.Repetitions {
			rows = append(rows, csvRow{cell, repetition})
		}
	}
	columns := append(cellColumns(bench, func(r csvRow) BenchCell { return r.cell }), runColumns()...)
	return writeTable(w, append(columns, modeColumns(bench.Mode)...), rows)
}

// BenchCellsCSV writes a row for each cell, with the median and the quartiles of each figure over the usable
// repetitions.
func BenchCellsCSV(w io.Writer, bench Bench) error {
	columns := cellColumns(bench, func(c BenchCell) BenchCell { return c })
	columns = append(columns,
		column[BenchCell]{"repetitions", func(c BenchCell) string { return strconv.Itoa(len(c.Repetitions)) }},
		column[BenchCell]{"why", func(c BenchCell) string { return strings.Join(c.Why, "; ") }},
		column[BenchCell]{"command", func(c BenchCell) string { return c.Command }})
	for _, figure := range BenchFigures(bench.Mode) {
		of := func(pick func(stats.Summary) float64) func(BenchCell) string {
			return func(c BenchCell) string {
				summary := stats.Summarize(c.Figures(figure))
				if summary.Count == 0 {
					return ""
				}
				return number(pick(summary))
			}
		}
		name := figure.Name + "_" + string(figure.Unit)
		columns = append(columns,
			column[BenchCell]{name + "_median", of(func(s stats.Summary) float64 { return s.Median })},
			column[BenchCell]{name + "_q1", of(func(s stats.Summary) float64 { return s.Q1 })},
			column[BenchCell]{name + "_q3", of(func(s stats.Summary) float64 { return s.Q3 })})
	}
	return writeTable(w, columns, bench.Cells)
}

func writeTable[R any](w io.Writer, columns []column[R], rows []R) error {
	lines := make([][]string, len(rows)+1)
	for _, c := range columns {
		lines[0] = append(lines[0], c.name)
		for i, row := range rows {
			lines[i+1] = append(lines[i+1], cellText(c.of(row)))
		}
	}
	if err := csv.NewWriter(w).WriteAll(lines); err != nil {
		return fmt.Errorf("writing the table: %w", err)
	}
	return nil
}

// cellText prevents a spreadsheet from interpreting text as a formula.
func cellText(s string) string {
	if s != "" && strings.ContainsRune("=+-@\t\r", rune(s[0])) {
		if _, err := strconv.ParseFloat(s, 64); err != nil {
			return "'" + s
		}
	}
	return s
}

// cellColumns returns the columns that identify the cell: its number, its name, its settings, workload and faults.
func cellColumns[R any](bench Bench, cell func(R) BenchCell) []column[R] {
	columns := []column[R]{
		{"cell", func(r R) string { return strconv.Itoa(cell(r).Number) }},
		{"name", func(r R) string { return cell(r).Name }},
		{"state", func(r R) string { return string(cell(r).State) }},
	}
	for _, path := range bench.SettingPaths() {
		columns = append(columns, column[R]{path, func(r R) string { return cell(r).Setting(path) }})
	}
	return append(columns,
		column[R]{"workload", func(r R) string { return cell(r).Workload }},
		column[R]{"faults", func(r R) string { return cell(r).Faults }})
}

// SettingPaths returns the paths of the settings that differ between cells, in order of first appearance.
func (b Bench) SettingPaths() (paths []string) {
	for _, cell := range b.Cells {
		for _, setting := range cell.Settings {
			paths = addOnce(paths, setting.Path)
		}
	}
	return paths
}

func runColumns() []column[csvRow] {
	run := func(of func(BenchRun) string) func(csvRow) string {
		return func(r csvRow) string { return of(r.repetition.Run) }
	}
	count := func(of func(BenchRun) int64) func(csvRow) string {
		return run(func(r BenchRun) string { return strconv.FormatInt(of(r), 10) })
	}
	columns := []column[csvRow]{
		{"repetition", func(r csvRow) string { return strconv.Itoa(r.repetition.Number) }},
		{"verdict", run(func(r BenchRun) string { return string(r.Verdict) })},
		{"violated", run(violated)},
		{"error", run(func(r BenchRun) string { return r.Error })},
		{"offered_per_s", run(func(r BenchRun) string { return number(r.Throughput.Offered) })},
		{"sent_per_s", run(func(r BenchRun) string { return number(r.Throughput.Sent) })},
		{"processed_per_s", run(func(r BenchRun) string { return number(r.Throughput.Processed) })},
	}
	for _, name := range []string{measure.LatencySuccess, measure.LatencyDeadLetter, measure.LatencyFirstAttempt,
		measure.LatencyCommitDelay} {
		columns = append(columns, latencyColumns(name)...)
	}
	return append(columns, []column[csvRow]{
		{"planned", count(func(r BenchRun) int64 { return r.Ledger.Planned })},
		{"acknowledged", count(func(r BenchRun) int64 { return r.Ledger.Acknowledged })},
		{"succeeded", count(func(r BenchRun) int64 { return r.Ledger.Succeeded })},
		{"logical", count(func(r BenchRun) int64 { return r.Ledger.Logical })},
		{"dead_lettered", count(func(r BenchRun) int64 { return r.Ledger.DeadLettered })},
		{"unfinished", count(func(r BenchRun) int64 { return r.Ledger.Unfinished })},
		{"attempts", count(func(r BenchRun) int64 { return r.Ledger.Attempts })},
		{"duplicates", count(func(r BenchRun) int64 { return r.Ledger.Duplicates })},
		{"lag_max", count(func(r BenchRun) int64 { return r.LagMax })},
		{"lag_end", count(func(r BenchRun) int64 { return r.LagEnd })},
		{"backlog_growth_per_s", run(func(r BenchRun) string { return number(r.BacklogGrowth) })},
		{"drain_s", run(func(r BenchRun) string { return when(r.Drained, r.Drain.Seconds()) })},
		{"recovery_s", func(r csvRow) string {
			longest, known := longestRecovery(r.repetition)
			return when(known, longest)
		}},
		{"slip_p99_ms", run(func(r BenchRun) string { return millis(r.Health.SlipP99) })},
		{"stalls", count(func(r BenchRun) int64 { return r.Health.Stalls })},
		{"stalled_ms", run(func(r BenchRun) string { return millis(r.Health.Stalled) })},
		{"elapsed_s", run(func(r BenchRun) string { return number(r.Elapsed.Seconds()) })},
		{"run_directory", run(func(r BenchRun) string { return r.Dir })},
		{"command", run(func(r BenchRun) string { return r.Command })},
	}...)
}

func latencyColumns(name string) (columns []column[csvRow]) {
	for i, quantile := range []string{"p50", "p90", "p99", "p999", "max"} {
		columns = append(columns, column[csvRow]{name + "_" + quantile + "_ms", func(r csvRow) string {
			q := r.repetition.Run.Latency[name]
			if q.Count == 0 {
				return ""
			}
			return millis([]time.Duration{q.P50, q.P90, q.P99, q.P999, q.Max}[i])
		}})
	}
	return columns
}

// ifKnown returns the text of a part of a repetition, "" without it.
func ifKnown[T any](part *T, text func(T) string) string {
	if part == nil {
		return ""
	}
	return text(*part)
}

// modeColumns returns the columns of a search, a soak or a stepped load.
func modeColumns(mode BenchMode) []column[csvRow] {
	switch mode {
	case BenchMaxThroughput:
		search := func(of func(BenchSearch) string) func(csvRow) string {
			return func(r csvRow) string { return ifKnown(r.repetition.Search, of) }
		}
		return []column[csvRow]{
			{"rate_held_per_s", search(func(s BenchSearch) string { return number(s.Rate) })},
			{"rate_above_per_s", search(func(s BenchSearch) string { return when(s.Above > 0, s.Above) })},
			{"limit", search(func(s BenchSearch) string { return string(s.Limit) })},
			{"probes", search(func(s BenchSearch) string { return strconv.Itoa(len(s.Probes)) })},
		}
	case BenchStep:
		knee := func(of func(BenchKnee) string) func(csvRow) string {
			return func(r csvRow) string { return ifKnown(r.repetition.Knee, of) }
		}
		return []column[csvRow]{
			{"knee_per_s", knee(func(k BenchKnee) string { return number(k.Rate) })},
			{"knee_above_per_s", knee(func(k BenchKnee) string { return when(k.Above > 0, k.Above) })},
			{"limit", knee(func(k BenchKnee) string { return string(k.Limit) })},
		}
	case BenchSoak:
		var columns []column[csvRow]
		for _, figure := range mode.Own() {
			columns = append(columns, column[csvRow]{figure.Name, func(r csvRow) string {
				value, known := figure.Of(r.repetition)
				return when(known, value)
			}})
		}
		return columns
	}
	return nil
}

// violated names the violations: "no-loss: lost × 3".
func violated(run BenchRun) string {
	var all []string
	for _, invariant := range run.Invariants {
		if invariant.Verdict != assertions.Fail {
			continue
		}
		var found []string
		for _, name := range slices.Sorted(maps.Keys(invariant.Anomalies)) {
			found = append(found, fmt.Sprintf("%s × %d", name, invariant.Anomalies[name]))
		}
		all = append(all, invariant.Name+": "+strings.Join(found, ", "))
	}
	return strings.Join(all, "; ")
}

func number(v float64) string { return strconv.FormatFloat(complete(v), 'g', 6, 64) }

func when(known bool, v float64) string {
	if !known {
		return ""
	}
	return number(v)
}

func millis(d time.Duration) string {
	return strconv.FormatFloat(float64(d)/float64(time.Millisecond), 'f', -1, 64)
}
