package reports

import (
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
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
				compareGolden(t, filepath.Join("testdata", fixture+"."+extension), render(t, run, to))
			})
		}
	}
}

func compareGolden(t *testing.T, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatalf("updating the golden file: %v", err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading the golden file (UPDATE_GOLDEN=1 writes it): %v", err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got, "\n"), strings.Split(string(want), "\n")
	for i := range max(len(gotLines), len(wantLines)) {
		g, w := lineAt(gotLines, i), lineAt(wantLines, i)
		if g != w {
			t.Fatalf("%s differs from line %d on:\n got: %s\nwant: %s", path, i+1, g, w)
		}
	}
}

func lineAt(lines []string, i int) string {
	if i < len(lines) {
		return lines[i]
	}
	return "(no such line)"
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
