package format

import (
	"encoding/hex"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"github.com/twmb/franz-go/pkg/sr"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

const order = `{"type":"record","name":"Order","fields":[
	{"name":"id","type":"string"},
	{"name":"note","type":["null","string"],"default":null},
	{"name":"lines","type":{"type":"array","items":{"type":"record","name":"Line",
	  "fields":[{"name":"sku","type":"string"}]}}},
	{"name":"at","type":{"type":"long","logicalType":"timestamp-millis"}},
	{"name":"n","type":"int","default":3}]}`

const messages = `syntax = "proto3";
package shop;
import "google/protobuf/timestamp.proto";
message Other { string x = 1; }
message Order {
  string id = 1;
  google.protobuf.Timestamp at = 2;
  message Line { string sku = 1; }
  repeated Line lines = 3;
}`

const jsonSchema = `{"$schema":"https://json-schema.org/draft/2020-12/schema","type":"object",
	"properties":{"id":{"type":"string"},"n":{"type":"integer","minimum":1}},"required":["id"],
	  "additionalProperties":false}`

// written writes a schema into a file and returns the file's path.
func written(t testing.TB, name, text string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name)
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func load(t testing.TB, kind, schema, message, framing string) *Format {
	t.Helper()
	f := must.Get(Load(Options{Kind: kind, File: written(t, "schema", schema), Message: message, Framing: framing}))(t)
	return f
}

// TestBytes compares what is written with bytes made by hand from the formats' specifications.
func TestBytes(t *testing.T) {
	for _, one := range []struct{ kind, schema, message, framing, value, want string }{
		// A string is its length as zigzag varint and its bytes; a union its branch; an array its count, items and 0.
		{Avro, order, "", FramingNone, `{"id":"ab","lines":[],"at":"1970-01-01T00:00:00.005Z"}`, "046162" + "00" + "00" +
			"0a" + "06"},
		{Avro, order, "", FramingNone, `{"id":"ab","note":"x","lines":[{"sku":"s"}],"at":5,"n":4}`,
			"046162" + "020278" + "02027300" + "0a" + "08"},
		{Avro, order, "", FramingConfluent, `{"id":"ab","note":{"string":"x"},"lines":[],"at":5,"n":4}`,
			"0000000001" + "046162" + "020278" + "00" + "0a" + "08"},
		{JSONSchema, jsonSchema, "", FramingNone, `{ "id":"ab" }`, hex.EncodeToString([]byte(`{ "id":"ab" }`))},
		{JSONSchema, jsonSchema, "", FramingConfluent, `{"id":"ab"}`, "0000000001" +
			hex.EncodeToString([]byte(`{"id":"ab"}`))},
		// The first message of a file is the index 0; the second is a list of one index, 1, both as zigzag varints.
		{Protobuf, messages, "", FramingConfluent, `{"x":"ab"}`, "0000000001" + "00" + "0a026162"},
		{Protobuf, messages, "shop.Order", FramingConfluent, `{"id":"ab"}`, "0000000001" + "0202" + "0a026162"},
		{Protobuf, messages, "shop.Order.Line", FramingConfluent, `{"sku":"ab"}`, "0000000001" + "040200" + "0a026162"},
		{Protobuf, messages, "shop.Order", FramingNone, `{"id":"ab","at":"1970-01-01T00:00:05Z","lines":[{"sku":"s"}]}`,
			"0a026162" + "12020805" + "1a030a0173"},
	} {
		f := load(t, one.kind, one.schema, one.message, one.framing)
		got, err := f.Encode([]byte(one.value), nil)
		got = append(f.Frame(Named{ID: 1}).Head, got...)
		if err != nil || hex.EncodeToString(got) != one.want {
			t.Errorf("%s %s is %x, %v; want %s", one.kind, one.value, got, err, one.want)
		}
	}
}

func TestSchemaIsTheFileForTheRegistry(t *testing.T) {
	for _, one := range []struct {
		kind, schema string
		want         sr.SchemaType
	}{{Avro, order, sr.TypeAvro}, {JSONSchema, jsonSchema, sr.TypeJSON}, {Protobuf, messages, sr.TypeProtobuf}} {
		if f := load(t, one.kind, one.schema, "", FramingConfluent); f.Schema.Type != one.want ||
			f.Schema.Schema != one.schema {
			t.Errorf("%s: the registry has %v", one.kind, f.Schema)
		}
	}
}

// TestValuesThatDoNotFit checks that the error says what does not fit.
func TestValuesThatDoNotFit(t *testing.T) {
	for _, one := range []struct{ kind, schema, value, want string }{
		{Avro, order, `{"id":"a","lines":[]}`, "at"},
		{Avro, order, `{"id":7,"lines":[],"at":5}`, "id"},
		{Avro, order, `{"id":"a","lines":[],"at":5,"extra":1}`, "it has no field extra"},
		{Avro, order, `{"id":"a","lines":[{"sku":"s","x":1}],"at":5}`, "it has no field lines.0.x"},
		{JSONSchema, jsonSchema, `{"n":1}`, "missing property 'id'"},
		{JSONSchema, jsonSchema, `{"id":"a","n":0}`, "/n"},
		{Protobuf, messages, `{"y":"a"}`, `unknown field "y"`},
		{Protobuf, messages, `{"x":7}`, "x"},
	} {
		f := load(t, one.kind, one.schema, "", FramingNone)
		_, err := f.Encode([]byte(one.value), nil)
		if err == nil || !strings.Contains(err.Error(), one.want) || strings.Contains(err.Error(), "\n") {
			t.Errorf("%s %s: %v, want %q", one.kind, one.value, err, one.want)
		}
	}
}

func TestSchemasThatCannotBeRead(t *testing.T) {
	for _, one := range []struct{ kind, schema, message, want string }{
		{Avro, "{", "", "this is no Avro schema"},
		{Avro, `{"type":"record","name":"A"}`, "", "this is no Avro schema"},
		{JSONSchema, "{", "", "this is no JSON"},
		{JSONSchema, `{"type":"text"}`, "", "this is no JSON schema"},
		{JSONSchema, `{"$ref":"https://example.com/a.json"}`, "", "this is no JSON schema"},
		{Protobuf, "message {", "", "this is no Protobuf schema"},
		{Protobuf, `syntax = "proto3"; import "gone.proto"; message A {}`, "", "gone.proto"},
		{Protobuf, `syntax = "proto3";`, "", "has no message"},
		{Protobuf, messages, "Order", `has no message "Order": write its full name, such as shop.Other`},
	} {
		_, err := Load(Options{Kind: one.kind, File: written(t, "s", one.schema), Message: one.message, Framing: FramingNone})
		if err == nil || !strings.Contains(err.Error(), one.want) {
			t.Errorf("%s %s: %v, want %q", one.kind, one.schema, err, one.want)
		}
	}
	for file, want := range map[string]string{
		filepath.Join(t.TempDir(), "none"): "there is no file", t.TempDir(): "is not a file",
		written(t, "huge", strings.Repeat(" ", maxSchema+1)): "no schema needs",
	} {
		if _, err := Load(Options{Kind: Avro, File: file}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", file, err, want)
		}
	}
}

// FuzzAvroKeepsWhatItWrites checks that every value that is accepted can be read again, with its id.
func FuzzAvroKeepsWhatItWrites(f *testing.F) {
	schema := avro.MustParse(order)
	format := load(f, Avro, order, "", FramingConfluent)
	f.Add([]byte(`{"id":"ab","lines":[],"at":"1970-01-01T00:00:00.005Z"}`))
	f.Add([]byte(`{"id":"ab","note":{"string":"x"},"lines":[{"sku":"s"}],"at":5,"n":4}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		encoded, err := format.Encode(value, nil)
		if err != nil {
			return
		}
		var read map[string]any
		left, err := schema.Decode(encoded, &read)
		if err != nil || len(left) > 0 {
			t.Fatalf("%q is written as %x: %v, %d bytes left", value, encoded, err, len(left))
		}
		if _, isText := read["id"].(string); !isText {
			t.Fatalf("%q is read as %v", value, read)
		}
	})
}
