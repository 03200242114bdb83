package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"slices"

	"github.com/dlqbench/dlqbench/history"
)

// encode returns a value in the set's format. The id must stand in it as the same text, so that each record's own can
// take its place: ids of a form have one length, and formats write the length of a text before it, not inside.
func (s *Set) encode(text pieces) (pieces, error) {
	id := history.NewIDsAs("sample", s.Form, 1).Append(nil, 0)
	encoded, err := s.format.Encode(text.join(id))
	if err != nil {
		return pieces{}, err
	}
	before, after, found := bytes.Cut(encoded, id)
	if !found {
		return pieces{}, errors.New("the id is not written as text: make its field a string in the schema")
	}
	return pieces{slices.Clip(before), after}, nil
}

// Enlarge prepares a large value of at least size bytes for each sample that is not JSON: the longest of its texts that
// the schema lets grow is lengthened. It reports whether every sample can be that large.
func (s *Set) Enlarge(size int) bool {
	all := true
	for i := range s.samples {
		one := &s.samples[i]
		if one.text.before == nil {
			continue
		}
		one.large = s.enlarged(one, size)
		all = all && one.large.before != nil
	}
	return all
}

func (s *Set) enlarged(one *Sample, size int) pieces {
	more := bytes.Repeat([]byte("x"), max(size-len(one.before)-len(one.after), 0))
	lengthen := func(text []byte, end int) []byte { return slices.Concat(text[:end], more, text[end:]) }
	begins := len(one.text.before)
	whole := one.text.join(nil)
	for _, span := range texts(whole) {
		longer := one.text
		switch {
		case span.to < begins:
			longer.before = lengthen(one.text.before, span.to)
		case span.from > begins:
			longer.after = lengthen(one.text.after, span.to-begins)
		default: // the id
			continue
		}
		if encoded, err := s.encode(longer); err == nil {
			return encoded
		}
	}
	return pieces{}
}

// span is where a text stands in a JSON value, without its quotes.
type span struct{ from, to int }

// texts returns the texts in a JSON value that are not names of members, the longest first.
func texts(value []byte) []span {
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
		switch text, isText := token.(string); {
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
		case isText:
			to := int(decoder.InputOffset()) - 1
			from := bytes.LastIndexByte(value[:to], '"') + 1
			if string(value[from:to]) == text { // no escapes
				found = append(found, span{from, to})
			}
		}
		name = within
	}
}
