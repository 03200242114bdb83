package samples

import (
	"crypto/sha256"
	"encoding/hex"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// Set is the records of a file, which take turns.
type Set struct {
	// Form is how ids are written.
	Form    history.IDForm
	samples []Sample
	keys    []string
	headers []string
	digest  [sha256.Size]byte
	format  Format // nil for JSON
}

// Sample is a record to make others from.
type Sample struct {
	pieces
	// text is the JSON of a value that is none, and large is a large value in its format (see Enlarge).
	text, large pieces
	Key         Key
	Headers     []Header
}

// pieces are the parts of a value around the text of its id. Quotes, if any, are in them.
type pieces struct{ before, after []byte }

// join returns the value with an id.
func (p pieces) join(id []byte) []byte { return slices.Concat(p.before, id, p.after) }

// Key is the key of a sample.
type Key struct {
	Kind KeyKind
	// Index is the index in Keys of a key that is KeyOwn.
	Index int32
}

// KeyKind says where the key of a record comes from.
type KeyKind int

// The kinds of keys: the sample names none, so that the workload's own is used; none at all (null); the sample's; the
// record's id.
const (
	KeyUnsaid KeyKind = iota
	KeyNull
	KeyOwn
	KeyID
)

// Header is a header of a sample.
type Header struct {
	Name  string
	Value []byte // nil for null
	// IsID: the value is the record's id.
	IsID bool
}

// Len is the number of samples, at least one.
func (s *Set) Len() int { return len(s.samples) }

// At returns sample i.
func (s *Set) At(i int32) *Sample { return &s.samples[i] }

// Keys are the different keys of all samples.
func (s *Set) Keys() []string { return s.keys }

// HeaderNames are the different names of all samples' headers.
func (s *Set) HeaderNames() []string { return s.headers }

// HasKeys reports whether a sample has a key of its own, or none.
func (s *Set) HasKeys() bool {
	return slices.ContainsFunc(s.samples, func(one Sample) bool { return one.Key.Kind != KeyUnsaid })
}

// Digest tells a file, and how it is read, from others.
func (s *Set) Digest() string { return hex.EncodeToString(s.digest[:6]) }

// Largest is the size in bytes of the largest record, with its headers, but without its key.
func (s *Set) Largest() int {
	largest := 0
	for i := range s.samples {
		size := s.samples[i].Room(history.NewIDsAs("", s.Form, 0))
		for _, header := range s.samples[i].Headers {
			size += len(header.Name) + len(header.Value) + longestID
		}
		largest = max(largest, size)
	}
	return largest
}

// longestID is more than an id and the framing of a header have.
const longestID = 64

// Room is the size of a value with an id of ids.
func (s *Sample) Room(ids *history.IDs) int { return len(s.before) + ids.Len() + len(s.after) }

// AppendValue appends the value of record seq. If it is smaller than size bytes, it is filled up with spaces at its
// end, which JSON allows, or is the large value of its format.
func (s *Sample) AppendValue(dst []byte, ids *history.IDs, seq int32, size int) []byte {
	start, value, filled := len(dst), s.pieces, s.text.before == nil
	if size > s.Room(ids) && s.large.before != nil {
		value = s.large
	}
	dst = append(dst, value.before...)
	dst = ids.Append(dst, seq)
	dst = append(dst, value.after...)
	for filled && len(dst)-start < size {
		dst = append(dst, ' ')
	}
	return dst
}
