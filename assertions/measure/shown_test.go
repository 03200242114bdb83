package measure

import "testing"

func TestFiguresOfThresholdsAsShown(t *testing.T) {
	for _, one := range []struct{ expression, actual, want string }{
		{"recovery.catch_up < 2s", "3.274486225s", "3.27 s"},
		{"latency.success.p99 < 100ms", "212ms", "212 ms"},
		{"latency.success.p99 < 1ms", "0s", "0 s"},
		{"recovery.drain < 1m", "1m5.4321s", "1 m 05 s"},
		{"recovery.drain < 1m", "1h2m3.5s", "1 h 02 m"},
		// Rounded, these would be equal to the bound, or beyond it.
		{"recovery.drain <= 200ms", "200.447ms", "200.447ms"},
		{"recovery.drain < 200ms", "199.999ms", "199.999ms"},
		{"latency.success.p99 < 1.152s", "1.1525s", "1.1525s"},
		{"recovery.drain <= 200ms", "200ms", "200 ms"},
		{"recovery.steady < 1s and latency.service.p99 < 2ms", "recovery.steady = 1.23456s, latency.service.p99 = 1.501234ms",
			"recovery.steady = 1.23 s, latency.service.p99 = 1.50 ms"},
		{"lag.end == 0", "0", "0"},
		{"count.unfinished == 0", "2097", "2,097"},
		{"count.unfinished == 0 and lag.end == 0", "count.unfinished = 12345, lag.end = 3",
			"count.unfinished = 12,345, lag.end = 3"},
		{"share.duplicates <= 2%", "0.0251234", "2.5%"},
		{"share.duplicates <= 2%", "0.0200412", "2.004%"},
		{"share.succeeded > 80% and lag.end == 0", "share.succeeded = 0.930556, lag.end = 0",
			"share.succeeded = 93.1%, lag.end = 0"},
		{"subject.rss.max < 50MiB", "151.2MiB", "151.2MiB"},
		{"lag.max < 3", "", ""},
	} {
		if got := (Threshold{Expression: one.expression, Actual: one.actual}).Shown(); got != one.want {
			t.Errorf("%s, %s: %q, want %q", one.expression, one.actual, got, one.want)
		}
	}
}
