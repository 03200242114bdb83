package drill

import (
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/reports"
)

// Role is a person's side in the drill.
type Role string

// These are the roles. A person who drills alone is the injector and may also notice.
const (
	// RoleInjector injects faults and sees everything.
	RoleInjector Role = "injector"
	// RoleResponder is on call: the responder notices, decides and lifts faults, and sees nothing that reveals the
	// injected faults until the drill is over.
	RoleResponder Role = "responder"
)

// Actor is who does something.
type Actor struct {
	// Name is what people call them; it may be empty, and anything.
	Name string `json:"name,omitempty"`
	Role Role   `json:"role"`
}

// These are the words for actions, as in State.May, Entry.Action and the errors.
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
	ActionJoin    = "join"
)

// Participant is somebody who takes part in a drill: who has said their name, or has done something.
type Participant struct {
	Actor
	Joined time.Duration `json:"joined_ns"`
	// Did counts their actions, by the words for actions. It is there when the drill is over.
	Did map[string]int `json:"did,omitempty"`
}

// These are the ways in which a fault is lifted.
const (
	LiftedByHand   = "by hand"
	LiftedByItself = "by itself"
	LiftedAtEnd    = "at the end of the load"
)

// Breakable is a fault of the catalogue as somebody may break it by hand.
type Breakable struct {
	// Name is the kind and the key that makes it: "network.latency".
	Name string `json:"name"`
	// Kind is network, kafka, broker, subject or downstream.
	Kind string `json:"kind"`
	// Summary says in one sentence what breaks, Does what the subject gets to see, Shows what a correct consumer does.
	Summary string `json:"summary"`
	Does    string `json:"does"`
	Shows   string `json:"shows"`
	// Parameters are what can be chosen, the most important first.
	Parameters []Parameter `json:"parameters"`
	// Spec is the fault with its default parameters, as Break takes it.
	Spec map[string]any `json:"spec"`
	// Refused, when set, says why it can't be broken in this drill.
	Refused string `json:"refused,omitempty"`
}

// These are the types of parameters, which define how a value is written.
const (
	TypeDuration = "duration" // "250ms"
	TypePercent  = "percent"  // "20%"
	TypeSize     = "size"     // "64KiB"
	TypeRate     = "rate"     // "50/s"
	TypeNumber   = "number"   // a whole number, at least Min
	TypeChoice   = "choice"   // one of Choices
	TypeFlag     = "flag"     // true or false
	TypeText     = "text"
)

// Parameter is one value of a fault that can be chosen.
type Parameter struct {
	// Path leads to it in the spec: "network.latency", "for".
	Path string `json:"path"`
	Type string `json:"type"`
	// Default is its value in the entry's Spec; nil where it is left out.
	Default any `json:"default,omitempty"`
	// Choices are the values there are (TypeChoice) or that are likely (TypeText).
	Choices []string `json:"choices,omitempty"`
	// Min is the smallest number.
	Min int `json:"min,omitempty"`
	// Required: it can't be left out. Fixed: it makes the fault what it is, and stays as it is.
	Required bool `json:"required,omitempty"`
	Fixed    bool `json:"fixed,omitempty"`
}

// Stage is the progress of a drill. Its names reveal nothing about faults.
type Stage string

// These are the stages, in order.
const (
	StageSetUp Stage = "set-up" // Kafka and the consumer are being started
	StageWarm  Stage = "warm-up"
	StageOpen  Stage = "open" // the load is running; faults can be injected
	// StageDrain means that the load has ended, faults are lifted, and the consumer finishes its work.
	StageDrain Stage = "drain"
	StageJudge Stage = "judge" // the brokers' contents are read and judged
	StageOver  Stage = "over"  // the verdict and the debrief exist
)

// State is what a role may see of a drill at one moment. Times are in ns, counted from the start of the steady load
// like the times in a scenario; those in Live are the run's own.
type State struct {
	// Version grows with every change.
	Version uint64 `json:"version"`
	Role    Role   `json:"role"`
	Stage   Stage  `json:"stage"`
	// Scenario and Description tell a responder too much before the drill is over; they are empty for him until then.
	Scenario    string `json:"scenario,omitempty"`
	Description string `json:"description,omitempty"`
	// At is the time now; Until when the drill ends by itself.
	At    time.Duration `json:"at_ns"`
	Until time.Duration `json:"until_ns"`
	// May are the actions that the role may do now.
	May []string `json:"may"`
	// Unbreakable says why an injector may break nothing in this drill, at any time; "" if he may.
	Unbreakable string `json:"unbreakable,omitempty"`
	// Live are the newest figures of the run, nil before the first.
	Live *reports.Snapshot `json:"live"`
	// Instances is how many instances of the subject there can be at most.
	Instances int `json:"instances"`
	// Faults are all that were broken so far, in their order; for a responder only what is his own doing (kills,
	// pauses, scaling), until the drill is over.
	Faults []Fault `json:"faults"`
	// Participants are the people; a responder sees those of the own role until the drill is over.
	Participants []Participant `json:"participants"`
	// Log is what happened and was said, oldest first: the last maxLog entries.
	Log []Entry `json:"log"`
	// Ending says why the drill ends or has ended ("stopped by Ada"), empty while it goes on.
	Ending string `json:"ending,omitempty"`
	// Result is there when the stage is StageOver.
	Result *Result `json:"result,omitempty"`
}

// Fault is one thing that was broken, and what people made of it. Times are from the start of the steady load; nil: not
// (yet).
type Fault struct {
	// ID names it in Heal.
	ID     string `json:"id"`
	Name   string `json:"name"`
	Kind   string `json:"kind"`
	What   string `json:"what"`
	Target string `json:"target"`
	// By is who broke it; nobody for one of the scenario or of the script.
	By *Actor `json:"by,omitempty"`
	// Spec is it as a scenario writes it, without its times.
	Spec map[string]any `json:"spec"`

	Injected time.Duration  `json:"injected_ns"`
	Noticed  *time.Duration `json:"noticed_ns,omitempty"`
	// NoticedBy is who noticed, HealedBy who healed; nobody where it healed by itself when its time was over, or at the
	// end of the drill.
	NoticedBy *Actor         `json:"noticed_by,omitempty"`
	HealedBy  *Actor         `json:"healed_by,omitempty"`
	Healed    *time.Duration `json:"healed_ns,omitempty"`
	// Lifted is the way in which it was lifted, "" while it is in force: by hand, by itself when its time was over, or at
	// the end of the load.
	Lifted string `json:"lifted,omitempty"`
	// Drained is when the lag was back, after healing, to where it was before the fault.
	Drained *time.Duration `json:"drained_ns,omitempty"`
	// Effects is how often it did something; from the verdict when the drill is over.
	Effects int64 `json:"effects"`
	// Idle says why it probably did nothing, when the drill is over; "" if it did something.
	Idle string `json:"idle,omitempty"`
	// ToNotice: the script, or an injector, broke it; scaling and restarts are no damage, and what a responder does he
	// knows.
	ToNotice bool `json:"to_notice"`
	// Failed says why it could not be injected or healed.
	Failed string `json:"failed,omitempty"`
}

// Over reports whether it is no longer in force.
func (f Fault) Over() bool { return f.Healed != nil || f.Failed != "" }

// Entry is a line of the drill's log.
type Entry struct {
	// Number counts from 1; a responder's log has gaps.
	Number int           `json:"number"`
	At     time.Duration `json:"at_ns"`
	// Who did it; nil for what happened by itself.
	Who *Actor `json:"who,omitempty"`
	// Action is one of the actions, or what is in the run's own log: phase, instance, rebalance, fault.
	Action string `json:"action"`
	// Fault is the id of the fault that it is about.
	Fault string `json:"fault,omitempty"`
	Text  string `json:"text"`
}

// Result is how a drill ended.
type Result struct {
	Verdict assertions.Status `json:"verdict"`
	// ThresholdsMissed: the verdict is a pass but for the scenario's thresholds.
	ThresholdsMissed bool `json:"thresholds_missed"`
	// Interrupted: the run was cut short, so it proves less.
	Interrupted bool `json:"interrupted"`
	// Reasons are the verdict's.
	Reasons []string `json:"reasons"`
	Figures Figures  `json:"figures"`
	// Dir is the run directory with the debrief and the reports, Replay the command that does it all again.
	Dir    string `json:"dir"`
	Replay string `json:"replay"`
	// Error says what failed besides the subject, empty if nothing did.
	Error string `json:"error,omitempty"`
}

// Figures sum up what people did. Durations are 0 where there was nothing to measure.
type Figures struct {
	// Faults is the number of faults that count: those that could be noticed and had an effect. Noticed and Drained are
	// the numbers of them that were. Healed, EndedAlone and LiftedAtEnd are those that were lifted by hand, by
	// themselves and at the end of the load; together they are all that were lifted.
	Faults      int `json:"faults"`
	Noticed     int `json:"noticed"`
	Healed      int `json:"healed"`
	EndedAlone  int `json:"ended_alone"`
	LiftedAtEnd int `json:"lifted_at_end"`
	Drained     int `json:"drained"`
	// FalseAlarms are notices at which nothing was broken that had not been noticed.
	FalseAlarms int `json:"false_alarms"`
	// The medians and the longest of: injection to notice, injection to healed, healed to drained.
	ToNotice Spread `json:"to_notice"`
	ToHeal   Spread `json:"to_heal"`
	ToDrain  Spread `json:"to_drain"`
}

// Spread is the middle and the end of some durations.
type Spread struct {
	Median time.Duration `json:"median_ns"`
	Max    time.Duration `json:"max_ns"`
}
