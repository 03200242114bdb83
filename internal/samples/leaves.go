package samples

import (
	"bytes"
	"encoding/json"
	"fmt"
	"regexp"
)

// Leaf is a string or a number in a JSON value.
type Leaf struct {
	// At is the path to it, as ParsePlace reads it.
	At string
	// Text is the text of the string, or the number as it is written.
	Text   string
	Number bool
}

// Leaves returns the strings and numbers of a JSON value in their order, except those that no path can lead to because
// of a name with a quote or a backslash in it. The error reports what is not JSON.
func Leaves(value []byte) ([]Leaf, error) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var all []Leaf
	if err := leavesOf(decoder, "$", 0, &all); err != nil {
		return nil, fmt.Errorf("reading JSON: %w", err)
	}
	return all, nil
}

// leavesOf reads the next value, which stands at this path and as deep as depth.
func leavesOf(decoder *json.Decoder, at string, depth int, all *[]Leaf) error {
	token, err := decoder.Token()
	if err != nil {
		return err
	}
	add := func(text string, number bool) {
		if depth > 0 && depth <= maxSteps && at != "" {
			*all = append(*all, Leaf{at, text, number})
		}
	}
	switch one := token.(type) {
	case string:
		add(one, false)
	case json.Number:
		add(one.String(), true)
	case json.Delim:
		for i := 0; decoder.More(); i++ {
			inside := fmt.Sprintf("%s[%d]", at, i)
			if one == '{' {
				name, err := decoder.Token()
				if err != nil {
					return err
				}
				inside = memberPath(at, name.(string))
			}
			if at == "" {
				inside = ""
			}
			if err := leavesOf(decoder, inside, depth+1, all); err != nil {
				return err
			}
		}
		_, err = decoder.Token()
	}
	return err
}

var (
	plainName  = regexp.MustCompile(`^[^.\[\]*'"\\\s]+$`)
	quotedName = regexp.MustCompile(`^[^'\\]+$`)
)

// memberPath is the path to a member of what stands at a path; "" for one that no path can lead to.
func memberPath(at, name string) string {
	switch {
	case plainName.MatchString(name):
		return at + "." + name
	case quotedName.MatchString(name):
		return at + "['" + name + "']"
	}
	return ""
}
