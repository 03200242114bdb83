package assertions

import (
	"cmp"
	"strings"

	"github.com/dlqbench/dlqbench/history"
)

// outcomes is a set of outcomes.
type outcomes uint16

// setOf returns the set of the outcomes. Unknown outcomes of a damaged history are left out.
func setOf(some ...history.Outcome) (all outcomes) {
	for _, one := range some {
		if one < 16 {
			all |= 1 << one
		}
	}
	return all
}

// String lists the outcomes: "transient, permanent".
func (s outcomes) String() string {
	var names []string
	for one := range history.Outcome(16) {
		if s&setOf(one) != 0 {
			names = append(names, cmp.Or(one.String(), "nothing"))
		}
	}
	return strings.Join(names, ", ")
}
