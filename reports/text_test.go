package reports

import (
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/charmbracelet/x/ansi"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/assertions"
)

// unseen reports characters that must not appear in any report. It is independent of hidden, which it checks.
func unseen(r rune) bool {
	return r != '\n' && (r < ' ' || r >= 0x7f && r <= 0x9f) ||
		unicode.In(r, unicode.Bidi_Control, unicode.Cf, unicode.Zl, unicode.Zp)
}

func TestShorten(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		lines := make([]assertions.Line, rapid.IntRange(0, 300).Draw(t, "lines"))
		limit := rapid.IntRange(6, 60).Draw(t, "limit")
		marks := 0
		for i := range lines {
			lines[i].Time = time.Duration(i)
			if marks < 3 && rapid.IntRange(0, 40).Draw(t, "mark") == 0 {
				lines[i].Marked = true
				marks++
			}
		}
		next, shown, marked := time.Duration(0), 0, 0
		for _, line := range shorten(lines, limit) {
			if line.skipped > 0 {
				next += time.Duration(line.skipped)
				continue
			}
			if line.Time != next {
				t.Fatalf("line %d comes where %d should", line.Time, next)
			}
			next++
			shown++
			if line.Marked {
				marked++
			}
		}
		if int(next) != len(lines) || marked != marks || shown != min(limit, len(lines)) {
			t.Fatalf("of %d lines %d are accounted for, %d shown (limit %d), %d of %d marked", len(lines), next, shown, limit,
				marked, marks)
		}
	})
}

func TestHeadlines(t *testing.T) {
	for name, want := range map[string]string{
		"pass": "11 invariants held over 30,000 records while 3 faults took effect.",
		"fail": "commit-after-dlq is violated: commit-before-dlq, 14 times, e.g. record 9001 (dlqbench-7f3a-input-3 offset " +
			"1499): Offset 1500 of partition 3 was committed 2.10 s before the dead letter of record 9001 was acknowledged. " +
			"That was at 10.410 s, 3.21 s into the phase fault, with dlq-refuses, slow-downstream in force.",
		"inconclusive": "fault dlq-refuses (Produce to dlq answered NOT_ENOUGH_REPLICAS) had no effect: no request matched " +
			"while it was in force; make it longer, or plan records that cause such requests (dlq)",
		"missed": "Every promise that was judged was kept, but 1 threshold was not met: latency.success.p99 < 100ms " +
			"(was 212 ms).",
	} {
		if got := headline(fixtures()[name].Verdict); got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}

// The most important content is on top, even if the judge had another order.
func TestTheWorstComesFirst(t *testing.T) {
	results := ranked([]assertions.Result{
		{Name: "a", Status: assertions.Pass}, {Name: "b", Status: assertions.NotApplicable},
		{Name: "c", Status: assertions.Inconclusive},
		{Name: "d", Status: assertions.Fail}, {Name: "e", Status: assertions.Pass}, {Name: "f", Status: assertions.Fail},
	})
	order := ""
	for _, r := range results {
		order += r.Name
	}
	if order != "dfcaeb" {
		t.Errorf("the order is %s, want dfcaeb", order)
	}
}

// A verdict that is unknown to a report must never look like a pass.
func TestUnknownVerdictIsNoPass(t *testing.T) {
	for _, status := range []assertions.Status{"", "ok", assertions.NotApplicable, assertions.Inconclusive} {
		if got := stands(&assertions.Verdict{Verdict: status}); got != standsInconclusive {
			t.Errorf("the verdict %q stands as %s", status, got)
		}
	}
}

// A line that is too long ends with a whole word.
func TestFitted(t *testing.T) {
	for _, test := range []struct {
		line, want string
		columns    int
	}{
		{"short", "short", 40},
		{"  smoke  A quick run with successes, retries and dead letters", "  smoke  A quick run with successes…", 40},
		{"  smoke  " + strings.Repeat("x", 60), "  smoke  " + strings.Repeat("x", 30) + "…", 40},
	} {
		if got := fitted(test.line, test.columns); got != test.want || ansi.StringWidth(got) > test.columns {
			t.Errorf("%q in %d columns is %q, want %q", test.line, test.columns, got, test.want)
		}
	}
}
