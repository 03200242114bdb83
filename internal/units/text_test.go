package units

import (
	"math"
	"testing"
	"time"
)

func TestText(t *testing.T) {
	const ms, sec = time.Millisecond, time.Second
	for in, want := range map[time.Duration]string{
		0: "0 s", 5: "5 ns", 1500: "1.50 µs", 812 * time.Microsecond: "812 µs", 999_600 * time.Nanosecond: "1.00 ms",
		12345 * time.Microsecond: "12.3 ms", 999_600 * time.Microsecond: "1.00 s", 4987 * ms: "4.99 s", 59_940 * ms: "59.9 s",
		59_960 * ms: "1 m 00 s", 65 * sec: "1 m 05 s", 3599 * sec: "59 m 59 s", 3661 * sec: "1 h 01 m", -2 * sec: "-2 s",
		-65 * sec: "-1 m 05 s", 40 * ms: "40 ms", 1500 * ms: "1.50 s", 2 * time.Hour: "2 h 00 m",
	} {
		if got := Text(in); got != want {
			t.Errorf("Text(%d) = %q, want %q", in, got, want)
		}
	}
}

func TestCount(t *testing.T) {
	for in, want := range map[int64]string{0: "0", 999: "999", 1000: "1,000", 30012: "30,012", -1234567: "-1,234,567",
		1<<63 - 1: "9,223,372,036,854,775,807"} {
		if got := Count(in); got != want {
			t.Errorf("Count(%d) = %q, want %q", in, got, want)
		}
	}
}

func TestPerSecond(t *testing.T) {
	for in, want := range map[float64]string{0: "0/s", 3.3: "3.30/s", 12.4: "12.4/s", 2346.6: "2,347/s", -5: "-5.00/s",
		math.Inf(1): "–", math.NaN(): "–"} {
		if got := PerSecond(in); got != want {
			t.Errorf("PerSecond(%v) = %q, want %q", in, got, want)
		}
	}
}

func TestPlural(t *testing.T) {
	for in, want := range map[int64]string{0: "0 faults", 1: "1 fault", 1200: "1,200 faults"} {
		if got := Plural(in, "fault", "faults"); got != want {
			t.Errorf("Plural(%d) = %q, want %q", in, got, want)
		}
	}
}
