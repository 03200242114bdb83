package tui

import (
	"context"
	"time"

	"github.com/dlqbench/dlqbench/reports"
)

// Drill offers the manual actions of a drill. It is safe for concurrent use. It refuses a forbidden action with an
// error text for people.
type Drill interface {
	// State returns the currently visible state.
	State() State
	// Breakable lists the faults that can be injected.
	Breakable() []Breakable
	// Do executes an action and returns a short message about the result.
	Do(ctx context.Context, action Action) (string, error)
}

// State is the state of a drill. Times count from the start of the steady load.
type State struct {
	// Stage is the stage of the drill, in a word. Ending is the reason why it ends, or "" while it continues.
	Stage, Ending string
	// At is the present time, Until the time at which the drill ends by itself.
	At, Until time.Duration
	// May lists the names of the actions that are allowed now.
	May []string
	// Unbreakable is the reason why no fault may ever be injected in this drill, or "".
	Unbreakable string
	// Live is nil before there are figures.
	Live *reports.Snapshot
	// Faults are the faults in force.
	Faults []Fault
	// Log has events and people's notes, oldest first.
	Log []Line
}

// Fault is a fault in force.
type Fault struct {
	ID, Name, What string
	// Note is a remark on people's reaction ("noticed after 4.0 s").
	Note  string
	Since time.Duration
}

// Line is a line of a log.
type Line struct {
	At time.Duration
	// Kind is the subject of the line, in a word. Text is untrusted text.
	Kind, Text string
}

// Breakable is a fault that can be injected.
type Breakable struct {
	Name, Summary string
	Parameters    []Parameter
	// Refused is the reason why the fault cannot be injected in this drill, or "".
	Refused string
}

// Parameter is an adjustable value of a fault.
type Parameter struct {
	// Name is its name, Value its initial value, Hint its format.
	Name, Value, Hint string
	// Choices are the permitted values, if they are limited.
	Choices []string
}

// These are the names of actions.
const (
	ActionBreak   = "break"
	ActionHeal    = "heal"
	ActionHealAll = "heal-all"
	ActionKill    = "kill"
	ActionPause   = "pause"
	ActionResume  = "resume"
	ActionRestart = "restart"
	ActionScale   = "scale"
	ActionReplay  = "replay"
	ActionNotice  = "notice"
	ActionNote    = "note"
	ActionStop    = "stop"
)

// Action is an action to execute.
type Action struct {
	// Name is one of the names of actions.
	Name string
	// Fault is the name of the fault to inject, with the values of its parameters by name, or the id of the fault to
	// lift.
	Fault  string
	Values map[string]string
	// Instance is the instance to kill, pause, resume or restart. Count is the number of instances to scale to.
	Instance, Count int
	// Text is a person's text.
	Text string
}
