package reports

// Figures as people read them: three significant digits, thousands grouped, units always there.

import (
	"fmt"
	"math"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/internal/units"
)

// clock prints a moment on the run's clock, to the millisecond: 12.345 s.
func clock(d time.Duration) string { return fmt.Sprintf("%.3f s", d.Seconds()) }

// moment prints a moment on the run's clock where tenths of a second are enough.
func moment(d time.Duration) string { return fmt.Sprintf("%.1f s", d.Seconds()) }

// size prints bytes in the unit that leaves one to four digits before the point: 53.6 MiB.
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

// counted prints n of a thing whose name is given in the plural, as Result.Of is: "1 record", "612 commits".
func counted(n int64, of string) string {
	return units.Plural(n, singular(of), of)
}

// singular is the name of one thing, such as record or process, from that of several.
func singular(of string) string {
	if one, sibilant := strings.CutSuffix(of, "sses"); sibilant {
		return one + "ss"
	}
	return strings.TrimSuffix(of, "s")
}
