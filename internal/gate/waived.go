package gate

// What became of the waivers.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports"
)

// waivers tells of each waiver how many of the runs it names a failure of, and whether it is still needed. That it is
// not is said only when everything it could be for was run and judged: another shard, or a run that proved nothing, may
// need it.
func (s *Suite) waivers(runs []reports.SuiteRun, now time.Time) []reports.SuiteWaiver {
	var told []reports.SuiteWaiver
	for _, waiver := range s.Waivers {
		one := reports.SuiteWaiver{
			Invariant: waiver.Invariant, Anomaly: waiver.Anomaly, Scenario: waiver.Scenario, Reason: waiver.Reason,
			Until: waiver.Until, Where: reports.SuitePlace(waiver.Where), Expired: waiver.Expired(now),
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

// in tells whether a run has a failure that the waiver names, and whether it has shown that it has or has not: it was
// judged, and nothing was left open.
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
