package subject

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// An instance's own folder exists before the instance starts, even if it contains no files: the subject may create a
// database in it.
func TestTheInstancesFolderIsMade(t *testing.T) {
	t.Parallel()
	dir := filepath.Join(t.TempDir(), "work", "instance-0")
	must.Do(t, writeFiles(Launch{WorkDir: dir}))
	if found, err := os.Stat(dir); err != nil || !found.IsDir() {
		t.Errorf("%v, %v", found, err)
	}
	if err := writeFiles(Launch{}); err != nil {
		t.Errorf("without a folder: %v", err)
	}
}
