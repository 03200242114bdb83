package scenarios

import (
	"bytes"
	"encoding/json"
	"flag"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/invopop/jsonschema"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/internal/units"
)

var update = flag.Bool("update", false, "write the generated files again")

// TestSchemasAreCurrent holds the kept schemas to the Go types and their comments; go generate ./scenarios writes them.
func TestSchemasAreCurrent(t *testing.T) {
	for _, file := range []struct {
		name, title string
		of, filled  any
	}{
		{"scenario.schema.json", "dlqbench scenario", Scenario{}, defaultScenario()},
		{"subject.schema.json", "dlqbench subject", SubjectFile{}, defaultSubject()},
	} {
		generated := generateSchema(t, file.title, file.of, file.filled)
		if *update {
			if err := os.WriteFile(file.name, generated, 0o644); err != nil {
				t.Fatal(err)
			}
		}
		kept, err := os.ReadFile(file.name)
		if err != nil {
			t.Fatal(err)
		}
		if !bytes.Equal(kept, generated) {
			t.Errorf("%s is not what the types and their comments say: run go generate ./scenarios", file.name)
		}
	}
}

// generateSchema reflects the type, describes it with the comments of the sources and fills in the defaults that decoding uses.
func generateSchema(t *testing.T, title string, of, filled any) []byte {
	t.Helper()
	reflector := &jsonschema.Reflector{
		Anonymous: true, ExpandedStruct: true, RequiredFromJSONSchemaTags: true,
		Namer: func(of reflect.Type) string {
			if strings.HasSuffix(of.PkgPath(), "/faults") {
				return "Fault" + of.Name() // both packages have a Subject
			}
			return of.Name()
		},
		Mapper: mapQuantity,
	}
	for _, source := range []string{"spec.go", "subject_spec.go", "../faults/spec.go", "../consumer/config.go"} {
		if err := reflector.AddGoComments("github.com/dlqbench/dlqbench/scenarios", source, jsonschema.WithFullComment()); err != nil {
			t.Fatal(err)
		}
	}
	for name, text := range reflector.CommentMap {
		reflector.CommentMap[name] = strings.Join(strings.Fields(text), " ")
	}
	reflected := reflector.Reflect(of)
	reflected.Title = title
	for name, quantity := range map[string]any{"Duration": units.Duration(0), "Rate": units.Rate(0), "Percent": units.Percent(0), "Size": units.Size(0)} {
		reflected.Definitions[name] = quantitySchema(reflect.TypeOf(quantity))
	}
	fillDefaults(reflected, filled)
	fillNested(reflected.Definitions, filled)
	fillDefaults(reflected.Definitions["Reference"], defaultReference())
	fillDefaults(reflected.Definitions["Replay"], defaultReplay())
	fillDefaults(reflected.Definitions["FaultKafka"], faults.Kafka{Probability: 1})
	fillDefaults(reflected.Definitions["FaultNetwork"], faults.Network{Toxicity: 1})
	for _, part := range append([]*jsonschema.Schema{reflected}, values(reflected.Definitions)...) {
		finish(part)
	}
	text, err := json.MarshalIndent(reflected, "", "  ")
	if err != nil {
		t.Fatal(err)
	}
	return append(text, '\n')
}

func values(all jsonschema.Definitions) []*jsonschema.Schema {
	var list []*jsonschema.Schema
	for _, part := range all {
		list = append(list, part)
	}
	return list
}

// mapQuantity refers to the definition of a written quantity.
func mapQuantity(of reflect.Type) *jsonschema.Schema {
	if !strings.HasSuffix(of.PkgPath(), "/units") {
		return nil
	}
	return &jsonschema.Schema{Ref: "#/$defs/" + of.Name()}
}

// quantitySchema is the unit's own schema with the format by which its values are read.
func quantitySchema(of reflect.Type) *jsonschema.Schema {
	described := reflect.Zero(of).Interface().(interface{ JSONSchema() *jsonschema.Schema }).JSONSchema()
	format := formatPrefix + strings.ToLower(of.Name())
	if described.Format = format; len(described.OneOf) > 0 {
		described.OneOf[0].Format = format
	}
	return described
}

// fillDefaults takes the defaults from a value that holds them, as decoding does.
func fillDefaults(part *jsonschema.Schema, filled any) {
	if part == nil || part.Properties == nil {
		return
	}
	text, err := json.Marshal(filled)
	if err != nil {
		panic(err)
	}
	var all map[string]any
	if err := json.Unmarshal(text, &all); err != nil {
		panic(err)
	}
	for name, value := range all {
		property, found := part.Properties.Get(name)
		if _, nested := value.(map[string]any); found && !nested && value != nil && value != "" {
			property.Default = value
		}
	}
}

// fillNested fills the defaults of nested parts: those of Workload are in filled.Workload.
func fillNested(definitions jsonschema.Definitions, filled any) {
	value := reflect.ValueOf(filled)
	for i := range value.NumField() {
		field := value.Field(i)
		if field.Kind() == reflect.Struct {
			fillDefaults(definitions[field.Type().Name()], field.Interface())
			fillNested(definitions, field.Interface())
		}
	}
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
		if property.Type != "integer" || property.Maximum != "" {
			continue
		}
		property.Maximum = "2147483647"
		if pair.Key == "seed" {
			property.Minimum, property.Maximum = "0", "18446744073709551615"
		}
	}
}
