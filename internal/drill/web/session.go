package web

import (
	"context"

	"github.com/dlqbench/dlqbench/internal/drill"
)

// Session is a drill as its page uses it; *drill.Session is one. All of it is safe for concurrent use, and what a role
// may not do is refused.
type Session interface {
	Watched
	Breaking
	Operating
	Deciding
}

// Watched is what can be seen of a drill, and by whom.
type Watched interface {
	// State returns what the role may see now.
	State(role drill.Role) drill.State
	// Catalogue returns what can be broken.
	Catalogue() []drill.Breakable
	// Attend counts somebody who looks until leave is called.
	Attend(role drill.Role) (leave func())
}

// Breaking is what is done to the system's surroundings.
type Breaking interface {
	Break(ctx context.Context, who drill.Actor, spec map[string]any) (drill.Fault, error)
	Heal(ctx context.Context, who drill.Actor, id string) error
	HealAll(ctx context.Context, who drill.Actor) error
}

// Operating is what is done to the consumer's instances, numbered from 0.
type Operating interface {
	Kill(ctx context.Context, who drill.Actor, instance int) error
	Pause(ctx context.Context, who drill.Actor, instance int) error
	Resume(ctx context.Context, who drill.Actor, instance int) error
	Restart(ctx context.Context, who drill.Actor, instance int) error
}

// Deciding is what is done to the drill as a whole, and what people say.
type Deciding interface {
	Talking
	// Scale makes it so many instances.
	Scale(ctx context.Context, who drill.Actor, instances int) error
	// Replay writes the dead letters back to where they came from.
	Replay(ctx context.Context, who drill.Actor) error
}

// Talking is what people say.
type Talking interface {
	Notice(who drill.Actor, text string) error
	Note(who drill.Actor, text string) error
	Stop(who drill.Actor) error
}
