package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// encode returns the JSON of a key or value in a format. The id must stand in it as it is written here, in text or in
// binary, so that each record's own can take its place: ids of a form have one length, and formats write the length of
// a text before it, not inside.
func (s *Set) encode(format Format, text pieces) (pieces, error) {
	ids := history.NewIDsAs("sample", s.Form, 1)
	id := ids.Append(nil, 0)
	encoded, err := format.Encode(text.join(id), id)
	if err != nil {
		if _, small := format.Encode(text.join([]byte("1")), []byte("1")); small == nil && s.Form == history.IDInt64 {
			return pieces{}, errors.New("the field of the id takes no number of 16 digits, as the ids of a run have: make it " +
				"a string or a number of 64 bits (Avro long, Protobuf int64) in the schema, or name another field in input.id")
		}
		return pieces{}, err
	}
	around := split(encoded, ids)
	if len(around.parts) < len(text.parts) {
		return pieces{}, errors.New("the id is not written as text, nor as a number of 64 bits: make its field a string in " +
			"the schema, or for numbers a long (Avro) or int64 (Protobuf)")
	}
	return around, nil
}

// split returns what was encoded as the parts around each id of record 0.
func split(encoded []byte, ids *history.IDs) pieces {
	var whole pieces
	rest := encoded
	for {
		at, next := -1, history.IDAppended
		for _, as := range ids.Writings() {
			if i := bytes.Index(rest, ids.AppendAs(nil, 0, as)); i >= 0 && (at < 0 || i < at) {
				at, next = i, as
			}
		}
		if at < 0 {
			whole.parts = append(whole.parts, slices.Clip(rest))
			return whole
		}
		whole.parts, whole.as = append(whole.parts, slices.Clip(rest[:at])), append(whole.as, next)
		rest = rest[at+ids.LenAs(next):]
	}
}

// Enlarge prepares a large value of at least size bytes for each sample that is not JSON: the longest of its texts that
// the schema lets grow is lengthened. It reports whether every sample can be that large.
func (s *Set) Enlarge(size int) bool {
	if s.parts != nil {
		all := true
		for _, part := range s.parts {
			all = part.Enlarge(size) && all
		}
		s.gathered()
		return all
	}
	all := !s.plain
	for i := range s.samples {
		one := &s.samples[i]
		if s.isJSON() {
			continue
		}
		one.large = s.enlarged(one, size)
		all = all && one.large.parts != nil
	}
	return all
}

func (s *Set) enlarged(one *Sample, size int) pieces {
	written := 0
	for _, piece := range one.parts {
		written += len(piece)
	}
	return s.changed(one, true, bytes.Repeat([]byte("x"), max(size-written, 0)))
}

// isJSON reports whether values are JSON.
func (s *Set) isJSON() bool { return s.format == nil || s.format.IsJSON() }

// source is the value of a sample as the file has it.
func (s *Set) source(one *Sample) pieces {
	if one.text.parts == nil {
		return one.pieces
	}
	return one.text
}

// changed returns the value of a sample with more behind a text in it, or in the place of a number: the first one that
// fits the format, of the longest texts or numbers, but for the id. It has no parts if none fits.
func (s *Set) changed(one *Sample, texts bool, more []byte) pieces {
	text, id := s.source(one), []byte("0")
	for _, at := range scalars(text.join(id)) {
		part, before := text.partAt(at.from, len(id))
		if part < 0 || at.isText != texts {
			continue // the id, or of the other kind
		}
		from, to := at.from-before, at.to-before
		if texts {
			from = to
		}
		parts := slices.Clone(text.parts)
		parts[part] = slices.Concat(parts[part][:from], more, parts[part][to:])
		if s.format == nil {
			return textPieces(parts...)
		}
		if encoded, err := s.encode(s.format, textPieces(parts...)); err == nil {
			return encoded
		}
	}
	return pieces{}
}

// partAt returns the part that has byte at of the whole with an id of this size, and what the whole has before it. It
// returns -1 for the first byte of an id.
func (p pieces) partAt(at, id int) (part, before int) {
	for i, one := range p.parts {
		switch {
		case at < before+len(one):
			return i, before
		case at == before+len(one):
			return -1, before
		}
		before += len(one) + id
	}
	return -1, before
}

// span is where a text, without its quotes, or a number stands in a JSON value.
type span struct {
	from, to int
	isText   bool
	text     string
}

// scalars returns the texts and numbers in a JSON value that are not names of members, the longest first.
func scalars(value []byte) []span {
	var found []span
	var objects []bool // the containers around the present token
	name := false
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	for {
		token, err := decoder.Token()
		if err != nil {
			slices.SortStableFunc(found, func(a, b span) int { return (b.to - b.from) - (a.to - a.from) })
			return found
		}
		within := len(objects) > 0 && objects[len(objects)-1]
		switch {
		case token == json.Delim('{') || token == json.Delim('['):
			objects = append(objects, token == json.Delim('{'))
			name = token == json.Delim('{')
			continue
		case token == json.Delim('}') || token == json.Delim(']'):
			objects = objects[:len(objects)-1]
			within = len(objects) > 0 && objects[len(objects)-1]
		case within && name:
			name = false
			continue
		default:
			if one, is := scalar(value, token, int(decoder.InputOffset())); is {
				found = append(found, one)
			}
		}
		name = within
	}
}

// scalar returns where a token stands that ends at a byte of the value, and whether it is a text or a number.
func scalar(value []byte, token json.Token, end int) (span, bool) {
	switch one := token.(type) {
	case json.Number:
		return span{from: end - len(one), to: end, text: string(one)}, true
	case string:
		return span{from: openingQuote(value[:end-1]) + 1, to: end - 1, isText: true, text: one}, true
	}
	return span{}, false
}

// around returns JSON as the parts around everything in it that is the id.
func around(value []byte, is func(span) bool) pieces {
	same := slices.DeleteFunc(scalars(value), func(one span) bool { return !is(one) })
	slices.SortFunc(same, func(a, b span) int { return a.from - b.from })
	var parts [][]byte
	from := 0
	for _, one := range same {
		parts, from = append(parts, slices.Clip(value[from:one.from])), one.to
	}
	return textPieces(append(parts, slices.Clip(value[from:]))...)
}
