package scenarios

// What is wrong with a file, told as a compiler tells it: where, what, the line itself with a caret, and what to write
// instead.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
)

// Problem is one thing that is wrong with a file.
type Problem struct {
	// File is the file as it was named, or the --set argument with its flag ("--set workload.rate=5x").
	File string `json:"file"`
	// Line and Column count from 1; Column counts characters. 0 when the file as a whole is meant (it can't be read).
	Line   int `json:"line"`
	Column int `json:"column"`
	// Source is the line, or the --set argument.
	Source string `json:"source,omitempty"`
	// Message says what is wrong and what to do; Hint is a suggestion ("did you mean rate?").
	Message string `json:"message"`
	Hint    string `json:"hint,omitempty"`
}

// String is the problem in several lines, without a line end.
func (p Problem) String() string {
	var text strings.Builder
	text.WriteString(printable(p.File))
	if p.Line > 0 && !strings.HasPrefix(p.File, setFlag) {
		fmt.Fprintf(&text, ":%d:%d", p.Line, p.Column)
	}
	text.WriteString(": " + printable(p.Message))
	if p.Line > 0 {
		source, column := excerpt(printable(p.Source), p.Column)
		text.WriteString("\n    " + source + "\n    " + padding(source, column) + "^")
	}
	if p.Hint != "" {
		text.WriteString("\n    " + printable(p.Hint))
	}
	return text.String()
}

// excerpt cuts from a very long line what stands around the column, and returns where the column is in that.
func excerpt(line string, column int) (string, int) {
	const around = 200 // characters on both sides
	runes := []rune(line)
	if len(runes) <= 2*around {
		return line, column
	}
	from := max(0, min(column-around, len(runes)-2*around))
	return string(runes[from : from+2*around]), column - from
}

// printable keeps a line from doing anything to the terminal; every character stays one character, so the caret stays
// true.
func printable(line string) string {
	return strings.Map(func(r rune) rune {
		if r != '\t' && (r < ' ' || r >= 0x7f && r < 0xa0) {
			return '\uFFFD'
		}
		return r
	}, line)
}

// padding is as wide as what stands before the column: tabs stay tabs.
func padding(line string, column int) string {
	var pad strings.Builder
	for i, r := range []rune(line) {
		if i >= column-1 {
			break
		}
		if r != '\t' {
			r = ' '
		}
		pad.WriteRune(r)
	}
	return pad.String()
}

// Problems is the error of a file with something wrong: everything that is, in the order of the lines.
type Problems struct {
	Problems []Problem `json:"problems"`
}

// Error prints all problems as a compiler does.
func (p *Problems) Error() string {
	texts := make([]string, 0, len(p.Problems)+1)
	for _, problem := range p.Problems {
		texts = append(texts, problem.String())
	}
	if len(texts) > 1 {
		texts = append(texts, fmt.Sprintf("%d problems", len(p.Problems)))
	}
	return strings.Join(texts, "\n")
}

// mostProblems is how many problems of a file are told; a file with more is not what it was meant to be, and each one
// repeats its line.
const mostProblems = 200

// sorted returns the problems by place, the file's own before those of the command line; nil if there are none. Beyond
// mostProblems the last one tells how many there are.
func sorted(list []Problem) *Problems {
	if len(list) == 0 {
		return nil
	}
	slices.SortStableFunc(list, func(a, b Problem) int {
		isSet := func(p Problem) int { return min(1, max(0, strings.Count(p.File, setFlag))) }
		return cmp.Or(cmp.Compare(isSet(a), isSet(b)), strings.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line),
			cmp.Compare(a.Column, b.Column))
	})
	list = slices.Compact(list)
	if more := len(list) - mostProblems; more > 0 {
		list = append(list[:mostProblems:mostProblems],
			Problem{File: list[0].File, Message: fmt.Sprintf("there are %d more problems", more)})
	}
	return &Problems{Problems: list}
}

// hint suggests the known word that is nearest to what was written; "" if none is near.
func hint(word string, known []string) string {
	if near := Closest(word, known); near != "" {
		return fmt.Sprintf("did you mean %s?", near)
	}
	return ""
}

// Closest returns the known word with the smallest edit distance to word, "" when none is near enough to be what was
// meant.
func Closest(word string, known []string) string {
	best, least := "", max(1, len(word)/3)+1
	for _, candidate := range known {
		if d := distance(strings.ToLower(word), strings.ToLower(candidate)); d < least {
			best, least = candidate, d
		}
	}
	if best != "" || len(word) < 3 {
		return best
	}
	for _, candidate := range known {
		if strings.HasPrefix(candidate, word) || strings.HasSuffix(candidate, "_"+word) ||
			strings.HasSuffix(word, candidate) {
			return candidate
		}
	}
	return ""
}

// distance counts the insertions, deletions, substitutions and swaps of neighbours that turn a into b.
func distance(a, b string) int {
	before, previous, current := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range previous {
		previous[j] = j
	}
	for i := 1; i <= len(a); i++ {
		current[0] = i
		for j := 1; j <= len(b); j++ {
			change := 1
			if a[i-1] == b[j-1] {
				change = 0
			}
			current[j] = min(previous[j]+1, current[j-1]+1, previous[j-1]+change)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				current[j] = min(current[j], before[j-2]+1)
			}
		}
		before, previous, current = previous, current, before
	}
	return previous[len(b)]
}
