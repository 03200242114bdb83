package samples

import (
	"bytes"
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
	// written are the keys as records have them.
	written [][]byte
	headers []string
	digest  [sha256.Size]byte
	format  Format // nil for JSON, and for values that are plain
	plain   bool   // values are text or bytes
	frames  Frames
	// old is the format with an earlier version of the schema (see Age).
	old Format
	// parts, if there are several, are the sets of the topics, one after the other in samples.
	parts []*Set
}

// InTurn returns a set whose records are made from each of the sets in turn. Their ids have one form.
func InTurn(sets ...*Set) *Set {
	if len(sets) == 1 {
		return sets[0]
	}
	all := &Set{Form: sets[0].Form}
	digest := sha256.New()
	for _, one := range sets {
		part := *one
		part.samples = slices.Clone(one.samples)
		for i := range part.samples {
			part.samples[i].Key.Index += int32(len(all.keys))
		}
		all.parts, all.keys = append(all.parts, &part), append(all.keys, one.keys...)
		_, _ = digest.Write(one.digest[:]) // it never fails
	}
	digest.Sum(all.digest[:0])
	return all.gathered()
}

// Part returns the set of the i-th topic.
func (s *Set) Part(i int) *Set {
	if s.parts == nil {
		return s
	}
	return s.parts[i]
}

// gathered takes over what the parts have.
func (s *Set) gathered() *Set {
	s.samples, s.written, s.headers = nil, nil, nil
	for _, part := range s.parts {
		s.samples, s.written = append(s.samples, part.samples...), append(s.written, part.written...)
		s.headers = append(s.headers, part.headers...)
	}
	slices.Sort(s.headers)
	s.headers = slices.Compact(s.headers)
	return s
}

// of returns the set that a sample is of, and its number there.
func (s *Set) of(sample int32) (*Set, int32) {
	for _, part := range s.parts {
		if count := int32(len(part.samples)); sample < count {
			return part, sample
		} else {
			sample -= count
		}
	}
	return s, sample
}

// Turn returns the sample that record seq is made from. Records go to topics in turn.
func (s *Set) Turn(seq int) int32 {
	if s.parts == nil {
		return int32(seq % len(s.samples))
	}
	topic, before := seq%len(s.parts), 0
	for _, part := range s.parts[:topic] {
		before += len(part.samples)
	}
	return int32(before + seq/len(s.parts)%len(s.parts[topic].samples))
}

// Frames are what the framings of key and value add to records.
type Frames struct {
	Key, Value Frame
	// Unknown is that of a value whose schema the registry does not have, Old of one with the earlier schema.
	Unknown, Old Frame
}

// Frame is what a framing adds: bytes before a key or value, and headers.
type Frame struct {
	Head    []byte
	Headers []Header
}

// Framed returns the set with these frames, for each set that it was made of.
func (s *Set) Framed(of ...Frames) *Set {
	framed, frames := *s, of[0]
	if s.parts != nil {
		framed.parts = nil
		for i, part := range s.parts {
			framed.parts = append(framed.parts, part.Framed(of[i]))
		}
		return framed.gathered()
	}
	framed.frames = frames
	framed.headers = slices.Clone(s.headers)
	for _, header := range slices.Concat(frames.Key.Headers, frames.Value.Headers) {
		framed.headers = append(framed.headers, header.Name)
	}
	framed.samples = slices.Clone(s.samples)
	for i := range framed.samples {
		one := &framed.samples[i]
		one.framed = slices.Concat(one.Headers, frames.Key.Headers, frames.Value.Headers)
	}
	framed.written = nil
	for _, key := range s.written {
		framed.written = append(framed.written, slices.Concat(frames.Key.Head, key))
	}
	return &framed
}

// Sample is a record to make others from.
type Sample struct {
	pieces
	// text is the JSON of a value that has a format, and large is a large value that is not JSON (see Enlarge).
	text, large pieces
	Key         Key
	Headers     []Header
	framed      []Header // Headers and those of the frames
}

// pieces are a key or value with an id between each two of its parts. Quotes around the id, if any, are in the parts.
// No parts: there is none.
type pieces struct {
	parts [][]byte
	// as is how the id behind each part is written; nil stands for IDAppended everywhere.
	as []history.IDWriting
}

// textPieces are those of a text.
func textPieces(parts ...[]byte) pieces { return pieces{parts: parts} }

// join returns the whole of a text with an id.
func (p pieces) join(id []byte) []byte { return bytes.Join(p.parts, id) }

// writing is how the id behind part i is written.
func (p pieces) writing(i int) history.IDWriting {
	if p.as == nil {
		return history.IDAppended
	}
	return p.as[i]
}

// room is the size of the whole with an id of ids.
func (p pieces) room(ids *history.IDs) int {
	size := 0
	for i, part := range p.parts {
		if i > 0 {
			size += ids.LenAs(p.writing(i - 1))
		}
		size += len(part)
	}
	return size
}

// append appends the whole with the id of record seq.
func (p pieces) append(dst []byte, ids *history.IDs, seq int32) []byte {
	return p.each(dst, func(dst []byte, as history.IDWriting) []byte { return ids.AppendAs(dst, seq, as) })
}

// each appends the whole with what id appends in each place of the id.
func (p pieces) each(dst []byte, id func(dst []byte, as history.IDWriting) []byte) []byte {
	for i, part := range p.parts {
		if i > 0 {
			dst = id(dst, p.writing(i-1))
		}
		dst = append(dst, part...)
	}
	return dst
}

// Key is the key of a sample.
type Key struct {
	Kind KeyKind
	// Index is the index in Keys of a key that is KeyOwn.
	Index int32
	// around are the parts of a key that is KeyID around the id.
	around pieces
}

// KeyKind says where the key of a record comes from.
type KeyKind int

// The kinds of keys: the sample names none, so that the workload's own is used; none at all (null); the sample's; one
// that is, or contains, the record's id.
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

// Keys are the different keys of all samples, as the file has them.
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
		size := s.samples[i].room(history.NewIDsAs("", s.Form, 0)) + longestFrame
		for _, header := range s.samples[i].Headers {
			size += len(header.Name) + len(header.Value) + longestID
		}
		largest = max(largest, size)
	}
	return largest
}

const (
	// longestID is more than an id and the framing of a header have.
	longestID = 64
	// longestFrame is more than a framing adds to a record.
	longestFrame = 1 << 10
)

// AppendKey appends the key of record seq, of a sample whose key contains the id.
func (s *Set) AppendKey(dst []byte, sample int32, ids *history.IDs, seq int32) []byte {
	s, sample = s.of(sample)
	return s.samples[sample].Key.around.append(append(dst, s.frames.Key.Head...), ids, seq)
}

// KeyRoom is the size of that key.
func (s *Set) KeyRoom(sample int32, ids *history.IDs) int {
	s, sample = s.of(sample)
	return len(s.frames.Key.Head) + s.samples[sample].Key.around.room(ids)
}

// OwnKey is the key with that index in Keys, as records have it.
func (s *Set) OwnKey(index int32) []byte { return s.written[index] }

// Headers returns the headers of a record: those of its sample, and those of the framings.
func (s *Set) Headers(sample int32, hasKey, hasValue bool, how How) []Header {
	s, sample = s.of(sample)
	one := &s.samples[sample]
	if hasKey && hasValue && how != UnknownSchemaID && how != OldSchema && one.framed != nil {
		return one.framed
	}
	headers := slices.Clip(one.Headers)
	if hasKey {
		headers = append(headers, s.frames.Key.Headers...)
	}
	if hasValue {
		headers = append(headers, s.frameOf(how).Headers...)
	}
	return headers
}

// frameOf is the frame of a value that is malformed in a way, or not.
func (s *Set) frameOf(how How) *Frame {
	switch how {
	case UnknownSchemaID:
		return &s.frames.Unknown
	case OldSchema:
		return &s.frames.Old
	}
	return &s.frames.Value
}

// sized returns the value that a record with at least size bytes is made from: the usual one, if that is JSON, which
// can be filled up, or large enough.
func (s *Sample) sized(ids *history.IDs, size int) pieces {
	if s.large.parts != nil && size > s.room(ids) {
		return s.large
	}
	return s.pieces
}

// Room is the size of the value of a record that is to have size bytes.
func (s *Set) Room(sample int32, ids *history.IDs, size int) int {
	s, sample = s.of(sample)
	return len(s.frames.Value.Head) + max(s.samples[sample].sized(ids, size).room(ids), size)
}

// AppendValue appends the value of record seq. If it is smaller than size bytes, it is filled up with spaces at its
// end, which JSON allows, or is the large value of its format.
func (s *Set) AppendValue(dst []byte, sample int32, ids *history.IDs, seq int32, size int) []byte {
	s, sample = s.of(sample)
	one, start := &s.samples[sample], len(dst)
	dst = one.sized(ids, size).append(append(dst, s.frames.Value.Head...), ids, seq)
	for s.isJSON() && len(dst)-start < size {
		dst = append(dst, ' ')
	}
	return dst
}
