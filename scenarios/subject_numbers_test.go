package scenarios

import (
	"encoding/base64"
	"encoding/binary"
	"math"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/twmb/avro"
	"google.golang.org/protobuf/encoding/protowire"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// TestNumbersInSchemas has values read by other code than that which wrote them: the id is the number that the field
// has, it is found in the value, also in base64, and not in a truncated one.
func TestNumbersInSchemas(t *testing.T) {
	inAvro := func(kind string) string {
		return `{"type":"record","name":"A","fields":[{"name":"name","type":"string"},{"name":"id","type":` + kind +
			`},{"name":"more","type":"string"}]}`
	}
	inProto := func(kind string) string {
		return `syntax = "proto3"; message A { string name = 1; ` + kind + ` id = 20; string more = 3; }`
	}
	for kind, schema := range map[string]string{
		"avro long": inAvro(`"long"`), "avro double": inAvro(`"double"`), "avro union": inAvro(`["null","long"]`),
		"avro string": inAvro(`"string"`), "protobuf int64": inProto("int64"), "protobuf uint64": inProto("uint64"),
		"protobuf sint64": inProto("sint64"), "protobuf fixed64": inProto("fixed64"), "protobuf double": inProto("double"),
		"protobuf sfixed64": inProto("sfixed64"), "protobuf string": inProto("string"),
	} {
		t.Run(kind, func(t *testing.T) {
			format, field, _ := strings.Cut(kind, " ")
			read := readProto(field)
			if format == "avro" {
				read = readAvro(t, schema)
			}
			sample := `{"name":"ä\u0000","id":7,"more":"é"}`
			if field == "string" {
				sample = `{"name":"ä\u0000","id":"7","more":"é"}`
			}
			dir := inFolder(t, map[string]string{"s.jsonl": sample, "schema": schema, "subject.yaml": service +
				"input: {samples: s.jsonl, id: {at: $.id}, format: " + format + ", schema: schema, framing: none}\n"})
			subject, err := LoadSubject(filepath.Join(dir, "subject.yaml"))
			if err != nil {
				t.Fatal(err)
			}
			rapid.Check(t, func(t *rapid.T) {
				const records = 100_000
				ids := history.NewIDsAs("run", subject.Samples.Form, records)
				seq := rapid.Int32Range(0, records-1).Draw(t, "seq")
				value := subject.Samples.AppendValue(nil, 0, ids, seq, 0)
				if id, err := read(value); err != nil || id != ids.Token(seq) {
					t.Fatalf("the value %x has the id %s, %v; want %s", value, id, err, ids.Token(seq))
				}
				if len(value) != subject.Samples.Room(0, ids, 0) {
					t.Fatalf("%d bytes, not %d", len(value), subject.Samples.Room(0, ids, 0))
				}
				encoded := base64.StdEncoding.EncodeToString(value)
				for _, carried := range []string{string(value), `{"payload":"` + encoded + `"}`} {
					if got, found := ids.Find([]byte(carried)); !found || got != seq {
						t.Fatalf("found %d, %v in %q; want %d", got, found, carried, seq)
					}
				}
				cut := subject.Samples.AppendMalformed(nil, samples.Truncated, 0, ids, seq)
				if id, err := read(cut); err == nil {
					t.Fatalf("a truncated value %x has the id %s", cut, id)
				}
				if got, found := ids.Find(cut); found {
					t.Fatalf("found %d in a truncated value", got)
				}
				other := subject.Samples.AppendMalformed(nil, samples.UnknownSchemaID, 0, ids, seq)
				id, err := read(other)
				if _, found := ids.Find(other); found || err != nil || len(other) != len(value) {
					t.Fatalf("with an unknown schema, the value has the id %s, %v", id, err)
				}
			})
		})
	}
}

func readAvro(t *testing.T, text string) func(value []byte) (string, error) {
	schema, err := avro.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	return func(value []byte) (string, error) {
		var read map[string]any
		if rest, err := schema.Decode(value, &read); err != nil || len(rest) > 0 {
			return "", err
		}
		switch id := read["id"].(type) {
		case int64:
			return strconv.FormatInt(id, 10), nil
		case float64:
			return strconv.FormatFloat(id, 'f', 0, 64), nil
		}
		return read["id"].(string), nil
	}
}

// readProto reads field 20, which has that type.
func readProto(field string) func(value []byte) (string, error) {
	as := map[string]func([]byte) string{
		"int64":   func(b []byte) string { n, _ := binary.Uvarint(b); return strconv.FormatUint(n, 10) },
		"sint64":  func(b []byte) string { n, _ := binary.Varint(b); return strconv.FormatInt(n, 10) },
		"fixed64": func(b []byte) string { return strconv.FormatUint(binary.LittleEndian.Uint64(b), 10) },
		"double": func(b []byte) string {
			return strconv.FormatFloat(math.Float64frombits(binary.LittleEndian.Uint64(b)), 'f', 0, 64)
		},
		"string": func(b []byte) string { text, _ := protowire.ConsumeBytes(b); return string(text) },
	}
	as["uint64"], as["sfixed64"] = as["int64"], as["fixed64"]
	return func(value []byte) (id string, err error) {
		for len(value) > 0 {
			number, kind, head := protowire.ConsumeTag(value)
			length := protowire.ConsumeFieldValue(number, kind, value[max(head, 0):])
			if head < 0 || length < 0 {
				return "", protowire.ParseError(min(head, length))
			}
			if number == 20 {
				id = as[field](value[head : head+length])
			}
			value = value[head+length:]
		}
		return id, nil
	}
}
