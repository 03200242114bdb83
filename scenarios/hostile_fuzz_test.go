package scenarios

import (
	"fmt"
	"runtime/metrics"
	"strings"
	"testing"
)

// laughs is a text in which each line stands for ten times the one before.
func laughs(lines int) string {
	var text strings.Builder
	text.WriteString("a0: &a0 ha\n")
	for i := 1; i < lines; i++ {
		fmt.Fprintf(&text, "a%d: &a%d [%s]\n", i, i, strings.TrimSuffix(strings.Repeat(fmt.Sprintf("*a%d, ", i-1), 10), ", "))
	}
	return text.String()
}

// numbered is many keys, each another one.
func numbered(count int, form string) string {
	var text strings.Builder
	for i := range count {
		fmt.Fprintf(&text, form, i)
	}
	return text.String()
}

// TestHostileFilesCostLittle: what is set aside for a file, and what is said about it, stays in proportion to its size.
// Work that grows with the square of it would show there: the largest of these would take gigabytes.
func TestHostileFilesCostLittle(t *testing.T) {
	const size = 60_000
	fill := func(text string) string { return strings.Repeat(text, size/len(text)) }
	for name, text := range map[string]string{
		"brackets":           strings.Repeat("[", 100_000),
		"one line of 1 MB":   "name: " + strings.Repeat("x", 1<<20),
		"one long line":      "name: " + fill("x"),
		"a long key":         fill("k") + ": 1\n",
		"anchors":            numbered(100_000, "a%d: &a x\n"),
		"anchors, fewer":     numbered(4_000, "k%d: &a x\n"),
		"anchors in a line":  fill("&a "),
		"aliases":            "[" + fill("*a,") + "]",
		"billion laughs":     laughs(30),
		"merges":             fill("<<: *a\n"),
		"one key, repeated":  fill("a: 1\n"),
		"repeated in braces": "{" + fill("a: 1, ") + "}",
		"many keys":          numbered(12_000, "k%d: 1\n"),
		"keys in braces":     "{" + numbered(6_000, "k%d: 1, ") + "}",
		"keys without value": "{" + fill("a,") + "}",
		"many faults":        "name: x\nfaults:\n" + fill("- {at: 1s, x: y}\n"),
		"no faults":          "faults: [" + fill("{},") + "]",
		"wrong faults":       "faults: [" + fill("a,") + "]",
		"tags":               fill("!!x "),
		"quotes":             fill("\""),
		"colons":             fill("a: "),
		"documents":          fill("---\n"),
		"a number":           "name: " + fill("1"),
	} {
		before := setAside()
		_, err := Parse("hostile.yaml", []byte(text))
		cost := setAside() - before
		problems := asProblems(t, err)
		if limit := uint64(64<<20 + 4_000*len(text)); cost > limit {
			t.Errorf("%s: %d MiB were set aside for %d bytes", name, cost>>20, len(text))
		}
		if said := len(problems.Error()); len(problems.Problems) > mostProblems+1 || said > 300_000+2*len(text) {
			t.Errorf("%s: %d problems in %d bytes are told of %d", name, len(problems.Problems), said, len(text))
		}
	}
}

// setAside is what has been allocated so far, in bytes.
func setAside() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// TestManyProblemsAreCounted: the first are told, in order, and how many more there are.
func TestManyProblemsAreCounted(t *testing.T) {
	_, err := Parse("many.yaml", []byte(least+numbered(mostProblems+7, "k%d: 1\n")))
	problems := asProblems(t, err).Problems
	if len(problems) != mostProblems+1 || problems[0].Line != 4 || problems[mostProblems-1].Line != 3+mostProblems {
		t.Fatalf("%d problems, the first is %v", len(problems), problems[0])
	}
	if last := problems[mostProblems]; last.Message != "there are 7 more problems" || last.File != "many.yaml" {
		t.Errorf("the last is %v", last)
	}
	_, err = Parse("many.yaml", []byte(least+numbered(mostProblems, "k%d: 1\n")))
	if told := asProblems(t, err).Problems; len(told) != mostProblems || told[mostProblems-1].Line == 0 {
		t.Errorf("of %d problems %d are told", mostProblems, len(told))
	}
}

// TestLongLinesAreShownInPart: around the place, with the caret below it.
func TestLongLinesAreShownInPart(t *testing.T) {
	line := strings.Repeat("a", 1000) + "é" + strings.Repeat("b", 500)
	for _, column := range []int{1, 150, 1001, 1400, 1501, 1502} {
		shown := strings.Split(Problem{File: "f", Line: 1, Column: column, Source: line, Message: "m"}.String(), "\n")
		runes, caret := []rune(shown[1]), len([]rune(shown[2]))-1
		want := []rune(line + "  ")[column-1]
		if len(runes) > 4+400 || caret > len(runes) || string(append(runes, ' ')[caret]) != string(want) {
			t.Errorf("column %d: the caret is at %d of %d", column, caret, len(runes))
		}
	}
	short := strings.Repeat("a", 400)
	if shown := (Problem{File: "f", Line: 1, Column: 400, Source: short, Message: "m"}).String(); !strings.Contains(shown,
		short) {
		t.Error("a line that fits is cut")
	}
}

// TestLargeFilesAreNotRead: what is said of them is that they are too large, and nothing of what is in them.
func TestLargeFilesAreNotRead(t *testing.T) {
	for text, want := range map[string]string{
		strings.Repeat("#", maxFile+1):    "more than 256 KiB is not read",
		strings.Repeat("\n", maxLines):    "the file has 5001 lines; more than 5000 are not read",
		strings.Repeat("#", maxFile):      "the file is empty",
		strings.Repeat("\n", maxLines-1):  "the file is empty",
		strings.Repeat("a: 1\n", 100_000): "more than 256 KiB is not read",
	} {
		_, err := Parse("large.yaml", []byte(text))
		if problems := asProblems(t, err).Problems; len(problems) != 1 || !strings.Contains(problems[0].Message, want) {
			t.Errorf("%d bytes: %d problems, the first is %.200v; want %q", len(text), len(problems), problems[0], want)
		}
	}
}
