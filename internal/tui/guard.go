package tui

import (
	"fmt"
	"runtime/debug"

	tea "charm.land/bubbletea/v2"
)

// guard ends the view in order when a bug in it panics. The library would handle a panic by ending the view without
// waiting for the key reader, and print the stack to a terminal in raw mode. Only the program's own loop calls its
// methods.
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

// View implements tea.Model. After a panic, the view ends with the next message, at the latest with the next tick,
// which comes five times a second.
func (g *guard) View() (view tea.View) {
	view.AltScreen = true
	if g.err != nil {
		return view
	}
	defer g.catch(func() { view = tea.View{AltScreen: true} })
	return g.Model.View()
}

// catch must be deferred. After a panic, it stores the error and calls instead.
func (g *guard) catch(instead func()) {
	if cause := recover(); cause != nil {
		g.err = fmt.Errorf("showing the run in the terminal: %w: %v\n%s", tea.ErrProgramPanic, cause, debug.Stack())
		instead()
	}
}
