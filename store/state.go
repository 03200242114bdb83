package store

import (
	"fmt"
	"slices"
	"strings"
)

// State is an entry's state, independent of a document's word for it (see Vocabulary). A status word outside the
// vocabulary becomes a State of that word, for which Known is false.
type State string

// These are the states of "Dead Letter Queue Lifecycle".
const (
	Pending    State = "pending"
	Processing State = "processing"
	Resolved   State = "resolved"
	// Failed entries have used up their DLQ retries. Manual ones wait for a person.
	Failed State = "failed"
	Manual State = "manual"
	// Archived entries are given up: discarded by hand, or archived after having failed for long enough.
	Archived State = "archived"
)

// New is the state before an entry exists, and Gone the state after its removal. No entry has either of them.
const (
	New  State = ""
	Gone State = "gone"
)

// Known reports whether the state machine has this state.
func (s State) Known() bool { return slices.Contains(States(), s) }

// States returns the states an entry may have, in the order of its life.
func States() []State { return []State{Pending, Processing, Resolved, Failed, Manual, Archived} }

// Transition is one legal change of state.
type Transition struct {
	From, To State
	// Why is the documents' term for it.
	Why string
	// ByHand marks a person's decision. All other transitions are the system's.
	ByHand bool
}

// Transitions is the state machine. It has the diagram of "Dead Letter Queue Lifecycle", the manual changes of its
// human review and of the management schema's administrative operations (reprocessing, discard, manual resolution), and
// the restoring of archived entries.
func Transitions() []Transition {
	return []Transition{
		{From: New, To: Pending, Why: "max retries exceeded"},
		{From: Pending, To: Processing, Why: "worker picks up"},
		{From: Pending, To: Pending, Why: "replay scheduled"},
		{From: Processing, To: Resolved, Why: "retry success"},
		{From: Processing, To: Pending, Why: "retry failed with retries left, or the lease of a dead worker is over"},
		{From: Processing, To: Failed, Why: "retry failed with none left"},
		{From: Processing, To: Manual, Why: "requires human review"},
		{From: Failed, To: Archived, Why: "auto-archive, or discard"},
		{From: Resolved, To: Gone, Why: "retention"},
		{From: Archived, To: Gone, Why: "retention"},

		{From: New, To: Failed, Why: "restored from the archive", ByHand: true},
		{From: Manual, To: Processing, Why: "manual replay", ByHand: true},
		{From: Failed, To: Processing, Why: "manual replay", ByHand: true},
		{From: Manual, To: Archived, Why: "manual discard", ByHand: true},
		{From: Pending, To: Archived, Why: "discard", ByHand: true},
		{From: Pending, To: Resolved, Why: "manual resolution", ByHand: true},
		{From: Failed, To: Resolved, Why: "manual resolution", ByHand: true},
		{From: Manual, To: Resolved, Why: "manual resolution", ByHand: true},
		{From: Failed, To: Failed, Why: "edit", ByHand: true},
		{From: Manual, To: Manual, Why: "edit", ByHand: true},
		{From: Pending, To: Gone, Why: "purge", ByHand: true},
		{From: Failed, To: Gone, Why: "purge", ByHand: true},
		{From: Manual, To: Gone, Why: "purge", ByHand: true},
	}
}

// Next returns the states that may follow this one, including Gone.
func (s State) Next() []State {
	var next []State
	for _, transition := range Transitions() {
		if transition.From == s {
			next = append(next, transition.To)
		}
	}
	return next
}

// Check returns nil if an entry may go from one state to the other, otherwise an *IllegalTransition.
func Check(from, to State) error {
	next := from.Next()
	if slices.Contains(next, to) {
		return nil
	}
	return &IllegalTransition{From: from, To: to, Legal: next}
}

// IllegalTransition is a change of state that the state machine lacks. Legal are the states that may follow From.
type IllegalTransition struct {
	From, To State
	Legal    []State
}

func (e *IllegalTransition) Error() string {
	if !e.From.Known() && e.From != New {
		return fmt.Sprintf(
			"a dead letter whose status is %q can't become %q: that status is unknown; set it right in the table first",
			string(e.From), string(e.To))
	}
	from := "a dead letter that is " + string(e.From)
	if e.From == New {
		from = "a new dead letter"
	}
	if len(e.Legal) == 0 {
		return fmt.Sprintf("%s can't become %s: it has come to its end", from, e.To)
	}
	words := make([]string, len(e.Legal))
	for i, state := range e.Legal {
		words[i] = string(state)
	}
	return fmt.Sprintf("%s can't become %s: it may become %s", from, e.To, strings.Join(words, ", "))
}

// Unwrap returns ErrUnknownStatus if the change was refused because the entry's status is unknown.
func (e *IllegalTransition) Unwrap() error {
	if !e.From.Known() && e.From != New {
		return ErrUnknownStatus
	}
	return nil
}
