package samples

import (
	"slices"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

func TestTheIDIsGuessed(t *testing.T) {
	t.Parallel()
	for _, one := range []struct {
		name, lines string
		want        []string
		envelope    bool
	}{
		{"a UUID before a customer's id", `{"customerId": "c-1", "order": {"id": "0f8f1c2e-7f5c-4a41-9d2b-0c5fd7f4a001"}}
{"customerId": "c-2", "order": {"id": "0f8f1c2e-7f5c-4a41-9d2b-0c5fd7f4a002"}}`, []string{"$.order.id", "$.customerId"},
			false},
		{"somebody else's id first", `{"customerId": "c-1", "orderId": "o-1"}`, []string{"$.orderId", "$.customerId"}, false},
		{"somebody else first", `{"customer": {"id": "c-1"}, "order": {"id": "o-1"}}`,
			[]string{"$.order.id", "$.customer.id"},
			false},
		{"numbers", `{"amount": 12.5, "invoice_no": 17, "at": "2026-01-01T00:00:00Z"}
{"amount": 13.5, "invoice_no": 18, "at": "2026-01-02T00:00:00Z"}`, []string{"$.invoice_no"}, false},
		{"only what differs", `{"id": "1", "kind": "a", "reference": "x"}
{"id": "1", "kind": "a", "reference": "y"}`, []string{"$.reference"}, false},
		{"only what all have", "{\"id\": \"1\", \"n\": \"p\"}\n\n{\"n\": \"q\"}", []string{"$.n"}, false},
		{"an envelope", `{"key": "k", "value": {"orderId": "o-1"}}`, []string{"$.orderId"}, true},
		{"names in brackets", `{"order-id": "1", "odd.name": "2"}`, []string{"$.order-id", "$['odd.name']"}, false},
		{"elements", `{"lines": [{"id": "1"}], "id": "2"}`, []string{"$.id", "$.lines[0].id"}, false},
	} {
		t.Run(one.name, func(t *testing.T) {
			t.Parallel()
			guess, err := GuessOf(strings.NewReader(one.lines))
			var have []string
			for _, id := range guess.IDs {
				have = append(have, id.At)
			}
			if err != nil || !slices.Equal(have, one.want) || (guess.Lines == LinesEnvelope) != one.envelope {
				t.Errorf("guessed %+v (%v), want %v", guess, err, one.want)
			}
		})
	}
}

func TestSamplesWithoutAnID(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		`{"kind": "a"}` + "\n" + `{"kind": "a"}`: "no string or whole number is in each of 2 samples",
		`{"id": `:                                "line 1: reading JSON",
		"":                                       "no string or whole number",
		`{"a": 1.5, "mail": "x@example.org"}`:    "no string or whole number",
	} {
		if _, err := GuessOf(strings.NewReader(text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v, want %q", text, err, want)
		}
	}
}

// The path of each leaf leads to it.
func TestLeavesAreFound(t *testing.T) {
	t.Parallel()
	rapid.Check(t, func(t *rapid.T) {
		value := jsonValue(3).Draw(t, "value")
		leaves, err := Leaves([]byte(value))
		if err != nil {
			t.Fatal(err)
		}
		for _, leaf := range leaves {
			place, err := ParsePlace(leaf.At)
			if err != nil {
				t.Fatal(err)
			}
			spot, err := place.Find([]byte(value))
			if err != nil || spot.Text != leaf.Text || spot.Number != leaf.Number {
				t.Fatalf("%s in %s: found %+v (%v), want %+v", leaf.At, value, spot, err, leaf)
			}
		}
	})
}

// jsonValue generates JSON whose objects and arrays are at most this deep.
func jsonValue(depth int) *rapid.Generator[string] {
	return rapid.Custom(func(t *rapid.T) string {
		kind := rapid.IntRange(0, 2).Draw(t, "kind")
		if kind == 0 || depth == 0 {
			return rapid.SampledFrom([]string{`"text"`, `""`, `"\u00e4\"x"`, "17", "-1.5e3", "true", "null"}).Draw(t, "scalar")
		}
		inside := rapid.SliceOfN(jsonValue(depth-1), 0, 3).Draw(t, "inside")
		if kind == 1 {
			return "[" + strings.Join(inside, ", ") + "]"
		}
		names := rapid.Permutation([]string{"id", "a.b", "order-id", "x y", "it's", `q\"`, "é", ""}).Draw(t, "names")
		for i := range inside {
			inside[i] = `"` + names[i] + `": ` + inside[i]
		}
		return "{" + strings.Join(inside, ", ") + "}"
	})
}
