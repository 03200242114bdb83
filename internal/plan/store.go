package plan

// What becomes of records that the workers of a dead-letter store try again.

import (
	"slices"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

// addStore draws what the workers are answered, and which of the records succeed that they write back.
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
	// All succeed: what failed again would be a new dead letter with tries of its own, and be written back without end.
	for i := range p.Records {
		record := &p.Records[i]
		if record.Outcome == history.OutcomeExhausted || record.Outcome == history.OutcomePermanent {
			record.Healed = true
		}
	}
}

// ForStore returns the plan as the store's workers see it.
func (p *Plan) ForStore(s *scenarios.Store) *Plan {
	view := *p
	view.Records, view.RetryAfter = p.Store, s.Outcomes.RateLimited.RetryAfter.D()
	return &view
}
