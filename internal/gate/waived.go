package gate

// This file reports on the waivers.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports"
)

// waivers reports, for each waiver, the number of runs with a failure that it names, and whether it is still needed. It
// reports a waiver as unneeded only if everything that it could apply to was run and judged, because another shard, or
// a run that proved nothing, may need it.
func (s *Suite) waivers(runs []reports.SuiteRun, now time.Time) []reports.SuiteWaiver {
	var told []reports.SuiteWaiver
	for _, waiver := range s.Waivers {
		one := reports.SuiteWaiver{
			Invariant: waiver.Invariant, Anomaly: waiver.Anomaly, Scenario: waiver.Scenario, Reason: waiver.Reason,
			Until: waiver.Until, Where: waiver.Where, Expired: waiver.Expired(now),
		}
		needless := true
		for _, entry := range s.Entries {
			if waiver.Scenario != "" && waiver.Scenario != entry.Scenario {
				continue
			}
			i := slices.IndexFunc(runs, func(run reports.SuiteRun) bool { return run.Number == entry.Number })
			if i < 0 {
				needless = false
				continue
			}
			matched, shown := waiver.in(runs[i])
			if matched {
				one.Matched++
			}
			needless = needless && shown && !matched
		}
		one.NeedlessNow = needless && !one.Expired && len(runs) > 0
		told = append(told, one)
	}
	return told
}

// in reports whether a run has a failure that the waiver names, and whether the run has proved the presence or absence
// of one: it was judged, and nothing was left open.
func (e Exemption) in(run reports.SuiteRun) (matched, shown bool) {
	verdict := run.Judged.Verdict
	if verdict == nil {
		return false, false
	}
	for _, result := range verdict.Invariants {
		for _, anomaly := range result.Anomalies {
			matched = matched || result.Status == assertions.Fail && e.matches(verdict.Scenario, result.Name, anomaly.Name)
		}
	}
	return matched, len(openReasons(verdict)) == 0
}
