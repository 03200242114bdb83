package gate

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports"
)

// gateOf runs a suite in which run k gives results[k].
func gateOf(t *testing.T, suite *Suite, shard Shard, results map[int][]assertions.Result) *reports.Suite {
	t.Helper()
	told := must.Get(suite.Run(t.Context(), Options{Shard: shard, Now: time.Now, Told: quiet,
		Run: func(_ context.Context, entry Entry) (Done, error) {
			verdict := &assertions.Verdict{Verdict: assertions.Pass, Scenario: entry.Scenario, Invariants: results[entry.Number]}
			return Done{Judged: reports.Run{Verdict: verdict}}, nil
		}}))(t)
	return told
}

// Each required invariant must be judged in at least one run of each subject. Otherwise the gate is inconclusive and
// suggests a remedy.
func TestRequired(t *testing.T) {
	passed := assertions.Result{Name: "ordering", Status: assertions.Pass, Judged: 3}
	unpromised := assertions.Result{Name: "ordering", Status: assertions.NotApplicable, Unjudged: assertions.Unpromised,
		Why: "the contract promises no order"}
	calm := assertions.Result{Name: "graceful-stop", Status: assertions.NotApplicable, Unjudged: assertions.Unexercised,
		Why: "no instance was told to stop"}
	stopped := assertions.Result{Name: "orders/graceful-stop", Status: assertions.Fail}
	for _, test := range []struct {
		name, required string
		shard          Shard
		results        map[int][]assertions.Result
		want           reports.Standing
		remark         string
	}{
		{"judged once", "ordering", Shard{}, map[int][]assertions.Result{1: {unpromised}, 2: {passed}},
			reports.StandingPass, ""},
		{"never judged", "ordering", Shard{}, map[int][]assertions.Result{1: {unpromised}, 2: {unpromised}},
			reports.StandingInconclusive,
			"ordering is required, and no run has judged it for orders: the contract promises no order; write ordering: key, " +
				"or partition into the contract of s.yaml, or take it out of require"},
		{"not put to the test", "graceful-stop", Shard{}, map[int][]assertions.Result{1: {calm}},
			reports.StandingInconclusive,
			"no instance was told to stop; add a scenario with an instance that gets TERM (consumer-rolling-restart) (1 of " +
				"its runs were not judged)"},
		{"not a word of it", "graceful-stop", Shard{}, nil, reports.StandingInconclusive,
			"of its runs 2 ended without a judgement of it"},
		{"of one service", "graceful-stop", Shard{}, map[int][]assertions.Result{2: {calm, stopped}},
			reports.StandingPass, ""},
		{"another part may judge it", "graceful-stop", Shard{1, 2}, map[int][]assertions.Result{1: {calm}, 2: {calm}},
			reports.StandingPass, "see to it that another part does"},
		{"no part can", "ordering", Shard{1, 2}, map[int][]assertions.Result{1: {unpromised}, 2: {unpromised}},
			reports.StandingInconclusive, "no run has judged it"},
	} {
		t.Run(test.name, func(t *testing.T) {
			suite := suiteOf(2)
			for i := range suite.Entries {
				suite.Entries[i].Subject, suite.Entries[i].SubjectName = "s.yaml", "orders"
			}
			suite.Required = []Requirement{{test.required, reports.SuitePlace{File: ConfigFile, Line: 4, Column: 5}}}
			told := gateOf(t, suite, test.shard, test.results)
			if len(told.Required) != 1 || told.Verdict != test.want {
				t.Fatalf("it stands as %s: %+v", told.Verdict, told.Required)
			}
			if remark := told.Required[0].Remark(); !strings.Contains(remark, test.remark) ||
				(remark == "") != (test.remark == "") {
				t.Errorf("it says %q, want %q", remark, test.remark)
			}
		})
	}
}

// With two subjects, each needs a judgement of its own.
func TestRequiredOfEachSubject(t *testing.T) {
	suite := suiteOf(2)
	suite.Entries[0].SubjectName, suite.Entries[1].SubjectName = "orders", "mails"
	suite.Required = []Requirement{{"no-loss", reports.SuitePlace{File: ConfigFile, Line: 4, Column: 5}}}
	told := gateOf(t, suite, Shard{}, map[int][]assertions.Result{1: {{Name: "no-loss", Status: assertions.Pass}},
		2: {{Name: "no-loss", Status: assertions.Inconclusive, Why: "too little"}}})
	if told.Verdict != reports.StandingInconclusive || len(told.Required) != 2 ||
		told.Required[0].Reason != "" || told.Required[1].Reason != "too little" {
		t.Errorf("it stands as %s: %+v", told.Verdict, told.Required)
	}
}

func TestRequiredNames(t *testing.T) {
	suite := load(t, ConfigFile, "scenarios: [smoke]\nrequire: [no-loss, ordering]")
	if len(suite.Required) != 2 || suite.Required[1].Invariant != "ordering" || suite.Required[1].Where.Line != 2 {
		t.Errorf("it requires %+v", suite.Required)
	}
}
