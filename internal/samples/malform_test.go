package samples

import (
	"bytes"
	"encoding/json"
	"strings"
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
		{`{"id":"`, `","data":{"a":1,"id":+}}`, MissingField, `{"data":{"a":1}}`},
		{`{"id":"`, `","data":{"a":1,"id":+}}`, WrongType, `{"id":true,"data":{"a":1,"id":true}}`},
		{`{"id":"`, `","data":{"a":1,"id":+}}`, Truncated, `{"id":"12`},
		{`{"id":"`, `","data":{"a":1,"id":+}}`, NotJSON, `<"id":"","data":{"a":1,"id":}}`},
	} {
		got := Malform(nil, one.how, []byte("1234"), bytes.Split([]byte(one.before+"+"+one.after), []byte("+"))...)
		if one.how == MissingField && json.Valid(got) {
			var compact, want bytes.Buffer
			_, _ = json.Compact(&compact, got), json.Compact(&want, []byte(one.want))
			got, one.want = compact.Bytes(), want.String()
		}
		if string(got) != one.want {
			t.Errorf("%s: %s+id+%s became %s, want %s", one.how, one.before, one.after, got, one.want)
		}
	}
	set, _ := read(t, `{"id":"1"}`, Options{ID: place(t, "$.id"), As: history.IDText, Format: named{}})
	set = set.Framed(Frames{Value: Frame{Head: []byte("good")}, Unknown: Frame{Head: []byte("gone")}})
	ids := history.NewIDsAs("run", history.IDText, 10)
	for how, want := range map[How]string{
		NotJSON:         `good<"id":""}`,
		UnknownSchemaID: `gone{"id":"` + strings.Repeat("0", ids.Len()) + `"}`,
	} {
		if got := set.AppendMalformed([]byte("x"), how, 0, ids, 5); string(got) != "x"+want {
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
			value := Malform(nil, how, id, before, after)
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
	for format, want := range map[Format]Shape{nil: plainJSON(), wrapped{}: {}, named{}: {JSON: true, Named: true}} {
		set, problems := read(t, `{"id":"1","a":"bc"}`, Options{ID: place(t, "$.id"), Format: format})
		if len(problems) > 0 || set.Shape() != want || none.Shape() != plainJSON() {
			t.Errorf("%T: %+v, want %+v; %v", format, set.Shape(), want, problems)
		}
	}
}
