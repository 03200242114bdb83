package plan

// The outcomes of records that the workers of a dead-letter store retry.

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

// addStore draws the outcomes of the workers' attempts, and which of the republished records succeed.
func (p *Plan) addStore(s *scenarios.Store) {
	if s == nil {
		return
	}
	view := &Plan{Seed: p.Seed, Records: slices.Clone(p.Records)}
	for i := range view.Records {
		view.Records[i].Failures = 0
	}
	view.addOutcomes(s.Outcomes, "outcomes of the store")
	p.Store = view.Records
	if s.Retry != scenarios.RetryByRepublish {
		return
	}
	// All succeed: a record that failed again would be a new dead letter with its own retries, and be republished
	// without end.
	for i := range p.Records {
		record := &p.Records[i]
		if record.Outcome == history.OutcomeExhausted || record.Outcome == history.OutcomePermanent {
			record.Healed = true
		}
	}
}

// ForStore returns the plan from the view of the store's workers.
func (p *Plan) ForStore(s *scenarios.Store) *Plan {
	view := *p
	view.Records, view.RetryAfter = p.Store, s.Outcomes.RateLimited.RetryAfter.D()
	return &view
}
