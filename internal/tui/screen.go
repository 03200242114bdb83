package tui

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"sync"
	"time"

	tea "charm.land/bubbletea/v2"
	"github.com/charmbracelet/colorprofile"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/reports"
)

const (
	// every is the interval at which the view checks for new data.
	every = 200 * time.Millisecond
	// closeLimit is the time that closing the terminal may take.
	closeLimit = 2 * time.Second
	// actLimit bounds an action. The drill bounds its own actions, too, and the view waits for its answer.
	actLimit = time.Minute
	// maxHeld is the maximum number of bytes of the log, the last ones, that are kept to be written at the end.
	maxHeld = 1 << 20
)

// Options configure a view.
type Options struct {
	// In and Out are the terminal. In is set to raw mode.
	In, Out *os.File
	// Color enables colours.
	Color bool
	// Interrupt is called for Ctrl-C, which is a key while the view is open.
	Interrupt func()
	// Drill, if not nil, adds the manual actions.
	Drill Drill
}

// Screen is a view on a terminal. It is safe for concurrent use.
type Screen struct {
	mail    *mailbox
	program *tea.Program
	acting  *acting
	ended   chan struct{}
	err     error
	close   sync.Once
}

// Open takes over the terminal. Done must be called in all cases to restore the terminal.
func Open(options Options) *Screen {
	s := &Screen{mail: &mailbox{}, ended: make(chan struct{}), acting: newActing()}
	profile := colorprofile.NoTTY
	if options.Color {
		profile = colorprofile.Detect(options.Out, os.Environ())
	}
	model := &guard{Model: newModel(s.mail, s.acting, options)}
	s.program = tea.NewProgram(model, tea.WithInput(options.In), tea.WithOutput(options.Out),
		tea.WithColorProfile(profile), tea.WithoutSignalHandler())
	go func() {
		defer close(s.ended)
		if _, err := s.program.Run(); err != nil && !errors.Is(err, tea.ErrProgramKilled) {
			s.err = fmt.Errorf("showing the run in the terminal: %w", err)
		} else if errors.Is(err, tea.ErrProgramPanic) {
			s.err = err
		}
		if model.err != nil {
			s.err = model.err
		}
	}()
	return s
}

// Update shows the snapshot soon. It never waits.
func (s *Screen) Update(snapshot reports.Snapshot) { s.mail.put(snapshot) }

// Around returns a writer for log lines, which would otherwise disturb the screen. The view shows them, and writes them
// to w when it is closed.
func (s *Screen) Around(w io.Writer) io.Writer { return &logs{mail: s.mail, to: w, closed: s.ended} }

// Done restores the terminal and writes the log lines kept meanwhile. Further calls do nothing.
func (s *Screen) Done() {
	s.close.Do(func() {
		s.acting.stop()
		go s.program.Quit()
		if !s.endsWithin(closeLimit) {
			go s.program.Kill() // a terminal that does not read could block it for ever
			s.endsWithin(closeLimit)
		}
		s.mail.flush()
	})
}

func (s *Screen) endsWithin(limit time.Duration) bool {
	late := time.NewTimer(limit)
	defer late.Stop()
	select {
	case <-s.ended:
		return true
	case <-late.C:
		return false
	}
}

// Err is the error of the terminal, available after Done.
func (s *Screen) Err() error {
	select {
	case <-s.ended:
		return s.err
	default:
		return errors.New("showing the run in the terminal: the terminal takes nothing any more, and could not be put back " +
			"as it was (the command reset does that)")
	}
}

// mailbox holds the data to show next.
type mailbox struct {
	mu     sync.Mutex
	newest reports.Snapshot
	count  int
	lines  []string
	held   []byte
	to     io.Writer
}

func (m *mailbox) put(snapshot reports.Snapshot) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.newest = snapshot
	m.count++
}

// take returns the newest snapshot, the number of snapshots, and the lines logged since the last call.
func (m *mailbox) take() (reports.Snapshot, int, []string) {
	m.mu.Lock()
	defer m.mu.Unlock()
	lines := m.lines
	m.lines = nil
	return m.newest, m.count, lines
}

// log adds data written to a log.
func (m *mailbox) log(data []byte, to io.Writer) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.to = to
	m.held = append(m.held, data...)
	if len(m.held) > maxHeld {
		m.held = bytes.Clone(m.held[len(m.held)-maxHeld/2:])
	}
	for line := range bytes.Lines(data) {
		if m.lines = append(m.lines, string(bytes.TrimRight(line, "\r\n"))); len(m.lines) > shownLogs {
			m.lines = m.lines[1:]
		}
	}
}

// flush writes the kept log lines to their writers.
func (m *mailbox) flush() {
	m.mu.Lock()
	defer m.mu.Unlock()
	if len(m.held) > 0 {
		_, _ = m.to.Write(m.held)
		m.held = nil
	}
}

// logs keeps log lines off the screen while the view is open.
type logs struct {
	mail   *mailbox
	to     io.Writer
	closed <-chan struct{}
}

func (l *logs) Write(data []byte) (int, error) {
	select {
	case <-l.closed:
		l.mail.flush() // earlier log lines come first
		return l.to.Write(data)
	default:
		l.mail.log(data, l.to)
		return len(data), nil
	}
}

// acting owns the actions in progress.
type acting struct {
	ctx    context.Context
	cancel context.CancelFunc
	mu     sync.Mutex
	over   bool
	group  sync.WaitGroup
}

func newActing() *acting {
	a := &acting{}
	a.ctx, a.cancel = context.WithCancel(context.Background())
	return a
}

// did is the result of an action.
type did struct {
	text string
	err  error
}

// do returns a command that executes an action outside of the view's own loop.
func (a *acting) do(drill Drill, action drill.Action) tea.Cmd {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.over {
		return nil
	}
	a.group.Add(1)
	result := make(chan did, 1)
	go func() {
		defer a.group.Done()
		ctx, cancel := context.WithTimeout(a.ctx, actLimit)
		defer cancel()
		text, err := drill.Do(ctx, action)
		result <- did{text, err}
	}()
	return func() tea.Msg {
		select {
		case done := <-result:
			return done
		case <-a.ctx.Done():
			return nil
		}
	}
}

// stop cancels the actions in progress and waits for them, up to closeLimit.
func (a *acting) stop() {
	a.mu.Lock()
	a.over = true
	a.mu.Unlock()
	a.cancel()
	ended := make(chan struct{})
	go func() { a.group.Wait(); close(ended) }()
	late := time.NewTimer(closeLimit)
	defer late.Stop()
	select {
	case <-ended:
	case <-late.C:
	}
}
