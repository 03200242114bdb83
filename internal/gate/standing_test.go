package gate

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/reports"
)

// verdict builds a verdict as the judge would: reasons of violations first, then open results, then thresholds.
type verdict struct {
	failed       []string // "invariant anomaly"
	inconclusive []string // invariants
	invalid      []string // reasons that are about the run as a whole
	missed       int
}

func (v verdict) make(scenario string) *assertions.Verdict {
	made := &assertions.Verdict{Verdict: assertions.Pass, Scenario: scenario, Seed: 1,
		Invariants: []assertions.Result{{Name: "backoff", Status: assertions.Pass}}}
	for _, failed := range v.failed {
		invariant, anomaly, _ := strings.Cut(failed, " ")
		made.Verdict = assertions.Fail
		made.Invariants = append(made.Invariants, assertions.Result{Name: invariant, Status: assertions.Fail,
			Anomalies: []assertions.Anomaly{{Name: anomaly, Count: 2}}})
		made.Reasons = append(made.Reasons, fmt.Sprintf("%s is violated: %s", invariant, anomaly))
	}
	open := append([]string{}, v.invalid...)
	for _, name := range v.inconclusive {
		made.Invariants = append(made.Invariants, assertions.Result{Name: name, Status: assertions.Inconclusive,
			Why: "too little"})
		open = append(open, name+" can't be judged: too little")
	}
	if made.Reasons = append(made.Reasons, open...); len(open) > 0 && made.Verdict == assertions.Pass {
		made.Verdict = assertions.Inconclusive
	}
	for i := range v.missed {
		made.Thresholds, made.ThresholdsMissed = append(made.Thresholds, measure.Threshold{Expression: fmt.Sprint(i)}), true
		made.Reasons = append(made.Reasons, fmt.Sprintf("the threshold %d was missed", i))
	}
	made.Roots = assertions.Roots(made)
	return made
}

func waive(invariant, anomaly, scenario, until string) Exemption {
	last, err := time.Parse(time.DateOnly, until)
	if err != nil {
		panic(err)
	}
	return Exemption{Waiver: Waiver{invariant, anomaly, scenario, "T-1", until}, Where: reports.SuitePlace{File: ConfigFile, Line: 9, Column: 5},
		ends: last.AddDate(0, 0, 1)}
}

var today = time.Date(2026, 6, 15, 12, 0, 0, 0, time.UTC)

func TestStand(t *testing.T) {
	const future, past = "2026-06-15", "2026-06-14"
	lost, changed := "no-loss lost", "dlq-fidelity payload-changed"
	for _, test := range []struct {
		name    string
		verdict verdict
		waivers []Exemption
		cut     bool
		failed  error
		want    reports.Standing
		waived  int
		reason  string // part of the first one
	}{
		{name: "a pass", want: reports.StandingPass},
		{name: "a failure", verdict: verdict{failed: []string{lost}}, want: reports.StandingFail,
			reason: "no-loss is violated"},
		{name: "a missed threshold", verdict: verdict{missed: 1}, want: reports.StandingThreshold, reason: "threshold"},
		{name: "nothing shown", verdict: verdict{invalid: []string{"a fault had no effect"}},
			want: reports.StandingInconclusive, reason: "no effect"},
		{name: "waived by its invariant", verdict: verdict{failed: []string{lost}},
			waivers: []Exemption{waive("no-loss", "", "", future)},
			want:    reports.StandingWaived, waived: 1, reason: "no-loss: lost × 2 is waived until 2026-06-15: T-1"},
		{name: "waived by its anomaly", verdict: verdict{failed: []string{lost}},
			waivers: []Exemption{waive("", "lost", "", future)}, want: reports.StandingWaived, waived: 1},
		{name: "waived by both, in this scenario", verdict: verdict{failed: []string{lost}},
			waivers: []Exemption{waive("no-loss", "lost", "here", future)}, want: reports.StandingWaived, waived: 1},
		{name: "waived in another scenario", verdict: verdict{failed: []string{lost}},
			waivers: []Exemption{waive("no-loss", "", "there", future)}, want: reports.StandingFail},
		{name: "another anomaly is waived", verdict: verdict{failed: []string{lost}},
			waivers: []Exemption{waive("no-loss", "stuck", "", future)}, want: reports.StandingFail},
		{name: "the waiver has ended", verdict: verdict{failed: []string{lost}},
			waivers: []Exemption{waive("no-loss", "", "", past)}, want: reports.StandingFail, reason: "violated"},
		{name: "one has ended, another holds", verdict: verdict{failed: []string{lost}},
			waivers: []Exemption{waive("no-loss", "", "", past), waive("", "lost", "", future)}, want: reports.StandingWaived,
			waived: 1},
		{name: "only one of two", verdict: verdict{failed: []string{lost, changed}},
			waivers: []Exemption{waive("no-loss", "", "", future)},
			want:    reports.StandingFail, waived: 1, reason: "dlq-fidelity is violated"},
		{name: "both of two", verdict: verdict{failed: []string{lost, changed}},
			waivers: []Exemption{waive("no-loss", "", "", future), waive("dlq-fidelity", "", "", future)},
			want:    reports.StandingWaived, waived: 2},
		{name: "all, but a threshold was missed", verdict: verdict{failed: []string{lost}, missed: 1},
			waivers: []Exemption{waive("no-loss", "", "", future)}, want: reports.StandingFail, waived: 1},
		{name: "all, but an invariant is open", verdict: verdict{failed: []string{lost}, inconclusive: []string{"liveness"}},
			waivers: []Exemption{waive("no-loss", "", "", future)},
			want:    reports.StandingInconclusive, waived: 1, reason: "liveness can't be judged"},
		{name: "all, but the run shows nothing",
			verdict: verdict{failed: []string{lost}, invalid: []string{"a fault had no effect"}},
			waivers: []Exemption{waive("no-loss", "", "", future)}, want: reports.StandingInconclusive, waived: 1,
			reason: "a fault had no effect"},
		{name: "inconclusive is never waived", verdict: verdict{inconclusive: []string{"no-loss"}},
			waivers: []Exemption{waive("no-loss", "", "", future)}, want: reports.StandingInconclusive},
		{name: "nor is a threshold", verdict: verdict{missed: 1}, waivers: []Exemption{waive("no-loss", "", "", future)},
			want: reports.StandingThreshold},
		{name: "a pass that was cut short", cut: true, want: reports.StandingInconclusive, reason: "cut short"},
		{name: "a waived one that was cut short", verdict: verdict{failed: []string{lost}},
			waivers: []Exemption{waive("no-loss", "", "", future)}, cut: true,
			want: reports.StandingInconclusive, waived: 1, reason: "cut short"},
		{name: "a failure that was cut short", verdict: verdict{failed: []string{lost}}, cut: true,
			want: reports.StandingFail},
		{name: "a pass with trouble", failed: errors.New("the disk is full"), want: reports.StandingEnvironment,
			reason: "the disk is full"},
		{name: "a failure with trouble", verdict: verdict{failed: []string{lost}}, failed: errors.New("the disk is full"),
			want: reports.StandingFail},
		{name: "waived, with trouble", verdict: verdict{failed: []string{lost}},
			waivers: []Exemption{waive("no-loss", "", "", future)}, failed: errors.New("x"), want: reports.StandingEnvironment,
			waived: 1},
	} {
		t.Run(test.name, func(t *testing.T) {
			suite, run := &Suite{Waivers: test.waivers}, reports.SuiteRun{}
			done := Done{Judged: reports.Run{Verdict: test.verdict.make("here")}, Interrupted: test.cut}
			suite.stand(&run, done, test.failed, today)
			if run.Standing != test.want || len(run.Waived) != test.waived {
				t.Errorf("it stands as %s with %d waived, want %s with %d: %q", run.Standing, len(run.Waived), test.want,
					test.waived, run.Reasons)
			}
			if test.reason != "" && (len(run.Reasons) == 0 || !strings.Contains(run.Reasons[0], test.reason)) {
				t.Errorf("its reasons are %q, want %q first", run.Reasons, test.reason)
			}
		})
	}
}

func TestStandWithoutVerdict(t *testing.T) {
	run := reports.SuiteRun{}
	(&Suite{}).stand(&run, Done{}, errors.New("no broker started"), today)
	if run.Standing != reports.StandingEnvironment || run.Reasons[0] != "no broker started" || run.Verdict != "" {
		t.Errorf("it stands as %+v", run)
	}
}

func TestWorse(t *testing.T) {
	all := append(order(), reports.StandingPass)
	for i, a := range all {
		for k, b := range all {
			if got, want := worse(a, b), all[min(i, k)]; got != want {
				t.Errorf("of %s and %s %s decides, want %s", a, b, got, want)
			}
		}
	}
	for _, standing := range []reports.Standing{reports.StandingWaived, reports.StandingNotRun} {
		if got := worse(standing, reports.StandingPass); got != reports.StandingPass {
			t.Errorf("%s makes it %s", standing, got)
		}
	}
}

func TestWaivers(t *testing.T) {
	run := func(number int, v verdict) reports.SuiteRun {
		return reports.SuiteRun{Number: number, Judged: reports.Run{Verdict: v.make([]string{"here", "there"}[number-1])}}
	}
	lost := verdict{failed: []string{"no-loss lost"}}
	for _, test := range []struct {
		name     string
		waiver   Exemption
		runs     []reports.SuiteRun
		matched  int
		expired  bool
		needless bool
	}{
		{"it applies", waive("no-loss", "", "", "2026-12-31"), []reports.SuiteRun{run(1, lost), run(2, verdict{})}, 1, false,
			false},
		{"nothing fails any more", waive("no-loss", "", "", "2026-12-31"),
			[]reports.SuiteRun{run(1, verdict{}), run(2, verdict{})}, 0, false, true},
		{"another failure does not need it", waive("dlq-once", "", "", "2026-12-31"),
			[]reports.SuiteRun{run(1, lost), run(2, verdict{})}, 0, false, true},
		{"a run proved nothing", waive("no-loss", "", "", "2026-12-31"),
			[]reports.SuiteRun{run(1, verdict{}), run(2, verdict{inconclusive: []string{"no-loss"}})}, 0, false, false},
		{"a run was not run", waive("no-loss", "", "", "2026-12-31"), []reports.SuiteRun{run(1, verdict{}), {Number: 2}}, 0,
			false, false},
		{"another shard has a run", waive("no-loss", "", "", "2026-12-31"), []reports.SuiteRun{run(1, verdict{})}, 0, false,
			false},
		{"another shard has a run that it is not for", waive("no-loss", "", "here", "2026-12-31"),
			[]reports.SuiteRun{run(1, verdict{})}, 0, false, true},
		{"ended, still failing", waive("no-loss", "", "", "2026-01-31"), []reports.SuiteRun{run(1, lost), run(2, lost)}, 2,
			true, false},
		{"ended, not failing", waive("no-loss", "", "", "2026-01-31"),
			[]reports.SuiteRun{run(1, verdict{}), run(2, verdict{})}, 0, true, false},
	} {
		t.Run(test.name, func(t *testing.T) {
			suite := &Suite{Waivers: []Exemption{test.waiver}, Entries: []Entry{{Number: 1, Scenario: "here"},
				{Number: 2, Scenario: "there"}}}
			got := suite.waivers(test.runs, today)[0]
			if got.Matched != test.matched || got.Expired != test.expired || got.NeedlessNow != test.needless {
				t.Errorf("got %+v, want matched %d, expired %v, needless %v", got, test.matched, test.expired, test.needless)
			}
			if remark := got.Remark(); (remark != "") != (test.expired || test.needless) {
				t.Errorf("it is remarked %q", remark)
			}
		})
	}
}
