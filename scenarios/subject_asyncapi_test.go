package scenarios

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/format"
)

const asyncV3 = `asyncapi: 3.0.0
info: {title: Shop, version: 1.0.0}
channels:
  orders:
    address: shop.orders
    messages:
      created: {$ref: "#/components/messages/OrderCreated"}
      cancelled: {$ref: "#/components/messages/OrderCancelled"}
  other/one:
    address: "shop.{tenant}.orders"
    messages:
      only:
        payload:
          schemaFormat: application/vnd.apache.avro;version=1.9.0
          schema: {type: record, name: Order, fields: [{name: id, type: string}, {name: n, type: int}]}
        examples: [{payload: {id: a, n: 1}}]
components:
  messages:
    OrderCreated:
      payload: {$ref: "#/components/schemas/order"}
      examples:
        - name: usual
          headers: {type: created}
          payload: {id: "6f1c2a90-3f0e-4d55-9f6e-0f3f4a1b7c01", total: 12.50, note: null, at: 2026-03-02T09:14:05Z}
        - {name: without payload}
        - payload:
            id: "b0f7f4de-8f0b-4b7e-8f55-1df1b8a0c902"
            total: 1
    OrderCancelled:
      payload:
        type: object
        properties: {id: {$ref: "#/components/schemas/id"}}
        examples: [{id: x}]
    Recursive:
      payload: {$ref: "#/components/schemas/tree"}
  schemas:
    id: {type: string}
    order:
      type: object
      required: [id, total]
      additionalProperties: false
      properties:
        id: {$ref: "#/components/schemas/id"}
        total: {type: number}
        note: {type: [string, "null"]}
        at: {type: string}
    tree: {type: object, properties: {child: {$ref: "#/components/schemas/tree"}}}
`

const asyncV2 = `{"asyncapi": "2.6.0", "channels": {
	"shop.orders": {"publish": {"message": {"oneOf": [
		{"name": "a", "payload": {"type": "object"}, "examples": [{"payload": {"id": "x"}}]},
		{"$ref": "#/components/messages/b"}]}}},
	"bound": {"bindings": {"kafka": {"topic": "orders-v1"}}, "subscribe": {"message":
		{"schemaFormat": "application/vnd.google.protobuf;version=3",
		 "payload": "syntax = \"proto3\"; message Order { string id = 1; }", "examples": [{"payload": {"id": "x"}}]}}}},
	"components": {"messages": {"b": {"payload": {"examples": [{"id": 1}]}}}}}`

// TestAsyncAPIGivesRecords checks what is taken from documents.
func TestAsyncAPIGivesRecords(t *testing.T) {
	dir := inFolder(t, map[string]string{"v3.yaml": asyncV3, "v2.json": asyncV2})
	for _, one := range []struct {
		input, topic, kind, promise string
		samples                     int
		form                        history.IDForm
	}{
		{"asyncapi: {file: v3.yaml, channel: orders, message: created}", "shop.orders", format.JSON, "the 2 of v3.yaml", 2,
			history.IDUUID4},
		{"topic: mine\n  asyncapi: {file: v3.yaml, channel: shop.orders, message: cancelled}", "mine", format.JSON,
			"the 1 of v3.yaml", 1, history.IDText},
		{"asyncapi: {file: v3.yaml, channel: orders, message: created}\n  format: json-schema\n  framing: apicurio",
			"shop.orders", format.JSONSchema, "the 2 of v3.yaml", 2, history.IDUUID4},
		{"asyncapi: {file: v3.yaml, channel: other/one}", "", format.Avro, "as Avro", 1, history.IDText},
		{"asyncapi: {file: v2.json, channel: shop.orders, message: a}", "shop.orders", format.JSON, "the 1 of v2.json", 1,
			history.IDText},
		{"asyncapi: {file: v2.json, channel: shop.orders, message: b}", "shop.orders", format.JSON, "the 1 of v2.json", 1,
			history.IDInt64},
		{"asyncapi: {file: v2.json, channel: bound}", "orders-v1", format.Protobuf, "as Protobuf", 1, history.IDText},
	} {
		text := service + "input:\n  id: {at: $.id}\n  " + one.input + "\n"
		subject, err := ParseSubject(filepath.Join(dir, "subject.yaml"), []byte(text))
		if err != nil {
			t.Errorf("%s: %v", one.input, err)
			continue
		}
		if subject.Input.Topic != one.topic || subject.Input.Format != one.kind || subject.Samples.Len() != one.samples ||
			subject.Samples.Form != one.form {
			t.Errorf("%s: read as %+v, %d samples with ids as %s", one.input, subject.Input, subject.Samples.Len(),
				subject.Samples.Form)
		}
		if hasSchema := one.kind != format.JSON; hasSchema != (len(subject.Formats()) > 0) {
			t.Errorf("%s: %d schemas", one.input, len(subject.Formats()))
		}
		if described, err := subject.Describe(); err != nil || !strings.Contains(described.Promises[0], one.promise) {
			t.Errorf("%s: %q, %v", one.input, described.Promises, err)
		}
	}
}

// TestAsyncAPIKeepsValues compares the values with those of the document, and the schema with what it refers to.
func TestAsyncAPIKeepsValues(t *testing.T) {
	dir := inFolder(t, map[string]string{"v3.yaml": asyncV3})
	m, problems := readAsyncAPI(AsyncAPI{Channel: "orders", Message: "created"}, filepath.Join(dir, "v3.yaml"))
	if problems != nil {
		t.Fatal(problems)
	}
	want := []string{`{"value":{"id":"6f1c2a90-3f0e-4d55-9f6e-0f3f4a1b7c01","total":12.50,"note":null,` +
		`"at":"2026-03-02T09:14:05Z"},"headers":{"type":"created"}}`,
		`{"value":{"id":"b0f7f4de-8f0b-4b7e-8f55-1df1b8a0c902","total":1}}`}
	if got := strings.Split(strings.TrimSpace(string(m.text)), "\n"); !slices.Equal(got, want) {
		t.Errorf("the examples are\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
	if want := `{"type":"object","required":["id","total"],"additionalProperties":false,"properties":{"id":{"type":` +
		`"string"},"total":{"type":"number"},"note":{"type":["string","null"]},"at":{"type":"string"}}}`; m.schema != want {
		t.Errorf("the schema is\n%s\nwant\n%s", m.schema, want)
	}
}

func TestProblemsOfAsyncAPINameTheirPlace(t *testing.T) {
	broken := strings.Replace(asyncV3, "            total: 1\n", "            totl: 1\n", 1)
	dir := inFolder(t, map[string]string{
		"v3.yaml": asyncV3, "v2.json": asyncV2, "broken.yaml": broken,
		"v1.yaml": "asyncapi: 1.2.0\n", "empty.yaml": "asyncapi: 3.0.0\n", "bad.yaml": "asyncapi: [",
		"lost.yaml":   "asyncapi: 3.0.0\nchannels: {a: {messages: {m: {$ref: \"#/components/gone\"}}}}\n",
		"circle.yaml": "asyncapi: 3.0.0\nchannels: {a: {messages: {m: {$ref: \"#/channels/a/messages/m\"}}}}\n",
		"other.yaml":  "asyncapi: 3.0.0\nchannels: {a: {messages: {m: {payload: {$ref: \"./order.json\"}}}}}\n",
		"bare.yaml":   "asyncapi: 3.0.0\nchannels: {a: {messages: {m: {payload: {type: object}}}}}\n",
		"tree.yaml":   strings.Replace(asyncV3, "OrderCancelled\"}", "Recursive\"}", 1),
	})
	for _, one := range [][2]string{
		{"{file: gone.yaml, channel: a}", "gone.yaml: reading the AsyncAPI document"},
		{"{file: v1.yaml, channel: a}", "v1.yaml:1:1: this is no AsyncAPI document of version 2 or 3"},
		{"{file: empty.yaml, channel: a}", "the document has no channels"},
		{"{file: bad.yaml, channel: a}", "bad.yaml:1"},
		{"{file: v3.yaml, channel: order}", "v3.yaml:4:3: the document has no channel \"order\""},
		{"{file: v3.yaml, channel: orders}",
			"several messages: name one in subject.yaml (input.asyncapi.message): created, " + "cancelled"},
		{"{file: v3.yaml, channel: orders, message: creatd}", "has no message \"creatd\": it has created, cancelled"},
		{"{file: lost.yaml, channel: a}", "there is no #/components/gone in this document"},
		{"{file: circle.yaml, channel: a}", "lead in a circle"},
		{"{file: other.yaml, channel: a}", "references to other files are not read"},
		{"{file: bare.yaml, channel: a}", "the message has no examples with a payload"},
		{"{file: tree.yaml, channel: orders, message: cancelled}", "the schema contains itself here"},
		{"{file: broken.yaml, channel: orders, message: created}", "broken.yaml:27:13: the value does not fit the schema"},
		{"{file: v3.yaml, channel: orders, message: created}\n  format: avro", "the document says json: leave format out"},
		{"{file: v3.yaml, channel: orders, message: created}\n  samples: x", "samples and asyncapi exclude each other"},
		{"{file: v3.yaml, channel: orders, message: created, x: 1}", "x"},
		{"{channel: orders}", "file"},
	} {
		document, want := one[0], one[1]
		text := service + "input:\n  id: {at: $.id}\n  asyncapi: " + document + "\n"
		_, err := ParseSubject(filepath.Join(dir, "subject.yaml"), []byte(text))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s\n%v\nwant %q", document, err, want)
		}
	}
}

// FuzzAsyncAPI checks that no document ends the program, and that what is read from one are lines of JSON with places.
func FuzzAsyncAPI(f *testing.F) {
	f.Add([]byte(asyncV3), "orders", "created")
	f.Add([]byte(asyncV2), "bound", "")
	file := filepath.Join(f.TempDir(), "document")
	f.Fuzz(func(t *testing.T, data []byte, channel, message string) {
		if err := os.WriteFile(file, data, 0o600); err != nil {
			t.Fatal(err)
		}
		m, problems := readAsyncAPI(AsyncAPI{Channel: channel, Message: message}, file)
		if m == nil {
			if len(problems) == 0 || problems[0].Message == "" {
				t.Fatal("refused without a reason")
			}
			return
		}
		if lines := strings.Count(string(m.text), "\n"); lines != len(m.places) || lines == 0 {
			t.Fatalf("%d lines have %d places", lines, len(m.places))
		}
	})
}
