package reports

// A gate on a terminal or in a CI's log: a line for each run as it ends, and how the whole stands.

import (
	"fmt"
	"io"
	"strings"

	"github.com/dlqbench/dlqbench/internal/units"
)

// SuiteLine writes how one run stands in one line, and why in one more for each reason.
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
	for _, reason := range run.Reasons {
		fmt.Fprintf(&b, "    %s\n", text(reason))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// namedNotRun is how many runs that were not run are named for each reason.
const namedNotRun = 5

// writeNotRun names what was not run, by why.
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

// SuiteEnd writes what was not run, what is to be said of waivers and how the whole stands; artifacts is the folder in
// which all of it is.
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
	fmt.Fprintf(&b, "\nGATE %s%s: %s in %s\n", suiteWord(suite.Verdict), shard, suite.Counts(), units.Text(suite.Elapsed))
	for _, line := range suite.coverageLines() {
		fmt.Fprintf(&b, "%s\n", line)
	}
	fmt.Fprintf(&b, "Artifacts  %s\n", visible(artifacts, 4096))
	_, err := io.WriteString(w, b.String())
	return err
}
