package main

import (
	"regexp"
	"strings"
	"testing"
	"unicode/utf8"
)

// summary returns the rest of the screen of a passed run, from its verdict on.
func (x *terminal) summary() string {
	x.Helper()
	_, after, found := strings.Cut(x.screen(), " PASS ")
	if !found {
		x.Fatalf("there is no summary:\n%s", x.screen())
	}
	return " PASS " + after
}

// The summary of an ordinary run fits on one screen of 40 lines, in the columns of the terminal.
func TestTerminalSummaryIsOneScreen(t *testing.T) {
	t.Parallel()
	// What the summary looks like depends on neither the rate nor how punctual the load was.
	x := onTerminal(t, nil, "run", "smoke", "--set", "workload.rate=100/s", "--set", "expect.max_slip=5s")
	x.wantExit(exitPass)
	summary := x.summary()
	lines := strings.Split(strings.TrimSuffix(summary, "\n"), "\n")
	if len(lines) > 40 {
		t.Errorf("it has %d lines:\n%s", len(lines), summary)
	}
	for _, line := range lines {
		copied := strings.HasPrefix(line, "Report  ") || strings.HasPrefix(line, "Rerun   ")
		if width := utf8.RuneCountInString(line); width > x.columns && !copied {
			t.Errorf("a line is %d columns wide: %s", width, line)
		}
	}
	for _, want := range []string{
		`Faults +in force +noticed +lag back +steady`, `(?m)^ ✓ \S+ +\d+\.\d – \d+\.\d s +(\d|n/a|never)`,
		`(?m)^Records +\d[\d,]* planned = \d[\d,]* succeeded \+ `,
		`(?m)^Drain +\d.*; lag at most \d`, `(?m)^Harness +slip p99 .* processors used$`, `(?m)^ Success +\d`,
		`(?m)^ Service +\d`,
	} {
		if !regexp.MustCompile(want).MatchString(summary) {
			t.Errorf("it does not say %s:\n%s", want, summary)
		}
	}
	if !regexp.MustCompile(`\x1b\[[0-9;]*m`).MatchString(x.text()) {
		t.Error("there is no colour")
	}
}

// A dumb terminal gets plain text.
func TestDumbTerminalSummaryIsPlain(t *testing.T) {
	t.Parallel()
	x := onTerminal(t, []string{"TERM=dumb"}, "run", "tiny.yaml")
	x.wantExit(exitPass)
	_, after, found := strings.Cut(x.text(), " PASS ")
	if !found || strings.ContainsRune(after, '\x1b') {
		t.Errorf("the summary is %q", x.text())
	}
}
