package store

import (
	"fmt"
	"strconv"
)

// These are the vocabularies of status words.
const (
	// VocabularyLifecycle has the words of "Dead Letter Queue Lifecycle": dlq_pending, dlq_processing, dlq_resolved,
	// dlq_failed, dlq_manual, dlq_archived.
	VocabularyLifecycle = "lifecycle"
	// VocabularyManagement has the words of the management schema: pending, reprocessing, resolved, discarded.
	VocabularyManagement = "management"
)

// Vocabulary maps states to the words of a status column. The management schema has no word for an entry that waits for
// a person: such an entry is pending there, and held gives the reason, "failed" or "manual". In the lifecycle
// vocabulary held is always empty.
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

// Write returns the status word of a state, and what holds the entry. An unknown state is its own word, as Read made
// it.
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

// Read returns the state of a status word. For an unknown word, the state is the word itself, and the error
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
		// "resolved" in a column of lifecycle words is an unknown word like any other, and must not be taken for the
		// state of that name.
		unknown = State(strconv.Quote(status))
	}
	return unknown, fmt.Errorf("%w %q in a table that speaks %s", ErrUnknownStatus, status, v.name)
}
