package main

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// The repository contains the pages, for its readers. They must match the program.
func TestPagesSayWhatExplainSays(t *testing.T) {
	all := pages()
	for path, want := range all {
		got, err := os.ReadFile(filepath.Join("..", "..", "docs", path))
		if err != nil {
			t.Errorf("%v: run `make docs`", err)
			continue
		}
		if string(got) != want {
			t.Errorf("docs/%s is not what dlqbench explain says: run `make docs`", path)
		}
	}
	for _, folder := range []string{"invariants", "faults"} {
		files := must.Get(filepath.Glob(filepath.Join("..", "..", "docs", folder, "*.md")))(t)
		for _, file := range files {
			if _, known := all[filepath.Join(folder, filepath.Base(file))]; !known {
				t.Errorf("docs/%s/%s explains what there is no more: run `make docs`", folder, filepath.Base(file))
			}
		}
	}
}
