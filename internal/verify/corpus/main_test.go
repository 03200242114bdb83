package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/history"
)

// store writes a run in which the consumer did nothing.
func store(t *testing.T, dir string) {
	t.Helper()
	recorder, err := history.NewRecorder(filepath.Join(dir, historyDir), history.Header{Consumers: make([]history.Consumer,
		1)}, history.NewClock())
	if err != nil {
		t.Fatal(err)
	}
	if err := recorder.Close(); err != nil {
		t.Fatal(err)
	}
}

func judged(t *testing.T, dir string, accept bool) (bool, string) {
	t.Helper()
	var out bytes.Buffer
	same, err := judgeAll(&out, []string{dir}, accept)
	if err != nil {
		t.Fatal(err)
	}
	return same, out.String()
}

func TestARunIsHeldToWhatWasAccepted(t *testing.T) {
	dir := t.TempDir()
	store(t, filepath.Join(dir, "bugs", "one"))
	if same, text := judged(t, dir, false); same || !strings.Contains(text, "no verdict was accepted") {
		t.Fatalf("nothing was accepted, but: %s", text)
	}
	judged(t, dir, true)
	if same, text := judged(t, dir, false); !same || !strings.Contains(text, "1 of 1 runs judged as accepted") {
		t.Fatalf("it was accepted, but: %s", text)
	}
	file := filepath.Join(dir, "bugs", "one", accepted)
	text, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	changed := bytes.Replace(text, []byte(`"schema": `), []byte(`"schema": 1`), 1)
	if bytes.Equal(text, changed) {
		t.Fatalf("there is no schema in %s", text)
	}
	if err := os.WriteFile(file, changed, 0o600); err != nil {
		t.Fatal(err)
	}
	same, told := judged(t, dir, false)
	if same || !strings.Contains(told, `- "schema": 1`) || !strings.Contains(told, "git diff --no-index") {
		t.Fatalf("another verdict was accepted, but: %s", told)
	}
}

func TestAFolderWithoutRunsIsNoCorpus(t *testing.T) {
	if _, err := judgeAll(&bytes.Buffer{}, []string{t.TempDir()}, false); err == nil {
		t.Fatal("an empty corpus passes")
	}
}
