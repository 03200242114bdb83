package gate

// This file checks that the required invariants are judged: a gate that passes without judging anything has shown
// nothing.

import (
	"fmt"
	"slices"
	"strings"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports"
)

// Requirement is an invariant that must be judged, and its place in dlqbench.yaml.
type Requirement struct {
	Invariant string
	Where     reports.SuitePlace
}

// readRequired checks the names of the required invariants.
func (l *loader) readRequired() {
	known := assertions.Deciding()
	for i, name := range l.config.Require {
		path := fmt.Sprintf("/require/%d", i)
		switch {
		case !l.Sound(path):
		case !slices.Contains(known, name):
			l.unknownInvariant(path, name)
		case slices.Contains(l.config.Require[:i], name):
			l.Complain(path, name+" is here twice", "")
		default:
			l.suite.Required = append(l.suite.Required, Requirement{name, l.where(path)})
		}
	}
}

// unknownInvariant reports a name that is not that of an invariant that decides a verdict.
func (l *loader) unknownInvariant(path, name string) {
	problem := fmt.Sprintf("there is no invariant %q", name)
	if slices.Contains(assertions.Names(), name) {
		problem = fmt.Sprintf("the invariant %q is experimental and decides nothing: take it out", name)
	}
	l.Unknown(path, problem, name, assertions.Deciding())
}

// require checks, for each subject, that every required invariant was judged in at least one of its runs, because not
// every scenario exercises every invariant. A requirement that no run has judged makes the suite inconclusive. In a
// shard this applies only if no other shard can have judged it.
func (s *Suite) require(told *reports.Suite, part bool) {
	var subjects []string
	for _, run := range told.Runs {
		if !slices.Contains(subjects, run.Subject) {
			subjects = append(subjects, run.Subject)
		}
	}
	for _, required := range s.Required {
		for _, subject := range subjects {
			one := s.judgedOf(told.Runs, required, subject, part)
			if one.Reason != "" && !one.Elsewhere {
				told.Verdict = worse(told.Verdict, reports.StandingInconclusive)
			}
			told.Required = append(told.Required, one)
		}
	}
}

// judgedOf counts the runs of a subject that have judged a required invariant, and returns the reason if there are
// none.
func (s *Suite) judgedOf(runs []reports.SuiteRun, required Requirement, subject string,
	part bool) reports.SuiteRequirement {
	out := reports.SuiteRequirement{Invariant: required.Invariant, Subject: subject,
		Where: required.Where}
	var open []assertions.Result
	missing := 0
	for _, run := range runs {
		if run.Subject != subject {
			continue
		}
		result, judged := resultIn(run, required.Invariant)
		switch {
		case judged:
			out.Judged++
		case result == nil:
			missing++
		default:
			open = append(open, *result)
		}
	}
	if out.Judged > 0 {
		return out
	}
	byContract := len(open) > 0 && !slices.ContainsFunc(open, func(r assertions.Result) bool { return !r.ByContract() })
	out.Reason, out.Elsewhere = s.whyOpen(required.Invariant, subject, open, missing), part && !byContract
	return out
}

// resultIn finds the result of an invariant in a run. In a graph or with several services, it is that of the first that
// has judged it. judged reports whether there is one.
func resultIn(run reports.SuiteRun, invariant string) (found *assertions.Result, judged bool) {
	if run.Judged.Verdict == nil {
		return nil, false
	}
	for i := range run.Judged.Verdict.Invariants {
		result := &run.Judged.Verdict.Invariants[i]
		if result.Name != invariant && !strings.HasSuffix(result.Name, "/"+invariant) {
			continue
		}
		if result.Status == assertions.Pass || result.Status == assertions.Fail {
			return result, true
		}
		found = result
	}
	return found, false
}

// whyOpen explains why nothing was judged, and what to do about it.
func (s *Suite) whyOpen(invariant, subject string, open []assertions.Result, missing int) string {
	about := assertions.Explain(invariant)[0] // the names were checked before
	var reason string
	switch most := worstOpen(open); {
	case most == nil:
		return fmt.Sprintf("of its runs %d ended without a judgement of it; see what kept them from it", missing)
	case most.Status == assertions.Inconclusive:
		reason = most.Why
	case most.Unjudged == assertions.Unexercised && about.Scenario != "":
		reason = most.Why + "; add a scenario with " + about.Scenario
	case most.Unjudged == assertions.Unpromised && about.Contract != "":
		reason = fmt.Sprintf("%s; write %s into the contract%s, or take it out of require", most.Why, about.Contract,
			s.fileOf(subject))
	case most.Unjudged == assertions.Inapplicable:
		reason = most.Why + "; take it out of require"
	default:
		reason = most.Why
	}
	if missing > 0 {
		reason += fmt.Sprintf(" (%d of its runs were not judged)", missing)
	}
	return reason
}

// worstOpen is the result closest to a judgement: inconclusive first, then not exercised, then what no run of such a
// subject can judge.
func worstOpen(open []assertions.Result) *assertions.Result {
	rank := func(r assertions.Result) int {
		switch {
		case r.Status == assertions.Inconclusive:
			return 0
		case !r.ByContract():
			return 1
		}
		return 2
	}
	if len(open) == 0 {
		return nil
	}
	nearest := slices.MinFunc(open, func(a, b assertions.Result) int { return rank(a) - rank(b) })
	return &nearest
}

// fileOf is the file of a subject, or "" if the scenarios specify their own.
func (s *Suite) fileOf(subject string) string {
	for _, entry := range s.Entries {
		if entry.SubjectName == subject && entry.Subject != "" {
			return " of " + entry.Subject
		}
	}
	return ""
}
