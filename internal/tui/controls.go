package tui

// This file maps the keys of a drill to actions.

import (
	"fmt"
	"slices"
	"strconv"
	"strings"

	tea "charm.land/bubbletea/v2"

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
		{"b", "break", ActionBreak}, {"h", "heal", ActionHeal}, {"H", "heal ALL", ActionHealAll}, {"k", "kill", ActionKill},
		{"p", "pause", ActionPause},
		{"t", "restart", ActionRestart}, {"s", "scale", ActionScale}, {"r", "replay", ActionReplay},
		{"n", "notice", ActionNotice}, {"d", "decision", ActionNote}, {"q", "stop and judge", ActionStop},
	}
}

// may reports whether an action is allowed now.
func (m *model) may(action string) bool {
	if action == ActionPause && slices.Contains(m.state.May, ActionResume) {
		return true
	}
	return slices.Contains(m.state.May, action)
}

// begin starts the action of a key, either at once or after a dialog for its parameters.
func (m *model) begin(control control) tea.Cmd {
	if control.action == ActionBreak && m.state.Unbreakable != "" {
		m.say(did{err: fmt.Errorf("no fault can be injected by hand: %s", m.state.Unbreakable)})
		return nil
	}
	if !m.may(control.action) {
		m.say(did{err: fmt.Errorf("%s: not now, or not for you", control.word)})
		return nil
	}
	switch control.action {
	case ActionHealAll, ActionReplay:
		return m.act(Action{Name: control.action})
	case ActionBreak:
		m.dialog = m.chooseFault()
	case ActionHeal:
		m.dialog = m.chooseHeal()
	case ActionKill, ActionPause, ActionRestart:
		m.dialog = m.chooseInstance(control.action)
	case ActionScale:
		m.dialog = m.askCount()
	case ActionNotice:
		m.dialog = ask("I noticed something", "what", "what you see; may stay empty", func(text string) (*Action, error) {
			return &Action{Name: ActionNotice, Text: text}, nil
		})
	case ActionNote:
		m.dialog = ask("Write down a decision", "text", "what was decided, and why", func(text string) (*Action, error) {
			return &Action{Name: ActionNote, Text: text}, nil
		})
	case ActionStop:
		m.dialog = &choice{title: "End the drill: heal everything, drain, judge?", items: []item{
			{label: "no, go on"}, {label: "yes, stop and judge", action: &Action{Name: ActionStop}},
		}}
	}
	return nil
}

// chooseFault lists the faults, then asks for the parameters of the chosen one.
func (m *model) chooseFault() dialog {
	list := &choice{title: "Break what? (type to search)", search: true}
	for _, one := range m.drill.Breakable() {
		entry := item{label: one.Name, detail: one.Summary, refused: one.Refused}
		entry.next = func() dialog {
			form := &form{title: "Break " + one.Name, submit: func(values []string) (*Action, error) {
				named := map[string]string{}
				for i, parameter := range one.Parameters {
					named[parameter.Name] = values[i]
				}
				return &Action{Name: ActionBreak, Fault: one.Name, Values: named}, nil
			}}
			for _, parameter := range one.Parameters {
				form.fields = append(form.fields, field{label: parameter.Name, value: parameter.Value, hint: parameter.Hint,
					choices: parameter.Choices})
			}
			return form
		}
		list.items = append(list.items, entry)
	}
	return list
}

func (m *model) chooseHeal() dialog {
	list := &choice{title: "Heal what?", empty: "nothing is broken"}
	for _, fault := range m.state.Faults {
		list.items = append(list.items,
			item{label: fault.Name, detail: fault.What, action: &Action{Name: ActionHeal, Fault: fault.ID}})
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
		if action == ActionPause && one.Status == reports.InstancePaused {
			does = ActionResume
		}
		entry := item{label: one.Name, detail: string(one.Status), action: &Action{Name: does, Instance: one.Number}}
		if does == ActionResume {
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
	return ask("Scale the consumer", "instances", fmt.Sprintf("%d run now", running), func(text string) (*Action, error) {
		count, err := strconv.Atoi(strings.TrimSpace(text))
		if err != nil || count < 1 {
			return nil, fmt.Errorf("%q is not a number of instances", text)
		}
		return &Action{Name: ActionScale, Count: count}, nil
	})
}

// ask is a form with one field.
func ask(title, label, hint string, submit func(text string) (*Action, error)) dialog {
	return &form{title: title, fields: []field{{label: label, hint: hint}},
		submit: func(values []string) (*Action, error) { return submit(values[0]) }}
}
