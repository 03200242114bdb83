package scenarios

// What a run of a scenario can judge of a subject, told before it is started.

import (
	"fmt"
	"slices"

	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/history"
)

// Outlook says what runs of the scenario judge of the subject, and what not and why. A nil subject is the reference
// consumer. Records that are not as planned, faults without effect and short runs can only leave less.
func (s *Scenario) Outlook(subject *SubjectFile) (ContractText, error) {
	var (
		contract history.Contract
		err      error
		answers  = usualAnswers()
		store    = s.Store != nil
	)
	switch {
	case subject != nil:
		if contract, err = subject.HistoryContract(); err != nil {
			return ContractText{}, fmt.Errorf("reading the contract of %s: %w", subject.Name, err)
		}
		answers, store = subject.answers(), store || subject.Store != nil
	case s.Subject.Reference != nil:
		contract = ReferenceContract(*s.Subject.Reference)
	}
	text := describe(contract, store, answers)
	text.notReplayed(subject)
	text.Promises = nil
	var judged []Reason
	for _, reason := range text.Judged {
		if s.exercises(reason.Invariant) {
			reason.Needs = ""
			judged = append(judged, reason)
			continue
		}
		text.NotJudged = append(text.NotJudged, Reason{Invariant: reason.Invariant,
			Why: "nothing in " + s.Name + " shows it: it needs " + reason.Needs})
	}
	text.Judged = judged
	return text, nil
}

// exercises reports whether something in the scenario shows what the invariant is about.
func (s *Scenario) exercises(invariant string) bool {
	switch invariant {
	case "replay-round-trip":
		return s.Replay != nil
	case "halt-on-dlq-failure":
		return len(s.Faults) > 0
	case "backoff", "isolation":
		return s.failsForAWhile() || s.failsForGood()
	case "commit-after-dlq", "dlq-once", "dlq-fidelity":
		return s.failsForGood()
	}
	return true
}

// failsForAWhile reports whether records fail in a way that a retry can mend.
func (s *Scenario) failsForAWhile() bool {
	o := s.Workload.Outcomes
	return o.Transient.Weight+o.RateLimited.Weight+o.Timeout.Weight+o.Reset.Weight > 0 || s.disturbed()
}

// failsForGood reports whether records end as dead letters.
func (s *Scenario) failsForGood() bool {
	o := s.Workload.Outcomes
	return o.Exhausted+o.Permanent > 0 || s.Workload.Malformed != nil || s.Workload.Garbage > 0 || s.disturbed()
}

// disturbed reports whether records may fail otherwise than by their planned outcomes.
func (s *Scenario) disturbed() bool {
	return len(s.Workload.Failing) > 0 || slices.ContainsFunc(s.Faults, func(fault catalogue.Spec) bool {
		return fault.Downstream != nil || fault.Network != nil
	})
}
