package tui

import (
	"fmt"
	"slices"
	"strings"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/x/ansi"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

// View implements tea.Model.
func (m *model) View() tea.View {
	view := tea.NewView(strings.Join(m.screen(), "\n"))
	view.AltScreen = true
	return view
}

// screen returns the content of the terminal, line by line. It has never more lines than the terminal, and none is
// wider.
func (m *model) screen() []string {
	if m.width < 10 || m.height < 3 {
		return []string{ansi.Truncate("too small", max(m.width, 0), "")}
	}
	lines := append([]string{}, m.head()...)
	foot := m.foot()
	room := max(m.height-len(lines)-len(foot), 0)
	switch {
	case m.help:
		lines = append(lines, fill(m.helpLines(), room)...)
	case m.dialog != nil:
		asked := m.dialog.lines(m.look, m.width, max(room*2/3, min(room, 8)))
		asked = asked[:min(len(asked), room)]
		lines = append(lines, fill(m.body(room-len(asked)), room-len(asked))...)
		lines = append(lines, asked...)
	default:
		lines = append(lines, fill(m.body(room), room)...)
	}
	lines = append(lines, foot...)
	lines = lines[:min(len(lines), m.height)]
	for i := range lines {
		lines[i] = ansi.Truncate(lines[i], m.width, "…")
	}
	return lines
}

// fill pads or cuts lines to a number.
func fill(lines []string, count int) []string {
	lines = lines[:min(len(lines), count)]
	for len(lines) < count {
		lines = append(lines, "")
	}
	return lines
}

// head identifies the run and its progress.
func (m *model) head() []string {
	title := "dlqbench  " + reports.Visible(m.live.Scenario, 60)
	if m.seen == 0 {
		title = "dlqbench  is being started"
	}
	title = m.look.strong(title)
	if m.seen > 0 && m.width >= 60 {
		title += m.look.faint(fmt.Sprintf("  %s  seed %d", reports.Visible(m.live.RunID, 60), m.live.Seed))
	}
	return []string{title, m.progress()}
}

// progress shows the phase, a bar and the time.
func (m *model) progress() string {
	phase, at, total := m.live.Phase, m.live.Elapsed, m.live.Total
	if m.drill != nil && m.state.Stage != "" {
		phase, at, total = string(m.state.Stage), m.state.At, m.state.Until
	}
	text := clock(at)
	if total > 0 && at <= total {
		text += " / " + clock(total)
	}
	line := m.look.strong(pad(reports.Visible(phase, 20), 8)) + " "
	if barWidth := min(m.width-30, 40); total > 0 && barWidth >= 10 {
		full := int(float64(barWidth) * min(1, max(0, at.Seconds()/total.Seconds())))
		line += m.look.good(strings.Repeat("█", full)) + m.look.faint(strings.Repeat("░", barWidth-full)) + " "
	}
	line += text
	if m.busy > 0 {
		line += m.look.warn("  …")
	}
	if m.state.Ending != "" {
		line += m.look.warn("  ends: " + reports.Visible(m.state.Ending, 60))
	}
	return line
}

// section is a part of the body. If there is too little room, the least important sections are omitted.
type section struct {
	lines    []string
	priority int
}

// body draws the sections that fit, in order, and gives the remaining room to the events.
func (m *model) body(room int) []string {
	const events = 3 // the minimum number of lines for the log
	sections := []section{
		{m.drawing(), 2}, {m.figures(), 0}, {m.courses(), 3}, {m.latency(), 2}, {m.faults(), 1}, {m.instances(), 1},
		{m.lags(), 4}, {m.store(), 4},
	}
	if len(sections[0].lines)+len(sections[2].lines)+events <= room && len(sections[0].lines) > 0 {
		sections[0].priority, sections[1].lines = 0, nil // the drawing and the courses show these figures already
	}
	shown := make([]bool, len(sections))
	left := room - events
	for priority := range 5 {
		for i, one := range sections {
			if one.priority == priority && len(one.lines) > 0 && (len(one.lines) <= left || priority == 0) {
				shown[i] = true
				left -= len(one.lines)
			}
		}
	}
	var lines []string
	for i, one := range sections {
		if shown[i] {
			lines = append(lines, one.lines...)
		}
	}
	return append(lines, m.events(room-len(lines))...)
}

// figures shows the main figures in words, for terminals without room for more.
func (m *model) figures() []string {
	s := &m.live
	return []string{
		fmt.Sprintf("sent %s  processed %s  lag %s", units.PerSecond(s.SentRate), units.PerSecond(s.ProcessedRate),
			m.lagText(s.Lag)),
		fmt.Sprintf("retrying %s  dead letters %s  p99 %s", units.Count(s.RetriesInFlight), units.Count(s.DeadLetters),
			brief(s.Latency.Success.P99)),
	}
}

func (m *model) lagText(lag int64) string {
	if lag > 0 && float64(lag) > max(m.live.SentRate, 1) { // more than a second behind
		return m.look.warn(units.Count(lag))
	}
	return units.Count(lag)
}

// courses shows the main figures and their course.
func (m *model) courses() []string {
	s, room := &m.live, m.width-30
	if m.width < 50 {
		return nil
	}
	row := func(name, value string, points []float64) string {
		return pad(name, 14) + right(value, 12) + "  " + m.look.line(spark(points, room))
	}
	return []string{
		row("sent", units.PerSecond(s.SentRate), m.course.sent),
		row("processed", units.PerSecond(s.ProcessedRate), m.course.processed),
		row("lag", units.Count(s.Lag), m.course.lag), row("retrying", units.Count(s.RetriesInFlight), m.course.retrying),
		row("dead letters", units.PerSecond(s.DeadLetterRate), m.course.deadLetters),
		row("p99", brief(s.Latency.Success.P99), m.course.p99),
	}
}

// latency is a table of two rows.
func (m *model) latency() []string {
	row := func(name string, l reports.LiveLatencies) string {
		return pad(name, 16) + right(brief(l.P50), 9) + right(brief(l.P99), 9) + right(brief(l.Max),
			9) + right(units.Count(l.Count), 11)
	}
	l := m.live.Latency
	return []string{
		m.look.faint(pad("last "+brief(l.Window), 16) + right("p50", 9) + right("p99", 9) + right("max",
			9) + right("records", 11)),
		row("success", l.Success), row("first attempt", l.FirstAttempt),
	}
}

// faults lists the faults in force.
func (m *model) faults() []string {
	var lines []string
	if m.drill == nil {
		for _, fault := range m.live.ActiveFaults {
			lines = append(lines, m.fault(fault.Name, fault.What, fmt.Sprintf("for %s", clock(m.live.Now-fault.Since))))
		}
		return lines
	}
	for _, fault := range m.inForce() {
		how := fmt.Sprintf("for %s %s", clock(m.state.At-fault.Injected), noticed(fault))
		lines = append(lines, m.fault(fault.Name, fault.What, strings.TrimSpace(how)))
	}
	return lines
}

// inForce lists the faults of a drill that are in force.
func (m *model) inForce() []drill.Fault {
	return slices.DeleteFunc(slices.Clone(m.state.Faults), func(fault drill.Fault) bool {
		return fault.Over()
	})
}

// noticed tells of people's reaction to a fault.
func noticed(fault drill.Fault) string {
	switch {
	case fault.Noticed != nil:
		return "noticed after " + (*fault.Noticed - fault.Injected).Round(100*time.Millisecond).String()
	case fault.ToNotice:
		return "not noticed yet"
	}
	return ""
}

func (m *model) fault(name, what, how string) string {
	return m.look.bad("✖ "+pad(reports.Visible(name, 30), 24)) + " " +
		reports.Visible(what, 100) + m.look.faint("  "+reports.Visible(how, 80))
}

// instances is a table of the processes.
func (m *model) instances() []string {
	if len(m.live.Instances) == 0 {
		return nil
	}
	lines := []string{m.look.faint(pad("process", 14) + pad("state", 10) + right("since", 8) + right("parts",
		7) + right("fetched", 10) + right("attempts", 10) + right("errors", 8))}
	for _, one := range m.live.Instances {
		errors := right(units.Count(one.Errors), 8)
		if one.Errors > 0 {
			errors = m.look.warn(errors)
		}
		name := one.Name
		if one.Node != "" {
			name = reports.Visible(one.Node, 20) + " " + fmt.Sprint(one.Number)
		}
		lines = append(lines, pad(name, 14)+m.status(one.Status, pad(string(one.Status), 10))+right(
			clock(m.live.Now-one.Since), 8)+
			right(fmt.Sprint(one.Partitions), 7)+right(units.PerSecond(one.FetchRate), 10)+
			right(units.PerSecond(one.AttemptRate), 10)+errors)
	}
	return lines
}

func (m *model) status(status reports.InstanceStatus, text string) string {
	switch status {
	case reports.InstanceRunning:
		return m.look.good(text)
	case reports.InstanceKilled, reports.InstanceCrashed:
		return m.look.bad(text)
	case reports.InstancePaused, reports.InstanceStarting, reports.InstanceStopping:
		return m.look.warn(text)
	}
	return m.look.faint(text)
}

// lags shows the lag of each partition as a bar, in order.
func (m *model) lags() []string {
	if len(m.live.Partitions) == 0 {
		return nil
	}
	points, largest := make([]float64, 0, len(m.live.Partitions)), int64(0)
	for _, one := range m.live.Partitions {
		points, largest = append(points, float64(one.Lag)), max(largest, one.Lag)
	}
	return []string{pad("by partition", 14) + right("most "+units.Count(largest), 12) + "  " +
		m.look.line(spark(points, m.width-30))}
}

// store shows the dead-letter store in one line.
func (m *model) store() []string {
	if m.live.Store == nil {
		return nil
	}
	return []string{"store  " + m.storeText()}
}

// storeText lists the states that have entries, in the order of an entry's life.
func (m *model) storeText() string {
	var parts []string
	for _, state := range reports.StoreStates() {
		if entries := m.live.Store.ByState[state]; entries > 0 {
			parts = append(parts, fmt.Sprintf("%s %s", state, units.Count(entries)))
		}
	}
	if len(parts) == 0 {
		return "empty"
	}
	return strings.Join(parts, "  ")
}

// events shows the newest lines of the log, with the program's own lines at the end.
func (m *model) events(room int) []string {
	if room < 1 {
		return nil
	}
	var lines []string
	add := func(at time.Duration, kind, text string) {
		line := m.look.faint(right(clock(at), 7)+" "+pad(kind, 10)) + " " + reports.Visible(text, 300)
		lines = append(lines, line)
	}
	if m.drill != nil {
		for _, line := range m.state.Log {
			text := line.Text
			if line.Who != nil {
				text = strings.TrimSpace(line.Who.Title() + ": " + text)
			}
			add(line.At, reports.Visible(line.Action, 10), text)
		}
	} else {
		for _, event := range m.live.Events {
			// counted from the beginning of the load, as in the head
			add(event.At-(m.live.Now-m.live.Elapsed), string(event.Kind), event.Text)
		}
	}
	for _, line := range m.logs {
		lines = append(lines, m.look.warn(reports.Visible(ansi.Strip(line), 300)))
	}
	m.scrolled = min(m.scrolled, max(len(lines)-room+1, 0))
	last := len(lines) - m.scrolled
	title := "Events"
	if m.scrolled > 0 {
		title = fmt.Sprintf("Events, %d newer ones below (↓)", m.scrolled)
	}
	return append([]string{m.look.heading(title, m.width)}, lines[max(last-room+1, 0):last]...)
}

// foot shows the result of the last action, or the keys.
func (m *model) foot() []string {
	if m.said != "" {
		if m.saidIsError {
			return []string{m.look.bad(reports.Visible(m.said, 400))}
		}
		return []string{m.look.good(reports.Visible(m.said, 400))}
	}
	if m.drill == nil {
		return []string{m.look.faint("Ctrl-C end the run, heal and judge   ↑↓ events   ? help")}
	}
	var keys []string
	for _, control := range m.controls() {
		if m.may(control.action) {
			keys = append(keys, control.key+" "+control.word)
		}
	}
	return m.wrapped(append(keys, "? help"))
}

// wrapped wraps words into as few lines as possible. In a low window it uses one line, which may be cut off.
func (m *model) wrapped(words []string) []string {
	lines := []string{words[0]}
	for _, word := range words[1:] {
		last := &lines[len(lines)-1]
		if ansi.StringWidth(*last+"  "+word) > m.width && m.height >= 20 {
			lines = append(lines, word)
			continue
		}
		*last += "  " + word
	}
	for i := range lines {
		lines[i] = m.look.faint(lines[i])
	}
	return lines
}

func (m *model) helpLines() []string {
	lines := []string{m.look.heading("Keys", m.width), "  ↑ ↓      older and newer events", "  ?        this, and back",
		"  Ctrl-C   end now: heal, seal and judge; a second time: at once"}
	for _, control := range m.controls() {
		line := "  " + pad(control.key, 8) + " " + control.word
		if !m.may(control.action) {
			line = m.look.faint(line + "  (not now, or not for you)")
		}
		lines = append(lines, line)
	}
	return append(lines, "", "  Rates are of the last second, latencies of the last seconds, from the moment at which",
		"  a record should have been sent. Nothing here is judged: the verdict comes at the end.")
}
