package main

import (
	"errors"
	"io"
	"os"

	"github.com/dlqbench/dlqbench/internal/tui"
	"github.com/dlqbench/dlqbench/reports"
)

// shower shows a run in progress.
type shower interface {
	Update(reports.Snapshot)
	Around(w io.Writer) io.Writer
	Done()
}

// checkTerminal rejects a terminal that cannot show --tui.
func (a *app) checkTerminal() error {
	in, is := a.stdin.(*os.File)
	switch {
	case !is || !isTerminal(in) || !isTerminal(a.stderr):
		return usageError{errors.New("--tui needs a terminal: its keys are read from stdin and it is drawn on stderr, and " +
			"one of them is none; leave it out, and the run tells of its progress line by line")}
	case os.Getenv("TERM") == "dumb":
		return usageError{errors.New("--tui needs a terminal that can place its cursor, and TERM is dumb")}
	}
	return nil
}

// openScreen takes over the terminal until Done. drill is nil if the view has no actions. A second interrupt, which
// ends the program at once, restores the terminal first.
func (a *app) openScreen(drill tui.Drill) shower {
	screen := &onScreen{tui.Open(tui.Options{
		In: a.stdin.(*os.File), Out: a.stderr, Color: reports.UseColor(a.stderr), Interrupt: interruptSelf, Drill: drill,
	}), a}
	a.screen.Store(screen)
	return screen
}

// interruptSelf handles Ctrl-C, which a terminal in raw mode passes on as a key.
func interruptSelf() {
	if self, err := os.FindProcess(os.Getpid()); err == nil {
		_ = self.Signal(os.Interrupt)
	}
}

// onScreen reports problems with the terminal when it is restored.
type onScreen struct {
	*tui.Screen
	app *app
}

func (s *onScreen) Done() {
	s.Screen.Done()
	if s.app.screen.CompareAndSwap(s, nil) && s.Err() != nil {
		s.app.complain(s.Err())
	}
}

// leave restores the terminal before the program ends at once.
func (a *app) leave() {
	if screen := a.screen.Load(); screen != nil {
		screen.Done()
	}
}

// notes is stderr, for messages while a view may own the terminal.
func (a *app) notes() io.Writer { return notes{a} }

type notes struct{ app *app }

func (n notes) Write(text []byte) (int, error) {
	if screen := n.app.screen.Load(); screen != nil {
		return screen.Around(n.app.stderr).Write(text)
	}
	return n.app.stderr.Write(text)
}
