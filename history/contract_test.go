package history_test

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// The longest wait is that before the last promised attempt, or that of the record's own number if none is promised.
func TestLongestWait(t *testing.T) {
	grows := history.Backoff{Initial: 100 * time.Millisecond, Multiplier: 2, Jitter: time.Millisecond, Late: time.Second}
	const beside = time.Second + time.Millisecond
	capped := grows
	capped.Cap = 20 * time.Second
	for _, test := range []struct {
		most, made int
		backoff    history.Backoff
		want       time.Duration
	}{
		{1, 1, grows, 100*time.Millisecond + beside},
		{4, 1, grows, 400*time.Millisecond + beside},
		{4, 9, grows, 400*time.Millisecond + beside},
		{0, 0, grows, 100*time.Millisecond + beside},
		{0, 4, grows, 800*time.Millisecond + beside},
		{0, 1 << 40, grows, time.Hour + beside},
		{0, 1 << 40, capped, 20*time.Second + beside},
		{3, 1, history.Backoff{}, 30 * time.Second},
		{0, 1, history.Backoff{}, 30 * time.Second},
		{1, 1, history.Backoff{}, 0},
	} {
		contract := history.Contract{MaxAttempts: test.most, Backoff: test.backoff}
		if got := contract.LongestWait(test.made); got != test.want {
			t.Errorf("%d attempts promised, %d made, %+v: %s, want %s", test.most, test.made, test.backoff, got, test.want)
		}
	}
}

// Waits of 1, 2, 4, 8 and 16 s have passed after 31 s, so a sixth attempt fails, and a seventh does not before 63 s.
func TestAttemptsWithin(t *testing.T) {
	contract := history.Contract{Backoff: history.Backoff{Initial: time.Second, Multiplier: 2}}
	for limit, want := range map[time.Duration]int{0: 1, 30 * time.Second: 5, 31 * time.Second: 6, time.Minute: 6} {
		if got := contract.AttemptsWithin(limit); got != want {
			t.Errorf("%d attempts within %s, want %d", got, limit, want)
		}
	}
	if got := new(history.Contract).AttemptsWithin(time.Minute); got != 64 {
		t.Errorf("%d attempts without promised waits, want 64", got)
	}
}

// Patience covers a whole promised series. Without a promised number, it covers the longest wait.
func TestPatience(t *testing.T) {
	const least, attempt = 5 * time.Second, time.Second
	grows := history.Backoff{Initial: time.Second, Multiplier: 2}
	capped := grows
	capped.Cap = 10 * time.Second
	for _, test := range []struct {
		name    string
		most    int
		backoff history.Backoff
		fails   int
		want    time.Duration
	}{
		{"a series", 4, grows, 9, least + 7*time.Second + 3*attempt},
		{"one attempt", 1, grows, 9, least + time.Second + attempt},
		{"a series without promised waits", 3, history.Backoff{}, 0, least + 30*time.Second + 2*attempt},
		{"no failure", 0, grows, 0, least + time.Second + attempt},
		{"six failures", 0, grows, 6, least + 32*time.Second + attempt},
		{"six failures, with a cap", 0, capped, 6, least + 10*time.Second + attempt},
		{"equal waits", 0, history.Backoff{Initial: time.Second}, 6, least + time.Second + attempt},
		{"no promised waits", 0, history.Backoff{}, 6, least + 30*time.Second + attempt},
	} {
		contract := history.Contract{MaxAttempts: test.most, Backoff: test.backoff}
		if got := contract.Patience(test.fails); got != test.want {
			t.Errorf("%s: %s, want %s", test.name, got, test.want)
		}
	}
}
