package gate

// This file decides how a run stands when waived failures do not count.

import (
	"errors"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports"
)

// Done is the result of running an entry.
type Done struct {
	// Judged is the judged run. Its verdict is nil if there was nothing to judge.
	Judged reports.Run
	// Interrupted means that the run was ended early and its partial history was judged.
	Interrupted bool
	// Elapsed is the duration of the run.
	Elapsed time.Duration
}

// order lists the standings that decide the suite's standing, worst first.
func order() []reports.Standing {
	return []reports.Standing{
		reports.StandingInterrupted, reports.StandingFail, reports.StandingEnvironment, reports.StandingInconclusive,
		reports.StandingThreshold,
	}
}

// worse returns the standing of the two that decides. Waived runs and runs not run do not count.
func worse(a, b reports.Standing) reports.Standing {
	for _, standing := range order() {
		if a == standing || b == standing {
			return standing
		}
	}
	return reports.StandingPass
}

// waivedIn returns the failures of a verdict that are waived now. all reports whether every failure is.
func (s *Suite) waivedIn(verdict *assertions.Verdict, now time.Time) (waived []reports.SuiteWaived, all bool) {
	all = true
	for _, result := range verdict.Invariants {
		if result.Status != assertions.Fail {
			continue
		}
		all = all && len(result.Anomalies) > 0 // a waiver cannot name a failure without an anomaly
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

// matches reports whether a waiver names a failure.
func (w Waiver) matches(scenario, invariant, anomaly string) bool {
	return (w.Scenario == "" || w.Scenario == scenario) &&
		(w.Invariant == "" || w.Invariant == invariant) && (w.Anomaly == "" || w.Anomaly == anomaly)
}

// openReasons returns the reasons of a verdict for what it could not show: those that neither a violation nor a missed
// threshold explains. A verdict lists violations first, one reason per root, then open results, then thresholds
// (assertions.Verdict.Reasons). If a history was damaged, the reason that it was judged only up to the damage comes
// last, and is open as well.
func openReasons(verdict *assertions.Verdict) []string {
	violations, missed := len(verdict.Roots), 0
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

// stand sets the standing of a run: its verdict, unless every failure is waived. Runs that are inconclusive, cut short,
// or failed outside the subject are never waived.
func (s *Suite) stand(run *reports.SuiteRun, done Done, failed error, now time.Time) {
	verdict := done.Judged.Verdict
	run.Elapsed, run.Dir, run.Judged = done.Elapsed, done.Judged.Dir, done.Judged
	if verdict == nil {
		run.Standing = reports.StandingEnvironment
		if notRun := (NotRun{}); errors.As(failed, &notRun) {
			run.Standing, run.Missing = reports.StandingNotRun, true
		}
		if failed == nil {
			failed = errors.New("there was nothing to judge")
		}
		run.Reasons = []string{failed.Error()}
		return
	}
	run.Verdict = string(verdict.Verdict)
	standing, reasons := judged(verdict), slices.Clone(verdict.Reasons)
	if waived, all := s.waivedIn(verdict, now); verdict.Verdict == assertions.Fail && len(waived) > 0 {
		run.Waived, reasons = waived, reports.SuiteReasons(verdict, waived)
		if all {
			standing = withoutFailures(verdict)
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

// judged is the standing of an unwaived verdict.
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

// withoutFailures is the standing of a failed run whose violations are all waived. A missed threshold is a failure that
// is not waived, and open results remain open.
func withoutFailures(verdict *assertions.Verdict) reports.Standing {
	switch {
	case verdict.ThresholdsMissed:
		return reports.StandingFail
	case len(openReasons(verdict)) > 0:
		return reports.StandingInconclusive
	}
	return reports.StandingWaived
}
