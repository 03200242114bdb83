package samples

import (
	"bytes"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// plain is JSON that names no schema; the others differ from it.
type plain struct{}

func (plain) IsJSON() bool      { return true }
func (plain) NamesSchema() bool { return false }

// wrapped writes a value as the byte 7 and the value without braces, so that it is JSON no more; it takes no "no".
type wrapped struct{ plain }

func (wrapped) IsJSON() bool { return false }

func (wrapped) Encode(value, _ []byte) ([]byte, error) {
	if bytes.Contains(value, []byte("no")) {
		return nil, errors.New("the value does not fit the schema: no")
	}
	return append([]byte{7}, bytes.Trim(value, "{}")...), nil
}

// named is JSON with a schema that records name.
type named struct{ plain }

func (named) Encode(value, _ []byte) ([]byte, error) { return value, nil }
func (named) NamesSchema() bool                      { return true }

// twice writes the id twice.
type twice struct{ plain }

func (twice) Encode(value, id []byte) ([]byte, error) {
	return slices.Concat([]byte(`{"id":"`), id, []byte(`","data":`), value, []byte("}")), nil
}

// hashed loses the id.
type hashed struct{ plain }

func (hashed) Encode(_, _ []byte) ([]byte, error) { return []byte("x"), nil }

func TestValuesAreWrittenInTheirFormat(t *testing.T) {
	for _, one := range []struct {
		format      Format
		want, large string // with ID in the place of the id; large with at least 100 bytes
	}{
		{wrapped{}, "\x07\x07" + `"id":"ID","a":"bc"`, "\x07\x07" + `"id":"ID","a":"bc` + "x+" + `"`},
		{named{}, "\x07" + `{"id":"ID","a":"bc"}`, "\x07" + `{"id":"ID","a":"bc"}` + " +"},
		{twice{}, "\x07" + `{"id":"ID","data":{"id":"ID","a":"bc"}}`, "\x07" + `{"id":"ID","data":{"id":"ID","a":"bc"}}` +
			" +"},
	} {
		set, problems := read(t, `{"id":"1","a":"bc"}`, Options{ID: place(t, "$.id"), Format: one.format})
		if len(problems) > 0 || !set.Enlarge(100) {
			t.Fatal(problems)
		}
		set = set.Framed(Frames{Value: Frame{Head: []byte{7}}})
		ids := history.NewIDsAs("run", set.Form, 10)
		id := ids.Append(nil, 5)
		if got := set.AppendValue(nil, 0, ids, 5, 0); string(got) != strings.ReplaceAll(one.want, "ID", string(id)) ||
			len(got) > set.Room(0, ids, 0) {
			t.Errorf("the value is %q, want %q", got, one.want)
		}
		got := string(set.AppendValue([]byte("before"), 0, ids, 5, 100))
		begin, end, _ := strings.Cut(strings.ReplaceAll(one.large, "ID", string(id)), "+")
		filling := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(got, "before"+begin), end), begin[len(begin)-1:])
		if !strings.HasPrefix(got, "before"+begin) || !strings.HasSuffix(got, end) || filling != "" || len(got) < 106 {
			t.Errorf("the large value is %q, want %q", got, one.large)
		}
	}
}

func TestSamplesThatDoNotFitAreNamedByTheirLine(t *testing.T) {
	_, problems := read(t, "{\"id\":\"1\"}\n\n{\"id\":\"2\",\"b\":\"no\"}\n",
		Options{ID: place(t, "$.id"), Format: wrapped{}})
	if len(problems) != 1 || problems[0].Line != 3 || !strings.Contains(problems[0].Message, "does not fit") {
		t.Errorf("problems: %+v", problems)
	}
	_, problems = read(t, `{"id":"1"}`, Options{ID: place(t, "$.id"), Format: hashed{}})
	if len(problems) != 1 || !strings.Contains(problems[0].Message, "make its field a string") {
		t.Errorf("problems: %+v", problems)
	}
}

// A text grows only where the format takes it, and never the id or a member's name.
func TestOnlyTextsGrow(t *testing.T) {
	for text, want := range map[string]bool{
		`{"id":"1"}`: false, `{"id":"1","long name":5}`: false, `{"id":"1","a":["",{"b":"c"}]}`: true,
		`{"z":"before","id":"1"}`: true, `{"id":"1","a":""}`: true, `{"id":"1","a":"\"quoted\""}`: true,
	} {
		set, problems := read(t, text, Options{ID: place(t, "$.id"), Format: wrapped{}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := set.Enlarge(200); got != want {
			t.Errorf("%s can grow: %v, want %v", text, got, want)
		}
		ids := history.NewIDsAs("run", set.Form, 10)
		value := set.AppendValue(nil, 0, ids, 0, 200)
		if want != (len(value) >= 200) || !bytes.Contains(value, ids.Append(nil, 0)) {
			t.Errorf("%s is written with %d bytes", text, len(value))
		}
	}
}

func TestDigestKnowsTheFormat(t *testing.T) {
	digests := map[string]bool{}
	for _, format := range []Format{nil, wrapped{}, twice{}} {
		set, problems := read(t, `{"id":"1"}`, Options{ID: place(t, "$.id"), Format: format})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		digests[set.Digest()] = true
	}
	if len(digests) != 3 {
		t.Errorf("three formats have %d digests", len(digests))
	}
}

// Keys are written in their format, with the record's id wherever they have that of their sample.
func TestKeysAreWrittenInTheirFormat(t *testing.T) {
	for line, want := range map[string]string{ // ID in the place of the id, K after the head
		`{"key":{"order":"o-1","n":1},"value":{"id":"o-1"}}`:        `Kx"order":"ID","n":1`,
		`{"key":["o-1",{"o-1":"o-1"}],"value":{"id":"o-1"}}`:        `Kx["ID",{"o-1":"ID"}]`,
		`{"key":{"order":"o\u002d1"},"value":{"id":"o-1"}}`:         `Kx"order":"ID"`,
		`{"key":"o-1","value":{"id":"o-1"}}`:                        `Kx"ID"`,
		`{"key":"customer","value":{"id":"o-1"}}`:                   `Kx"customer"`,
		`{"key":17,"value":{"id":17}}`:                              `KxID`,
		`{"key":{"a":"17","b":17,"c":17.0},"value":{"id":17}}`:      `Kx"a":"ID","b":ID,"c":17.0`,
		`{"key":null,"value":{"id":"o-1"}}`:                         "",
		`{"key":{"order":"o-1"},"headers":{},"value":{"id":"o-2"}}`: `Kx"order":"o-1"`,
	} {
		options := Options{ID: place(t, "$.id"), Lines: LinesEnvelope, Key: keyed{}}
		set, problems := Read(strings.NewReader(line), options)
		if problems != nil {
			t.Fatalf("%s: %+v", line, problems)
		}
		set = set.Framed(Frames{Key: Frame{Head: []byte("K")}})
		ids := history.NewIDsAs("run", set.Form, 10)
		got, id := "", string(ids.Append(nil, 5))
		switch key := set.At(0).Key; key.Kind {
		case KeyOwn:
			got = string(set.OwnKey(key.Index))
		case KeyID:
			if got = string(set.AppendKey(nil, 0, ids, 5)); len(got) != set.KeyRoom(0, ids) {
				t.Errorf("%s: %d bytes, not %d", line, len(got), set.KeyRoom(0, ids))
			}
		}
		if got != strings.ReplaceAll(want, "ID", id) {
			t.Errorf("%s: the key is %q, want %q", line, got, want)
		}
	}
}

// keyed writes the byte x and the key without braces; it takes no "no", and loses ids that are numbers of seven.
type keyed struct{ wrapped }

func (keyed) Encode(value, id []byte) ([]byte, error) {
	encoded, err := wrapped{}.Encode(value, id)
	if err != nil || bytes.HasPrefix(value, []byte("{\"lost")) {
		return []byte("x"), err
	}
	return append([]byte("x"), encoded[1:]...), nil
}

func TestProblemsOfKeysNameTheirLine(t *testing.T) {
	lines := `{"key":"a","value":{"id":"o-1"}}
{"value":{"id":"o-1"}}
{"key":"no","value":{"id":"o-1"}}
{"key":{"lost":"o-1"},"value":{"id":"o-1"}}
`
	_, problems := Read(strings.NewReader(lines), Options{ID: place(t, "$.id"), Lines: LinesEnvelope, Key: keyed{}})
	if len(problems) != 3 {
		t.Fatalf("problems: %+v", problems)
	}
	for i, want := range []string{"the record has no key", "does not fit the schema: no", "make its field a string"} {
		if problems[i].Line != i+2 || !strings.Contains(problems[i].Message, want) {
			t.Errorf("problem %d: %+v, want %q", i, problems[i], want)
		}
	}
}

// Headers of a framing go with what they are about.
func TestFramesHaveHeaders(t *testing.T) {
	set, problems := read(t, `{"id":"1"}`, Options{ID: place(t, "$.id"), Format: named{}})
	if problems != nil {
		t.Fatal(problems)
	}
	one := func(name string) Frame { return Frame{Headers: []Header{{Name: name}}} }
	set = set.Framed(Frames{Key: one("key"), Value: one("value"), Unknown: one("unknown")})
	for _, c := range []struct {
		key, value bool
		how        How
		want       string
	}{
		{true, true, 0, "key value"}, {false, true, 0, "value"}, {true, false, 0, "key"}, {false, false, 0, ""},
		{true, true, UnknownSchemaID, "key unknown"}, {true, true, Truncated, "key value"},
	} {
		var names []string
		for _, header := range set.Headers(0, c.key, c.value, c.how) {
			names = append(names, header.Name)
		}
		if got := strings.Join(names, " "); got != c.want {
			t.Errorf("%+v: %s", c, got)
		}
	}
	if got := strings.Join(set.HeaderNames(), " "); got != "key value" {
		t.Errorf("the set's headers: %s", got)
	}
}
