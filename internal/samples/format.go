package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// encode returns the JSON of a key or value in a format. The id must stand in it as the same text, so that each
// record's own can take its place: ids of a form have one length, and formats write the length of a text before it, not
// inside.
func (s *Set) encode(format Format, text pieces) (pieces, error) {
	id := history.NewIDsAs("sample", s.Form, 1).Append(nil, 0)
	encoded, err := format.Encode(text.join(id), id)
	if err != nil {
		return nil, err
	}
	around := bytes.Split(encoded, id)
	if len(around) < len(text) {
		return nil, errors.New("the id is not written as text: make its field a string in the schema")
	}
	for i, piece := range around {
		around[i] = slices.Clip(piece)
	}
	return around, nil
}

// Enlarge prepares a large value of at least size bytes for each sample that is not JSON: the longest of its texts that
// the schema lets grow is lengthened. It reports whether every sample can be that large.
func (s *Set) Enlarge(size int) bool {
	all := true
	for i := range s.samples {
		one := &s.samples[i]
		if one.text == nil {
			continue
		}
		one.large = s.enlarged(one, size)
		all = all && one.large != nil
	}
	return all
}

func (s *Set) enlarged(one *Sample, size int) pieces {
	written := 0
	for _, piece := range one.pieces {
		written += len(piece)
	}
	more := bytes.Repeat([]byte("x"), max(size-written, 0))
	begins, whole := len(one.text[0]), one.text.join(nil)
	for _, span := range scalars(whole) {
		if !span.isText || span.to == begins {
			continue // a number, or the id
		}
		lengthen := func(text []byte, end int) []byte { return slices.Concat(text[:end], more, text[end:]) }
		longer := slices.Clone(one.text)
		if span.to < begins {
			longer[0] = lengthen(longer[0], span.to)
		} else {
			longer[1] = lengthen(longer[1], span.to-begins)
		}
		if encoded, err := s.encode(s.format, longer); err == nil {
			return encoded
		}
	}
	return nil
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

// around returns JSON as the parts around every text and number in it that is the id.
func around(value []byte, id string) pieces {
	same := slices.DeleteFunc(scalars(value), func(one span) bool { return one.text != id })
	slices.SortFunc(same, func(a, b span) int { return a.from - b.from })
	var parts pieces
	from := 0
	for _, one := range same {
		parts, from = append(parts, slices.Clip(value[from:one.from])), one.to
	}
	return append(parts, slices.Clip(value[from:]))
}
