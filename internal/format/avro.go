package format

import (
	"bytes"
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"
)

// avro reads an Avro schema. Values are plain JSON, with times as RFC 3339 or numbers and members that have a default
// left out at will; or Avro's own JSON encoding, in which the value of a union names its branch.
func (f *Format) avro() error {
	schema, err := avro.Parse(f.Schema.Schema)
	if err != nil {
		return fmt.Errorf("this is no Avro schema: %s", plain(err))
	}
	f.Schema.Type = sr.TypeAvro
	f.encode = func(value []byte) ([]byte, error) {
		decoder := json.NewDecoder(bytes.NewReader(value))
		decoder.UseNumber()
		var sample any
		if err := decoder.Decode(&sample); err != nil {
			return nil, err
		}
		encoded, err := schema.Encode(sample)
		if err != nil {
			var typed any
			if schema.DecodeJSON(value, &typed) != nil {
				return nil, fmt.Errorf("the value does not fit the schema: %s", plain(err))
			}
			if encoded, err = schema.Encode(typed); err != nil {
				return nil, fmt.Errorf("the value does not fit the schema: %s", plain(err))
			}
		}
		var written any
		if _, err := schema.Decode(encoded, &written); err != nil {
			return nil, fmt.Errorf("the value does not fit the schema: %s", plain(err))
		}
		if name := unknown(sample, written); name != "" {
			return nil, fmt.Errorf("the value does not fit the schema: it has no field %s", name)
		}
		return encoded, nil
	}
	return nil
}

// plain is the text of an error without the name of the library.
func plain(err error) string { return strings.TrimPrefix(err.Error(), "avro: ") }

// unknown returns the path of the first member of the sample that was not written, "" if there is none. A union's value
// in a sample may stand in an object that names its branch, so it is compared only if both are objects.
func unknown(sample, written any) string {
	from, isObject := sample.(map[string]any)
	to, alsoObject := written.(map[string]any)
	if isObject && alsoObject {
		for _, name := range slices.Sorted(maps.Keys(from)) {
			value, known := to[name]
			if !known {
				if len(from) == 1 {
					return unknown(from[name], written) // the branch of a union
				}
				return name
			}
			if inner := unknown(from[name], value); inner != "" {
				return name + "." + inner
			}
		}
	}
	items, isList := sample.([]any)
	kept, alsoList := written.([]any)
	if isList && alsoList && len(items) == len(kept) {
		for i := range items {
			if inner := unknown(items[i], kept[i]); inner != "" {
				return fmt.Sprintf("%d.%s", i, inner)
			}
		}
	}
	return ""
}
