package main

// This file maps the keys of the terminal's view of a drill to the session's actions.

import (
	"cmp"
	"context"
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/tui"
)

// drillKeys adapts a session to the terminal's view.
type drillKeys struct {
	session *drill.Session
	role    drill.Role
	name    string
}

func (k drillKeys) who() drill.Actor { return drill.Actor{Name: k.name, Role: k.role} }

// State implements tui.Drill.
func (k drillKeys) State() tui.State {
	state := k.session.State(k.role)
	shown := tui.State{Stage: string(state.Stage), Ending: state.Ending, At: state.At, Until: state.Until, May: state.May,
		Unbreakable: state.Unbreakable, Live: state.Live}
	for _, fault := range state.Faults {
		if fault.Healed == nil && fault.Failed == "" {
			shown.Faults = append(shown.Faults, tui.Fault{ID: fault.ID, Name: fault.Name, What: fault.What,
				Since: fault.Injected, Note: noticed(fault)})
		}
	}
	for _, entry := range state.Log {
		text := entry.Text
		if entry.Who != nil {
			text = strings.TrimSpace(cmp.Or(entry.Who.Name, "the "+string(entry.Who.Role)) + ": " + text)
		}
		shown.Log = append(shown.Log, tui.Line{At: entry.At, Kind: entry.Action, Text: text})
	}
	return shown
}

func noticed(fault drill.Fault) string {
	switch {
	case fault.Noticed != nil:
		return "noticed after " + (*fault.Noticed - fault.Injected).Round(100*time.Millisecond).String()
	case fault.ToNotice:
		return "not noticed yet"
	}
	return ""
}

// Breakable implements tui.Drill.
func (k drillKeys) Breakable() []tui.Breakable {
	var all []tui.Breakable
	for _, one := range k.session.Catalogue() {
		shown := tui.Breakable{Name: one.Name, Summary: one.Summary, Refused: one.Refused}
		for _, parameter := range one.Parameters {
			if parameter.Fixed {
				continue
			}
			asked := tui.Parameter{Name: parameter.Path, Hint: hintOf(parameter), Choices: parameter.Choices}
			if parameter.Default != nil {
				asked.Value = fmt.Sprint(parameter.Default)
			}
			if parameter.Type == drill.TypeFlag {
				asked.Choices = []string{"true", "false"}
			}
			shown.Parameters = append(shown.Parameters, asked)
		}
		all = append(all, shown)
	}
	return all
}

// hintOf describes the format of a parameter.
func hintOf(parameter drill.Parameter) string {
	hint := map[string]string{
		drill.TypeDuration: "such as 250ms", drill.TypePercent: "such as 20%", drill.TypeSize: "such as 64KiB",
		drill.TypeRate: "such as 50/s", drill.TypeNumber: "a number, at least " + strconv.Itoa(parameter.Min),
	}[parameter.Type]
	switch {
	case parameter.Path == "for":
		hint += "; empty: until it is healed"
	case !parameter.Required:
		hint += "; may stay empty"
	}
	return strings.TrimPrefix(hint, "; ")
}

// Do implements tui.Drill.
func (k drillKeys) Do(ctx context.Context, action tui.Action) (string, error) {
	who := k.who()
	one := fmt.Sprintf("instance %d", action.Instance)
	switch action.Name {
	case tui.ActionBreak:
		return k.breakOne(ctx, action)
	case tui.ActionHeal:
		return "healed", k.session.Heal(ctx, who, action.Fault)
	case tui.ActionHealAll:
		return "everything is healed", k.session.HealAll(ctx, who)
	case tui.ActionKill:
		return one + " was killed", k.session.Kill(ctx, who, action.Instance)
	case tui.ActionPause:
		return one + " is paused", k.session.Pause(ctx, who, action.Instance)
	case tui.ActionResume:
		return one + " goes on", k.session.Resume(ctx, who, action.Instance)
	case tui.ActionRestart:
		return one + " was restarted", k.session.Restart(ctx, who, action.Instance)
	case tui.ActionScale:
		return fmt.Sprintf("there are to be %d instances", action.Count), k.session.Scale(ctx, who, action.Count)
	case tui.ActionReplay:
		return "the dead letters were put back", k.session.Replay(ctx, who)
	case tui.ActionNotice:
		return "noticed", k.session.Notice(who, action.Text)
	case tui.ActionNote:
		return "written down", k.session.Note(who, action.Text)
	case tui.ActionStop:
		return "the drill ends: healing, draining, judging", k.session.Stop(who)
	}
	return "", fmt.Errorf("there is no action %q", action.Name)
}

func (k drillKeys) breakOne(ctx context.Context, action tui.Action) (string, error) {
	for _, one := range k.session.Catalogue() {
		if one.Name != action.Fault {
			continue
		}
		spec, err := specOf(one, action.Values)
		if err != nil {
			return "", err
		}
		fault, err := k.session.Break(ctx, k.who(), spec)
		return fault.Name + " is broken", err
	}
	return "", fmt.Errorf("there is no fault %q to break", action.Fault)
}

// specOf returns the fault with its own values replaced by the given ones. An empty value removes the key.
func specOf(one drill.Breakable, values map[string]string) (map[string]any, error) {
	var spec map[string]any
	text, err := json.Marshal(one.Spec)
	if err == nil {
		err = json.Unmarshal(text, &spec)
	}
	if err != nil {
		return nil, fmt.Errorf("copying the fault %s: %w", one.Name, err)
	}
	for _, parameter := range one.Parameters {
		written, asked := values[parameter.Path]
		if !asked {
			continue
		}
		var value any
		switch written = strings.TrimSpace(written); {
		case written == "" && parameter.Required:
			return nil, fmt.Errorf("%s needs a value for %s", one.Name, parameter.Path)
		case written == "":
		case parameter.Type == drill.TypeNumber:
			value, err = strconv.Atoi(written)
		case parameter.Type == drill.TypeFlag:
			value, err = strconv.ParseBool(written)
		default:
			value = written
		}
		if err != nil {
			return nil, fmt.Errorf("%s: %q is not what %s can be", one.Name, written, parameter.Path)
		}
		place(spec, strings.Split(parameter.Path, "."), value)
	}
	return spec, nil
}

// place sets the value at a path. nil removes it.
func place(spec map[string]any, path []string, value any) {
	if len(path) == 1 {
		if spec[path[0]] = value; value == nil {
			delete(spec, path[0])
		}
		return
	}
	within, is := spec[path[0]].(map[string]any)
	if !is {
		within = map[string]any{}
		spec[path[0]] = within
	}
	place(within, path[1:], value)
}
