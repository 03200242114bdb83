package units

import (
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
