package reports

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
)

// OpenFolder creates the folder for the results of a bench or a gate. It refuses a folder with other files than ours.
func OpenFolder(dir, of string, ours func(fs.DirEntry) bool) error {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return fmt.Errorf("making the folder of the %s: %w (choose another with --artifacts)", of, err)
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the folder of the %s: %w", of, err)
	}
	for _, entry := range entries {
		if !ours(entry) {
			return fmt.Errorf("the folder %s holds %s, which no %s wrote: choose an empty one with --artifacts", dir,
				entry.Name(), of)
		}
	}
	return nil
}

// ClearFolder removes what an earlier bench or gate left in its folder.
func ClearFolder(dir, of string) error {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return fmt.Errorf("reading the folder of the %s: %w", of, err)
	}
	for _, entry := range entries {
		if err := os.RemoveAll(filepath.Join(dir, entry.Name())); err != nil {
			return fmt.Errorf("removing what an earlier %s left: %w", of, err)
		}
	}
	return nil
}
