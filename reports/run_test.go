package reports

import (
	"errors"
	"io"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestWriteAll(t *testing.T) {
	dir := t.TempDir()
	run := passRun()
	for range 2 { // the second pass overwrites the files of the first
		must.Do(t, WriteAll(dir, run))
	}
	for file, to := range map[string]func(io.Writer, Run) error{VerdictFile: JSON, HTMLFile: HTML, JUnitFile: JUnit,
		SummaryFile: Markdown} {
		got := must.Get(os.ReadFile(filepath.Join(dir, file)))(t)
		if string(got) != render(t, run, to) {
			t.Errorf("%s is not what its renderer writes", file)
		}
		if info, _ := os.Stat(filepath.Join(dir, file)); info.Mode().Perm()&0o044 != 0o044 {
			t.Errorf("%s is %v: others may not read it", file, info.Mode())
		}
	}
	if got := fileNames(t, dir); !slices.Equal(got, []string{JUnitFile, HTMLFile, SummaryFile, VerdictFile}) {
		t.Errorf("the directory holds %v", got)
	}
}

func fileNames(t *testing.T, dir string) []string {
	t.Helper()
	entries := must.Get(os.ReadDir(dir))(t)
	var names []string
	for _, entry := range entries {
		names = append(names, entry.Name())
	}
	return names
}

func TestReplaceFileKeepsTheOldOneWhenRenderingFails(t *testing.T) {
	path := filepath.Join(t.TempDir(), VerdictFile)
	must.Do(t, os.WriteFile(path, []byte("old"), 0o644))
	full := errors.New("no space left on device")
	err := ReplaceFile(path, func(w io.Writer) error {
		_, _ = io.WriteString(w, "half")
		return full
	})
	if !errors.Is(err, full) || !strings.Contains(err.Error(), path) {
		t.Errorf("the error is %v", err)
	}
	if got, _ := os.ReadFile(path); string(got) != "old" {
		t.Errorf("the file now holds %q", got)
	}
	if got := fileNames(t, filepath.Dir(path)); len(got) != 1 {
		t.Errorf("the directory holds %v", got)
	}
}

func TestWriteAllSaysWhere(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "missing")
	err := WriteAll(dir, passRun())
	if err == nil || !strings.Contains(err.Error(), filepath.Join(dir, HTMLFile)) {
		t.Errorf("the error is %v", err)
	}
}
