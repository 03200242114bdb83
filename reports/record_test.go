package reports

import (
	"strings"
	"testing"

	"github.com/charmbracelet/x/ansi"

	"github.com/dlqbench/dlqbench/assertions"
)

// A line that is too long for the terminal goes on below its text, and the next event begins a line of its own.
func TestTracesFitTheTerminal(t *testing.T) {
	words := "instance 0 asks to commit the offset 4 of orders-3 while record 2 of the same partition is not finished"
	told := assertions.Counterexample{Trace: []assertions.Line{
		{Kind: "commit-request", Text: words, Marked: true}, {Kind: "instance-exited", Text: words},
	}}
	for _, columns := range []int{60, 80, 100} {
		lines := strings.Split(strings.TrimSuffix(plainTrace(told, "", 2, columns), "\n"), "\n")
		var joined []string
		for _, line := range lines {
			if n := ansi.StringWidth(line); n > columns {
				t.Errorf("%d columns: a line has %d: %s", columns, n, line)
			}
			joined = append(joined, strings.TrimSpace(line))
		}
		text := strings.Join(joined, " ")
		if strings.Count(text, words) != 2 || !strings.HasPrefix(lines[0], "▶") {
			t.Errorf("%d columns: the trace is\n%s", columns, strings.Join(lines, "\n"))
		}
	}
	if got := strings.Count(plainTrace(told, "", 2, 0), "\n"); got != 2 {
		t.Errorf("elsewhere a trace of two events has %d lines", got)
	}
}
