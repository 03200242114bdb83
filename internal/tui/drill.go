package tui

import (
	"context"
	"time"

	"github.com/dlqbench/dlqbench/reports"
)

// Drill is what people do by hand while they watch. It is safe for concurrent use; what may not be done is refused with
// an error for the person who reads it.
type Drill interface {
	// State returns what may be seen now.
	State() State
	// Breakable lists what can be broken.
	Breakable() []Breakable
	// Do does something and says in a few words what became of it.
	Do(ctx context.Context, action Action) (string, error)
}

// State is a drill at one moment. Times count from the start of the steady load.
type State struct {
	// Stage is how far it is, in a word; Ending why it ends, "" while it goes on.
	Stage, Ending string
	// At is the time now, Until when it ends by itself.
	At, Until time.Duration
	// May are the names of the actions that may be done now.
	May []string
	// Unbreakable says why nothing may be broken in this drill at any time, "" if it may.
	Unbreakable string
	// Live is nil before there are figures.
	Live *reports.Snapshot
	// Faults are those in force.
	Faults []Fault
	// Log is what happened and was said, oldest first.
	Log []Line
}

// Fault is something that is broken.
type Fault struct {
	ID, Name, What string
	// Note says what people made of it ("noticed after 4.0 s").
	Note  string
	Since time.Duration
}

// Line is a line of a log.
type Line struct {
	At time.Duration
	// Kind is what it is about, in a word; Text may be anything.
	Kind, Text string
}

// Breakable is a fault that can be broken.
type Breakable struct {
	Name, Summary string
	Parameters    []Parameter
	// Refused says why it can't be broken in this drill, "" if it can.
	Refused string
}

// Parameter is a value of a fault that can be chosen.
type Parameter struct {
	// Name is what it is called, Value what it is at first, Hint how it is written.
	Name, Value, Hint string
	// Choices, if there are any, are the values there are.
	Choices []string
}

// The names of actions.
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

// Action is something to do.
type Action struct {
	// Name is one of the names of actions.
	Name string
	// Fault is the name of what is broken, with the values of its parameters by their names, or the id of what is
	// healed.
	Fault  string
	Values map[string]string
	// Instance is which one is killed, paused, resumed or restarted; Count how many there are to be.
	Instance, Count int
	// Text is what somebody says.
	Text string
}
