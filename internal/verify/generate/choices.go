// Package generate makes small histories for the proof: correct by construction, or damaged in one named way.
//
// A small discrete-event simulation of a correct consumer (several instances, a broker, a downstream, a workload, an
// audit) records what the observers of a real run would have recorded. The simulation includes kills, rebalances,
// stops, failed and unanswered requests, and outages. The consumer keeps its contract throughout, so no checker may
// accuse it. A corruption then edits such a history at one place so that it breaks one promise about one record,
// without anything that could excuse it.
//
//	Choices ──▶ Consumer ──▶ History ──▶ Corruption ──▶ History that shows one anomaly
//
// The consumers may be the nodes of a graph (Graph), a dead-letter store with a router and workers may run beside them
// (Store), and some records may have a body that the downstream stub cannot identify (Unnamed).
//
// The package knows the event model and nothing about how histories are judged. Every choice comes from the Choices,
// so that a seed, or a property-testing library that shrinks, determines everything.
package generate

import "math/rand/v2"

// Choices are the decisions of a generator.
type Choices interface {
	// Intn returns a number in [0, n); n ≥ 1. Smaller numbers make simpler histories.
	Intn(n int) int
}

// Seeded makes choices from a seed. The same seed gives the same history.
type Seeded struct{ random *rand.Rand }

// NewSeeded returns the choices of a seed.
func NewSeeded(seed uint64) *Seeded {
	return &Seeded{rand.New(rand.NewPCG(seed, 0x9e3779b97f4a7c15))}
}

// Intn returns a number in [0, n).
func (s *Seeded) Intn(n int) int { return s.random.IntN(n) }

func chance(c Choices, in int) bool { return c.Intn(in) == in-1 }

func pick[T any](c Choices, from ...T) T { return from[c.Intn(len(from))] }
