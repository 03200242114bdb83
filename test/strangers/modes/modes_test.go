package main

import (
	"os"
	"path/filepath"
	"testing"
)

// The subject files are those that the table of modes makes.
func TestSubjects(t *testing.T) {
	for _, m := range modes() {
		s := standard()
		m.change(&s)
		path := filepath.Join("subjects", m.name+".yaml")
		if written, err := os.ReadFile(path); err != nil || string(written) != subject(m, s) {
			t.Errorf("%s is not what the mode says (%v): go run . -subjects subjects", path, err)
		}
	}
	files, err := filepath.Glob("subjects/*.yaml")
	if err != nil || len(files) != len(modes()) {
		t.Errorf("%d subject files for %d modes (%v)", len(files), len(modes()), err)
	}
}
