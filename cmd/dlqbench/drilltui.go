package main

import (
	"context"

	"github.com/dlqbench/dlqbench/internal/drill"
)

// drillKeys is a session as the person at the terminal sees it. It implements tui.Drill.
type drillKeys struct {
	*drill.Session
	who drill.Actor
}

// State implements tui.Drill.
func (k drillKeys) State() drill.State { return k.Session.State(k.who.Role) }

// Do implements tui.Drill.
func (k drillKeys) Do(ctx context.Context, action drill.Action) (string, error) {
	return action.Do(ctx, k.Session, k.who)
}
