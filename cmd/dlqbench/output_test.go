package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"
)

// A closed output is not a failure and does not affect a run.
func TestClosedOutput(t *testing.T) {
	t.Parallel()
	dir := folder(t)
	for _, arguments := range [][]string{{"schema"}, {"list"}, {"run", "tiny.yaml"}, {"check", "runs/latest"},
		{"report", "runs/latest", "--html", "-"}} {
		reader, writer, err := os.Pipe()
		if err != nil {
			t.Fatal(err)
		}
		reader.Close()
		command := exec.Command("dlqbench", arguments...)
		command.Dir, command.Stdout, command.Stderr = dir, writer, writer
		err = command.Run()
		writer.Close()
		if err != nil {
			t.Errorf("%v: %v", arguments, err)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "runs", "latest", "report.html")); err != nil {
		t.Error(err)
	}
}
