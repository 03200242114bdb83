package reports

// Formats for figures: three significant digits, grouped thousands, always with a unit.

import (
	"fmt"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// clock formats a time on the run's clock, to the millisecond: 12.345 s.
func clock(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// moment formats a time on the run's clock to a tenth of a second.
func moment(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// size formats bytes in the unit that leaves one to four digits before the decimal point: 53.6 MiB.
func size(bytes int64) string {
	value, unit := float64(bytes), "B"
	for _, next := range []string{"KiB", "MiB", "GiB"} {
		if math.Abs(value) < 1024 {
			break
		}
		value, unit = value/1024, next
	}
	if unit == "B" {
		return units.Count(bytes) + " B"
	}
	return units.Significant(value) + " " + unit
}

// count returns how many of all are so.
func count[T any](all []T, so func(T) bool) int {
	n := 0
	for _, one := range all {
		if so(one) {
			n++
		}
	}
	return n
}

// addOnce adds an element unless it is there already.
func addOnce[T comparable](all []T, one T) []T {
	if slices.Contains(all, one) {
		return all
	}
	return append(all, one)
}

// each returns what of returns for each element.
func each[T, R any](all []T, of func(T) R) []R {
	out := make([]R, len(all))
	for i, one := range all {
		out[i] = of(one)
	}
	return out
}

// counted formats a count of things named in the plural, as in Result.Of: "1 record", "612 commits".
func counted(n int64, of string) string {
	return units.Plural(n, singular(of), of)
}

// singular returns the singular of a noun, such as record or process.
func singular(of string) string {
	if one, sibilant := strings.CutSuffix(of, "sses"); sibilant {
		return one + "ss"
	}
	return strings.TrimSuffix(of, "s")
}

// fact returns a figure or a fact with its note.
func fact(key, value, note string) document.KeyValue {
	return document.KeyValue{Key: key, Value: document.Plain(value), Note: note}
}

// marked returns a fact with a mark.
func marked(mark document.Mark, of document.KeyValue) document.KeyValue {
	of.Mark = mark
	return of
}

// warned marks a fact that is not as it should be.
func warned(bad bool, of document.KeyValue) document.KeyValue {
	if bad {
		return marked(document.Warning, of)
	}
	return of
}

// helped returns a fact with an explanation.
func helped(help string, of document.KeyValue) document.KeyValue {
	of.Help = help
	return of
}

// command returns a command or a name that is meant to be copied.
func command(key, value string) document.KeyValue {
	return document.KeyValue{Key: key, Value: document.Command(value)}
}

// known returns the facts that have a value.
func known(facts ...document.KeyValue) []document.KeyValue {
	return slices.DeleteFunc(facts, func(one document.KeyValue) bool { return len(one.Value) == 0 })
}
