package tui

import (
	"fmt"
	"runtime/debug"

	tea "charm.land/bubbletea/v2"
)

// guard ends the view in order when a bug in it panics. Left to the library, a panic would end it without waiting for
// who reads the keys, and print the stack to a terminal that is still raw. Its methods are called by the program's own
// loop only.
type guard struct {
	tea.Model
	// err is the panic, with its stack.
	err error
}

// Update implements tea.Model.
func (g *guard) Update(message tea.Msg) (model tea.Model, then tea.Cmd) {
	if g.err != nil {
		return g, tea.Quit
	}
	defer g.catch(func() { model, then = g, tea.Quit })
	g.Model, then = g.Model.Update(message)
	return g, then
}

// View implements tea.Model. After a panic the view is ended with the next message: a tick comes five times a second.
func (g *guard) View() (view tea.View) {
	view.AltScreen = true
	if g.err != nil {
		return view
	}
	defer g.catch(func() { view = tea.View{AltScreen: true} })
	return g.Model.View()
}

// catch is deferred: after a panic it notes what happened, and calls instead.
func (g *guard) catch(instead func()) {
	if cause := recover(); cause != nil {
		g.err = fmt.Errorf("showing the run in the terminal: %w: %v\n%s", tea.ErrProgramPanic, cause, debug.Stack())
		instead()
	}
}
