package reports

// What the subject's processes wrote around the first violations: verdict.json has it, so that a report can be made
// again where the run's directory is not.

import (
	"github.com/dlqbench/dlqbench/assertions"

	"github.com/dlqbench/dlqbench/internal/units"
)

// logBudget is how many bytes of log the page shows in all.
const logBudget = 200_000

type logView struct {
	Process, File, Around, LeftOut string
	Lines                          []logLineView
}

type logLineView struct{ Time, Text string }

// logViews are the excerpts for an anomaly, as far as the budget goes.
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

// logsNote says where the logs in the page are from, or why there are none.
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
