package tui

import (
	"fmt"
	"math"
	"strings"
	"time"

	"charm.land/lipgloss/v2"
	"github.com/charmbracelet/x/ansi"
)

// look defines the style. Without colour, nothing is styled.
type look struct{ color bool }

func (l look) style(style lipgloss.Style, text string) string {
	if !l.color || text == "" {
		return text
	}
	return style.Render(text)
}

func (l look) strong(text string) string { return l.style(lipgloss.NewStyle().Bold(true), text) }
func (l look) faint(text string) string  { return l.style(lipgloss.NewStyle().Faint(true), text) }
func (l look) good(text string) string {
	return l.style(lipgloss.NewStyle().Foreground(lipgloss.Color("2")), text)
}
func (l look) warn(text string) string {
	return l.style(lipgloss.NewStyle().Foreground(lipgloss.Color("3")), text)
}
func (l look) bad(text string) string {
	return l.style(lipgloss.NewStyle().Bold(true).Foreground(lipgloss.Color("1")), text)
}
func (l look) line(text string) string {
	return l.style(lipgloss.NewStyle().Foreground(lipgloss.Color("6")), text)
}

// heading is a title followed by a rule to the right edge.
func (l look) heading(title string, width int) string {
	rule := strings.Repeat("─", max(width-ansi.StringWidth(title)-2, 0))
	return l.strong(title) + " " + l.faint(rule)
}

// pad pads or cuts text to a width in columns.
func pad(text string, width int) string {
	text = ansi.Truncate(text, width, "…")
	return text + strings.Repeat(" ", max(width-ansi.StringWidth(text), 0))
}

// right aligns text to a width.
func right(text string, width int) string {
	return strings.Repeat(" ", max(width-ansi.StringWidth(text), 0)) + text
}

// spark draws the last points as bars in eighths of the height, scaled to the largest.
func spark(points []float64, width int) string {
	bars := []rune(" ▁▂▃▄▅▆▇█")
	points = points[max(len(points)-max(width, 0), 0):]
	largest := 0.0
	for _, value := range points {
		largest = max(largest, value)
	}
	var b strings.Builder
	for _, value := range points {
		height := 0
		if largest > 0 && value > 0 {
			height = max(1, int(math.Round(value/largest*float64(len(bars)-1))))
		}
		b.WriteRune(bars[height])
	}
	return b.String()
}

// brief formats a duration in few characters: 812µs, 4.9ms, 87ms, 1.2s, 3m05s.
func brief(d time.Duration) string {
	switch {
	case d <= 0:
		return "–"
	case d < time.Millisecond:
		return fmt.Sprintf("%dµs", d.Microseconds())
	case d < 10*time.Millisecond:
		return fmt.Sprintf("%.1fms", d.Seconds()*1e3)
	case d < time.Second:
		return fmt.Sprintf("%dms", d.Milliseconds())
	case d < 100*time.Second:
		return fmt.Sprintf("%.1fs", d.Seconds())
	}
	return clock(d)
}

// clock formats a time of the run: 0:04, 12:31, 1:02:03.
func clock(d time.Duration) string {
	sign := ""
	if d < 0 {
		sign, d = "-", -d
	}
	seconds := int64(d / time.Second)
	if seconds >= 3600 {
		return fmt.Sprintf("%s%d:%02d:%02d", sign, seconds/3600, seconds/60%60, seconds%60)
	}
	return fmt.Sprintf("%s%d:%02d", sign, seconds/60, seconds%60)
}
