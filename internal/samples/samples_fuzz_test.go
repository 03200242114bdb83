package samples

import (
	"bytes"
	"encoding/json"
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
			value := set.At(int32(i)).AppendValue(nil, ids, int32(i), 0)
			if spot, err := at.Find(value); err != nil || spot.Text != ids.Token(int32(i)) || !json.Valid(value) {
				t.Fatalf("%q has %q at %s: %v", value, spot.Text, path, err)
			}
			if seq, found := ids.Find(value); !found || seq != int32(i) && !strings.Contains(string(file), "DLQB") {
				t.Fatalf("found %d, %v in %q", seq, found, value)
			}
		}
	})
}
