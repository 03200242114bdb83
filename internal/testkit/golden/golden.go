// Package golden compares what is made with files of a package's testdata. UPDATE_GOLDEN=1 writes the files again; read
// the difference before you commit it.
package golden

import (
	"os"
	"strings"
	"testing"
)

// Check compares a text with a file, and says from which line on they differ.
func Check(t testing.TB, path, got string) {
	t.Helper()
	if os.Getenv("UPDATE_GOLDEN") != "" {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatalf("reading what it is compared with (UPDATE_GOLDEN=1 writes it): %v", err)
	}
	if got == string(want) {
		return
	}
	gotLines, wantLines := strings.Split(got+"\n(end)", "\n"), strings.Split(string(want)+"\n(end)", "\n")
	for i := range min(len(gotLines), len(wantLines)) {
		if gotLines[i] != wantLines[i] {
			t.Errorf("%s differs from line %d on (UPDATE_GOLDEN=1 writes it again):\n got: %s\nwant: %s\n\nall of it:\n%s",
				path, i+1, gotLines[i], wantLines[i], got)
			return
		}
	}
}
