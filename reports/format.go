package reports

// Figures as people read them: three significant digits, thousands grouped, units always there.

import (
	"fmt"
	"math"
	"strconv"
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
		return count(bytes) + " B"
	}
	return units.Significant(value) + " " + unit
}

// count prints n with its thousands grouped: 30,000.
func count(n int64) string {
	digits := strconv.FormatInt(n, 10)
	sign := ""
	if n < 0 {
		sign, digits = "-", digits[1:]
	}
	var b strings.Builder
	for i, digit := range digits {
		if i > 0 && (len(digits)-i)%3 == 0 {
			b.WriteByte(',')
		}
		b.WriteRune(digit)
	}
	return sign + b.String()
}

// rate prints records per second; what could not be measured is a dash.
func rate(perSecond float64) string {
	if math.IsNaN(perSecond) || math.IsInf(perSecond, 0) {
		return "–"
	}
	if perSecond != 0 && math.Abs(perSecond) < 100 {
		return units.Significant(perSecond) + "/s"
	}
	return count(int64(math.Round(perSecond))) + "/s"
}

// plural prints "1 fault", "3 faults".
func plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return count(n) + " " + many
}

// counted prints n of a thing whose name is given in the plural, as Result.Of is: "1 record", "612 commits".
func counted(n int64, of string) string {
	return plural(n, singular(of), of)
}

// singular is the name of one thing, such as record or process, from that of several.
func singular(of string) string {
	if one, sibilant := strings.CutSuffix(of, "sses"); sibilant {
		return one + "ss"
	}
	return strings.TrimSuffix(of, "s")
}
