package assertions

import (
	"errors"

	"github.com/dlqbench/dlqbench/history"
)

// topology is how the consumers of a run hang together: what is each one's own history, and what is judged of all of
// them.
type topology interface {
	// views are the histories to judge, each that of one consumer. What the verdict says of load, latency and faults is
	// the first one's.
	views() []history.Source
	// adopt returns what the verdict on all consumers takes from that on a view.
	adopt(view int, one, first *judgement) []Result
	// whole is what is judged of all consumers together, when each was judged.
	whole(first *judgement) ([]Result, error)
}

// topologyOf walks through the history as often as it takes to tell whose its events are.
func topologyOf(source history.Source, header *history.Header) (topology, error) {
	switch {
	case header.Graph != nil:
		return newGraphTopology(source, header)
	case header.Shared():
		return newServices(source, header)
	}
	return single{source}, nil
}

// single is the topology of one consumer: all of the history is its own.
type single struct{ source history.Source }

func (s single) views() []history.Source                 { return []history.Source{s.source} }
func (s single) adopt(_ int, one, _ *judgement) []Result { return one.verdict.Invariants }
func (s single) whole(*judgement) ([]Result, error)      { return nil, nil }

// view is the part of a history that concerns one consumer; it is as whole as the history is.
type view struct{ history.Source }

// Sealed reports whether the history is.
func (v view) Sealed() bool { return sealed(v.Source) }

// Damaged tells what is missing of the history.
func (v view) Damaged() []error { return damages(v.Source) }

func damaged(source history.Source) bool {
	return errors.Join(damages(source)...) != nil
}

// damages are what a source that can tell says is missing of it.
func damages(source history.Source) []error {
	if whole, tells := source.(interface{ Damaged() []error }); tells {
		return whole.Damaged()
	}
	return nil
}

// sealed reports whether a source was written to its end; one that can't tell was.
func sealed(source history.Source) bool {
	whole, tells := source.(interface{ Sealed() bool })
	return !tells || whole.Sealed()
}
