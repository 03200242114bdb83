package samples

import (
	"bytes"
	"encoding/json"
	"testing"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
)

func TestValuesAreMalformed(t *testing.T) {
	for _, one := range []struct {
		before, after string
		how           How
		want          string
	}{
		{`{"a":1,"id":"`, `","b":2}`, Truncated, `{"a":1,"id":"12`},
		{`{"a":1,"id":"`, `","b":2}`, NotJSON, `<"a":1,"id":"","b":2}`},
		{`{"a":1,"id":"`, `","b":2}`, WrongType, `{"a":1,"id":true,"b":2}`},
		{`{"a":1,"id":`, `,"b":2}`, WrongType, `{"a":1,"id":true,"b":2}`},
		{`{"a":1,"id":"`, `","b":2}`, MissingField, `{"a":1,"b":2}`},
		{`{"a":1,"id":"`, `"}`, MissingField, `{"a":1}`},
		{`{"id":"`, `","b":2}`, MissingField, `{"b":2}`},
		{`{"id":"`, `"}`, MissingField, `{}`},
		{`{"o":{"id":`, `}}`, MissingField, `{"o":{}}`},
		{"{ \"a\" : 1 , \"id\" :\n \"", "\" , \"b\" : 2 }", MissingField, `{ "a" : 1 , "b" : 2 }`},
		{`{"a":"\\","i\"d\\":"`, `"}`, MissingField, `{"a":"\\"}`},
		{`{"ids":["a","`, `","b"]}`, MissingField, `{"ids":["a","b"]}`},
		{`{"ids":["`, `"]}`, MissingField, `{"ids":[]}`},
	} {
		got := plainJSON().Malform(nil, one.how, []byte(one.before), []byte("1234"), []byte(one.after))
		if one.how == MissingField && json.Valid(got) {
			var compact, want bytes.Buffer
			_, _ = json.Compact(&compact, got), json.Compact(&want, []byte(one.want))
			got, one.want = compact.Bytes(), want.String()
		}
		if string(got) != one.want {
			t.Errorf("%s: %s+id+%s became %s, want %s", one.how, one.before, one.after, got, one.want)
		}
	}
	framed := Shape{JSON: true, Head: 5}
	for how, want := range map[How]string{
		NotJSON:         "\x00\x00\x00\x00\x01<\"id\":\"\"}",
		UnknownSchemaID: "\x00\x7f\xff\xff\xff{\"id\":\"0000\"}",
	} {
		got := framed.Malform([]byte("x"), how, []byte("\x00\x00\x00\x00\x01{\"id\":\""), []byte("1234"), []byte(`"}`))
		if string(got) != "x"+want {
			t.Errorf("%s: %q, want %q", how, got, want)
		}
	}
}

// In no malformed value is the record's id found, and only those with another type or without the field are JSON.
func TestMalformedValuesHaveNoID(t *testing.T) {
	text := func(from any) []byte {
		written, err := json.Marshal(from)
		if err != nil {
			t.Fatal(err)
		}
		return written
	}
	rapid.Check(t, func(t *rapid.T) {
		form := rapid.SampledFrom([]history.IDForm{history.IDText, history.IDUUID, history.IDInt64}).Draw(t, "form")
		ids := history.NewIDsAs("run", form, 1000)
		seq := rapid.Int32Range(0, 999).Draw(t, "seq")
		id, quote := ids.Append(nil, seq), `"`
		if form == history.IDInt64 && rapid.Bool().Draw(t, "number") {
			quote = ""
		}
		name, other := text(rapid.String().Draw(t, "name")), text(rapid.String().Draw(t, "other"))
		before := []byte(`{"x":` + string(other) + `,"o":{` + string(name) + `:` + quote)
		after := []byte(quote + `},"y":` + string(other) + `}`)
		if whole := append(append(append([]byte{}, before...), id...), after...); !json.Valid(whole) {
			t.Fatalf("%s is not JSON", whole)
		}
		for _, how := range plainJSON().Hows() {
			value := plainJSON().Malform(nil, how, before, id, after)
			if readable := how == WrongType || how == MissingField; json.Valid(value) != readable {
				t.Fatalf("%s: %s, JSON: %v", how, value, !readable)
			}
			if _, found := ids.Find(value); found {
				t.Fatalf("%s: an id is in %s", how, value)
			}
		}
	})
}

func TestShapeOfSets(t *testing.T) {
	var none *Set
	for format, want := range map[Format]Shape{nil: plainJSON(), wrapped{}: {}, framed{}: {JSON: true, Head: 1}} {
		set, problems := read(t, `{"id":"1","a":"bc"}`, Options{ID: place(t, "$.id"), Format: format})
		if len(problems) > 0 || set.Shape() != want || none.Shape() != plainJSON() {
			t.Errorf("%T: %+v, want %+v; %v", format, set.Shape(), want, problems)
		}
	}
}
