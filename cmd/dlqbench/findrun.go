package main

// This file finds the stored run that a command refers to. RUN is a run directory, its name or id, or latest.

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/history"
)

// lookedUpIn adds the flag for the folder in which RUN is looked up.
func lookedUpIn(command *cobra.Command, root *string) {
	command.Flags().StringVar(root, "out", "runs", "folder of run directories in which RUN is looked up")
}

// findRun returns the directory of a run: run itself, or the one in root with this name or this run's id. Every error
// is a usage error.
func findRun(run, root string) (string, error) {
	for _, dir := range []string{run, filepath.Join(root, run)} {
		if hasHistory(dir) {
			return dir, nil
		}
	}
	entries, err := os.ReadDir(root)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return "", usageError{fmt.Errorf("looking for run %q: %w", run, err)}
	}
	for _, entry := range entries {
		// A run's id is the name of its directory plus a suffix.
		if dir := filepath.Join(root, entry.Name()); strings.HasPrefix(run, entry.Name()+"-") &&
			hasHistory(dir) && idOf(dir) == run {
			return dir, nil
		}
	}
	if run == "latest" && len(entries) == 0 {
		return "", usageError{fmt.Errorf("looking for the latest run: there is none in %s yet; dlqbench run smoke makes the "+
			"first one, and --out names another folder of runs", root)}
	}
	return "", usageError{fmt.Errorf("looking for run %q: it is not a run directory, and %s has no run of that name or "+
		"id; give a directory such as runs/latest, or the folder of the runs with --out", run, root)}
}

func hasHistory(dir string) bool {
	_, err := os.Stat(filepath.Join(dir, "history"))
	return err == nil
}

func idOf(dir string) string {
	reader, err := history.OpenPartial(filepath.Join(dir, "history"))
	if err != nil {
		return ""
	}
	return reader.Header().RunID
}
