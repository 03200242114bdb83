package assertions

import (
	"errors"

	"github.com/dlqbench/dlqbench/history"
)

// topology is the relation between the consumers of a run: the history of each consumer, and the rules for all of them
// together.
type topology interface {
	// views are the histories to judge, one per consumer. Load, latency and faults in the verdict are those of the
	// first.
	views() []history.Source
	// adopt returns the results of a view that go into the verdict on all consumers.
	adopt(view int, one, first *judgement) []Result
	// whole judges all consumers together, after each was judged.
	whole(first *judgement) ([]Result, error)
}

// topologyOf walks through the history as often as needed to attribute its events to consumers.
func topologyOf(source history.Source, header *history.Header) (topology, error) {
	switch {
	case header.Graph != nil:
		return newGraphTopology(source, header)
	case header.Shared():
		return newServices(source, header)
	}
	return single{source}, nil
}

// single is the topology of one consumer, to which the whole history belongs.
type single struct{ source history.Source }

func (s single) views() []history.Source                 { return []history.Source{s.source} }
func (s single) adopt(_ int, one, _ *judgement) []Result { return one.verdict.Invariants }
func (s single) whole(*judgement) ([]Result, error)      { return nil, nil }

// view is the part of a history that concerns one consumer. It is complete if the history is.
type view struct{ history.Source }

// Sealed reports whether the underlying history is sealed.
func (v view) Sealed() bool { return sealed(v.Source) }

// Damaged returns the damage of the underlying history.
func (v view) Damaged() []error { return damages(v.Source) }

func damaged(source history.Source) bool {
	return errors.Join(damages(source)...) != nil
}

// damages returns the damage that a source reports, if it can.
func damages(source history.Source) []error {
	if whole, tells := source.(interface{ Damaged() []error }); tells {
		return whole.Damaged()
	}
	return nil
}

// sealed reports whether a source was written to its end. A source that cannot tell counts as sealed.
func sealed(source history.Source) bool {
	whole, tells := source.(interface{ Sealed() bool })
	return !tells || whole.Sealed()
}
