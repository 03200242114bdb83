package scenarios

// The JSON Schemas: generated from the Go types and their comments, kept beside the code so that an installed binary
// has them, and used for two things: editors complete and check with them, and files are validated against them.

import (
	"bytes"
	_ "embed"
	"encoding"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"

	"github.com/santhosh-tekuri/jsonschema/v6"

	"github.com/dlqbench/dlqbench/internal/units"
)

//go:generate go test -run TestSchemasAreCurrent . -update

//go:embed scenario.schema.json
var scenarioSchema []byte

//go:embed subject.schema.json
var subjectSchema []byte

// Schema returns the JSON Schema (draft 2020-12) of scenario files.
func Schema() ([]byte, error) { return bytes.Clone(scenarioSchema), nil }

// SubjectSchema returns the JSON Schema of subject.yaml files.
func SubjectSchema() ([]byte, error) { return bytes.Clone(subjectSchema), nil }

// formatPrefix marks the formats of the written quantities: "dlqbench-duration".
const formatPrefix = "dlqbench-"

// quantities are the types of the written quantities, by format.
func quantities() map[string]encoding.TextUnmarshaler {
	return map[string]encoding.TextUnmarshaler{
		formatPrefix + "duration": new(units.Duration), formatPrefix + "rate": new(units.Rate),
		formatPrefix + "percent": new(units.Percent), formatPrefix + "size": new(units.Size),
	}
}

// schema is a compiled JSON Schema and its text as a tree, for what a message needs to know about it.
type schema struct {
	compiled *jsonschema.Schema
	tree     any
}

// compiledSchemas are the few schemas of this program by their text. To compile one takes longer than to check a file.
var compiledSchemas sync.Map //nolint:gochecknoglobals // a cache of what never changes

// compileSchema returns the schema with this text, which may be used concurrently.
func compileSchema(text []byte) (*schema, error) {
	if found, ok := compiledSchemas.Load(string(text)); ok {
		return found.(*schema), nil
	}
	made, err := newSchema(text)
	if err != nil {
		return nil, err
	}
	found, _ := compiledSchemas.LoadOrStore(string(text), made)
	return found.(*schema), nil
}

func newSchema(text []byte) (*schema, error) {
	const address = "schema.json"
	tree, err := jsonschema.UnmarshalJSON(bytes.NewReader(text))
	if err != nil {
		return nil, fmt.Errorf("reading the JSON Schema: %w", err)
	}
	compiler := jsonschema.NewCompiler()
	for name := range quantities() {
		compiler.RegisterFormat(&jsonschema.Format{Name: name, Validate: func(v any) error {
			if text, ok := v.(string); ok {
				return quantities()[name].UnmarshalText([]byte(text)) // of its own: others may validate meanwhile
			}
			return nil
		}})
	}
	compiler.AssertFormat()
	if err := compiler.AddResource(address, tree); err != nil {
		return nil, fmt.Errorf("loading the JSON Schema: %w", err)
	}
	compiled, err := compiler.Compile(address)
	if err != nil {
		return nil, fmt.Errorf("compiling the JSON Schema: %w", err)
	}
	return &schema{compiled: compiled, tree: tree}, nil
}

// at returns the part of the schema that a validation error names.
func (s *schema) at(url string) map[string]any {
	_, pointer, _ := strings.Cut(url, "#")
	current := s.tree
	for part := range strings.SplitSeq(strings.TrimPrefix(pointer, "/"), "/") {
		switch v := current.(type) {
		case map[string]any:
			if part != "" {
				current = v[unescape(part)]
			}
		case []any:
			var i int
			if _, err := fmt.Sscan(part, &i); err != nil || i >= len(v) {
				return nil
			}
			current = v[i]
		}
	}
	found, _ := current.(map[string]any)
	return found
}

// keys returns the keys that a mapping of this schema can have, sorted.
func keys(of map[string]any) []string {
	properties, _ := of["properties"].(map[string]any)
	return slices.Sorted(maps.Keys(properties))
}
