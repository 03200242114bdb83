package tui

import (
	"time"

	tea "charm.land/bubbletea/v2"

	"github.com/dlqbench/dlqbench/reports"
)

const (
	// coursePoints is how much of the recent course is kept, one point per second.
	coursePoints = 240
	// shownLogs is how many lines of the program's own log are kept to be shown.
	shownLogs = 50
	// saidFor is how long what became of an action stays on the screen.
	saidFor = 8 * time.Second
)

// model is what is shown.
type model struct {
	mail      *mailbox
	acting    *acting
	drill     Drill
	interrupt func()
	look      look

	width, height int
	live          reports.Snapshot
	seen          int // snapshots so far
	state         State
	course        course
	logs          []string
	// scrolled is how many of the newest events are scrolled away.
	scrolled int
	help     bool
	dialog   dialog
	// said is what became of the last action, until when it is shown; busy how many are under way.
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

// tick is when it is looked at what there is to show.
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

// refresh takes what is to be shown.
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

// say shows what became of an action.
func (m *model) say(done did) {
	m.said, m.saidIsError, m.saidUntil = done.text, done.err != nil, m.now().Add(saidFor)
	if done.err != nil {
		m.said = done.err.Error()
	}
}

// key acts on a key.
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

// inDialog gives the key to the dialog, which may end with an action.
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

// act does something.
func (m *model) act(action Action) tea.Cmd {
	does := m.acting.do(m.drill, action)
	if does != nil {
		m.busy++
	}
	return does
}

// course is how the main figures went, one point per second.
type course struct {
	last                                             time.Duration
	sent, processed, lag, retrying, p99, deadLetters []float64
}

// add takes the figures, unless it has those of this second.
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
