package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/reports"
)

const (
	// coursePoints is the number of points kept of the recent course, one per second.
	coursePoints = 240
	// shownLogs is the number of lines kept of the program's own log.
	shownLogs = 50
	// saidFor is the time for which the result of an action stays on the screen.
	saidFor = 8 * time.Second
)

// model is the state of the view.
type model struct {
	mail      *mailbox
	acting    *acting
	drill     Drill
	interrupt func()
	look      look

	width, height int
	live          reports.Snapshot
	seen          int // number of snapshots so far
	state         drill.State
	course        course
	logs          []string
	// scrolled is the number of newest events that are scrolled out of view.
	scrolled int
	help     bool
	dialog   dialog
	// said is the result of the last action, with the time until which it is shown. busy is the number of actions in
	// progress.
	said        string
	saidIsError bool
	saidUntil   time.Time
	busy        int
	now         func() time.Time
}

func newModel(mail *mailbox, acting *acting, options Options) *model {
	return &model{mail: mail, acting: acting, drill: options.Drill, interrupt: options.Interrupt,
		look: look{color: options.Color}, now: time.Now}
}

// tick makes the model check for new data.
type tick struct{}

func ticking() tea.Cmd { return tea.Tick(every, func(time.Time) tea.Msg { return tick{} }) }

// Init implements tea.Model.
func (m *model) Init() tea.Cmd { return ticking() }

// Update implements tea.Model.
func (m *model) Update(message tea.Msg) (tea.Model, tea.Cmd) {
	switch message := message.(type) {
	case tea.WindowSizeMsg:
		m.width, m.height = message.Width, message.Height
	case tick:
		m.refresh()
		return m, ticking()
	case did:
		m.busy--
		m.say(message)
	case tea.PasteMsg:
		if m.dialog != nil {
			m.dialog.paste(message.Content)
		}
	case tea.KeyPressMsg:
		return m, m.key(message)
	}
	return m, nil
}

// refresh takes new data from the mailbox.
func (m *model) refresh() {
	live, seen, lines := m.mail.take()
	m.logs = append(m.logs, lines...)
	m.logs = m.logs[max(len(m.logs)-shownLogs, 0):]
	if m.drill != nil {
		m.state = m.drill.State()
		if m.state.Live != nil {
			live, seen = *m.state.Live, m.seen+1
		}
	}
	if seen != m.seen {
		m.live, m.seen = live, seen
		m.course.add(&m.live)
	}
	if m.said != "" && m.now().After(m.saidUntil) {
		m.said = ""
	}
}

// say shows the result of an action.
func (m *model) say(done did) {
	m.said, m.saidIsError, m.saidUntil = done.text, done.err != nil, m.now().Add(saidFor)
	if done.err != nil {
		m.said = done.err.Error()
	}
}

// key handles a key.
func (m *model) key(press tea.KeyPressMsg) tea.Cmd {
	name := press.String()
	switch {
	case name == "ctrl+c":
		m.interrupt()
		return nil
	case m.dialog != nil:
		return m.inDialog(press)
	case name == "?":
		m.help = !m.help
	case name == "up":
		m.scrolled++
	case name == "down":
		m.scrolled = max(m.scrolled-1, 0)
	case name == "esc":
		m.help, m.scrolled, m.said = false, 0, ""
	default:
		for _, control := range m.controls() {
			if control.key == name {
				return m.begin(control)
			}
		}
	}
	return nil
}

// inDialog passes the key to the dialog, which may end with an action.
func (m *model) inDialog(press tea.KeyPressMsg) tea.Cmd {
	if press.String() == "esc" {
		m.dialog = nil
		return nil
	}
	next, action := m.dialog.key(press)
	m.dialog = next
	if action == nil {
		return nil
	}
	return m.act(*action)
}

// act executes an action.
func (m *model) act(action drill.Action) tea.Cmd {
	does := m.acting.do(m.drill, action)
	if does != nil {
		m.busy++
	}
	return does
}

// course is the course of the main figures, one point per second.
type course struct {
	last                                             time.Duration
	sent, processed, lag, retrying, p99, deadLetters []float64
}

// add adds the figures, unless it has those of this second.
func (c *course) add(s *reports.Snapshot) {
	if len(c.sent) > 0 && s.Now-c.last < time.Second-every/2 {
		return
	}
	c.last = s.Now
	for _, one := range []struct {
		points *[]float64
		value  float64
	}{
		{&c.sent, s.SentRate}, {&c.processed, s.ProcessedRate}, {&c.lag, float64(s.Lag)},
		{&c.retrying, float64(s.RetriesInFlight)},
		{&c.p99, s.Latency.Success.P99.Seconds()}, {&c.deadLetters, s.DeadLetterRate},
	} {
		*one.points = append(*one.points, one.value)
		*one.points = (*one.points)[max(len(*one.points)-coursePoints, 0):]
	}
}
