package deadletter

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// RawName is what a letter is in that no dialect can open.
const RawName = "raw"

// Raw opens what is in no dialect: it says nothing of it, and a replay gives it back as it is, to a topic that it
// doesn't name.
type Raw struct{}

// OpenerNamed returns what opens letters of the dialect, or of none (RawName).
func OpenerNamed(name string) (Opener, error) {
	if name == RawName {
		return Raw{}, nil
	}
	return Named(name)
}

// Open implements Opener.
func (Raw) Open(letter *kgo.Record) (Failure, []string) { return unknownFailure(letter), nil }

// Prepare implements Opener.
func (Raw) Prepare(letter *kgo.Record) *kgo.Record {
	return &kgo.Record{Key: letter.Key, Value: letter.Value, Headers: letter.Headers, Partition: -1}
}

// IsFailureHeader implements Opener.
func (Raw) IsFailureHeader(string) bool { return false }

// Detected opens each letter in the dialect that it is in.
type Detected struct{}

// Open implements Opener.
func (Detected) Open(letter *kgo.Record) (Failure, []string) {
	_, opener := Detect(letter)
	return opener.Open(letter)
}

// Prepare implements Opener.
func (Detected) Prepare(letter *kgo.Record) *kgo.Record {
	_, opener := Detect(letter)
	return opener.Prepare(letter)
}

// IsFailureHeader implements Opener: it is one in some dialect.
func (Detected) IsFailureHeader(name string) bool {
	return slices.ContainsFunc(dialects(), func(one named) bool { return one.dialect.IsFailureHeader(name) })
}

// Detect returns the name of the dialect that the letter is in, and what opens it; RawName and Raw if it is in none.
//
// A letter is in a dialect if it has more than half of the fields that every letter of it has: a damaged letter is
// still recognised, and a record whose application uses one or two of the names is not. Where it is in several, which a
// letter is that was dead-lettered again by another system, whole ones come before damaged ones, and of those the one
// with the most fields is taken: the most specific.
func Detect(letter *kgo.Record) (string, Opener) {
	name, opener, best := RawName, Opener(Raw{}), 0
	for _, one := range dialects() {
		all := len(one.dialect.Traits().Fields)
		_, missing := one.dialect.Open(letter)
		found := all - len(missing)
		if 2*found <= all {
			continue
		}
		score := found
		if found == all {
			score += 16 // more than any number of fields
		}
		if score > best {
			name, opener, best = one.name, one.dialect, score
		}
	}
	return name, opener
}
