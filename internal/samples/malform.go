package samples

import (
	"bytes"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// How is a way in which a value is malformed. 0 is none.
type How uint8

// The ways in which values are malformed. In the first ones, no consumer finds the record's id. The last ones are
// refusable: whether the value is malformed is for the consumer to say.
const (
	// Truncated: the value ends in the middle of the id.
	Truncated How = iota + 1
	// NotJSON: the value does not begin as JSON does, and lacks the id.
	NotJSON
	// WrongType: true stands in the place of the id.
	WrongType
	// MissingField: the member with the id is left out; from a list, the id.
	MissingField
	// UnknownSchemaID: the value names a schema that the registry does not have.
	UnknownSchemaID
	// OldSchema: the value is written with an earlier version of its schema, which lacks a field.
	OldSchema
	// OversizedField: a field is as large as no consumer expects it.
	OversizedField
)

// Refusable reports whether a consumer may read such a value, or refuse it.
func (h How) Refusable() bool { return h >= OldSchema }

// Unreadable reports whether no consumer can read such a value.
func (h How) Unreadable() bool { return h != 0 && !h.Refusable() }

// String returns the word for it in scenarios.
func (h How) String() string {
	return [...]string{"", "truncated", "not-json", "wrong-type", "missing-field", "unknown-schema-id", "old-schema",
		"oversized-field"}[h]
}

// Shape says what values consist of.
type Shape struct {
	// JSON: after its frame, a value is JSON.
	JSON bool
	// Named: a record names its schema.
	Named bool
	// Plain: a value has no fields.
	Plain bool
}

// plainJSON is the shape of the workload's own records.
func plainJSON() Shape { return Shape{JSON: true} }

// Shape is that of the set's values, as far as all have it. No set stands for the workload's own records.
func (s *Set) Shape() Shape {
	if s != nil && s.parts != nil {
		all := Shape{JSON: true, Named: true}
		for _, part := range s.parts {
			one := part.Shape()
			all.JSON, all.Named, all.Plain = all.JSON && one.JSON, all.Named && one.Named, all.Plain || one.Plain
		}
		return all
	}
	switch {
	case s == nil || s.format == nil && !s.plain:
		return plainJSON()
	case s.plain:
		return Shape{Plain: true}
	}
	return Shape{JSON: s.format.IsJSON(), Named: s.format.NamesSchema()}
}

// Hows are the ways in which values of the shape can be malformed, as far as the shape tells (see Age and Oversize).
func (s Shape) Hows() []How {
	ways := []How{Truncated}
	if s.JSON {
		ways = append(ways, NotJSON, WrongType, MissingField)
	}
	if s.Named {
		ways = append(ways, UnknownSchemaID, OldSchema)
	}
	if !s.Plain {
		ways = append(ways, OversizedField)
	}
	return ways
}

// Malform appends a value, malformed in a way that needs no registry. Around are its parts, without its frame. The id
// stands between each two of them, in the first place as it is given.
func Malform(dst []byte, how How, id []byte, around ...[]byte) []byte {
	start := len(dst)
	switch how {
	case Truncated: // within the id, which no decoder takes for the end of a value
		return append(append(dst, around[0]...), id[:len(id)/2]...)
	case NotJSON:
		dst = append(dst, bytes.Join(around, nil)...)
		dst[start] = '<'
	case WrongType, MissingField:
		value := around[0]
		for _, after := range around[1:] {
			value = lacking(how, value, after)
		}
		dst = append(dst, value...)
	}
	return dst
}

// lacking returns JSON with true in the place of the id, or without the member that it is the value of.
func lacking(how How, before, after []byte) []byte {
	quoted := bytes.HasSuffix(before, []byte(`"`)) && bytes.HasPrefix(after, []byte(`"`))
	switch {
	case how == MissingField:
		before, after = withoutMember(before, after)
		return slices.Concat(before, after)
	case quoted:
		before, after = before[:len(before)-1], after[1:]
	}
	return slices.Concat(before, []byte("true"), after)
}

// withoutMember returns JSON without the member or element whose value stands, without the quotes, between before and
// after.
func withoutMember(before, after []byte) (kept, rest []byte) {
	space := " \t\r\n"
	before = bytes.TrimRight(bytes.TrimSuffix(before, []byte(`"`)), space)
	after = bytes.TrimLeft(bytes.TrimPrefix(after, []byte(`"`)), space)
	if named, isMember := bytes.CutSuffix(before, []byte(":")); isMember {
		named = bytes.TrimSuffix(bytes.TrimRight(named, space), []byte(`"`))
		before = bytes.TrimRight(named[:openingQuote(named)], space)
	}
	if rest, followed := bytes.CutPrefix(after, []byte(",")); followed {
		return before, rest
	}
	return bytes.TrimSuffix(before, []byte(",")), after
}

// openingQuote is where the quote stands that opens the text at the end of JSON, whose closing quote is cut off.
func openingQuote(text []byte) int {
	for at := len(text); ; {
		at = bytes.LastIndexByte(text[:at], '"')
		escapes := at - len(bytes.TrimRight(text[:max(at, 0)], `\`))
		if at < 0 || escapes%2 == 0 {
			return max(at, 0)
		}
	}
}

// AppendMalformed appends the value of record seq, malformed in a way that the set's shape has, and is prepared for.
func (s *Set) AppendMalformed(dst []byte, how How, sample int32, ids *history.IDs, seq int32) []byte {
	s, sample = s.of(sample)
	dst = append(dst, s.frameOf(how).Head...)
	value := s.samples[sample].pieces
	switch how {
	case UnknownSchemaID:
		return value.each(dst, ids.AppendNone)
	case OldSchema:
		value, _ = s.encode(s.old, s.source(&s.samples[sample]))
		return value.append(dst, ids, seq)
	case OversizedField:
		value, _ = s.oversized(&s.samples[sample])
		return value.append(dst, ids, seq)
	}
	return Malform(dst, how, ids.AppendAs(nil, seq, value.writing(0)), value.parts...)
}
