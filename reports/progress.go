package reports

// This file shows the progress of a run: a block of two lines that is redrawn in place on a terminal, plain lines
// elsewhere.
//
// Log lines may go to the same terminal. Writing them and drawing the block share one lock: the block is cleared, the
// lines are written, and the block is drawn again below them.

import (
	"fmt"
	"io"
	"math"
	"os"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/dlqbench/dlqbench/internal/units"
)

const (
	// plainEvery is the interval of plain lines if nothing changes, in the run's own time.
	plainEvery = 5 * time.Second
	// barWidth is the largest width of the bar. With less room than leastBar, it is omitted.
	barWidth, leastBar = 24, 8
)

// Progress shows snapshots. It is safe for concurrent use and starts no goroutine: the output changes when Update is
// called.
type Progress struct {
	mu         sync.Mutex
	w          io.Writer
	tty, quiet bool
	done       bool
	// drawn is the number of lines of the block that are on the terminal now.
	drawn  int
	shown  bool
	last   Snapshot
	lineAt time.Duration
	logs   []*logWriter
}

// NewProgress returns a progress that writes to w: redrawn in place if tty, as plain lines otherwise, and nothing if
// quiet.
func NewProgress(w io.Writer, tty bool, quiet bool) *Progress {
	return &Progress{w: w, tty: tty, quiet: quiet}
}

// Update shows the snapshot: on a terminal at once, elsewhere when the phase or the faults in force have changed, and
// every five seconds of the run. A write error is not an error of the run and is ignored.
func (p *Progress) Update(s Snapshot) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.quiet || p.done {
		return
	}
	faults := faultList(s)
	changed := !p.shown || s.Phase != p.last.Phase || s.Waiting != p.last.Waiting ||
		activity(s) != activity(p.last) || faults != faultList(p.last)
	p.last, p.shown = s, true
	if p.tty {
		p.write(p.clear() + p.draw())
		return
	}
	if changed || s.Elapsed-p.lineAt >= plainEvery {
		p.lineAt = s.Elapsed
		p.write(plainLine(s) + "\n")
	}
}

// Done removes the block from the terminal, writes the text that the log writers still hold, and ends the progress.
// Later snapshots are not shown, and later log lines pass unchanged.
func (p *Progress) Done() {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.write(p.clear())
	p.done = true
	for _, logs := range p.logs {
		if len(logs.held) > 0 {
			_, _ = logs.w.Write(append(logs.held, '\n'))
			logs.held = nil
		}
	}
}

// Around returns a writer to w that does not disturb the block, for logs that may go to the same terminal. Whole
// lines are written at once. The start of a line is held until its end comes or Done is called. If w is known not to
// be a terminal, Around returns w itself.
func (p *Progress) Around(w io.Writer) io.Writer {
	file, ok := w.(*os.File)
	if !p.tty || p.quiet || ok && !term.IsTerminal(int(file.Fd())) {
		return w
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	logs := &logWriter{progress: p, w: w}
	p.logs = append(p.logs, logs)
	return logs
}

type logWriter struct {
	progress *Progress
	w        io.Writer
	held     []byte
}

func (l *logWriter) Write(data []byte) (int, error) {
	p := l.progress
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.done {
		return l.w.Write(data)
	}
	l.held = append(l.held, data...)
	end := strings.LastIndexByte(string(l.held), '\n') + 1
	if end == 0 {
		return len(data), nil
	}
	p.write(p.clear())
	_, err := l.w.Write(l.held[:end])
	l.held = append([]byte(nil), l.held[end:]...)
	if p.shown {
		p.write(p.draw())
	}
	if err != nil {
		return 0, fmt.Errorf("writing log lines: %w", err)
	}
	return len(data), nil
}

func (p *Progress) write(sequence string) {
	if sequence != "" {
		_, _ = io.WriteString(p.w, sequence)
	}
}

// clear returns the sequence that removes the block from the terminal and leaves the cursor at the start of its first
// line.
func (p *Progress) clear() string {
	if p.drawn == 0 {
		return ""
	}
	sequence := "\r\x1b[2K" + strings.Repeat("\x1b[1A\x1b[2K", p.drawn-1)
	p.drawn = 0
	return sequence
}

// draw returns the block for the last snapshot. Its lines are one column shorter than the terminal: some terminals
// wrap a full line, and the block would then be taller than clear assumes.
func (p *Progress) draw() string {
	width := p.width()
	lines := []string{titleLine(p.last, width), lastLine(p.last, width)}
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], width-1, "…")
	}
	p.drawn = len(lines)
	return strings.Join(lines, "\n")
}

// width is queried every time, because terminals are resized.
func (p *Progress) width() int { return Columns(p.w) }

// Columns returns the width of the terminal w, or 80 if w is not a terminal.
func Columns(w io.Writer) int {
	if file, ok := w.(*os.File); ok {
		if width, _, err := term.GetSize(int(file.Fd())); err == nil && width > 1 {
			return width
		}
	}
	return screenWidth
}

func titleLine(s Snapshot, width int) string {
	times := moment(s.Elapsed)
	if s.Total > 0 && s.Elapsed <= s.Total {
		times += " / " + moment(s.Total)
	}
	parts := []string{runName(s), cell(name(s.Phase), 7), times}
	if len(s.ActiveFaults) > 0 {
		parts = append(parts, "faults: "+faultList(s))
	}
	// The bar gets what room the words leave.
	room := min(width-ansi.StringWidth(strings.Join(parts, "  "))-3, barWidth)
	if s.Total > 0 && room >= leastBar {
		parts = slices.Insert(parts, 2, bar(s.Elapsed, s.Total, room))
	}
	return strings.Join(parts, "  ")
}

// runName returns the scenario of the run, with its place among several runs: "2/5 smoke".
func runName(s Snapshot) string { return strings.TrimSpace(s.Place + " " + name(s.Scenario)) }

func bar(elapsed, total time.Duration, width int) string {
	full := int(float64(width) * min(1, max(0, elapsed.Seconds()/total.Seconds())))
	return strings.Repeat("█", full) + strings.Repeat("░", width-full)
}

// lastLine returns what the run waits for, or what it is busy with, or else its figures.
func lastLine(s Snapshot, width int) string {
	switch {
	case s.Waiting != "":
		return "waiting for " + text(s.Waiting)
	case s.Doing != "":
		return text(s.Doing)
	}
	return figuresLine(s, width)
}

// activity returns what the run is busy with, without for how long.
func activity(s Snapshot) string {
	what, _, _ := strings.Cut(s.Doing, ", ")
	return what
}

// figuresLine returns as many figures as the width has room for, each whole.
func figuresLine(s Snapshot, width int) string {
	line := ""
	for _, figure := range []string{
		"sent " + units.PerSecond(s.SentRate), "processed " + units.PerSecond(s.ProcessedRate),
		"lag " + units.Count(s.Lag), "dead letters " + units.Count(s.DeadLetters),
		"retries " + units.Count(s.RetriesInFlight),
	} {
		if longer := strings.TrimSpace(line + "  " + figure); ansi.StringWidth(longer) < width {
			line = longer
		}
	}
	return line
}

func plainLine(s Snapshot) string {
	line := fmt.Sprintf("%7s  %s  %s", moment(s.Elapsed), cell(name(s.Phase), 7), lastLine(s, math.MaxInt))
	if len(s.ActiveFaults) > 0 {
		line += "  faults: " + faultList(s)
	}
	return line
}

func faultList(s Snapshot) string {
	names := each(s.ActiveFaults, func(fault FaultState) string { return name(fault.Name) })
	slices.Sort(names)
	return strings.Join(names, ", ")
}

// cell pads or cuts words to exactly width columns.
func cell(words string, width int) string {
	words = ansi.Truncate(words, width, "…")
	return words + strings.Repeat(" ", width-ansi.StringWidth(words))
}
