package tui

import (
	"errors"
	"strings"
	"testing"

	tea "charm.land/bubbletea/v2"
)

type faulty struct{ updates bool }

func (faulty) Init() tea.Cmd { return nil }

func (f faulty) Update(tea.Msg) (tea.Model, tea.Cmd) {
	if f.updates {
		return f, nil
	}
	panic("updating")
}

func (f faulty) View() tea.View {
	if f.updates {
		panic("drawing")
	}
	return tea.NewView("fine")
}

// After a panic in either method, the view quits in order and reports the place.
func TestGuard(t *testing.T) {
	for name, model := range map[string]faulty{"updating": {}, "drawing": {updates: true}} {
		g := &guard{Model: model}
		g.View()
		_, then := g.Update(tick{})
		if then == nil {
			t.Fatalf("%s: it goes on", name)
		}
		if _, quits := then().(tea.QuitMsg); !quits {
			t.Errorf("%s: it does not quit", name)
		}
		if view := g.View(); !view.AltScreen || view.Content != "" {
			t.Errorf("%s: after that it draws %+v", name, view)
		}
		if !errors.Is(g.err, tea.ErrProgramPanic) || !strings.Contains(g.err.Error(), name) ||
			!strings.Contains(g.err.Error(), "guard_test.go") {
			t.Errorf("%s: it says %v", name, g.err)
		}
	}
}
