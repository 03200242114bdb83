package reports

// This file writes a gate to a terminal or a CI log: a line for each run as it ends, and the overall result.

import (
	"fmt"
	"io"
	"strings"

	"github.com/dlqbench/dlqbench/internal/units"
)

// SuiteLine writes the result of one run in one line, and each reason in another, or in several (see reasonLines).
func SuiteLine(w io.Writer, run SuiteRun) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s  %s", suiteWord(run.Standing), name(run.Label))
	if run.Dir != "" {
		fmt.Fprintf(&b, "  %s", visible(run.Dir, 4096))
	}
	b.WriteString("\n")
	if extent := run.Extent(); extent != "" {
		fmt.Fprintf(&b, "    %s\n", extent)
	}
	for _, line := range run.reasonLines() {
		fmt.Fprintf(&b, "    %s\n", line)
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// reasonLines returns the reasons of a run as lines that are safe to show. A reason is one line, except that a run
// which could not be made quotes the last lines of a log.
func (r SuiteRun) reasonLines() []string {
	var lines []string
	for _, reason := range r.Reasons {
		if r.Standing != StandingEnvironment {
			lines = append(lines, text(reason))
			continue
		}
		for line := range strings.Lines(reason) {
			lines = append(lines, text(strings.TrimSuffix(line, "\n")))
		}
	}
	return lines
}

// namedNotRun is the maximum number of runs named for each reason why runs were not run.
const namedNotRun = 5

// writeNotRun names the runs that were not run, by reason.
func writeNotRun(b *strings.Builder, suite Suite) {
	names, order := map[string][]string{}, []string{}
	for _, run := range suite.Runs {
		if run.Standing != StandingNotRun {
			continue
		}
		why := strings.Join(run.Reasons, "; ")
		if names[why] == nil {
			order = append(order, why)
		}
		names[why] = append(names[why], name(run.Label))
	}
	for _, why := range order {
		list := names[why]
		more := ""
		if n := len(list) - namedNotRun; n > 0 {
			list, more = list[:namedNotRun], fmt.Sprintf(" and %d more", n)
		}
		fmt.Fprintf(b, "NOT RUN           %s%s: %s\n", strings.Join(list, ", "), more, text(why))
	}
}

// SuiteEnd writes the runs that were not run, remarks on waivers, and the overall result. artifacts is the folder of
// all files.
func SuiteEnd(w io.Writer, suite Suite, artifacts string) error {
	var b strings.Builder
	for _, waiver := range suite.Waivers {
		if remark := waiver.Remark(); remark != "" {
			fmt.Fprintf(&b, "%s:%d: %s\n", visible(waiver.Where.File, 4096), waiver.Where.Line, text(remark))
		}
	}
	for _, one := range suite.unmet() {
		fmt.Fprintf(&b, "%s:%d: %s\n", visible(one.Where.File, 4096), one.Where.Line, text(one.Remark()))
	}
	writeNotRun(&b, suite)
	shard := ""
	if suite.Shard != "" {
		shard = ", shard " + suite.Shard
	}
	fmt.Fprintf(&b, "\n%s %s%s: %s in %s\n", strings.ToUpper(suite.kind()), suiteWord(suite.Verdict), shard,
		suite.Counts(), units.Text(suite.Elapsed))
	for _, line := range suite.coverageLines() {
		fmt.Fprintf(&b, "%s\n", line)
	}
	fmt.Fprintf(&b, "Artifacts  %s\n", visible(artifacts, 4096))
	_, err := io.WriteString(w, b.String())
	return err
}
