package samples

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// cutting is a format in which a value has one member less; it keeps the id.
type cutting struct {
	named
	member string
}

func (c cutting) Encode(value, _ []byte) ([]byte, error) {
	return bytes.ReplaceAll(value, []byte(c.member), nil), nil
}

func TestOldSchemas(t *testing.T) {
	set, problems := read(t, `{"id":"1","a":"bc"}`, Options{ID: place(t, "$.id"), As: history.IDText, Format: named{}})
	if len(problems) > 0 {
		t.Fatal(problems)
	}
	if _, err := set.Age(); err != nil {
		t.Error(err)
	}
	index, err := set.Age(losing{}, cutting{member: `,"a":"bc"`}, cutting{member: "{"})
	if err != nil || index != 1 {
		t.Errorf("the earlier schema is the one at %d, %v", index, err)
	}
	set = set.Framed(Frames{Value: Frame{Head: []byte("new"), Headers: []Header{{Name: "new"}}},
		Old: Frame{Head: []byte("old"), Headers: []Header{{Name: "old"}}}})
	ids := history.NewIDsAs("run", set.Form, 10)
	want := `old{"id":"` + string(ids.Append(nil, 5)) + `"}`
	if got := set.AppendMalformed(nil, OldSchema, 0, ids, 5); string(got) != want {
		t.Errorf("the value is %s, want %s", got, want)
	}
	if headers := set.Headers(0, true, true, OldSchema); len(headers) != 1 || headers[0].Name != "old" {
		t.Errorf("the headers are %+v", headers)
	}
	if _, err := set.Age(losing{}); err == nil || !strings.Contains(err.Error(), "sample 1 without the field") {
		t.Errorf("a schema without the id: %v", err)
	}
}

// losing loses the id, and names its schema.
type losing struct{ named }

func (losing) Encode(_, _ []byte) ([]byte, error) { return []byte("x"), nil }

// In an oversized value the id is as it was, and one other text or number is very long.
func TestOversizedFields(t *testing.T) {
	for name, one := range map[string]struct {
		line, found string // what is oversized; "" if nothing can be
		format      Format
	}{
		"the longest text": {`{"id":"1","a":"b","c":{"d":"ef"}}`, "ef", nil},
		"before the id":    {`{"a":"bc","id":"1"}`, "bc", nil},
		"beside a number":  {`{"a":"bc","id":1,"n":1}`, "bc", nil},
		"a number":         {`{"id":"1","n":12.5,"ok":true}`, "9999999999", nil},
		"a number before":  {`{"n":1,"id":1}`, "9999999999", nil},
		"nothing":          {`{"id":"1","ok":true}`, "", nil},
		"in a format":      {`{"id":"1","a":"bc"}`, "bc", wrapped{}},

		"named":         {`{"id":"1","a":"bc"}`, "bc", named{}},
		"written twice": {`{"id":"1","a":"bc"}`, "bc", twice{}},
	} {
		set, problems := read(t, one.line, Options{ID: place(t, "$.id"), Format: one.format})
		if len(problems) > 0 {
			t.Fatalf("%s: %v", name, problems)
		}
		err := set.Oversize()
		if one.found == "" {
			if err == nil || !strings.Contains(err.Error(), "sample 1 has no text and no number") {
				t.Errorf("%s: %v", name, err)
			}
			continue
		}
		ids := history.NewIDsAs("run", set.Form, 10)
		value := set.AppendMalformed(nil, OversizedField, 0, ids, 5)
		more := len(value) - len(set.AppendValue(nil, 0, ids, 5, 0))
		if seq, found := ids.Find(value); err != nil || !found || seq != 5 || !bytes.Contains(value, []byte(one.found)) ||
			more < oversizedDigits-4 || more > Oversize || set.isJSON() != json.Valid(value) {
			t.Errorf("%s: %d bytes more, %v: %.100s", name, more, err, value)
		}
	}
	huge, _ := read(t, `{"id":"1","a":"`+strings.Repeat("b", largestOversized-Oversize)+`"}`,
		Options{ID: place(t, "$.id")})
	if err := huge.Oversize(); err == nil || !strings.Contains(err.Error(), "would not fit into a record of 1 MiB") {
		t.Errorf("a sample that is large already: %v", err)
	}
}
