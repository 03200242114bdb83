package reports

// This file decides what all formats say about violations that a gate waives: they are shown as violations, marked as
// waived, with the reason and the last day.

import (
	"fmt"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// String describes a waived failure in a line.
func (w SuiteWaived) String() string {
	return fmt.Sprintf("%s: %s × %s is %s", w.Invariant, w.Anomaly, units.Count(w.Count), w.until())
}

func (w SuiteWaived) until() string { return "waived until " + w.Until + ": " + w.Reason }

// Report returns the input of the report on one run of a gate.
func (r SuiteRun) Report() Run {
	out := r.Judged
	out.Waived = r.Waived
	return out
}

// waiver returns what waives an anomaly, nil if nothing does.
func (r Run) waiver(invariant, anomaly string) *SuiteWaived {
	for i, one := range r.Waived {
		if one.Invariant == invariant && one.Anomaly == anomaly {
			return &r.Waived[i]
		}
	}
	return nil
}

// waives reports whether every anomaly of a violated invariant is waived.
func (r Run) waives(result assertions.Result) bool {
	for _, a := range result.Anomalies {
		if r.waiver(result.Name, a.Name) == nil {
			return false
		}
	}
	return result.Status == assertions.Fail && len(result.Anomalies) > 0
}

// mark returns the mark of an invariant of the run.
func (r Run) mark(result assertions.Result) document.Mark {
	if r.waives(result) {
		return document.Waived
	}
	return invariantMark(result)
}

// word returns the banner text of the run, and its mark.
func (r Run) word() (string, document.Mark) {
	waived := len(r.Waived) > 0
	for _, result := range r.Verdict.Invariants {
		waived = waived && (result.Status != assertions.Fail || r.waives(result))
	}
	if waived {
		return suiteWord(StandingWaived), document.Waived
	}
	return stands(r.Verdict).word(), runMark(stands(r.Verdict))
}

// waivedLead returns a line for each waived failure.
func (r Run) waivedLead() []document.Text {
	return each(r.Waived, func(one SuiteWaived) document.Text { return labelled("Waived:", text(one.String())) })
}

// SuiteReasons returns the reasons of a verdict if these failures are waived. A waived root is left out, and the
// violations that follow from it and are not waived take its place.
func SuiteReasons(v *assertions.Verdict, waived []SuiteWaived) []string {
	run, out := Run{Verdict: v, Waived: waived}, []string{}
	for i, root := range v.Roots {
		if run.waiver(root.Invariant, root.Anomaly) == nil {
			out = append(out, v.Reasons[min(i, len(v.Reasons)-1)])
			continue
		}
		for _, one := range root.Consequences {
			if run.waiver(one.Invariant, one.Anomaly) == nil {
				out = append(out, fmt.Sprintf("%s is violated: %s × %s, which is not waived and follows from %s: %s, which is",
					one.Invariant, one.Anomaly, units.Count(one.Count), root.Invariant, root.Anomaly))
			}
		}
	}
	out = append(out, v.Reasons[min(len(v.Roots), len(v.Reasons)):]...)
	for _, one := range waived {
		out = append(out, one.String())
	}
	return out
}
