package samples

import (
	"bytes"
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// FuzzRead checks that whatever is read makes records in which the id stands at its place, and that whatever is refused
// says why.
func FuzzRead(f *testing.F) {
	f.Add([]byte(`{"order":{"id":"a"}}`), "$.order.id", false)
	f.Add([]byte("{\"key\":\"a\",\"headers\":{\"h\":null},\"value\":{\"id\":\"a\"}}\r\n\n"), "$['id']", true)
	f.Add([]byte("{\"id\":17}\n{\"id\":\"18\"}"), "$.id", false)
	f.Add([]byte("\ufeff[\"a\",\"\\ud800\"]\n[\"\\u0000\"]"), "$[0]", false)
	f.Fuzz(func(t *testing.T, file []byte, path string, envelope bool) {
		at, err := ParsePlace(path)
		if err != nil {
			return
		}
		options := Options{Lines: LinesValue, ID: at}
		if envelope {
			options.Lines = LinesEnvelope
		}
		set, problems := Read(bytes.NewReader(file), options)
		if set == nil {
			if len(problems) == 0 || len(problems) > maxProblems || problems[0].Message == "" {
				t.Fatalf("refused with %+v", problems)
			}
			return
		}
		ids := history.NewIDsAs("run", set.Form, set.Len())
		for i := range set.Len() {
			value := set.AppendValue(nil, int32(i), ids, int32(i), 0)
			if spot, err := at.Find(value); err != nil || spot.Text != ids.Token(int32(i)) || !json.Valid(value) {
				t.Fatalf("%q has %q at %s: %v", value, spot.Text, path, err)
			}
			if seq, found := ids.Find(value); !found || seq != int32(i) && !strings.Contains(string(file), "DLQB") {
				t.Fatalf("found %d, %v in %q", seq, found, value)
			}
		}
	})
}

// FuzzGuess checks that a place that is guessed leads to the texts that were found there.
func FuzzGuess(f *testing.F) {
	f.Add([]byte("{\"id\":1,\"a\":[{\"b.c\":\"x\"}]}\n{\"id\":2,\"a\":[{\"b.c\":\"y\"}]}"))
	f.Add([]byte("\ufeff{\"value\":{\"order\":{\"id\":\"a\"}},\"key\":\"k\"}\r\n\n"))
	f.Fuzz(func(t *testing.T, file []byte) {
		guess, err := GuessOf(bytes.NewReader(file))
		if err != nil {
			return
		}
		for _, one := range guess.IDs {
			place, err := ParsePlace(one.At)
			if err != nil || len(one.Texts) == 0 {
				t.Fatalf("%q has %d texts: %v", one.At, len(one.Texts), err)
			}
			first, _, _ := bytes.Cut(bytes.TrimSpace(bytes.TrimPrefix(file, []byte("\ufeff"))), []byte("\n"))
			if guess.Lines == LinesEnvelope {
				continue // the value is a part of the line
			}
			if spot, err := place.Find(first); err == nil && !slices.Contains(one.Texts, spot.Text) {
				t.Fatalf("%q is %q, not one of %q", one.At, spot.Text, one.Texts)
			}
		}
	})
}

// FuzzKeys checks that in whatever JSON is a key, each text and number that is the id is replaced, and nothing else.
func FuzzKeys(f *testing.F) {
	f.Add([]byte(`{"a":"o-1","b":[1,"\\u006f-1"],"o-1":{}}`), "o-1")
	f.Add([]byte(` [17, 17.0, "17"] `), "17")
	f.Fuzz(func(t *testing.T, key []byte, id string) {
		if !json.Valid(key) || id == "" {
			return
		}
		parts := around(key, func(one span) bool { return one.text == id })
		whole, from := 0, 0
		for _, one := range scalars(key) {
			if one.text == id {
				whole++
			}
		}
		if whole != len(parts.parts)-1 {
			t.Fatalf("%d ids in %q make %d parts", whole, key, len(parts.parts))
		}
		for _, part := range parts.parts {
			at := bytes.Index(key[from:], part)
			if at < 0 {
				t.Fatalf("%q is not in %q", part, key)
			}
			from += at + len(part)
		}
		if !json.Valid(parts.join([]byte("7"))) {
			t.Fatalf("%q became %q", key, parts.join([]byte("7")))
		}
	})
}
