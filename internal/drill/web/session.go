package web

import (
	"github.com/dlqbench/dlqbench/internal/drill"
)

// Session is a drill as its page uses it. *drill.Session implements it. All methods are safe for concurrent use and
// refuse what a role may not do.
type Session interface {
	Watched
	drill.Acts
}

// Watched is the part of a drill that its viewers read.
type Watched interface {
	// State returns what the role may see now.
	State(role drill.Role) drill.State
	// Catalogue lists the faults that can be injected.
	Catalogue() []drill.Breakable
	// Attend counts a viewer until leave is called.
	Attend() (leave func())
	// Arrive lets a drill that waits for its first viewer begin, without a viewer who would be missed.
	Arrive()
}
