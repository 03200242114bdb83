package web

import (
	"context"

	"github.com/dlqbench/dlqbench/internal/drill"
)

// Session is a drill as its page uses it. *drill.Session implements it. All methods are safe for concurrent use and
// refuse what a role may not do.
type Session interface {
	Watched
	Breaking
	Operating
	Deciding
}

// Watched is the part of a drill that its viewers read.
type Watched interface {
	// State returns what the role may see now.
	State(role drill.Role) drill.State
	// Catalogue lists the faults that can be injected.
	Catalogue() []drill.Breakable
	// Attend counts a viewer until leave is called.
	Attend(role drill.Role) (leave func())
	// Arrive lets a drill that waits for its first viewer begin, without a viewer who would be missed.
	Arrive()
}

// Breaking injects and lifts faults.
type Breaking interface {
	Break(ctx context.Context, who drill.Actor, spec map[string]any) (drill.Fault, error)
	Heal(ctx context.Context, who drill.Actor, id string) error
	HealAll(ctx context.Context, who drill.Actor) error
}

// Operating controls the consumer's instances, numbered from 0.
type Operating interface {
	Kill(ctx context.Context, who drill.Actor, instance int) error
	Pause(ctx context.Context, who drill.Actor, instance int) error
	Resume(ctx context.Context, who drill.Actor, instance int) error
	Restart(ctx context.Context, who drill.Actor, instance int) error
}

// Deciding controls the drill as a whole.
type Deciding interface {
	Talking
	// Scale sets the number of instances.
	Scale(ctx context.Context, who drill.Actor, instances int) error
	// Replay writes the dead letters back to their source topics.
	Replay(ctx context.Context, who drill.Actor) error
}

// Talking takes people's notices and notes.
type Talking interface {
	Notice(who drill.Actor, text string) error
	Note(who drill.Actor, text string) error
	Join(who drill.Actor) error
	Stop(who drill.Actor) error
}
