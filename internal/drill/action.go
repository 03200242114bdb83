package drill

// This file carries out actions that the views of a drill ask for.

import (
	"context"
	"errors"
	"fmt"
)

// ErrUnknownAction means that a drill has no such action.
var ErrUnknownAction = errors.New("a drill has no such action")

// Action is an action as somebody asks for it.
type Action struct {
	// Name is one of the words for actions.
	Name string `json:"-"`
	// Spec is a fault as a scenario writes it, Fault the id of one that is in force.
	Spec  map[string]any `json:"spec"`
	Fault string         `json:"fault"`
	// Instance is the number of the instance to kill, pause, resume or restart, Instances the number to scale to.
	Instance  int `json:"instance"`
	Instances int `json:"instances"`
	// Text is a person's text.
	Text string `json:"text"`
}

// Acts are the actions of a drill. *Session implements them.
type Acts interface {
	faultActs
	processActs
	crewActs
	Replay(ctx context.Context, who Actor) error
}

// faultActs inject faults and lift them.
type faultActs interface {
	Break(ctx context.Context, who Actor, spec map[string]any) (Fault, error)
	Heal(ctx context.Context, who Actor, id string) error
	HealAll(ctx context.Context, who Actor) error
	Scale(ctx context.Context, who Actor, instances int) error
}

// processActs are faults of one instance.
type processActs interface {
	Kill(ctx context.Context, who Actor, instance int) error
	Pause(ctx context.Context, who Actor, instance int) error
	Resume(ctx context.Context, who Actor, instance int) error
	Restart(ctx context.Context, who Actor, instance int) error
}

// crewActs are what the people of a drill say of themselves and of it.
type crewActs interface {
	Notice(who Actor, text string) error
	Note(who Actor, text string) error
	Join(who Actor) error
	Stop(who Actor) error
}

// Do carries out the action and returns a message about the result.
func (a Action) Do(ctx context.Context, acts Acts, who Actor) (string, error) {
	switch a.Name {
	case ActionBreak:
		fault, err := acts.Break(ctx, who, a.Spec)
		return "Injected: " + fault.Name, err
	case ActionHeal:
		return "Healed", acts.Heal(ctx, who, a.Fault)
	case ActionHealAll:
		err := acts.HealAll(ctx, who)
		if errors.Is(err, ErrNotOpen) {
			return "No fault is in force: " + err.Error(), nil
		}
		return "Everything is healed", err
	case ActionReplay:
		return "The dead letters are being replayed", acts.Replay(ctx, who)
	case ActionKill:
		return fmt.Sprintf("Instance %d is killed", a.Instance), acts.Kill(ctx, who, a.Instance)
	case ActionPause:
		return fmt.Sprintf("Instance %d is paused", a.Instance), acts.Pause(ctx, who, a.Instance)
	case ActionResume:
		return fmt.Sprintf("Instance %d goes on", a.Instance), acts.Resume(ctx, who, a.Instance)
	case ActionRestart:
		return fmt.Sprintf("Instance %d restarts", a.Instance), acts.Restart(ctx, who, a.Instance)
	case ActionScale:
		return fmt.Sprintf("%d instances", a.Instances), acts.Scale(ctx, who, a.Instances)
	case ActionNotice:
		return "Noticed", acts.Notice(who, a.Text)
	case ActionNote:
		return "Noted", acts.Note(who, a.Text)
	case ActionJoin:
		return "Hello " + who.Name, acts.Join(who)
	case ActionStop:
		return "The drill ends", acts.Stop(who)
	}
	return "", fmt.Errorf("%w: %q", ErrUnknownAction, a.Name)
}
