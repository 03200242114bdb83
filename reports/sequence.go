package reports

// This file draws a trace as a sequence diagram: a lane for each participant, time downwards, an arrow for each
// event. It has the same content as the list beside it, which is the form for screen readers and for readers who want
// every word.
//
// Time is not to scale: every event has a row, and a long pause has a row with its duration. The events that
// contradict each other are marked and joined by a bracket with the time between them.

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports/document"
)

// The dimensions of a diagram, in its own units, which are CSS pixels if there is room.
const (
	// sequenceLines is the maximum number of events drawn. The list has up to counterexampleLines.
	sequenceLines = 26
	maxLanes      = 8
	timeWidth     = 96
	bracketWidth  = 84
	// Lanes share the width of a page, within these limits.
	roomForLanes = 770
	widestLane   = 132
	headHeight   = 44
	rowHeight    = 34
	smallRow     = 24
	// letterWidth is the approximate width of a letter in a label.
	letterWidth = 6.6
)

// newSequence draws a counterexample. It returns nil if there are fewer than two events between participants.
func newSequence(v *assertions.Verdict, w assertions.Counterexample) *document.Drawing {
	if len(w.Actors) < 2 {
		return nil
	}
	d := drawing{v: v, lanes: map[string]int{}}
	d.addLanes(w)
	lines := shorten(d.drawable(w.Trace), sequenceLines)
	d.y = headHeight + 14
	for i, line := range lines {
		d.addLine(line, i == 0)
	}
	if d.arrows < 2 {
		return nil
	}
	return d.finish(w)
}

// drawing is a diagram under construction.
type drawing struct {
	v     *assertions.Verdict
	view  document.Drawing
	lanes map[string]int // the middle of each lane
	width int            // of each lane
	right int            // the end of the lanes
	y     int
	// previous is the time of the previous event, arrows the number of arrows drawn.
	previous time.Duration
	arrows   int
	marked   []int // rows
	times    []time.Duration
	// inForce are the faults in force in the previous row.
	inForce string
}

func (d *drawing) addLanes(w assertions.Counterexample) {
	actors := mostConcerned(w)
	d.width = min(roomForLanes/len(actors), widestLane)
	for i, actor := range actors {
		x := timeWidth + d.width*i + d.width/2
		d.lanes[actor.Name] = x
		d.view.Lanes = append(d.view.Lanes, document.Lane{
			X: x, HeadX: x - d.width/2 + 4, HeadWidth: d.width - 8,
			Name: shortened(name(actor.Name), int(float64(d.width-10)/letterWidth)),
			Role: roleOf(actor), Full: name(actor.Name), Class: laneClass(actor.Role),
		})
	}
	d.view.Left, d.right = timeWidth, timeWidth+d.width*len(actors)
	d.view.Span, d.view.Width = d.right-d.view.Left, d.right+bracketWidth
}

// mostConcerned returns the participants that are drawn: those of the marked events, and as many of the others as
// fit.
func mostConcerned(w assertions.Counterexample) []assertions.Actor {
	concerned := map[string]bool{}
	for _, line := range w.Trace {
		if line.Marked {
			concerned[line.From], concerned[line.To] = true, true
		}
	}
	left := maxLanes
	for _, actor := range w.Actors {
		if concerned[actor.Name] {
			left--
		}
	}
	var out []assertions.Actor
	for _, actor := range w.Actors {
		if !concerned[actor.Name] {
			left--
		}
		if len(out) < maxLanes && (concerned[actor.Name] || left >= 0) {
			out = append(out, actor)
		}
	}
	return out
}

// laneClass returns the style of a lane, which depends on its role for the record.
func laneClass(role assertions.Role) string {
	return cmp.Or(map[assertions.Role]string{
		assertions.Role(history.RoleDLQ): "l-dlq", assertions.Role(history.RoleQuarantine): "l-dlq",
		assertions.Role(history.RoleRetry): "l-retry", assertions.RoleInstance: "l-subject",
		assertions.RoleRouter: "l-subject", assertions.RoleWorker: "l-subject", assertions.RoleKeeper: "l-subject",
	}[role], "l-other")
}

// roleOf describes a lane whose name does not describe it.
func roleOf(actor assertions.Actor) string {
	return map[assertions.Role]string{
		assertions.Role(history.RoleInput): "source topic", assertions.Role(history.RoleRetry): "retry topic",
		assertions.Role(history.RoleDLQ): "dead-letter topic", assertions.Role(history.RoleNode): "a node's input",
		assertions.Role(history.RoleSink): "leaves the graph", assertions.Role(history.RoleQuarantine): "quarantine",
		"": "topic",
	}[actor.Role]
}

// drawable returns the lines that can be drawn: those of drawn lanes, and those that concern all participants.
func (d *drawing) drawable(lines []assertions.Line) []assertions.Line {
	out := make([]assertions.Line, 0, len(lines))
	for _, line := range lines {
		_, known := d.lanes[line.From]
		if known || line.From == "" || line.Marked {
			out = append(out, line)
		}
	}
	return out
}

func (d *drawing) addLine(line told, first bool) {
	if line.skipped > 0 {
		d.across("skipped", folded(line), 0)
		return
	}
	if since := line.Time - d.previous; !first && since >= longGap {
		d.across("gap", "⋮ "+units.Text(since), 0)
	}
	d.previous = line.Time
	class := "event"
	if line.Marked {
		class += " marked"
		d.marked = append(d.marked, len(d.view.Rows))
		d.times = append(d.times, line.Time)
	}
	if line.Failed {
		class += " failed"
	}
	from, known := d.lanes[line.From]
	if !known {
		d.across(class+" at-large", shortened(text(line.Text), (d.right-d.view.Left-16)*10/66), line.Time)
		return
	}
	d.arrows++
	row := d.row(class, rowHeight)
	row.Time, row.FromX = clock(line.Time), from
	d.force(&row, line.Time)
	words := cmp.Or(text(line.Label), name(line.Kind))
	if to, drawn := d.lanes[line.To]; drawn && to != from {
		d.arrow(&row, to, isAnswer(line.Kind))
	} else {
		row.Dot = true
	}
	d.place(&row, words)
	d.view.Rows = append(d.view.Rows, row)
}

// isAnswer reports whether an event of that kind answers another one, or reverses something.
func isAnswer(kind string) bool {
	return slices.ContainsFunc([]history.Kind{history.KindAcked, history.KindRevoked, history.KindAttemptEnd,
		history.KindCommitResponse, history.KindProduceResponse, history.KindTxnEndResponse, history.KindShareAckResponse,
	}, func(answer history.Kind) bool { return answer.String() == kind })
}

// folded describes the omitted events in a word or two.
func folded(line told) string {
	out := "… " + units.Plural(int64(line.skipped), "more event", "more events")
	if line.attempts > 0 {
		out += ", " + units.Plural(int64(line.attempts), "attempt", "attempts") + " among them"
	}
	return out
}

func (d *drawing) row(class string, height int) document.Step {
	row := document.Step{Class: class, Y: d.y + height - 10, TextY: d.y + height - 16, FaultsY: d.y + height - 23,
		Top: d.y, Tall: height, Marked: strings.Contains(class, "marked")}
	d.y += height
	return row
}

// across adds a row of words across all lanes. A time of 0 is not shown.
func (d *drawing) across(class, words string, at time.Duration) {
	row := d.row(class, smallRow)
	row.Across, row.LabelX, row.TextY = words, (d.view.Left+d.right)/2, row.Top+16
	if at > 0 {
		row.Time, row.Y = clock(at), row.TextY
	}
	d.view.Rows = append(d.view.Rows, row)
}

func (d *drawing) arrow(row *document.Step, to int, answer bool) {
	row.Arrow, row.ToX = true, to
	if answer {
		row.Class += " answer"
	}
	back := 8
	if to < row.FromX {
		back = -8
	}
	row.Head = fmt.Sprintf("M%d %dL%d %dV%dZ", to, row.Y, to-back, row.Y-4, row.Y+4)
}

// place puts the words where they can be read: above the middle of an arrow, beside a mark, and never outside the
// diagram.
func (d *drawing) place(row *document.Step, words string) {
	room := d.right - d.view.Left
	row.Label = shortened(words, int(float64(room)/letterWidth))
	width := int(float64(utf8.RuneCountInString(row.Label)) * letterWidth)
	if row.Arrow {
		row.Anchor, row.LabelX = "middle", (row.FromX+row.ToX)/2
		row.LabelX = max(d.view.Left+width/2+2, min(row.LabelX, d.right-width/2-2))
		return
	}
	row.Anchor, row.LabelX, row.TextY = "start", row.FromX+10, row.Y+4
	if row.LabelX+width > d.right {
		row.Anchor, row.LabelX = "end", row.FromX-10
	}
}

// force shows the faults in force: a bar beside the row, and their names if they changed.
func (d *drawing) force(row *document.Step, at time.Duration) {
	labels := each(faultTags(d.v, at), func(ref document.Span) string { return ref.Text })
	now := strings.Join(labels[:min(len(labels), 4)], " ")
	row.InForce = now != ""
	if now != d.inForce {
		row.Faults = now
	}
	d.inForce = now
}

func (d *drawing) finish(w assertions.Counterexample) *document.Drawing {
	bottom := d.y + 8
	d.view.Height = bottom + 8
	for i := range d.view.Lanes {
		d.view.Lanes[i].Bottom = bottom
	}
	d.view.Title = "Sequence of events: " + text(w.Summary)
	if len(d.marked) > 1 {
		d.bracket()
	}
	return &d.view
}

// bracket joins the marked rows.
func (d *drawing) bracket() {
	x := d.right + 10
	first, last := d.view.Rows[d.marked[0]], d.view.Rows[d.marked[len(d.marked)-1]]
	b := &document.Bracket{X: x + 14, Y: (first.Y+last.Y)/2 + 4}
	var path strings.Builder
	fmt.Fprintf(&path, "M%d %dV%d", x+6, first.Y, last.Y)
	for _, i := range d.marked {
		row := d.view.Rows[i]
		fmt.Fprintf(&path, "M%d %dH%d", x, row.Y, x+6)
		b.Badges = append(b.Badges, document.Point{X: x, Y: row.Y})
	}
	b.Path = path.String()
	if apart := slices.Max(d.times) - slices.Min(d.times); apart > 0 {
		b.Apart = units.Text(apart)
	}
	d.view.Bracket = b
}

// shortened cuts words to at most limit characters, with an ellipsis.
func shortened(words string, limit int) string {
	if utf8.RuneCountInString(words) <= limit {
		return words
	}
	runes := []rune(words)
	return string(runes[:max(1, limit-1)]) + "…"
}
