package reports

// A record that was retried for minutes has a long trace. A reader needs its beginning, its end, and the events that
// contradict each other with the events around them.

import (
	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
)

// told is a line of a shortened trace: an event, or the number of events omitted in its place.
type told struct {
	assertions.Line
	// skipped is the number of omitted events, attempts how many of them were starts of attempts.
	skipped, attempts int
}

// shorten keeps about limit lines of a trace at most: every marked line (up to limit) and those nearest to them, then
// the beginning and the end. A trace within the limit is kept whole.
func shorten(lines []assertions.Line, limit int) []told {
	keep := kept(lines, limit)
	out := make([]told, 0, min(len(lines), limit+1))
	var left told
	flush := func() {
		if left.skipped > 0 {
			out = append(out, left)
			left = told{}
		}
	}
	for i, line := range lines {
		if !keep[i] {
			left.skipped++
			if line.Kind == history.KindAttemptStart.String() {
				left.attempts++
			}
			continue
		}
		flush()
		out = append(out, told{Line: line})
	}
	flush()
	return out
}

func kept(lines []assertions.Line, limit int) []bool {
	keep := make([]bool, len(lines))
	left := limit
	take := func(i int) {
		if i >= 0 && i < len(lines) && !keep[i] && left > 0 {
			keep[i] = true
			left--
		}
	}
	if len(lines) <= limit {
		for i := range lines {
			take(i)
		}
		return keep
	}
	for distance := range 3 {
		for i, line := range lines {
			if line.Marked {
				take(i - distance)
				take(i + distance)
			}
		}
	}
	for i := 0; left > 0 && i < len(lines); i++ {
		take(i)
		take(len(lines) - 1 - i)
	}
	return keep
}
