package reports

// A gate on a terminal or in a CI's log: a line for each run as it ends, and how the whole stands.

import (
	"fmt"
	"io"
	"strings"
)

// SuiteLine writes how one run stands in one line, and why in one more for each reason.
func SuiteLine(w io.Writer, run SuiteRun) error {
	var b strings.Builder
	fmt.Fprintf(&b, "%-16s  %s", suiteWord(run.Standing), name(run.Label))
	if run.Dir != "" {
		fmt.Fprintf(&b, "  %s", visible(run.Dir, 4096))
	}
	b.WriteString("\n")
	for _, reason := range run.Reasons {
		fmt.Fprintf(&b, "    %s\n", text(reason))
	}
	_, err := io.WriteString(w, b.String())
	return err
}

// SuiteEnd writes what is to be said of waivers and how the whole stands; artifacts is the folder in which all of it is.
func SuiteEnd(w io.Writer, suite Suite, artifacts string) error {
	var b strings.Builder
	for _, waiver := range suite.Waivers {
		if remark := waiver.Remark(); remark != "" {
			fmt.Fprintf(&b, "%s:%d: %s\n", visible(waiver.Where.File, 4096), waiver.Where.Line, text(remark))
		}
	}
	shard := ""
	if suite.Shard != "" {
		shard = ", shard " + suite.Shard
	}
	fmt.Fprintf(&b, "\nGATE %s%s: %s in %s\n", suiteWord(suite.Verdict), shard, suite.Counts(), duration(suite.Elapsed))
	fmt.Fprintf(&b, "Artifacts  %s\n", visible(artifacts, 4096))
	_, err := io.WriteString(w, b.String())
	return err
}
