package verify

// This file formats the tables: one line for each part, and the matrix behind it, in Markdown that is also readable in
// a terminal.

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
)

// Result is what was proved; a part that was not asked for is nil.
type Result struct {
	Completeness *Completeness `json:"completeness,omitempty"`
	Soundness    *Soundness    `json:"soundness,omitempty"`
	// Strangers is the table of consumers that others wrote.
	Strangers *Soundness `json:"strangers,omitempty"`
}

// Holds reports whether every requested part holds.
func (r *Result) Holds() bool {
	return (r.Completeness == nil || r.Completeness.Holds()) && (r.Soundness == nil || r.Soundness.Holds()) &&
		(r.Strangers == nil || r.Strangers.Holds())
}

// Markdown returns all tables.
func (r *Result) Markdown() string {
	var b strings.Builder
	b.WriteString(r.Summary())
	if r.Completeness != nil {
		b.WriteString(r.Completeness.markdown())
	}
	if r.Soundness != nil {
		fmt.Fprintf(&b, "\n## Soundness: the correct consumer, seeds %d to %d\n\n", r.Soundness.First, r.Soundness.last())
		b.WriteString(r.Soundness.markdown("mode (ordering, retry, group protocol, instances; store: engine, retry, "+
			"workers; graph: shape, group protocol, instances of each node)", "fault"))
	}
	if r.Strangers != nil {
		of, situation := fmt.Sprintf("of %d pairs", r.Strangers.Pairs), "scenario"
		if r.Strangers.drawn() {
			of, situation = "under drawn faults", "fault"
		}
		fmt.Fprintf(&b, "\n## Strangers: correct consumers written without knowledge of dlqbench, runs %d to %d, %s\n\n",
			r.Strangers.First, r.Strangers.last(), of)
		b.WriteString(r.Strangers.markdown("consumer", situation))
	}
	return b.String()
}

// Summary returns one line for each part.
func (r *Result) Summary() string {
	rows := [][]string{{"proof", "what was done", "result"}}
	if c := r.Completeness; c != nil {
		caught, runs, passed, controls := 0, 0, 0, 0
		for _, row := range c.Bugs {
			caught, runs = caught+row.Caught, runs+row.Seeds
		}
		for _, row := range c.Controls {
			passed, controls = passed+row.Passed, controls+row.Seeds
		}
		name := "completeness"
		result := share(caught, runs) + " caught by name"
		full, bugs := c.named()
		if !c.aimed() {
			name += ", " + c.Suite
			result = fmt.Sprintf("%s named with %d of %d seeds", share(full, bugs), c.Wanted, c.Wanted)
		}
		rows = append(rows, []string{name, fmt.Sprintf("%s in %s; the correct consumer in %d",
			units.Plural(int64(bugs), "planted bug", "planted bugs"), units.Plural(int64(runs), "run", "runs"), controls),
			fmt.Sprintf("%s; the correct one passed %s", result, share(passed, controls))})
	}
	if s := r.Soundness; s != nil {
		rows = append(rows, []string{"soundness", fmt.Sprintf("%d runs of the correct consumer in %d modes under %d "+
			"faults, alone and in pairs", s.Runs, len(s.Modes), len(s.Faults)),
			s.result()})
	}
	if s := r.Strangers; s != nil {
		situations := fmt.Sprintf("in %d shipped scenarios", len(s.Faults))
		if s.drawn() {
			situations = fmt.Sprintf("under %d faults, alone and in pairs", len(s.Faults))
		}
		rows = append(rows, []string{"strangers", fmt.Sprintf("%d runs of %d correct consumers of others %s", s.Runs,
			len(s.Modes), situations), s.result()})
	}
	return table(rows)
}

// drawn reports whether strangers ran under drawn faults, and not in pairs with shipped scenarios.
func (s *Soundness) drawn() bool { return s.Pairs == 0 }

func (s *Soundness) result() string {
	return fmt.Sprintf("%s (%s inconclusive%s)", units.Plural(int64(s.Accused), "false alarm", "false alarms"),
		units.Plural(int64(s.Inconclusive), "run", "runs"), s.skipped())
}

// skipped reports the number of skipped runs, if any.
func (s *Soundness) skipped() string {
	all := 0
	for _, n := range s.Skipped {
		all += n
	}
	if all == 0 {
		return ""
	}
	return fmt.Sprintf(", %d more SKIPPED", all)
}

func share(part, whole int) string {
	switch {
	case whole == 0:
		return "0 of 0"
	case part == whole:
		return "100%"
	}
	// Never round up to 100.
	return fmt.Sprintf("%.1f%% (%d of %d)", float64(1000*part/whole)/10, part, whole)
}

func (c *Completeness) markdown() string {
	if !c.aimed() {
		return c.suiteMarkdown()
	}
	var b strings.Builder
	b.WriteString("\n## Completeness: planted bug × anomaly\n\n")
	rows := [][]string{{"planted bug", "must be named as", "caught", "also named", "what is wrong"}}
	for _, row := range c.Bugs {
		rows = append(rows, []string{row.Bug, row.Invariant + ": " + row.Anomaly,
			fmt.Sprintf("%d/%d", row.Caught, row.Seeds), row.alsoNamed(), row.What})
	}
	b.WriteString(table(rows))
	b.WriteString("\nThe correct consumer on the scenarios at which they are aimed:\n\n")
	rows = [][]string{{"scenario", "passed"}}
	for _, row := range c.Controls {
		rows = append(rows, []string{row.Scenario, fmt.Sprintf("%d/%d", row.Passed, row.Seeds)})
	}
	b.WriteString(table(rows))
	for _, row := range c.Bugs {
		list(&b, "missed, again with: ", row.Missed)
	}
	c.failures(&b)
	return b.String()
}

// widestAlso is the number of additional anomalies that a row lists. A table has to fit a page; the JSON has all
// anomalies.
const widestAlso = 2

// alsoNamed lists the anomalies that were named besides the row's own, sorted by the number of runs, descending.
func (r *BugRow) alsoNamed() string {
	var also []string
	for _, name := range slices.Sorted(maps.Keys(r.Named)) {
		if name != r.Invariant+": "+r.Anomaly {
			also = append(also, name)
		}
	}
	slices.SortStableFunc(also, func(a, b string) int { return r.Named[b] - r.Named[a] })
	more := max(len(also)-widestAlso, 0)
	also = also[:len(also)-more]
	for i, name := range also {
		also[i] = fmt.Sprintf("%s %d/%d", name, r.Named[name], r.Seeds)
	}
	if more > 0 {
		also = append(also, fmt.Sprintf("and %d more", more))
	}
	return strings.Join(also, ", ")
}

// failures lists the problems other than missed bugs.
func (c *Completeness) failures(b *strings.Builder) {
	for _, row := range c.Controls {
		list(b, "accused on "+row.Scenario+": ", row.Failed)
	}
	list(b, "could not be run: ", c.Errors)
}

func (c *Completeness) suiteMarkdown() string {
	return fmt.Sprintf("\n## Completeness, %s: planted bug × scenario\n\n%s", c.Suite, c.suiteTables())
}

// suiteTables show, for each bug, the scenarios of the suite that name it.
func (c *Completeness) suiteTables() string {
	var b strings.Builder
	b.WriteString(c.counts() + "\n\n")
	rows := [][]string{{"planted bug", "must be named as", "named", "by", "by none of", "what is wrong"}}
	for _, one := range c.results() {
		var by, none []string
		for _, row := range one.rows {
			switch {
			case row.Caught > 0:
				by = append(by, fmt.Sprintf("%s %d/%d", row.Scenario, row.Caught, row.Seeds))
			case row.Seeds > 0:
				none = append(none, row.Scenario)
			}
		}
		missed := fmt.Sprint(len(none))
		if len(by) == 0 {
			missed = strings.Join(none, ", ")
		}
		rows = append(rows, []string{one.Bug, one.Invariant + ": " + one.Anomaly,
			fmt.Sprintf("%d/%d", one.named, one.tried), strings.Join(by, ", "), missed, one.What})
	}
	b.WriteString(table(rows))
	fmt.Fprintf(&b, "\nThe correct consumer on these scenarios, %.0f s one after the other:\n\n", c.round())
	rows = [][]string{{"scenario", "passed", "seconds"}}
	for _, row := range c.Controls {
		rows = append(rows, []string{row.Scenario, fmt.Sprintf("%d/%d", row.Passed, row.Seeds),
			fmt.Sprintf("%.1f", meanSeconds(row.Runs))})
	}
	b.WriteString(table(rows))
	list(&b, "no scenario of the suite applies to ", c.Untried)
	for _, name := range slices.Sorted(maps.Keys(c.Skipped)) {
		list(&b, "skipped "+name+": ", []string{c.Skipped[name]})
	}
	c.failures(&b)
	return b.String()
}

// counts summarizes in a sentence what was measured and what was named.
func (c *Completeness) counts() string {
	full, all := c.named()
	once, pairs, tried, runs, unnamed := 0, 0, 0, 0, []string(nil)
	for _, one := range c.results() {
		if slices.ContainsFunc(one.rows, func(row *BugRow) bool { return row.Caught > 0 }) {
			once++
		} else {
			unnamed = append(unnamed, one.Bug)
		}
		for _, row := range one.rows {
			pairs, runs = pairs+1, runs+row.Seeds
			if row.Seeds > 0 {
				tried++
			}
		}
	}
	text := fmt.Sprintf("Of %d planted bugs, %d were named at least once, and %d with each of %d seeds. Of %d pairs of "+
		"a bug and a scenario that applies to it, %d were run, in %d runs.",
		all, once, full, c.Wanted, pairs, tried, runs)
	if n := len(c.Untried); n > 0 {
		text += fmt.Sprintf(" To %d bugs none applies.", n)
	}
	if len(unnamed) > 0 {
		text += " Named by none so far: " + strings.Join(unnamed, ", ") + "."
	}
	return text
}

// last is the number of the last run.
func (s *Soundness) last() uint64 {
	all := s.Runs
	for _, n := range s.Skipped {
		all += n
	}
	return s.First + uint64(max(all, 1)) - 1
}

func (s *Soundness) markdown(mode, fault string) string {
	var b strings.Builder
	rows := [][]string{{mode, "runs", "passed", "inconclusive", "accused"}}
	for _, name := range slices.Sorted(maps.Keys(s.Modes)) {
		of := s.Verdicts[name]
		rows = append(rows, []string{
			name, fmt.Sprint(s.Modes[name]), fmt.Sprint(of[assertions.Pass]), fmt.Sprint(of[assertions.Inconclusive]),
			fmt.Sprint(of[assertions.Fail]),
		})
	}
	b.WriteString(table(rows) + "\n")
	rows = [][]string{{fault, "runs"}}
	for _, name := range slices.Sorted(maps.Keys(s.Faults)) {
		rows = append(rows, []string{name, fmt.Sprint(s.Faults[name])})
	}
	b.WriteString(table(rows) + "\n")
	rows = [][]string{{"invariant", "runs in which it judged"}}
	for _, name := range slices.Sorted(maps.Keys(s.Judged)) {
		rows = append(rows, []string{name, fmt.Sprint(s.Judged[name])})
	}
	b.WriteString(table(rows))
	for _, alarm := range s.Alarms {
		list(&b, "accused: "+alarm.What+": "+strings.Join(alarm.Reasons, "; ")+"; again with: ", []string{alarm.Rerun})
	}
	for _, why := range slices.Sorted(maps.Keys(s.Open)) {
		list(&b, fmt.Sprintf("inconclusive, %d×: ", s.Open[why]), []string{why})
	}
	for _, what := range slices.Sorted(maps.Keys(s.Skipped)) {
		list(&b, fmt.Sprintf("skipped, %d×: ", s.Skipped[what]), []string{what})
	}
	list(&b, "could not be run: ", s.Errors)
	return b.String()
}

func list(b *strings.Builder, lead string, lines []string) {
	for _, line := range lines {
		fmt.Fprintf(b, "\n- %s%s", lead, strings.ReplaceAll(line, "\n", " "))
	}
	if len(lines) > 0 {
		b.WriteString("\n")
	}
}

// table writes rows with aligned columns. The first row is the header.
func table(rows [][]string) string {
	widths := make([]int, len(rows[0]))
	for _, row := range rows {
		for i, cell := range row {
			widths[i] = max(widths[i], len([]rune(cell)))
		}
	}
	var b strings.Builder
	for n, row := range rows {
		for i, cell := range row {
			fmt.Fprintf(&b, "| %s%s ", cell, strings.Repeat(" ", widths[i]-len([]rune(cell))))
		}
		b.WriteString("|\n")
		if n == 0 {
			for _, width := range widths {
				b.WriteString("|" + strings.Repeat("-", width+2))
			}
			b.WriteString("|\n")
		}
	}
	return b.String()
}
