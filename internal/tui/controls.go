package tui

// This file maps the keys of a drill to actions.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/reports"
)

// control is a key and its action.
type control struct {
	key, word, action string
}

// controls are the keys of a drill. Without a drill there are none.
func (m *model) controls() []control {
	if m.drill == nil {
		return nil
	}
	return []control{
		{"b", "break", drill.ActionBreak}, {"h", "heal", drill.ActionHeal}, {"H", "heal ALL", drill.ActionHealAll},
		{"k", "kill", drill.ActionKill}, {"p", "pause", drill.ActionPause}, {"t", "restart", drill.ActionRestart},
		{"s", "scale", drill.ActionScale}, {"r", "replay", drill.ActionReplay}, {"n", "notice", drill.ActionNotice},
		{"d", "decision", drill.ActionNote}, {"q", "stop and judge", drill.ActionStop},
	}
}

// may reports whether an action is allowed now.
func (m *model) may(action string) bool {
	if action == drill.ActionPause && slices.Contains(m.state.May, drill.ActionResume) {
		return true
	}
	return slices.Contains(m.state.May, action)
}

// begin starts the action of a key, either at once or after a dialog for its parameters.
func (m *model) begin(control control) tea.Cmd {
	if control.action == drill.ActionBreak && m.state.Unbreakable != "" {
		m.say(did{err: fmt.Errorf("no fault can be injected by hand: %s", m.state.Unbreakable)})
		return nil
	}
	if !m.may(control.action) {
		m.say(did{err: fmt.Errorf("%s: not now, or not for you", control.word)})
		return nil
	}
	switch control.action {
	case drill.ActionHealAll, drill.ActionReplay:
		return m.act(drill.Action{Name: control.action})
	case drill.ActionBreak:
		m.dialog = m.chooseFault()
	case drill.ActionHeal:
		m.dialog = m.chooseHeal()
	case drill.ActionKill, drill.ActionPause, drill.ActionRestart:
		m.dialog = m.chooseInstance(control.action)
	case drill.ActionScale:
		m.dialog = m.askCount()
	case drill.ActionNotice:
		m.dialog = ask("I noticed something", "what", "what you see; may stay empty", saying(drill.ActionNotice))
	case drill.ActionNote:
		m.dialog = ask("Write down a decision", "text", "what was decided, and why", saying(drill.ActionNote))
	case drill.ActionStop:
		m.dialog = &choice{title: "End the drill: heal everything, drain, judge?", items: []item{
			{label: "no, go on"}, {label: "yes, stop and judge", action: &drill.Action{Name: drill.ActionStop}},
		}}
	}
	return nil
}

// chooseFault lists the faults, then asks for the parameters of the chosen one.
func (m *model) chooseFault() dialog {
	list := &choice{title: "Break what? (type to search)", search: true}
	for _, one := range m.drill.Catalogue() {
		list.items = append(list.items, item{label: one.Name, detail: one.Summary, refused: one.Refused,
			next: func() dialog { return faultForm(one) }})
	}
	return list
}

func (m *model) chooseHeal() dialog {
	list := &choice{title: "Heal what?", empty: "nothing is broken"}
	for _, fault := range m.inForce() {
		list.items = append(list.items,
			item{label: fault.Name, detail: fault.What, action: &drill.Action{Name: drill.ActionHeal, Fault: fault.ID}})
	}
	return list
}

// chooseInstance lists the subject's instances. Pausing a paused instance resumes it.
func (m *model) chooseInstance(action string) dialog {
	list := &choice{title: strings.ToUpper(action[:1]) + action[1:] + " which instance?",
		empty: "no instance was started yet"}
	for _, one := range m.live.Instances {
		if one.Kind != "instance" {
			continue
		}
		does := action
		if action == drill.ActionPause && one.Status == reports.InstancePaused {
			does = drill.ActionResume
		}
		entry := item{label: one.Name, detail: string(one.Status), action: &drill.Action{Name: does, Instance: one.Number}}
		if does == drill.ActionResume {
			entry.detail = "paused: let it go on"
		}
		list.items = append(list.items, entry)
	}
	return list
}

func (m *model) askCount() dialog {
	running := 0
	for _, one := range m.live.Instances {
		if one.Kind == "instance" && one.Status.Up() {
			running++
		}
	}
	now := fmt.Sprintf("%d run now", running)
	return ask("Scale the consumer", "instances", now, func(text string) (*drill.Action, error) {
		count, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || count < 1 {
			return nil, fmt.Errorf("%q is not a number of instances", text)
		}
		return &drill.Action{Name: drill.ActionScale, Instances: count}, nil
	})
}

// saying returns an action with what a person writes.
func saying(action string) func(text string) (*drill.Action, error) {
	return func(text string) (*drill.Action, error) { return &drill.Action{Name: action, Text: text}, nil }
}

// ask is a form with one field.
func ask(title, label, hint string, submit func(text string) (*drill.Action, error)) dialog {
	return &form{title: title, fields: []field{{label: label, hint: hint}},
		submit: func(values []string) (*drill.Action, error) { return submit(values[0]) }}
}
