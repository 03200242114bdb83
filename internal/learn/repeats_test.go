package learn

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
)

// Groups of calls are attempts of a client that repeats its calls, if that is sure. Otherwise that is a question, and
// the promise stays one that does not need it.
func TestCallsThatAClientRepeats(t *testing.T) {
	t.Parallel()
	how := func(change func(*habits)) habits {
		h := usual()
		h.client, h.between, h.attempts, h.grows = 3, 10*time.Millisecond, 3, 1
		change(&h)
		return h
	}
	for name, one := range map[string]struct {
		habits habits
		sure   bool
		asks   bool
	}{
		"three calls":                 {how(func(*habits) {}), true, false},
		"waits that grow":             {how(func(h *habits) { h.grows = 2 }), true, false},
		"waits that differ little":    {how(func(h *habits) { h.between = 60 * time.Millisecond }), false, true},
		"some records get more":       {how(func(h *habits) { h.irregular = true }), false, false},
		"one attempt":                 {how(func(h *habits) { h.attempts = 1 }), false, false},
		"as long as between attempts": {how(func(h *habits) { h.between = h.first }), false, false},
		"retry topics": {how(func(h *habits) {
			h.promised = "retry: topics, retry_topics: [again], attempts: " +
				"{counter: header}"
		}), false, false},
	} {
		l := watch(t, one.habits)
		at := slices.IndexFunc(l.lines, func(line Line) bool { return line.Key == "attempts" })
		if at < 0 {
			t.Fatalf("%s: no attempts in %+v", name, l.lines)
		}
		line := l.lines[at]
		if sure, asks := strings.Contains(line.Value, "max: 3, counter: memory, calls: 3"),
			strings.Contains(line.Seen, "calls: 3}"); sure != one.sure || asks != one.asks {
			t.Errorf("%s: %s # %s", name, line.Value, line.Seen)
		}
	}
}

// Calls of an attempt are told from attempts by the promised wait: without it, neither is promised.
func TestRepeatsGoWithTheWait(t *testing.T) {
	t.Parallel()
	h := usual()
	h.client, h.between, h.grows = 3, 10*time.Millisecond, 1
	for _, key := range []string{"attempts", "backoff"} {
		l := watch(t, h)
		l.withdraw(key, assertions.Result{})
		for _, line := range l.lines {
			if line.Open != (line.Key == "attempts" || line.Key == "backoff") {
				t.Errorf("%s is taken back, and of %s it is %v", key, line.Key, line.Open)
			}
		}
		if _, err := l.file(); err != nil {
			t.Errorf("without %s: %v", key, err)
		}
	}
}
