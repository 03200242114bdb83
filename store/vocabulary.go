package store

import (
	"fmt"
	"strconv"
)

// The vocabularies of status words.
const (
	// VocabularyLifecycle is that of "Dead Letter Queue Lifecycle": dlq_pending, dlq_processing, dlq_resolved,
	// dlq_failed, dlq_manual, dlq_archived.
	VocabularyLifecycle = "lifecycle"
	// VocabularyManagement is that of the management schema: pending, reprocessing, resolved, discarded.
	VocabularyManagement = "management"
)

// Vocabulary is how a status column calls the states. The management schema has no word for an entry that nobody tries
// again before a person has looked at it: such an entry is pending there, and held says why: "failed" or "manual". In
// the lifecycle vocabulary held is always empty.
type Vocabulary struct {
	name  string
	words []word
}

type word struct {
	state        State
	status, held string
}

// NamedVocabulary returns the vocabulary with this name; "" is lifecycle.
func NamedVocabulary(name string) (Vocabulary, error) {
	switch name {
	case "", VocabularyLifecycle:
		return Vocabulary{VocabularyLifecycle, []word{
			{Pending, "dlq_pending", ""}, {Processing, "dlq_processing", ""}, {Resolved, "dlq_resolved", ""},
			{Failed, "dlq_failed", ""}, {Manual, "dlq_manual", ""}, {Archived, "dlq_archived", ""},
		}}, nil
	case VocabularyManagement:
		return Vocabulary{VocabularyManagement, []word{
			{Pending, "pending", ""}, {Processing, "reprocessing", ""}, {Resolved, "resolved", ""},
			{Failed, "pending", "failed"}, {Manual, "pending", "manual"}, {Archived, "discarded", ""},
		}}, nil
	}
	return Vocabulary{}, fmt.Errorf("no vocabulary is called %q: there are %s and %s", name, VocabularyLifecycle,
		VocabularyManagement)
}

// Name is lifecycle or management.
func (v Vocabulary) Name() string { return v.name }

// Write returns the status word of a state, and what holds the entry. A state that isn't known is its own word, as Read
// made it.
func (v Vocabulary) Write(state State) (status, held string) {
	for _, w := range v.words {
		if w.state == state {
			return w.status, w.held
		}
	}
	if word, err := strconv.Unquote(string(state)); err == nil {
		return word, ""
	}
	return string(state), ""
}

// Read returns the state that a status word stands for. Where there is none the state is the word itself, with
// ErrUnknownStatus.
func (v Vocabulary) Read(status, held string) (State, error) {
	for _, w := range v.words {
		if w.status == status && w.held == held {
			return w.state, nil
		}
	}
	unknown := State(status)
	if held != "" {
		unknown = State(status + " held " + held)
	}
	if unknown.Known() || unknown == New || unknown == Gone {
		// "resolved" in a column of lifecycle words is as unknown as any other word: it must not pass for the state of
		// that name.
		unknown = State(strconv.Quote(status))
	}
	return unknown, fmt.Errorf("%w %q in a table that speaks %s", ErrUnknownStatus, status, v.name)
}
