// Package schemagen makes JSON Schemas out of Go types and the comments in their sources, for the tests that hold the
// committed schemas of scenario files, subject files and dlqbench.yaml to the types. It knows how quantities are
// written (package units), and nothing of what the files say.
package schemagen

import (
	"encoding/json"
	"fmt"
	"maps"
	"reflect"
	"slices"
	"strings"

	"github.com/invopop/jsonschema"

	"github.com/dlqbench/dlqbench/internal/units"
)

// File says what the schema of a kind of files is made of.
type File struct {
	Title string
	// Of is a value of the type that files are decoded into, Filled one that holds the defaults which decoding uses.
	// Parts holds the defaults of types below it that have some of their own, by the name of their definition.
	Of, Filled any
	Parts      map[string]any
	// Base is the import path of the package that Sources are relative to: the files whose comments describe the types.
	Base    string
	Sources []string
	// Name, if set, names the definition of a type.
	Name func(reflect.Type) string
}

// described is a type that has a written form of its own and knows its JSON Schema. It gives the schema as text, so
// that the program needs no library for schemas.
type described interface{ SchemaText() string }

// Generate reflects the type, describes it with the comments of the sources and fills in the defaults. It reads the
// sources from the working directory, which go test sets to the package's folder.
func Generate(file File) ([]byte, error) {
	texts := map[string]string{}
	for _, quantity := range []described{units.Duration(0), units.Rate(0), units.Percent(0), units.Size(0)} {
		texts[reflect.TypeOf(quantity).Name()] = quantity.SchemaText()
	}
	reflector := &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, RequiredFromJSONSchemaTags: true, Namer: file.Name,
		Mapper: func(of reflect.Type) *jsonschema.Schema { return mapDescribed(of, texts) },
	}
	for _, source := range file.Sources {
		if err := reflector.AddGoComments(file.Base, source, jsonschema.WithFullComment()); err != nil {
			return nil, fmt.Errorf("reading the comments of %s: %w", source, err)
		}
	}
	for name, text := range reflector.CommentMap {
		reflector.CommentMap[name] = strings.Join(strings.Fields(text), " ")
	}
	reflected := reflector.Reflect(file.Of)
	reflected.Title = file.Title
	if err := define(reflected.Definitions, texts); err != nil {
		return nil, err
	}
	if err := fill(reflected, file); err != nil {
		return nil, err
	}
	for _, part := range append([]*jsonschema.Schema{reflected}, slices.Collect(maps.Values(reflected.Definitions))...) {
		finish(part)
	}
	text, err := json.MarshalIndent(reflected, "", "  ")
	if err != nil {
		return nil, fmt.Errorf("encoding the schema: %w", err)
	}
	return append(text, '\n'), nil
}

func fill(reflected *jsonschema.Schema, file File) error {
	err := fillDefaults(reflected, file.Filled)
	if err == nil {
		err = fillNested(reflected.Definitions, file.Filled)
	}
	for name, filled := range file.Parts {
		if err == nil {
			err = fillDefaults(reflected.Definitions[name], filled)
		}
	}
	return err
}

// mapDescribed refers to the definition of a type that describes itself, and keeps the text of that definition.
func mapDescribed(of reflect.Type, texts map[string]string) *jsonschema.Schema {
	self, ok := reflect.TypeAssert[described](reflect.Zero(of))
	if !ok {
		return nil
	}
	texts[of.Name()] = self.SchemaText()
	return &jsonschema.Schema{Ref: "#/$defs/" + of.Name()}
}

// define decodes the definitions of the types that describe themselves.
func define(definitions jsonschema.Definitions, texts map[string]string) error {
	for name, text := range texts {
		definition := &jsonschema.Schema{}
		if err := json.Unmarshal([]byte(text), definition); err != nil {
			return fmt.Errorf("decoding the schema text of %s: %w", name, err)
		}
		definitions[name] = definition
	}
	return nil
}

// fillDefaults takes the defaults from a value that holds them, as decoding does.
func fillDefaults(part *jsonschema.Schema, filled any) error {
	if part == nil || part.Properties == nil {
		return nil
	}
	text, err := json.Marshal(filled)
	if err != nil {
		return fmt.Errorf("encoding the defaults: %w", err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		return fmt.Errorf("decoding the defaults: %w", err)
	}
	for name, value := range all {
		property, found := part.Properties.Get(name)
		if _, nested := value.(map[string]any); found && !nested && value != nil && value != "" {
			property.Default = value
		}
	}
	return nil
}

// fillNested fills the defaults of nested parts: those of Workload are in filled.Workload.
func fillNested(definitions jsonschema.Definitions, filled any) error {
	value := reflect.ValueOf(filled)
	for _, field := range value.Fields() {
		if field.Kind() != reflect.Struct {
			continue
		}
		if err := fillDefaults(definitions[field.Type().Name()], field.Interface()); err != nil {
			return err
		}
		if err := fillNested(definitions, field.Interface()); err != nil {
			return err
		}
	}
	return nil
}

// inKeys begins a comment with the key that is written, not with the name of the Go field.
func inKeys(comment, key string) string {
	first := strings.TrimRight(strings.SplitN(comment, " ", 2)[0], ":,;.")
	if strings.EqualFold(first, strings.ReplaceAll(key, "_", "")) {
		return key + strings.TrimPrefix(comment, first)
	}
	return comment
}

// finish begins descriptions with keys, and keeps whole numbers where they fit the fields they are decoded into.
func finish(part *jsonschema.Schema) {
	if part.Properties == nil {
		return
	}
	for pair := part.Properties.Oldest(); pair != nil; pair = pair.Next() {
		property := pair.Value
		property.Description = inKeys(property.Description, pair.Key)
		if items := property.Items; pair.Key == "seeds" && items != nil {
			items.Minimum, items.Maximum = "0", "18446744073709551615"
		}
		if property.Type != "integer" || property.Maximum != "" {
			continue
		}
		property.Maximum = "2147483647"
		if pair.Key == "seed" {
			property.Minimum, property.Maximum = "0", "18446744073709551615"
		}
	}
}
