package samples

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// Place is where in a JSON value something stands: a path of member names and array indices.
type Place struct {
	written string
	steps   []step
}

// step is the name of a member, or, with index ≥ 0, the number of an element.
type step struct {
	name  string
	index int
}

// maxSteps bounds the depth of a place.
const maxSteps = 32

// ParsePlace reads a path that leads to one value (RFC 9535, singular queries): $.order.id, $['order']['id'],
// $.items[0].id.
func ParsePlace(text string) (Place, error) {
	p := Place{written: text}
	rest, found := strings.CutPrefix(text, "$")
	if !found || rest == "" {
		return p, fmt.Errorf("%q is not a place in a JSON value: write the path to it from $, such as $.order.id", text)
	}
	for rest != "" {
		var one step
		var err error
		switch {
		case len(p.steps) == maxSteps:
			return p, fmt.Errorf("the place %q is more than %d levels deep", text, maxSteps)
		case strings.HasPrefix(rest, ".."):
			err = errors.New(".. leads to several values")
		case rest[0] == '.':
			end := 1 + strings.IndexAny(rest[1:]+".", ".[")
			one, rest = step{rest[1:end], -1}, rest[end:]
			if one.name == "" || one.name == "*" {
				err = errors.New("after a dot comes the name of one member")
			}
		case rest[0] == '[':
			one, rest, err = bracket(rest)
		default:
			err = fmt.Errorf("after $ or ] comes a dot or [, not %q", rest[:1])
		}
		if err != nil {
			return p, fmt.Errorf("%q does not lead to one place in a JSON value: %w; write it like $.order.id, "+
				"$['order-id'] or $.items[0].id", text, err)
		}
		p.steps = append(p.steps, one)
	}
	return p, nil
}

// bracket reads ['name'], ["name"] or [0] at the start of text, and returns what follows.
func bracket(text string) (one step, rest string, err error) {
	inside, rest, closed := strings.Cut(text[1:], "]")
	if quote := inside; len(quote) > 0 && (quote[0] == '\'' || quote[0] == '"') {
		name, after, ended := strings.Cut(text[2:], quote[:1]+"]")
		if !ended || strings.Contains(name, `\`) {
			return one, rest, errors.New("a name in brackets has the same quotes on both sides, and no backslash")
		}
		return step{name, -1}, after, nil
	}
	index, err := strconv.Atoi(inside)
	if !closed || err != nil || index < 0 {
		return one, rest, errors.New("brackets hold the number of one element, from 0, or a name in quotes")
	}
	return step{"", index}, rest, nil
}

// IsZero reports whether the place is none, as opposed to one that was parsed.
func (p Place) IsZero() bool { return p.steps == nil }

// String returns the place as it was written.
func (p Place) String() string { return p.written }

// Spot is what stands at a place in a JSON value: a string or a number, from byte From up to byte To, quotes included.
type Spot struct {
	// Text is the text of the string, or the number as it is written.
	Text     string
	Number   bool
	From, To int
}

// Find returns the string or number at the place in a value, which must be valid JSON. The error says how far the place
// leads, or what stands there instead; From is then the beginning of what does.
func (p Place) Find(value []byte) (Spot, error) {
	raw, to, err := p.raw(value)
	if err != nil {
		return Spot{}, err
	}
	spot := Spot{From: to - len(raw), To: to}
	switch first := raw[0]; {
	case first == '"':
		err := json.Unmarshal(raw, &spot.Text)
		return spot, err
	case first == '-' || first >= '0' && first <= '9':
		spot.Text, spot.Number = string(raw), true
		return spot, nil
	}
	return spot, fmt.Errorf("%s is %s, neither a string nor a number: name a place where the record's id stands", p,
		kindOf(raw))
}

// Part returns what stands at the place in a value, which must be valid JSON, whatever it is.
func (p Place) Part(value []byte) ([]byte, error) {
	raw, _, err := p.raw(value)
	return raw, err
}

// raw returns what stands at the place, and the number of the byte behind it.
func (p Place) raw(value []byte) (raw json.RawMessage, to int, err error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber() // no number is too large to be passed by
	for i, one := range p.steps {
		if err := one.enter(decoder); err != nil {
			return nil, 0, fmt.Errorf("there is no %s: %w", p, p.at(i, err))
		}
	}
	if err := decoder.Decode(&raw); err != nil {
		return nil, 0, fmt.Errorf("reading %s: %w", p, err)
	}
	return raw, int(decoder.InputOffset()), nil
}

// at describes the value that step i could not enter.
func (p Place) at(i int, err error) error {
	around := "the value"
	for _, one := range p.steps[:i] {
		if one.index >= 0 {
			around += fmt.Sprintf("[%d]", one.index)
		} else {
			around += "." + one.name
		}
	}
	return fmt.Errorf("%s %w", around, err)
}

// enter reads up to the value that the step leads to.
func (s step) enter(decoder *json.Decoder) error {
	token, err := decoder.Token()
	if err != nil {
		return fmt.Errorf("can't be read: %w", err)
	}
	want, wanted := json.Delim('{'), fmt.Sprintf("has no member %q", s.name)
	if s.index >= 0 {
		want, wanted = '[', fmt.Sprintf("has no element %d", s.index)
	}
	if token != want {
		return fmt.Errorf("%s: it is %s", wanted, kindOfToken(token))
	}
	var names []string
	n := 0
	for ; decoder.More(); n++ {
		here := n == s.index
		if s.index < 0 {
			name, err := decoder.Token()
			if err != nil {
				return fmt.Errorf("can't be read: %w", err)
			}
			here, names = name == s.name, append(names, fmt.Sprintf("%q", name))
		}
		if here {
			return nil
		}
		var skipped json.RawMessage
		if err := decoder.Decode(&skipped); err != nil {
			return fmt.Errorf("can't be read: %w", err)
		}
	}
	if s.index >= 0 {
		return fmt.Errorf("%s: it has %d, numbered from 0", wanted, n)
	}
	return fmt.Errorf("%s, only %s", wanted, listed(names))
}

// listed is the first of some names, for a message.
func listed(names []string) string {
	const most = 12
	switch {
	case len(names) == 0:
		return "none"
	case len(names) > most:
		return strings.Join(names[:most], ", ") + fmt.Sprintf(" and %d more", len(names)-most)
	}
	return strings.Join(names, ", ")
}

func kindOf(raw []byte) string {
	decoder := json.NewDecoder(bytes.NewReader(raw))
	decoder.UseNumber()
	token, err := decoder.Token()
	if err != nil && !errors.Is(err, io.EOF) {
		return "not JSON"
	}
	return kindOfToken(token)
}

func kindOfToken(token json.Token) string {
	switch v := token.(type) {
	case json.Delim:
		return map[json.Delim]string{'{': "an object", '[': "an array"}[v]
	case string:
		return "a string"
	case bool:
		return fmt.Sprint(v)
	case json.Number:
		return "a number"
	}
	return "null"
}
