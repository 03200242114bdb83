package scenarios

// The shape of a file: its tree against the JSON Schema, with the schema's terse errors turned into problems a person
// understands.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/santhosh-tekuri/jsonschema/v6/kind"
	"golang.org/x/text/language"
	"golang.org/x/text/message"
)

// validate adds a problem for everything in which the tree departs from the schema, and marks it bad.
func (d *document) validate(s *schema) {
	if d.root == nil {
		return
	}
	var failed *jsonschema.ValidationError
	if err := s.compiled.Validate(d.root.value(false)); errors.As(err, &failed) {
		d.translate(s, failed)
	}
}

func (d *document) translate(s *schema, failed *jsonschema.ValidationError) {
	at := d.root.get(pointer(failed.InstanceLocation))
	switch what := failed.ErrorKind.(type) {
	case *kind.Schema, *kind.Group, *kind.Reference, *kind.AllOf:
		for _, cause := range failed.Causes {
			d.translate(s, cause)
		}
	case *kind.OneOf:
		d.translateChoice(s, failed)
	case *kind.AdditionalProperties:
		for _, name := range what.Properties {
			d.unknownKey(at.fields[name], name, keys(s.at(failed.SchemaURL)))
		}
	case *kind.Required:
		for _, name := range what.Missing {
			if at.fields[name] == nil { // else it is there and bad, and was reported
				d.add(at.key, fmt.Sprintf("%s is missing%s", name, inside(failed.InstanceLocation)), "")
			}
		}
	default:
		d.wrong(at, s.at(failed.SchemaURL), failed)
	}
}

// translateChoice looks at the form that was meant: the one whose type fits.
func (d *document) translateChoice(s *schema, failed *jsonschema.ValidationError) {
	depth := len(failed.InstanceLocation)
	for _, cause := range failed.Causes {
		for len(cause.Causes) == 1 && isWrapper(cause) {
			cause = cause.Causes[0]
		}
		if _, isType := cause.ErrorKind.(*kind.Type); !isType || len(cause.InstanceLocation) > depth {
			d.translate(s, cause)
			return
		}
	}
	d.wrong(d.root.get(pointer(failed.InstanceLocation)), s.at(failed.SchemaURL), failed)
}

func isWrapper(failed *jsonschema.ValidationError) bool {
	switch failed.ErrorKind.(type) {
	case *kind.Reference, *kind.Group, *kind.Schema:
		return true
	}
	return false
}

func (d *document) unknownKey(n *node, name string, known []string) {
	n.bad = true
	suggestion := hint(name, known)
	if suggestion == "" && len(known) > 0 {
		suggestion = "known here: " + strings.Join(known, ", ")
	}
	d.add(n.key, fmt.Sprintf("unknown key %s", name), suggestion)
}

// wrong reports a value that is not what the schema wants, once.
func (d *document) wrong(n *node, part map[string]any, failed *jsonschema.ValidationError) {
	if n.bad {
		return
	}
	n.bad = true
	text, suggestion := explain(n, part, failed, nameOf(failed.InstanceLocation))
	d.add(n.at, text, suggestion)
}

func explain(n *node, part map[string]any, failed *jsonschema.ValidationError, name string) (text, suggestion string) {
	describe, _ := part["description"].(string)
	if format, _ := part["format"].(string); strings.HasPrefix(format, formatPrefix) {
		if n.kind != scalarNode {
			return fmt.Sprintf("%s must be %s; this is %s", name, describe, shown(n)), ""
		}
		if err := quantities()[format].UnmarshalText([]byte(n.text)); err != nil {
			return err.Error(), ""
		}
	}
	switch what := failed.ErrorKind.(type) {
	case *kind.Type:
		return fmt.Sprintf("%s must be %s; this is %s", name, wanted(what.Want), shown(n)), quoting(n, what.Want)
	case *kind.Enum:
		known := words(what.Want)
		return fmt.Sprintf("%s is %s, not %q", name, orList(known), n.text), hint(n.text, known)
	case *kind.Minimum:
		return fmt.Sprintf("%s must be at least %s; %s is less", name, what.Want.RatString(), n.text), ""
	case *kind.Maximum:
		return fmt.Sprintf("%s can be %s at most; %s is more", name, what.Want.RatString(), n.text), ""
	case *kind.MinItems:
		return fmt.Sprintf("%s needs at least one entry", name), ""
	case *kind.Pattern:
		if what.Want == namePattern {
			return fmt.Sprintf(
				"%q can't be a name: it becomes part of file names; use lower-case letters, digits and dashes, 64 at most",
				n.text), ""
		}
		if describe == "" {
			return fmt.Sprintf("%q is not written right: it must match %s", n.text, what.Want), ""
		}
		return fmt.Sprintf("%q is not written right: this is %s", n.text, describe), ""
	case *kind.OneOf:
		return fmt.Sprintf("%s is not written right: this is %s", name, lowerFirst(describe)), ""
	}
	return name + ": " + failed.ErrorKind.LocalizedString(message.NewPrinter(language.English)), ""
}

// namePattern is that of names of scenarios and subjects, as in the types' tags.
const namePattern = `^[a-z0-9][a-z0-9-]{0,63}$`

func pointer(location []string) string {
	var path strings.Builder
	for _, part := range location {
		path.WriteString("/" + escape(part))
	}
	return path.String()
}

// dotted writes a location as --set takes it: faults[0].kafka.error.
func dotted(location []string) string {
	var path strings.Builder
	for i, part := range location {
		switch {
		case strings.Trim(part, "0123456789") == "":
			path.WriteString("[" + part + "]")
		case i > 0:
			path.WriteString("." + part)
		default:
			path.WriteString(part)
		}
	}
	return path.String()
}

func inside(location []string) string {
	if len(location) == 0 {
		return ""
	}
	return " in " + dotted(location)
}

func nameOf(location []string) string {
	for i := len(location) - 1; i >= 0; i-- {
		if strings.Trim(location[i], "0123456789") != "" {
			return dotted(location[i:])
		}
	}
	return "this"
}

func wanted(types []string) string {
	names := map[string]string{
		"string": "text", "integer": "a whole number", "number": "a number", "boolean": "true or false",
		"object": "a mapping (keys and values)", "array": "a list",
	}
	list := make([]string, len(types))
	for i, name := range types {
		list[i] = names[name]
	}
	return orList(list)
}

func shown(n *node) string {
	switch n.kind {
	case mappingNode:
		return "a mapping"
	case listNode:
		return "a list"
	}
	switch n.scalar.(type) {
	case string:
		return fmt.Sprintf("the text %q", n.text)
	case bool:
		return n.text
	}
	return "the number " + n.text
}

// quoting suggests quotes where text is wanted and the YAML reads as something else.
func quoting(n *node, want []string) string {
	_, isText := n.scalar.(string)
	if n.kind == scalarNode && !isText && len(want) == 1 && want[0] == "string" {
		return fmt.Sprintf("put it in quotes: %q", n.text)
	}
	return ""
}

func words(values []any) []string {
	list := make([]string, len(values))
	for i, value := range values {
		list[i] = fmt.Sprint(value)
	}
	return list
}

func orList(list []string) string {
	if len(list) < 2 {
		return strings.Join(list, "")
	}
	return strings.Join(list[:len(list)-1], ", ") + " or " + list[len(list)-1]
}

func lowerFirst(text string) string {
	if text == "" {
		return text
	}
	return strings.ToLower(text[:1]) + text[1:]
}
