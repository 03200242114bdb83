package format

import (
	"encoding/hex"
	"strings"
	"testing"
)

const changing = `syntax = "proto3";
package shop;
message Order {
  string id = 1;
  optional string note = 2; // since 2024
  oneof paid { string by = 3; }
  repeated Line
    lines = 4;
  message Line { string sku = 1; }
  int32 n = 5;
}
message Required { string id = 1; }`

// TestOlder compares what is written with an earlier schema with bytes made by hand. The schema lacks the field.
func TestOlder(t *testing.T) {
	type older struct{ lacks, value string } // in the order of preference
	for name, one := range map[string]struct {
		kind, schema, message, value string
		want                         []older
	}{
		"avro": {Avro, order, "", `{"id":"ab","n":4,"lines":[],"at":5,"note":"x"}`, []older{
			{`"n"`, "046162" + "020278" + "00" + "0a"}, {`"note"`, "046162" + "00" + "0a" + "08"},
		}},
		"avro, where a later field needs the type of the one with a default": {Avro, `{"type":"record","name":"A","fields":[
			{"name":"a","type":{"type":"enum","name":"E","symbols":["X"]},"default":"X"},{"name":"b","type":"E"}]}`, "",
			`{"a":"X","b":"X"}`, nil},
		"avro, not a record": {Avro, `"string"`, "", `"x"`, nil},
		"json": {JSONSchema, jsonSchema, "", `{ "n" : 1 , "id" : "ab" }`, []older{
			{`"n"`, hex.EncodeToString([]byte(`{  "id" : "ab" }`))},
		}},
		"json, without properties": {JSONSchema, `{"type":"object"}`, "", `{}`, nil},
		"protobuf": {Protobuf, changing, "shop.Order", `{"id":"ab","note":"x","by":"y","n":7,"lines":[{"sku":"s"}]}`, []older{
			{"lines = 4", "0a026162" + "120178" + "2807" + "1a0179"}, {"note = 2", "0a026162" + "22030a0173" + "2807" +
				"1a0179"},
			{"n = 5", "0a026162" + "120178" + "22030a0173" + "1a0179"}, {"id = 1;\n", "120178" + "22030a0173" + "2807" +
				"1a0179"},
		}},
		"protobuf, one field": {Protobuf, changing, "shop.Required", `{"id":"ab"}`, []older{{"", ""}}},
	} {
		f := load(t, one.kind, one.schema, one.message, FramingConfluent)
		all := f.Older()
		if len(all) != len(one.want) {
			t.Errorf("%s: %d earlier versions, want %d", name, len(all), len(one.want))
			continue
		}
		for i, want := range one.want {
			got, err := all[i].Encode([]byte(one.value), nil)
			if err != nil || hex.EncodeToString(got) != want.value {
				t.Errorf("%s: version %d is %x, %v; want %s", name, i, got, err, want.value)
			}
			if text := all[i].Schema.Schema; text == f.Schema.Schema || want.lacks != "" && strings.Contains(text, want.lacks) {
				t.Errorf("%s: version %d is %s, with %s", name, i, text, want.lacks)
			}
		}
	}
}

func TestWithout(t *testing.T) {
	for _, one := range []struct{ value, name, want string }{
		{`{"a":1,"b":2}`, "a", `{"b":2}`}, {`{"a":1,"b":2}`, "b", `{"a":1}`}, {`{"a":1}`, "a", `{}`},
		{`{ "a" : {"b":2} , "b" : [1] }`, "a", `{  "b" : [1] }`}, {`{"a":1}`, "b", `{"a":1}`}, {`[1]`, "a", `[1]`},
		{`{"a":1,"b":2,"a":3}`, "a", `{"b":2}`}, {`{"a":`, "a", `{"a":`},
	} {
		if got := string(without([]byte(one.value), one.name)); got != one.want {
			t.Errorf("%s without %s is %s, want %s", one.value, one.name, got, one.want)
		}
	}
}
