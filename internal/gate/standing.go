package gate

// How a run stands once what is waived does not count.

import (
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports"
)

// Done is what running an entry left.
type Done struct {
	// Judged is the judged run; its verdict is nil when there was nothing to judge.
	Judged reports.Run
	// Interrupted: it was ended before its time, and what there was has been judged.
	Interrupted bool
	// Elapsed is how long it took.
	Elapsed time.Duration
}

// order lists the standings that decide how a suite stands, worst first.
func order() []reports.Standing {
	return []reports.Standing{
		reports.StandingInterrupted, reports.StandingFail, reports.StandingEnvironment, reports.StandingInconclusive,
		reports.StandingThreshold,
	}
}

// worse returns the standing of the two that decides. Runs that are waived or not run don't.
func worse(a, b reports.Standing) reports.Standing {
	for _, standing := range order() {
		if a == standing || b == standing {
			return standing
		}
	}
	return reports.StandingPass
}

// waivedIn returns the failures of a verdict that are waived now; all tells whether every one is.
func (s *Suite) waivedIn(verdict *assertions.Verdict, now time.Time) (waived []reports.SuiteWaived, all bool) {
	all = true
	for _, result := range verdict.Invariants {
		if result.Status != assertions.Fail {
			continue
		}
		all = all && len(result.Anomalies) > 0 // a failure without a name can't have been meant
		for _, anomaly := range result.Anomalies {
			i := slices.IndexFunc(s.Waivers, func(e Exemption) bool {
				return !e.Expired(now) && e.matches(verdict.Scenario, result.Name, anomaly.Name)
			})
			if i < 0 {
				all = false
				continue
			}
			waiver := s.Waivers[i]
			waived = append(waived, reports.SuiteWaived{
				Invariant: result.Name, Anomaly: anomaly.Name, Count: anomaly.Count, Reason: waiver.Reason, Until: waiver.Until,
			})
		}
	}
	return waived, all
}

// matches tells whether a waiver names a failure.
func (w Waiver) matches(scenario, invariant, anomaly string) bool {
	return (w.Scenario == "" || w.Scenario == scenario) &&
		(w.Invariant == "" || w.Invariant == invariant) && (w.Anomaly == "" || w.Anomaly == anomaly)
}

// openReasons are the reasons of a verdict that are about what it could not show: those that neither a violation nor a
// missed threshold accounts for. A verdict lists the violations first, an anomaly a reason, then what is open, then the
// thresholds (assertions.Verdict.Reasons); where a history was damaged, that it was judged up to the damage only stands
// at the end, and is open as well.
func openReasons(verdict *assertions.Verdict) []string {
	violations, missed := 0, 0
	for _, result := range verdict.Invariants {
		if result.Status == assertions.Fail {
			violations += len(result.Anomalies)
		}
	}
	for _, threshold := range verdict.Thresholds {
		if !threshold.Met {
			missed++
		}
	}
	open := len(verdict.Reasons) - violations - missed
	if open <= 0 {
		return nil
	}
	return verdict.Reasons[violations : violations+open]
}

// stand says how a run stands: by its verdict, unless every failure of it is waived. What is inconclusive, cut short or
// beside the subject is never waived.
func (s *Suite) stand(run *reports.SuiteRun, done Done, failed error, now time.Time) {
	verdict := done.Judged.Verdict
	run.Elapsed, run.Dir, run.Judged = done.Elapsed, done.Judged.Dir, done.Judged
	if verdict == nil {
		run.Standing = reports.StandingEnvironment
		if failed == nil {
			failed = errors.New("there was nothing to judge")
		}
		run.Reasons = []string{failed.Error()}
		return
	}
	run.Verdict = string(verdict.Verdict)
	standing, reasons := judged(verdict), slices.Clone(verdict.Reasons)
	if waived, all := s.waivedIn(verdict, now); verdict.Verdict == assertions.Fail && len(waived) > 0 {
		run.Waived = waived
		if all {
			standing, reasons = withoutFailures(verdict, waived)
		}
	}
	if done.Interrupted && standing != reports.StandingFail {
		standing = reports.StandingInconclusive
		reasons = append([]string{"it was cut short; what there was has been sealed and judged"}, reasons...)
	}
	if failed != nil {
		standing, reasons = worse(standing, reports.StandingEnvironment), append(reasons, failed.Error())
	}
	run.Standing, run.Reasons = standing, reasons
}

// judged is the standing of a verdict as it is.
func judged(verdict *assertions.Verdict) reports.Standing {
	switch {
	case verdict.Verdict == assertions.Fail:
		return reports.StandingFail
	case verdict.Verdict != assertions.Pass:
		return reports.StandingInconclusive
	case verdict.ThresholdsMissed:
		return reports.StandingThreshold
	}
	return reports.StandingPass
}

// withoutFailures is how a failed run stands all of whose violations are waived. A missed threshold is a failure that
// is not; what the run could not show is still not shown.
func withoutFailures(verdict *assertions.Verdict, waived []reports.SuiteWaived) (reports.Standing, []string) {
	if verdict.ThresholdsMissed {
		return reports.StandingFail, verdict.Reasons
	}
	var reasons []string
	for _, one := range waived {
		reasons = append(reasons, fmt.Sprintf("%s: %s × %d is waived until %s: %s", one.Invariant, one.Anomaly, one.Count,
			one.Until, one.Reason))
	}
	if open := openReasons(verdict); len(open) > 0 {
		return reports.StandingInconclusive, append(slices.Clone(open), reasons...)
	}
	return reports.StandingWaived, reasons
}
