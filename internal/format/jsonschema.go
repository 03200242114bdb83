package format

import (
	"cmp"
	"errors"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/santhosh-tekuri/jsonschema/v6"
	"github.com/twmb/franz-go/pkg/sr"
)

// jsonSchema reads a JSON schema of any draft. Values are kept byte for byte.
func (f *Format) jsonSchema(file string) error {
	document, err := jsonschema.UnmarshalJSON(strings.NewReader(f.Schema.Schema))
	if err != nil {
		return fmt.Errorf("this is no JSON: %w", err)
	}
	compiler, name := jsonschema.NewCompiler(), filepath.Base(cmp.Or(file, "schema"))
	compiler.UseLoader(jsonschema.SchemeURLLoader{}) // a schema reads no other files and no addresses
	if err := compiler.AddResource(name, document); err != nil {
		return fmt.Errorf("this is no JSON schema: %w", err)
	}
	schema, err := compiler.Compile(name)
	if err != nil {
		return fmt.Errorf("this is no JSON schema: %w", err)
	}
	f.Schema.Type = sr.TypeJSON
	f.encode = func(value []byte) ([]byte, error) {
		sample, err := jsonschema.UnmarshalJSON(strings.NewReader(string(value)))
		if err != nil {
			return nil, err
		}
		if err := schema.Validate(sample); err != nil {
			return nil, fmt.Errorf("the value does not fit the schema: %s", violation(err))
		}
		return value, nil
	}
	return nil
}

// violation is the first cause of a validation error, in one line.
func violation(err error) string {
	var invalid *jsonschema.ValidationError
	if !errors.As(err, &invalid) {
		return err.Error()
	}
	for len(invalid.Causes) > 0 {
		invalid = invalid.Causes[0]
	}
	_, reason, found := strings.Cut(invalid.Error(), "\n- ")
	if !found {
		reason = invalid.Error()
	}
	return strings.ReplaceAll(reason, "\n", " ")
}
