package reports

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

// terminal implements the part of a terminal that the progress uses. It shows what a reader would see.
type terminal struct {
	mu     sync.Mutex
	width  int
	lines  [][]rune
	row    int
	column int
	widest int
}

func newTerminal() *terminal { return &terminal{width: 80, lines: [][]rune{nil}} }

func (t *terminal) Write(data []byte) (int, error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	rest := string(data)
	for rest != "" {
		switch {
		case strings.HasPrefix(rest, "\x1b[2K"):
			t.lines[t.row] = nil
			rest = rest[4:]
			continue
		case strings.HasPrefix(rest, "\x1b[1A"):
			t.row = max(0, t.row-1)
			rest = rest[4:]
			continue
		}
		r := []rune(rest)[0]
		rest = rest[len(string(r)):]
		t.put(r)
	}
	return len(data), nil
}

func (t *terminal) put(r rune) {
	switch r {
	case '\r':
		t.column = 0
	case '\n':
		t.row++
		t.column = 0
		if t.row == len(t.lines) {
			t.lines = append(t.lines, nil)
		}
	default:
		for len(t.lines[t.row]) <= t.column {
			t.lines[t.row] = append(t.lines[t.row], ' ')
		}
		t.lines[t.row][t.column] = r
		t.column++
		t.widest = max(t.widest, t.column)
	}
}

func (t *terminal) screen() string {
	var out []string
	for _, line := range t.lines {
		out = append(out, strings.TrimRight(string(line), " "))
	}
	return strings.TrimRight(strings.Join(out, "\n"), "\n")
}

func snapshot(at time.Duration) Snapshot {
	return Snapshot{
		Scenario: "smoke", Place: "2/5", Phase: "fault", Elapsed: at, Total: 20 * sec, SentRate: 2000, ProcessedRate: 1874.4,
		Lag: 412, DeadLetters: 1033,
		RetriesInFlight: 12, ActiveFaults: []FaultState{{Name: "dlq-refuses"}},
	}
}

func TestProgressRedrawsInPlace(t *testing.T) {
	screen := newTerminal()
	p := NewProgress(screen, true, false)
	for i := range 10 {
		p.Update(snapshot(time.Duration(i+1) * sec))
	}
	want := "2/5 smoke  fault    ██████████░░░░░░░░░░░  10.0 s / 20.0 s  faults: dlq-refuses\n" +
		"sent 2,000/s  processed 1,874/s  lag 412  dead letters 1,033  retries 12"
	if got := screen.screen(); got != want {
		t.Errorf("the terminal shows\n%s\nwant\n%s", got, want)
	}
	p.Done()
	p.Update(snapshot(12 * sec))
	if got := screen.screen(); got != "" {
		t.Errorf("after Done the terminal still shows %q", got)
	}
}

func TestProgressStaysWithinTheTerminal(t *testing.T) {
	screen := newTerminal()
	p := NewProgress(screen, true, false)
	s := snapshot(sec)
	for i := range 20 {
		s.ActiveFaults = append(s.ActiveFaults, FaultState{Name: fmt.Sprintf("wide-\u6f22\u5b57-%d\n\x1b[2J", i)})
	}
	s.Lag, s.DeadLetters, s.RetriesInFlight = 1<<60, 1<<60, 1<<60
	p.Update(s)
	p.Update(s)
	if screen.widest >= screen.width {
		t.Errorf("a line is %d columns wide on a terminal of %d", screen.widest, screen.width)
	}
	if got := strings.Count(screen.screen(), "\n"); got != 1 {
		t.Errorf("the block has %d line breaks, want 1:\n%s", got, screen.screen())
	}
}

func TestProgressAndLogsShareATerminal(t *testing.T) {
	screen := newTerminal()
	p := NewProgress(screen, true, false)
	logs := p.Around(screen)
	fmt.Fprint(logs, "before the first snapshot\n")
	p.Update(snapshot(sec))
	fmt.Fprint(logs, "first\nsec")
	p.Update(snapshot(2 * sec))
	fmt.Fprint(logs, "ond\nhalf a line")
	want := "before the first snapshot\nfirst\nsecond\n" +
		"2/5 smoke  fault    ██░░░░░░░░░░░░░░░░░░░░  2.0 s / 20.0 s  faults: dlq-refuses\n" +
		"sent 2,000/s  processed 1,874/s  lag 412  dead letters 1,033  retries 12"
	if got := screen.screen(); got != want {
		t.Errorf("the terminal shows\n%s\nwant\n%s", got, want)
	}
	p.Done()
	fmt.Fprint(logs, "after\n")
	if got, want := screen.screen(), "before the first snapshot\nfirst\nsecond\nhalf a line\nafter"; got != want {
		t.Errorf("after Done the terminal shows\n%s\nwant\n%s", got, want)
	}
}

func TestProgressPlainLines(t *testing.T) {
	var b strings.Builder
	p := NewProgress(&b, false, false)
	if w := p.Around(&b); w != &b {
		t.Errorf("without a terminal the log writer must be the writer itself, is %T", w)
	}
	for i := range 24 {
		s := snapshot(time.Duration(i) * 500 * ms)
		if i < 3 {
			s.Phase, s.ActiveFaults = []string{"warm-up", "warm-up", "steady"}[i], nil
		}
		if i >= 20 {
			s.ActiveFaults = []FaultState{{Name: "slow"}, {Name: "dlq-refuses"}}
			if i%2 == 0 { // the same faults in another order are not a change
				s.ActiveFaults = []FaultState{{Name: "dlq-refuses"}, {Name: "slow"}}
			}
		}
		p.Update(s)
	}
	p.Done()
	figures := "sent 2,000/s  processed 1,874/s  lag 412  dead letters 1,033  retries 12"
	want := "  0.0 s  warm-up  " + figures + "\n" +
		"  1.0 s  steady   " + figures + "\n" +
		"  1.5 s  fault    " + figures + "  faults: dlq-refuses\n" +
		"  6.5 s  fault    " + figures + "  faults: dlq-refuses\n" +
		" 10.0 s  fault    " + figures + "  faults: dlq-refuses, slow\n"
	if got := b.String(); got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}

// Before and after the load, the progress says what takes time. In a log, its duration alone is no news.
func TestProgressTellsWhatTakesTime(t *testing.T) {
	screen, lines := newTerminal(), strings.Builder{}
	block, log := NewProgress(screen, true, false), NewProgress(&lines, false, false)
	for i, doing := range []string{"building: go build ./...", "waiting for instance 0, 1 of 30 s",
		"waiting for instance 0, 2 of 30 s"} {
		s := Snapshot{Scenario: "smoke", Phase: "setup", Elapsed: time.Duration(i) * sec, Doing: doing}
		block.Update(s)
		log.Update(s)
	}
	if got, want := screen.screen(), "smoke  setup    2.0 s\nwaiting for instance 0, 2 of 30 s"; got != want {
		t.Errorf("the terminal shows\n%s\nwant\n%s", got, want)
	}
	want := "  0.0 s  setup    building: go build ./...\n" +
		"  1.0 s  setup    waiting for instance 0, 1 of 30 s\n"
	if got := lines.String(); got != want {
		t.Errorf("the log has\n%s\nwant\n%s", got, want)
	}
}

// On a narrow terminal, figures are left out whole. None is cut.
func TestProgressCutsNoFigure(t *testing.T) {
	s := snapshot(sec)
	for width, want := range map[int]string{
		80: "sent 2,000/s  processed 1,874/s  lag 412  dead letters 1,033  retries 12",
		72: "sent 2,000/s  processed 1,874/s  lag 412  dead letters 1,033",
		60: "sent 2,000/s  processed 1,874/s  lag 412  retries 12",
		40: "sent 2,000/s  processed 1,874/s",
	} {
		if got := lastLine(s, width); got != want {
			t.Errorf("at %d columns: %q, want %q", width, got, want)
		}
	}
}

// The duration of the drain is not fixed: beyond the planned time the bar stays full, and no outdated total is shown.
func TestProgressBeyondTheTotal(t *testing.T) {
	screen := newTerminal()
	p := NewProgress(screen, true, false)
	p.Update(snapshot(31 * sec))
	if got, want := screen.screen(),
		"2/5 smoke  fault    ████████████████████████  31.0 s  faults: dlq-refuses\n"; !strings.HasPrefix(got, want) {
		t.Errorf("the terminal shows\n%s\nwant it to begin with\n%s", got, want)
	}
}

func TestProgressQuiet(t *testing.T) {
	for _, tty := range []bool{false, true} {
		var b strings.Builder
		p := NewProgress(&b, tty, true)
		p.Update(snapshot(sec))
		p.Done()
		if b.Len() > 0 {
			t.Errorf("quiet (tty %v) wrote %q", tty, b.String())
		}
	}
}

func TestProgressIsSafeForConcurrentUse(t *testing.T) {
	screen := newTerminal()
	p := NewProgress(screen, true, false)
	logs := p.Around(screen)
	var group sync.WaitGroup
	for worker := range 4 {
		group.Go(func() {
			for i := range 50 {
				p.Update(snapshot(sec))
				fmt.Fprintf(logs, "line %d of %d\n", i, worker)
			}
		})
	}
	group.Wait()
	p.Done()
	if got := strings.Count(screen.screen(), "line "); got != 200 {
		t.Errorf("%d of 200 log lines are on the screen", got)
	}
	if strings.Contains(screen.screen(), "sent 2,000") {
		t.Error("the block is still there or was scrolled into the log")
	}
}
