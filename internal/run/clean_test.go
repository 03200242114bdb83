package run

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/env/subject"
)

// runFolder creates a folder that looks like a run directory. registry is the content of its processes.json; ""
// stands for a run that ended in order.
func runFolder(t *testing.T, root, name, registry string) string {
	t.Helper()
	dir := filepath.Join(root, name)
	for _, folder := range []string{dirHistory, dirKafka, dirWork, dirLogs} {
		if err := os.MkdirAll(filepath.Join(dir, folder), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	header := fmt.Sprintf(`{"format": 1, "run_id": "%s-0f0f0f"}`, name)
	if err := os.WriteFile(filepath.Join(dir, dirHistory, "header.json"), []byte(header), 0o600); err != nil {
		t.Fatal(err)
	}
	if registry != "" {
		if err := os.WriteFile(filepath.Join(dir, subject.RegistryFile), []byte(registry), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return dir
}

// dead is the registry of a run whose process no longer exists.
const dead = `{"run_id": "dead-run", "owner": {"pid": 999999999, "start": "long ago"}, "processes": []}`

func TestClean(t *testing.T) {
	root := t.TempDir()
	killed := runFolder(t, root, "killed", dead)
	kept := runFolder(t, root, "kept", "")
	going := runFolder(t, root, "going", "")
	if err := subject.Claim(going, "going-run"); err != nil {
		t.Fatal(err)
	}
	// A foreign folder that resembles a run, and a run that was renamed.
	foreign := filepath.Join(root, "foreign")
	if err := os.MkdirAll(filepath.Join(foreign, dirHistory), 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Rename(runFolder(t, root, "saved", ""), filepath.Join(root, "precious")); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink("killed", filepath.Join(root, linkLatest)); err != nil {
		t.Fatal(err)
	}

	did, err := Clean(t.Context(), root, false, ClusterOptions{})
	if err != nil || len(did) != 2 {
		t.Errorf("it did %v, %v", did, err)
	}
	wantFiles(t, killed, false, dirKafka, dirWork, subject.RegistryFile)
	wantFiles(t, killed, true, dirHistory, dirLogs)
	wantFiles(t, kept, true, dirKafka, dirWork)
	wantFiles(t, going, true, dirKafka, dirWork, subject.RegistryFile)
	wantFiles(t, foreign, true, dirHistory)
	if did, err := Clean(t.Context(), root, false, ClusterOptions{}); err != nil || len(did) != 0 {
		t.Errorf("the second time it did %v, %v", did, err)
	}

	if did, err := Clean(t.Context(), root, true, ClusterOptions{}); err != nil || len(did) != 2 {
		t.Errorf("all: it did %v, %v", did, err)
	}
	wantFiles(t, root, false, "killed", "kept", linkLatest)
	wantFiles(t, root, true, "going/"+dirKafka, "going/"+dirHistory, "foreign/"+dirHistory, "precious/"+dirHistory)
}

// Cleaning must recognise a run in progress as soon as its folder looks like a run directory.
func TestCleanLeavesWhatBegins(t *testing.T) {
	options := small(t)
	r, err := prepare(options)
	if err != nil {
		t.Fatal(err)
	}
	defer r.recorder.Close()
	if did, err := Clean(t.Context(), options.Out, true, ClusterOptions{}); err != nil || len(did) != 0 {
		t.Errorf("it did %v, %v", did, err)
	}
	wantFiles(t, r.dir.path, true, dirHistory, subject.RegistryFile)
}

func TestCleanFails(t *testing.T) {
	root := t.TempDir()
	if did, err := Clean(t.Context(), filepath.Join(root, "nowhere"), true, ClusterOptions{}); err != nil || did != nil {
		t.Errorf("without a folder it did %v, %v", did, err)
	}
	broken := runFolder(t, root, "broken", "{")
	killed := runFolder(t, root, "killed", dead)
	_, err := Clean(t.Context(), root, true, ClusterOptions{})
	if err == nil || !strings.Contains(err.Error(), filepath.Join("broken", subject.RegistryFile)) ||
		!strings.Contains(err.Error(), "remove the file") {
		t.Errorf("a registry that can't be read: %v", err)
	}
	wantFiles(t, broken, true, dirKafka, dirHistory) // it may still be in progress
	wantFiles(t, killed, false, dirHistory)
}
