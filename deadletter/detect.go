package deadletter

import (
	"slices"

	"github.com/twmb/franz-go/pkg/kgo"
)

// RawName is the dialect name of a dead letter that no dialect can open.
const RawName = "raw"

// Raw opens dead letters in no known dialect. It returns no information about the failure. A replay returns the dead
// letter unchanged and names no topic.
type Raw struct{}

// OpenerNamed returns the opener for dead letters of the dialect, or of none (RawName).
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

// Detected opens each dead letter in its own dialect.
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

// IsFailureHeader implements Opener. It reports whether the name is a failure header in any dialect.
func (Detected) IsFailureHeader(name string) bool {
	return slices.ContainsFunc(dialects(), func(one named) bool { return one.dialect.IsFailureHeader(name) })
}

// Detect returns the name of the dialect that the dead letter is in, and its opener. If it is in none, it returns
// RawName and Raw.
//
// A dead letter is in a dialect if it has more than half of the dialect's mandatory fields. So a damaged dead letter
// is still recognized, and a record whose application uses one or two of the names is not. A dead letter may match
// several dialects if another system dead-lettered it again. Complete matches then take precedence over damaged ones,
// and among those the dialect with the most fields, which is the most specific one.
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
			score += 16 // exceeds any number of fields
		}
		if score > best {
			name, opener, best = one.name, one.dialect, score
		}
	}
	return name, opener
}
