package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// What a subject file lists can be run with it.
func TestListedScenariosCanBeRun(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	must.Do(t, os.WriteFile(filepath.Join(dir, "subject.yaml"), []byte("name: orders\nkind: process\ncommand: [orders]\n"+
		"contract: {dlq: {enabled: false}}\n"), 0o600))
	command := exec.Command("dlqbench", "list", "--subject", "subject.yaml")
	command.Dir = dir
	out := must.Get(command.Output())(t)
	if text := string(out); !strings.Contains(text, "\n  poison-mix ") || strings.Contains(text, "\n  dlq-link-down ") {
		t.Errorf("without dead letters it lists:\n%s", text)
	}
}

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
