package reports

import (
	"io"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/golden"
)

// TestGolden compares each format of each fixture with golden files. After an intended change run it with
// UPDATE_GOLDEN=1 and check the diff.
func TestGolden(t *testing.T) {
	formats := map[string]func(io.Writer, Run) error{
		"json": JSON, "xml": JUnit, "md": Markdown,
		"txt": func(w io.Writer, run Run) error { return Terminal(w, run, false, false) },
	}
	for fixture, run := range fixtures() {
		for extension, to := range formats {
			t.Run(fixture+"."+extension, func(t *testing.T) {
				golden.Check(t, filepath.Join("testdata", fixture+"."+extension), render(t, run, to))
			})
		}
	}
}

// render returns the output of a renderer.
func render(t *testing.T, run Run, to func(io.Writer, Run) error) string {
	t.Helper()
	var b strings.Builder
	if err := to(&b, run); err != nil {
		t.Fatalf("rendering: %v", err)
	}
	return b.String()
}
