package reports

// This file reports how much of the contracts a gate covers: for each run, for all runs of a subject together, and
// against the requirements in dlqbench.yaml.

import (
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/assertions"
)

// SuiteCoverage is how many of the promises that a subject could be held to were judged in at least one run.
type SuiteCoverage struct {
	Subject  string `json:"subject"`
	Judged   int    `json:"judged"`
	Promises int    `json:"promises"`
	// InPart are the judged ones of which every run left more than a tenth open, NotJudged those that no run judged.
	InPart    []string `json:"in_part"`
	NotJudged []string `json:"not_judged"`
	// Text says it in a line, with the reasons.
	Text string `json:"text"`
}

// SuiteRequirement is an invariant that must be judged in at least one run of a subject, and whether it was.
type SuiteRequirement struct {
	Invariant string     `json:"invariant"`
	Subject   string     `json:"subject"`
	Where     SuitePlace `json:"where"`
	// Judged counts the runs that judged it.
	Judged int `json:"judged"`
	// Reason says why none did, and what to do; "" where one did. Elsewhere: another part of the suite may have judged
	// it, so that the gate does not hang on it.
	Reason    string `json:"reason,omitempty"`
	Elsewhere bool   `json:"elsewhere,omitempty"`
}

// Remark returns the remark on a requirement that is not met, "" if it is met.
func (r SuiteRequirement) Remark() string {
	switch {
	case r.Reason == "":
		return ""
	case r.Elsewhere:
		return fmt.Sprintf(
			"%s is required, and this part of the suite has not judged it for %s: %s; see to it that another part does",
			r.Invariant, r.Subject, r.Reason)
	}
	return fmt.Sprintf("%s is required, and no run has judged it for %s: %s", r.Invariant, r.Subject, r.Reason)
}

// Coverage returns the coverage of each subject, in order of first appearance. Subjects without a judged run are left
// out.
func (s Suite) Coverage() []SuiteCoverage {
	var subjects []string
	verdicts := map[string][]*assertions.Verdict{}
	for _, run := range s.Runs {
		if run.Judged.Verdict == nil {
			continue
		}
		subjects = addOnce(subjects, run.Subject)
		verdicts[run.Subject] = append(verdicts[run.Subject], run.Judged.Verdict)
	}
	out := []SuiteCoverage{}
	for _, subject := range subjects {
		c := assertions.Together(verdicts[subject]...)
		one := SuiteCoverage{
			Subject: subject, Judged: c.Judged, Promises: c.Promises, InPart: resultNames(c.Parts),
			NotJudged: resultNames(c.Gaps), Text: c.String(),
		}
		out = append(out, one)
	}
	return out
}

func resultNames(results []assertions.Result) []string {
	return each(results, func(r assertions.Result) string { return r.Name })
}

// coverageLines returns the lines about coverage, with the subject's name if there are several.
func (s Suite) coverageLines() []string {
	all := s.Coverage()
	var lines []string
	for _, one := range all {
		line := visible(one.Text, maxCoverage)
		if len(all) > 1 {
			line = name(one.Subject) + ": " + line
		}
		lines = append(lines, line)
	}
	return lines
}

// Extent describes in a few words how much of the contract a run covers; "" if nothing was judged.
func (r SuiteRun) Extent() string {
	if r.Judged.Verdict == nil {
		return ""
	}
	return r.Judged.Verdict.Coverage().Extent()
}

// unmet returns the requirements that are not met.
func (s Suite) unmet() []SuiteRequirement {
	return slices.DeleteFunc(slices.Clone(s.Required), func(r SuiteRequirement) bool { return r.Reason == "" })
}
