package reports

import (
	"io"
	"os"
	"strings"

	"github.com/charmbracelet/x/ansi"
	"golang.org/x/term"

	"github.com/dlqbench/dlqbench/reports/document"
)

// The maximum lengths of texts, in characters. verdict.json has the whole texts.
const (
	maxText = 600
	maxName = 120
	// The extent of what was not judged, and the reason, are shown whole.
	maxCoverage = document.Whole
)

// Visible returns s as a one-line text that is safe to show on a terminal, of at most limit characters.
func Visible(s string, limit int) string { return document.Visible(s, limit) }

func visible(s string, limit int) string { return document.Visible(s, limit) }

func text(s string) string { return visible(s, maxText) }

func name(s string) string { return visible(s, maxName) }

// OneLine returns a line that fits the terminal w: words at its end are left out if need be. A line that goes elsewhere
// is whole.
func OneLine(w io.Writer, line string) string {
	if onTerminal(w) {
		return fitted(line, Columns(w)-1)
	}
	return line
}

// Flow returns a text whose lines are broken at spaces where the terminal w has no room: paths and commands stay
// whole. A text that goes elsewhere stays as it is.
func Flow(w io.Writer, text string) string {
	if onTerminal(w) {
		return document.Flow(text, Columns(w))
	}
	return text
}

func onTerminal(w io.Writer) bool {
	file, ok := w.(*os.File)
	return ok && term.IsTerminal(int(file.Fd()))
}

// fitted returns the words of a line that fit in so many columns.
func fitted(line string, columns int) string {
	if ansi.StringWidth(line) <= columns {
		return line
	}
	line = ansi.Truncate(line, columns-1, "")
	if end := strings.LastIndexByte(line, ' '); end > columns/2 {
		line = line[:end]
	}
	return strings.TrimRight(line, " ,;:") + "…"
}
