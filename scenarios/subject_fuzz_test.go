package scenarios

import (
	"errors"
	"strings"
	"testing"
)

// TestDeepNestingIsRefused: such files are told of at once; the parser would be busy with them for minutes.
func TestDeepNestingIsRefused(t *testing.T) {
	for _, text := range []string{
		strings.Repeat("[", 100_000), strings.Repeat("{a: ", 20_000), strings.Repeat("- ", 50_000), "name: x\nfaults: " +
			strings.Repeat("[", 65),
	} {
		_, err := Parse("deep.yaml", []byte(text))
		var problems *Problems
		if !errors.As(err, &problems) || len(problems.Problems) != 1 ||
			!strings.Contains(problems.Problems[0].Message, "nested too deeply") {
			t.Errorf("%.20q…: %v", text, err)
		}
	}
	if _, _, deep := tooDeep(strings.Repeat("a: [1, {b: 2}]\n- - x\n", 1000)); deep {
		t.Error("a long flat file is called deep")
	}
}

// FuzzParseSubject holds the reading of any text to an answer: a subject, or problems.
func FuzzParseSubject(f *testing.F) {
	for _, text := range []string{
		"name: x\nkind: process\ncommand: [a, b]\n", "name: x\ncontract: {attempts: {max: 3}}", "a: &a [*a]", "[[[[", "- - -",
		"contract: [", "",
		"name: x\nkind: process\ncommand: [a]\ninput: {samples: fuzz.jsonl, id: {at: $.a}}",
		"name: x\nkind: process\ncommand: [a]\ndownstreams: [{http: {id: {in: body, at: $.a}, answers: {logical: {status: " +
			"200}}}}]",
	} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		subject, err := ParseSubject("fuzz.yaml", []byte(text))
		if err == nil {
			if subject == nil {
				t.Fatal("neither a subject nor a problem")
			}
			return
		}
		var problems *Problems
		if !errors.As(err, &problems) || len(problems.Problems) == 0 {
			t.Fatalf("neither a subject nor problems: %v", err)
		}
	})
}
