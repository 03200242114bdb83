package reports

// This file shows the log lines of the subject's processes around the first violations. verdict.json has them, so
// that a report can be made again without the run's directory.

import (
	"github.com/dlqbench/dlqbench/assertions"

	"github.com/dlqbench/dlqbench/internal/units"
)

// logBudget is the maximum number of log bytes in the page.
const logBudget = 200_000

type logView struct {
	Process, File, Around, LeftOut string
	Lines                          []logLineView
}

type logLineView struct{ Time, Text string }

// logViews returns the excerpts for an anomaly, within the budget.
func logViews(v *assertions.Verdict, invariant, anomaly string, budget *int) []logView {
	var out []logView
	for _, one := range v.Logs {
		if one.Invariant != invariant || one.Anomaly != anomaly || *budget <= 0 {
			continue
		}
		lv := logView{Process: name(one.Process), File: name(one.File), Around: clock(one.At)}
		left := one.LeftOut
		for _, line := range one.Lines {
			shown := logLineView{Time: clock(line.Time), Text: text(line.Text)}
			if *budget -= escapedLen(shown.Text) + lineMarkup/2; *budget <= 0 {
				left++
				continue
			}
			lv.Lines = append(lv.Lines, shown)
		}
		if left > 0 {
			lv.LeftOut = units.Plural(left, "more line", "more lines") + " of the same time: see " + name(one.File)
		}
		out = append(out, lv)
	}
	return out
}

// logsNote says where the logs in the page come from, or why there are none.
func logsNote(v *assertions.Verdict) string {
	switch {
	case v.LogsNote != "":
		return text(v.LogsNote)
	case len(v.Logs) > 0:
		return "What the subject's processes wrote within 3 s of the first occurrence of each violation, from the folder " +
			"logs of the run's directory. Times are when dlqbench read the lines; passwords that it knew are masked."
	case len(failures(v)) > 0:
		return "This verdict holds no lines of the subject's logs: they are in the folder logs of the run's directory."
	}
	return ""
}
