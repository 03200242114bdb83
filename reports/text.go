package reports

import "github.com/dlqbench/dlqbench/reports/document"

// The longest texts that are shown, in characters; verdict.json has them whole.
const (
	maxText = 600
	maxName = 120
	// What was not judged, and why, is told whole.
	maxCoverage = document.Whole
)

// Visible returns s as text of one line that is safe to show on a terminal, of at most limit characters.
func Visible(s string, limit int) string { return document.Visible(s, limit) }

func visible(s string, limit int) string { return document.Visible(s, limit) }

func text(s string) string { return visible(s, maxText) }

func name(s string) string { return visible(s, maxName) }
