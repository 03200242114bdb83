package format

import (
	"encoding/hex"
	"fmt"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// framed returns what a framing adds, headers first.
func framed(frame Frame) string {
	var text strings.Builder
	for _, header := range frame.Headers {
		value := string(header.Value)
		switch {
		case header.IsID:
			value = "ID"
		case strings.ContainsFunc(value, func(r rune) bool { return r < ' ' || r > '~' }):
			value = hex.EncodeToString(header.Value)
		}
		fmt.Fprintf(&text, "%s=%s ", header.Name, value)
	}
	return text.String() + hex.EncodeToString(frame.Head)
}

// TestFrames compares what framings add with what the serializers write: header_schema_id_serializer of confluent-kafka
// 2.16, and Apicurio 3's DefaultHeadersHandler, Legacy8ByteIdHandler and ProtobufSerializer.
func TestFrames(t *testing.T) {
	const guid = "1b2d3c4d-0000-4abc-8def-0102030405ff"
	named := Named{ID: 258, GUID: guid, URL: "http://r"}
	bytes := strings.ReplaceAll(guid, "-", "")
	for _, one := range []struct{ kind, message, framing, part, want string }{
		{Avro, "", FramingConfluent, Value, "0000000102"},
		{Avro, "", FramingConfluentHeaders, Value, "__value_schema_id=01" + bytes + " "},
		{Avro, "", FramingConfluentHeaders, Key, "__key_schema_id=01" + bytes + " "},
		{Protobuf, "", FramingConfluentHeaders, Value, "__value_schema_id=01" + bytes + "00 "},
		{Protobuf, "shop.Order.Line", FramingConfluentHeaders, Value, "__value_schema_id=01" + bytes + "040200 "},
		{Avro, "", FramingApicurio, Value, "000000000000000102"},
		{JSONSchema, "", FramingApicurio, Key, "000000000000000102"},
		// A Ref is the field 1 with the name, and its length is before it.
		{Protobuf, "shop.Order", FramingApicurio, Value, "000000000000000102" + "070a05" +
			hex.EncodeToString([]byte("Order"))},
		{Avro, "", FramingApicurioHeaders, Value, "apicurio.value.globalId=0000000000000102 " +
			"apicurio.value.contentId=0000000000000102 apicurio.value.encoding=BINARY "},
		{JSONSchema, "", FramingApicurioHeaders, Key, "apicurio.key.globalId=0000000000000102 " +
			"apicurio.key.contentId=0000000000000102 "},
		{Protobuf, "", FramingApicurioHeaders, Value, "apicurio.value.globalId=0000000000000102 " +
			"apicurio.value.contentId=0000000000000102 " + "070a05" + hex.EncodeToString([]byte("Other"))},
		{Avro, "", FramingEvent, Value, "ce_specversion=1.0 ce_id=ID ce_type=t ce_source=/s content-type=application/avro " +
			"ce_dataschema=http://r/schemas/ids/258 "},
		{JSON, "", FramingEvent, Value, "ce_specversion=1.0 ce_id=ID ce_type=t ce_source=/s content-type=application/json "},
		{JSON, "", FramingEventStructured, Value, "content-type=application/cloudevents+json; charset=UTF-8 "},
		{JSON, "", FramingNone, Key, ""},
		{Avro, "", FramingNone, Value, ""},
	} {
		schema := map[string]string{Avro: order, JSONSchema: jsonSchema, Protobuf: messages}[one.kind]
		f := must.Get(Load(Options{Kind: one.kind, Part: one.part, File: written(t, "schema", schema), Message: one.message,
			Framing: one.framing, Event: Event{Type: "t", Source: "/s"}}))(t)
		if got := framed(f.Frame(named)); got != one.want {
			t.Errorf("%s %s %s adds %q, want %q", one.framing, one.kind, one.part, got, one.want)
		}
		names := framed(f.Absent("http://r")) != one.want && one.want != ""
		if f.NamesSchema() != names {
			t.Errorf("%s %s names a schema: %v, but an absent one has %q", one.framing, one.kind, f.NamesSchema(),
				framed(f.Absent("http://r")))
		}
	}
}

func TestEventsHoldTheirData(t *testing.T) {
	f := must.Get(Load(Options{Kind: JSON, Framing: FramingEventStructured, Event: Event{Type: `a"b`, Source: "/s"}}))(t)
	got, err := f.Encode([]byte(`{ "id":"i-1" }`), []byte("i-1"))
	if want := `{"specversion":"1.0","id":"i-1","source":"/s","type":"a\"b","datacontenttype":"application/json",` +
		`"data":{ "id":"i-1" }}`; err != nil || string(got) != want {
		t.Errorf("made %s, %v; want %s", got, err, want)
	}
}

func TestFramingsThatDoNotFit(t *testing.T) {
	for _, one := range []struct{ kind, framing, part, want string }{
		{JSON, FramingConfluent, Value, "a format that has a schema"},
		{JSON, FramingApicurioHeaders, Key, "a format that has a schema"},
		{Avro, FramingEventStructured, Value, "values of JSON"},
		{JSON, FramingEvent, Key, "about values"},
		{JSON, FramingEvent, Value, ""}, {Avro, FramingEvent, Value, ""}, {JSONSchema, FramingEventStructured, Value, ""},
		{Protobuf, FramingNone, Key, ""}, {JSON, FramingNone, Value, ""}, {Avro, FramingConfluentHeaders, Key, ""},
	} {
		got := Fits(one.kind, one.framing, one.part)
		if one.want == "" && got != "" || !strings.Contains(got, one.want) {
			t.Errorf("%+v: %q", one, got)
		}
	}
}
