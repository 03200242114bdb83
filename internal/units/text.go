package units

import (
	"fmt"
	"math"
	"strconv"
	"strings"
	"time"
)

// Text formats a duration for people, in the unit that leaves one to three digits before the decimal point: 812 µs,
// 4.99 s, 1 m 05 s. Three digits are significant. An exact value, such as a promised 5 s, has no decimal point.
func Text(d time.Duration) string {
	switch abs := d.Abs(); {
	case d == 0:
		return "0 s"
	case abs < time.Microsecond:
		return fmt.Sprintf("%d ns", d)
	case abs < 999500*time.Nanosecond:
		return in(d, time.Microsecond) + " µs"
	case abs < 999500*time.Microsecond:
		return in(d, time.Millisecond) + " ms"
	case abs < 59950*time.Millisecond:
		return in(d, time.Second) + " s"
	}
	seconds := int64(math.Round(math.Abs(d.Seconds())))
	out := fmt.Sprintf("%d m %02d s", seconds/60, seconds%60)
	if seconds >= 3600 {
		out = fmt.Sprintf("%d h %02d m", seconds/3600, seconds/60%60)
	}
	if d < 0 {
		return "-" + out
	}
	return out
}

func in(d, unit time.Duration) string {
	if d%unit == 0 {
		return strconv.FormatInt(int64(d/unit), 10)
	}
	return Significant(float64(d) / float64(unit))
}

// Significant formats v with at least three significant digits and no exponent.
func Significant(v float64) string {
	switch abs := math.Abs(v); {
	case abs >= 99.95:
		return strconv.FormatFloat(v, 'f', 0, 64)
	case abs >= 9.995:
		return strconv.FormatFloat(v, 'f', 1, 64)
	}
	return strconv.FormatFloat(v, 'f', 2, 64)
}

// Count formats n with grouped thousands: 30,000.
func Count(n int64) string {
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

// PerSecond formats a rate in records per second. A rate that could not be measured is a dash.
func PerSecond(rate float64) string {
	if math.IsNaN(rate) || math.IsInf(rate, 0) {
		return "–"
	}
	if rate != 0 && math.Abs(rate) < 100 {
		return Significant(rate) + "/s"
	}
	return Count(int64(math.Round(rate))) + "/s"
}

// Plural formats a count with its noun: "1 fault", "3 faults".
func Plural(n int64, one, many string) string {
	if n == 1 {
		return "1 " + one
	}
	return Count(n) + " " + many
}
