package format

// Earlier versions of a schema, as records have that were written before a field was added.

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"

	"google.golang.org/protobuf/reflect/protoreflect"
)

// earlier is a schema without one field of its record, and the names that the field has in samples.
type earlier struct {
	text  string
	names []string
}

// Older returns the format with each schema from which this one can have come by adding a field that records may lack:
// one with a default in Avro, any but a required one in Protobuf, a property that is not required in a JSON schema. The
// newest fields come first. Samples are written without the field. There are none if the schema has no such field.
func (f *Format) Older() (all []*Format) {
	var versions []earlier
	switch f.kind {
	case Avro:
		versions = f.olderAvro()
	case JSONSchema:
		versions = f.olderJSONSchema()
	case Protobuf:
		versions = f.olderProtobuf()
	}
	for _, version := range versions {
		options := f.options
		options.Text = version.text
		old, err := Load(options)
		if err != nil {
			continue // something else needs the field, or the type that it defines
		}
		encode := old.encode
		old.encode = func(value []byte) ([]byte, error) { return encode(without(value, version.names...)) }
		all = append(all, old)
	}
	return all
}

func (f *Format) olderAvro() (all []earlier) {
	var record map[string]json.RawMessage
	var fields []json.RawMessage
	if json.Unmarshal([]byte(f.Schema.Schema), &record) != nil || json.Unmarshal(record["fields"], &fields) != nil {
		return nil // not a record
	}
	for i, written := range slices.Backward(fields) {
		var field struct {
			Name    string          `json:"name"`
			Default json.RawMessage `json:"default"`
		}
		if json.Unmarshal(written, &field) == nil && field.Default != nil {
			rest := slices.Delete(slices.Clone(fields), i, i+1)
			all = append(all, earlier{with(record, "fields", rest), []string{field.Name}})
		}
	}
	return all
}

func (f *Format) olderJSONSchema() (all []earlier) {
	var schema, properties map[string]json.RawMessage
	if json.Unmarshal([]byte(f.Schema.Schema), &schema) != nil ||
		json.Unmarshal(schema["properties"], &properties) != nil {
		return nil // not an object with properties of its own
	}
	var required []string
	_ = json.Unmarshal(schema["required"], &required) // the schema was compiled
	for _, one := range slices.Backward(membersOf(schema["properties"])) {
		if !slices.Contains(required, one.name) {
			rest := json.RawMessage(without(schema["properties"], one.name))
			all = append(all, earlier{with(schema, "properties", rest), []string{one.name}})
		}
	}
	return all
}

// with returns a JSON object as text in which a member has another value.
func with(object map[string]json.RawMessage, name string, value any) string {
	changed := map[string]any{}
	for other, one := range object {
		changed[other] = one
	}
	changed[name] = value
	text, _ := json.Marshal(changed) // it was JSON before
	return string(text)
}

// olderProtobuf cuts the fields out of the text. Of two, the one comes first that a message can tell from its default.
func (f *Format) olderProtobuf() (all []earlier) {
	file, err := compiled(f.options.File, f.Schema.Schema)
	if err != nil {
		return nil
	}
	message, err := messageOf(file, f.options.Message)
	if err != nil {
		return nil
	}
	var fields []protoreflect.FieldDescriptor
	for i := range message.Fields().Len() {
		if one := message.Fields().Get(i); one.Cardinality() != protoreflect.Required {
			fields = append(fields, one)
		}
	}
	plain := func(one protoreflect.FieldDescriptor) bool {
		return !one.HasPresence() && !one.IsList() && !one.IsMap()
	}
	slices.SortStableFunc(fields, func(a, b protoreflect.FieldDescriptor) int {
		switch {
		case plain(a) == plain(b):
			return int(b.Number() - a.Number())
		case plain(b):
			return -1
		}
		return 1
	})
	for _, one := range fields {
		at := file.SourceLocations().ByDescriptor(one)
		text, found := cut(f.Schema.Schema, at)
		if found {
			all = append(all, earlier{text, []string{string(one.Name()), one.JSONName()}})
		}
	}
	return all
}

// cut returns a text without what stands there. Lines and columns, in bytes, count from 0.
func cut(text string, at protoreflect.SourceLocation) (string, bool) {
	lines := strings.SplitAfter(text, "\n")
	if len(at.Path) == 0 || at.StartLine >= len(lines) || at.EndLine >= len(lines) ||
		at.StartColumn > len(lines[at.StartLine]) || at.EndColumn > len(lines[at.EndLine]) {
		return "", false
	}
	before := strings.Join(lines[:at.StartLine], "") + lines[at.StartLine][:at.StartColumn]
	return before + lines[at.EndLine][at.EndColumn:] + strings.Join(lines[at.EndLine+1:], ""), true
}

// member is a member of a JSON object, from the end of the one before it to its own.
type member struct {
	name     string
	from, to int
}

// membersOf returns the members of a JSON object, in order; none of any other value.
func membersOf(value []byte) (all []member) {
	decoder := json.NewDecoder(bytes.NewReader(value))
	if token, err := decoder.Token(); err != nil || token != json.Delim('{') {
		return nil
	}
	for decoder.More() {
		from := int(decoder.InputOffset())
		name, err := decoder.Token()
		var skipped json.RawMessage
		if err != nil || decoder.Decode(&skipped) != nil {
			return nil
		}
		text, _ := name.(string)
		all = append(all, member{text, from, int(decoder.InputOffset())})
	}
	return all
}

// without returns a JSON object without the members of these names, and else byte for byte.
func without(value []byte, names ...string) []byte {
	members := membersOf(value)
	for i, one := range slices.Backward(members) {
		if !slices.Contains(names, one.name) {
			continue
		}
		rest := value[one.to:]
		if i == 0 { // there is no comma before it, but perhaps one behind it
			rest = bytes.TrimPrefix(bytes.TrimLeft(rest, " \t\r\n"), []byte(","))
		}
		value = slices.Concat(value[:one.from], rest)
	}
	return value
}
