package samples

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// wrapped writes a value as the byte 7 and the value without braces, so that it is JSON no more; it takes no "no".
type wrapped struct{}

func (wrapped) Head() int { return 0 }
func (framed) Head() int  { return 1 }
func (hashed) Head() int  { return 0 }

func (wrapped) Encode(value []byte) ([]byte, error) {
	if bytes.Contains(value, []byte("no")) {
		return nil, errors.New("the value does not fit the schema: no")
	}
	return append([]byte{7}, bytes.Trim(value, "{}")...), nil
}

// framed puts a byte before the JSON, as JSON with a schema has it.
type framed struct{}

func (framed) Encode(value []byte) ([]byte, error) { return append([]byte{7}, value...), nil }

// hashed loses the id.
type hashed struct{}

func (hashed) Encode([]byte) ([]byte, error) { return []byte("x"), nil }

func TestValuesAreWrittenInTheirFormat(t *testing.T) {
	for _, one := range []struct {
		format      Format
		want, large string // with ID in the place of the id; large with at least 100 bytes
	}{
		{wrapped{}, "\x07" + `"id":"ID","a":"bc"`, "\x07" + `"id":"ID","a":"bc` + "x+" + `"`},
		{framed{}, "\x07" + `{"id":"ID","a":"bc"}`, "\x07" + `{"id":"ID","a":"bc"}` + " +"},
	} {
		set, problems := read(t, `{"id":"1","a":"bc"}`, Options{ID: place(t, "$.id"), Format: one.format})
		if len(problems) > 0 || !set.Enlarge(100) {
			t.Fatal(problems)
		}
		ids := history.NewIDsAs("run", set.Form, 10)
		id := ids.Append(nil, 5)
		if got := set.At(0).AppendValue(nil, ids, 5, 0); string(got) != strings.Replace(one.want, "ID", string(id), 1) {
			t.Errorf("the value is %q, want %q", got, one.want)
		}
		got := string(set.At(0).AppendValue([]byte("before"), ids, 5, 100))
		begin, end, _ := strings.Cut(strings.Replace(one.large, "ID", string(id), 1), "+")
		filling := strings.Trim(strings.TrimSuffix(strings.TrimPrefix(got, "before"+begin), end), begin[len(begin)-1:])
		if !strings.HasPrefix(got, "before"+begin) || !strings.HasSuffix(got, end) || filling != "" || len(got) < 106 {
			t.Errorf("the large value is %q, want %q", got, one.large)
		}
	}
}

func TestSamplesThatDoNotFitAreNamedByTheirLine(t *testing.T) {
	_, problems := read(t, "{\"id\":\"1\"}\n\n{\"id\":\"no\",\"b\":\"no\"}\n", Options{ID: place(t, "$.id"), Format: wrapped{}})
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
		`{"z":"before","id":"1"}`: true, `{"id":"1","a":""}`: true, `{"id":"1","a":"\"quoted\""}`: false,
	} {
		set, problems := read(t, text, Options{ID: place(t, "$.id"), Format: wrapped{}})
		if len(problems) > 0 {
			t.Fatal(problems)
		}
		if got := set.Enlarge(200); got != want {
			t.Errorf("%s can grow: %v, want %v", text, got, want)
		}
		ids := history.NewIDsAs("run", set.Form, 10)
		value := set.At(0).AppendValue(nil, ids, 0, 200)
		if want != (len(value) >= 200) || !bytes.Contains(value, ids.Append(nil, 0)) {
			t.Errorf("%s is written with %d bytes", text, len(value))
		}
	}
}

func TestDigestKnowsTheFormat(t *testing.T) {
	digests := map[string]bool{}
	for _, format := range []Format{nil, wrapped{}, framed{}} {
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
