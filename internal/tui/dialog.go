package tui

import (
	"slices"
	"strings"

	tea "charm.land/bubbletea/v2"

	"github.com/dlqbench/dlqbench/internal/drill"
	"github.com/dlqbench/dlqbench/reports"
)

// dialog asks for input before an action. key returns the next dialog (itself or another one), or nil together with the
// action, or without one if it was cancelled.
type dialog interface {
	key(press tea.KeyPressMsg) (dialog, *drill.Action)
	paste(text string)
	// lines draws the dialog within the given size.
	lines(look look, width, height int) []string
}

// item is a line of a choice.
type item struct {
	label, detail string
	// refused is the reason why the item cannot be chosen.
	refused string
	action  *drill.Action
	next    func() dialog
}

// choice is a list from which one item is chosen.
type choice struct {
	title, empty string
	items        []item
	at           int
	// search means that typed text filters the items.
	search bool
	typed  string
}

func (c *choice) shown() []item {
	if c.typed == "" {
		return c.items
	}
	return slices.DeleteFunc(slices.Clone(c.items), func(one item) bool {
		return !strings.Contains(strings.ToLower(one.label+" "+one.detail), strings.ToLower(c.typed))
	})
}

func (c *choice) key(press tea.KeyPressMsg) (dialog, *drill.Action) {
	shown := c.shown()
	switch name := press.String(); {
	case name == "up":
		c.at = max(c.at-1, 0)
	case name == "down":
		c.at = max(min(c.at+1, len(shown)-1), 0)
	case name == "enter":
		if c.at >= len(shown) || shown[c.at].refused != "" {
			return c, nil
		}
		if next := shown[c.at].next; next != nil {
			return next(), nil
		}
		return nil, shown[c.at].action
	case c.search && name == "backspace":
		c.typed, c.at = shortened(c.typed), 0
	case c.search && press.Text != "":
		c.paste(press.Text)
	case !c.search && len(press.Text) == 1 && press.Text[0] >= '0' && press.Text[0] <= '9':
		c.at = min(int(press.Text[0]-'0'), max(len(shown)-1, 0))
	}
	return c, nil
}

func (c *choice) paste(text string) {
	if c.search {
		c.typed, c.at = c.typed+oneLine(text), 0
	}
}

func (c *choice) lines(look look, width, height int) []string {
	title := c.title
	if c.search {
		title += "  " + c.typed + "▏"
	}
	lines := []string{look.heading(title, width)}
	shown := c.shown()
	if len(shown) == 0 {
		empty := c.empty
		if c.typed != "" || empty == "" {
			empty = "nothing matches"
		}
		return append(lines, "  "+look.faint(empty))
	}
	room := max(height-2, 1)
	first := min(max(c.at-room/2, 0), max(len(shown)-room, 0))
	for i := first; i < min(first+room, len(shown)); i++ {
		one, mark := shown[i], "  "
		if i == c.at {
			mark = "▸ "
		}
		text, detail := mark+pad(reports.Visible(one.label, 40), 26), reports.Visible(one.detail, 200)
		if one.refused != "" {
			detail = "not here: " + reports.Visible(one.refused, 200)
		}
		switch {
		case one.refused != "":
			lines = append(lines, look.faint(text+"  "+detail))
		case i == c.at:
			lines = append(lines, look.strong(text)+"  "+look.faint(detail))
		default:
			lines = append(lines, text+"  "+look.faint(detail))
		}
	}
	return append(lines, look.faint("  ↑↓ choose   enter take   esc leave"))
}

// field is a line of a form.
type field struct {
	label, value, hint string
	choices            []string
}

// form asks for several values together.
type form struct {
	title  string
	fields []field
	at     int
	wrong  string
	submit func(values []string) (*drill.Action, error)
}

func (f *form) key(press tea.KeyPressMsg) (dialog, *drill.Action) {
	f.wrong = ""
	switch name := press.String(); {
	case name == "enter":
		return f.done()
	case name == "up" || name == "shift+tab":
		f.at = max(f.at-1, 0)
	case name == "down" || name == "tab":
		f.at = max(min(f.at+1, len(f.fields)-1), 0)
	case len(f.fields) == 0:
	case name == "left" || name == "right":
		f.turn(name == "right")
	case name == "backspace":
		f.fields[f.at].value = shortened(f.fields[f.at].value)
	case name == "ctrl+u":
		f.fields[f.at].value = ""
	case press.Text != "":
		f.paste(press.Text)
	}
	return f, nil
}

// turn selects the next or the previous of the choices.
func (f *form) turn(on bool) {
	one := &f.fields[f.at]
	if len(one.choices) == 0 {
		return
	}
	step := len(one.choices) - 1
	if on {
		step = 1
	}
	at := slices.Index(one.choices, one.value)
	if at < 0 && !on {
		at = 0
	}
	one.value = one.choices[(at+step)%len(one.choices)]
}

func (f *form) done() (dialog, *drill.Action) {
	values := make([]string, len(f.fields))
	for i := range f.fields {
		values[i] = f.fields[i].value
	}
	action, err := f.submit(values)
	if err != nil {
		f.wrong = err.Error()
		return f, nil
	}
	return nil, action
}

func (f *form) paste(text string) {
	if len(f.fields) > 0 {
		f.fields[f.at].value += oneLine(text)
	}
}

func (f *form) lines(look look, width, height int) []string {
	lines := []string{look.heading(f.title, width)}
	room := max(height-2, 1)
	first := min(max(f.at-room/2, 0), max(len(f.fields)-room, 0))
	for i := first; i < min(first+room, len(f.fields)); i++ {
		one, mark, cursor := f.fields[i], "  ", ""
		if i == f.at {
			mark, cursor = "▸ ", "▏"
		}
		hint := one.hint
		if len(one.choices) > 0 {
			hint = strings.TrimSpace("←→ " + strings.Join(one.choices, " ") + "  " + hint)
		}
		lines = append(lines,
			mark+pad(reports.Visible(one.label, 40), 24)+look.strong(reports.Visible(one.value, 200)+cursor)+"  "+
				look.faint(reports.Visible(hint, 200)))
	}
	if f.wrong != "" {
		return append(lines, look.bad("  "+reports.Visible(f.wrong, 300)))
	}
	return append(lines, look.faint("  enter do it   ↑↓ field   esc leave"))
}

// shortened returns the text without its last character.
func shortened(text string) string {
	runes := []rune(text)
	return string(runes[:max(len(runes)-1, 0)])
}

// oneLine returns typed or pasted text without line breaks.
func oneLine(text string) string {
	return strings.NewReplacer("\r\n", " ", "\n", " ", "\r", " ", "\t", " ").Replace(text)
}
