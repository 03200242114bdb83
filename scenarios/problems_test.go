package scenarios

import (
	"encoding/json"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"pgregory.net/rapid"
)

// TestProblems holds what is said about files with something wrong. Look at the golden files when they change: they are
// what users read.
func TestProblems(t *testing.T) {
	inputs, err := filepath.Glob("testdata/problems/*.yaml")
	if err != nil || len(inputs) == 0 {
		t.Fatalf("no inputs: %v", err)
	}
	subjects, err := filepath.Glob("testdata/subjects/bad*.yaml")
	if err != nil || len(subjects) == 0 {
		t.Fatalf("no subjects: %v", err)
	}
	for _, input := range append(inputs, subjects...) {
		t.Run(filepath.Base(input), func(t *testing.T) {
			if strings.Contains(input, "subjects") {
				_, err = LoadSubject(input)
			} else {
				_, err = Load(input)
			}
			problems := asProblems(t, err)
			checkPlaces(t, input, problems)
			text := strings.ReplaceAll(problems.Error(), filepath.Dir(input)+string(filepath.Separator), "") + "\n"
			golden(t, strings.TrimSuffix(input, ".yaml")+".golden", text)
		})
	}
}

func asProblems(t *testing.T, err error) *Problems {
	t.Helper()
	var problems *Problems
	if !errors.As(err, &problems) {
		t.Fatalf("want problems, have %v", err)
	}
	return problems
}

// checkPlaces holds every problem to a place that is in the file, with the line that stands there.
func checkPlaces(t *testing.T, path string, problems *Problems) {
	t.Helper()
	data, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimPrefix(string(data), "\ufeff"), "\n")
	for _, problem := range problems.Problems {
		if problem.File != path {
			t.Errorf("problem of %s, not %s: %v", problem.File, path, problem)
			continue
		}
		line := strings.TrimSuffix(lines[problem.Line-1], "\r")
		if problem.Source != line || problem.Column < 1 || problem.Column > len([]rune(line))+1 {
			t.Errorf("place %d:%d with source %q, the line is %q", problem.Line, problem.Column, problem.Source, line)
		}
	}
}

func golden(t *testing.T, path, text string) {
	t.Helper()
	if *update {
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if text != string(want) {
		t.Errorf("%s: have\n%s\nwant\n%s", path, text, want)
	}
}

func TestProblemsAreJSON(t *testing.T) {
	_, err := Parse("a.yaml", []byte("name: [1]\n"))
	text, jsonErr := json.Marshal(asProblems(t, err))
	if jsonErr != nil {
		t.Fatal(jsonErr)
	}
	want := `{"file":"a.yaml","line":1,"column":7,"source":"name: [1]","message":"name must be text; this is a list"}`
	if !strings.Contains(string(text), want) {
		t.Errorf("%s does not contain %s", text, want)
	}
}

func TestHostileTextStaysHarmless(t *testing.T) {
	_, err := Parse("a.yaml", []byte("name: x\nworkload: {rate: \"\\e[31m\", duration: 1s, \"\x1b[2J\": 1}\n"))
	if text := err.Error(); strings.ContainsAny(text, "\x1b\x07") {
		t.Errorf("control characters reach the terminal: %q", text)
	}
}

func TestClosest(t *testing.T) {
	known := []string{"rate", "duration", "retry_backoff_ms", "value_size", "KILL", "NOT_ENOUGH_REPLICAS"}
	for word, want := range map[string]string{
		"raet": "rate", "rates": "rate", "duraton": "duration", "backoff_ms": "retry_backoff_ms", "SIGKILL": "KILL",
		"value-size": "value_size", "kill": "KILL", "NOT_ENOUGH_REPLICA": "NOT_ENOUGH_REPLICAS", "xyz": "", "": "", "r": "",
	} {
		if have := Closest(word, known); have != want {
			t.Errorf("closest to %q is %q, want %q", word, have, want)
		}
	}
}

func TestDistanceIsAMetric(t *testing.T) {
	word := rapid.StringOfN(rapid.RuneFrom([]rune("abc_")), 0, 8, -1)
	rapid.Check(t, func(t *rapid.T) {
		a, b := word.Draw(t, "a"), word.Draw(t, "b")
		d := distance(a, b)
		if d != distance(b, a) || (d == 0) != (a == b) || d > max(len(a), len(b)) ||
			d < max(len(a), len(b))-min(len(a), len(b)) {
			t.Fatalf("distance(%q, %q) = %d, back %d", a, b, d, distance(b, a))
		}
	})
}

// FuzzParse holds the reading of any text to an answer: a scenario, or problems at places that exist.
func FuzzParse(f *testing.F) {
	for _, name := range Names() {
		data, _ := Shipped(name)
		f.Add(string(data))
	}
	for _, text := range []string{"a: &a [*a]", "? x\n: y", "a: {b: [", "- - -", "%YAML 1.2\n---\na: b", "a: |\n x\n y: z",
		"a: b: c", "\t", "a:\n  - b\n - c", "a: !!x y", "{a: 1, ? b}"} {
		f.Add(text)
	}
	f.Fuzz(func(t *testing.T, text string) {
		scenario, err := Parse("fuzz.yaml", []byte(text))
		if err == nil {
			if scenario.Name == "" {
				t.Fatal("a scenario without a name")
			}
			return
		}
		var problems *Problems
		if !errors.As(err, &problems) || len(problems.Problems) == 0 {
			t.Fatalf("neither a scenario nor problems: %v", err)
		}
		lines := strings.Count(text, "\n") + strings.Count(text, "\r") - strings.Count(text, "\r\n") + 1
		for _, problem := range problems.Problems {
			if problem.Line > lines || problem.Line < 0 || problem.Message == "" {
				t.Fatalf("a problem outside the file's %d lines: %+v", lines, problem)
			}
		}
		_ = problems.Error()
	})
}
