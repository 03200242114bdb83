package reports

// This file writes verdict.json and its published schema. A test generates the schema from the Go types, so that they
// always agree.

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"io"
	"math"
	"reflect"
	"regexp"
	"strings"
)

// VerdictSchemaID identifies the schema of verdict.json.
const VerdictSchemaID = "https://github.com/dlqbench/dlqbench/reports/verdict.schema.json"

//go:embed verdict.schema.json
var verdictSchemaText []byte

// VerdictSchema returns the JSON Schema (2020-12) of verdict.json. It allows unknown keys, because a later version
// may add some without a new schema number.
func VerdictSchema() ([]byte, error) { return bytes.Clone(verdictSchemaText), nil }

// JSON writes verdict.json: indented, keys always in the same order, lists and tables never null. It validates against
// VerdictSchema.
func JSON(w io.Writer, run Run) error {
	if run.Verdict == nil {
		return errNoVerdict
	}
	var out bytes.Buffer
	if err := writeJSON(&out, "the verdict", run.Verdict); err != nil {
		return err
	}
	if _, err := w.Write(numbers.ReplaceAllFunc(out.Bytes(), onOneLine)); err != nil {
		return fmt.Errorf("writing the verdict: %w", err)
	}
	return nil
}

// numbers matches an indented list of numbers. A JSON string contains no line break, so it cannot match inside one.
var numbers = regexp.MustCompile(`\[\n[-0-9nul.eE+, \n]*\]`)

// onOneLine removes the white space: a curve is not easier to read on 600 lines.
func onOneLine(list []byte) []byte {
	return bytes.ReplaceAll(bytes.Join(bytes.Fields(list), nil), []byte(","), []byte(", "))
}

// writeJSON writes a value: indented, keys always in the same order, lists and tables never null. The file stands alone
// and is read by people, so "p99 < 500ms" is not escaped. what names it in errors.
func writeJSON(w io.Writer, what string, value any) error {
	encoder := json.NewEncoder(w)
	encoder.SetEscapeHTML(false)
	encoder.SetIndent("", "  ")
	if err := encoder.Encode(complete(value)); err != nil {
		return fmt.Errorf("encoding %s: %w", what, err)
	}
	return nil
}

// complete returns a copy in which no list or table is nil, as JSON would have null for it, and every figure is finite:
// a rate over no time is not a number, and JSON has only numbers.
func complete[T any](value T) T {
	out, _ := filled(reflect.ValueOf(value)).Interface().(T)
	return out
}

func filled(v reflect.Value) reflect.Value {
	out := reflect.New(v.Type()).Elem()
	out.Set(v)
	if v.Type().Implements(reflect.TypeFor[json.Marshaler]()) {
		return out
	}
	switch v.Kind() {
	case reflect.Struct:
		for i := range v.NumField() {
			absent := v.Field(i).IsZero() && strings.Contains(v.Type().Field(i).Tag.Get("json"), ",omit")
			if field := out.Field(i); field.CanSet() && !absent {
				field.Set(filled(v.Field(i)))
			}
		}
	case reflect.Pointer:
		if !v.IsNil() {
			out.Set(reflect.New(v.Type().Elem()))
			out.Elem().Set(filled(v.Elem()))
		}
	case reflect.Slice:
		out.Set(reflect.MakeSlice(v.Type(), v.Len(), v.Len()))
		for i := range v.Len() {
			out.Index(i).Set(filled(v.Index(i)))
		}
	case reflect.Map:
		out.Set(reflect.MakeMapWithSize(v.Type(), v.Len()))
		for key, value := range v.Seq2() {
			out.SetMapIndex(key, filled(value))
		}
	case reflect.Float64:
		if math.IsNaN(v.Float()) || math.IsInf(v.Float(), 0) {
			out.SetZero()
		}
	}
	return out
}
