// Package runs lists the stored runs of a folder, and serves a page of them on this machine: their reports, their
// trends, and comparisons of two. It only reads.
package runs

import (
	"cmp"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/reports"
)

const (
	// quiet is the time after which a history that nobody completed counts as that of a run that was killed.
	quiet = 30 * time.Second
	// readers is the number of runs that are read at the same time.
	readers = 4
)

// List returns the runs in a folder, newest first. A folder that does not exist has none. A run that cannot be read is
// listed with the reason. now is the wall clock.
func List(root string, now time.Time) ([]reports.StoredRun, error) {
	entries, err := os.ReadDir(root)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("listing the runs: %w", err)
	}
	all := make([]reports.StoredRun, len(entries))
	var group sync.WaitGroup
	slots := make(chan struct{}, readers)
	for i, entry := range entries {
		if !entry.IsDir() { // the link latest is one of the others
			continue
		}
		slots <- struct{}{}
		group.Go(func() {
			defer func() { <-slots }()
			all[i] = read(filepath.Join(root, entry.Name()), now)
		})
	}
	group.Wait()
	all = slices.DeleteFunc(all, func(run reports.StoredRun) bool { return run.State == "" })
	slices.SortFunc(all, func(a, b reports.StoredRun) int {
		return cmp.Or(b.Started.Compare(a.Started), strings.Compare(b.Name, a.Name))
	})
	return all, nil
}

// read returns what is known of a run directory. The zero State means that it holds no run.
func read(dir string, now time.Time) reports.StoredRun {
	run := reports.StoredRun{Name: filepath.Base(dir), Dir: dir, Report: exists(filepath.Join(dir, reports.HTMLFile)),
		Started: modified(dir)}
	data, err := os.ReadFile(filepath.Join(dir, reports.VerdictFile))
	if err == nil {
		if err = run.Read(data); err != nil {
			run.State, run.Why = reports.RunBroken, err.Error()
		}
		return run
	}
	if !exists(filepath.Join(dir, "history")) {
		return reports.StoredRun{}
	}
	reader, err := history.OpenPartial(filepath.Join(dir, "history"))
	if err == nil {
		header := reader.Header()
		run.Scenario, run.Subject, run.Seed, run.Started = header.Scenario, header.Subject, header.Seed, header.Started
	}
	switch {
	case err == nil && reader.Header().Failure != "":
		run.State = reports.RunUnjudged
		run.Why = "it could not be carried out: " + strings.Join(strings.Fields(reader.Header().Failure), " ")
	case now.Sub(newest(filepath.Join(dir, "history"))) < quiet && (err != nil || !reader.Sealed()):
		run.State, run.Why = reports.RunInProgress, "its history is being written"
	case err != nil:
		run.State, run.Why = reports.RunBroken, "reading the history: "+err.Error()
	default:
		run.State, run.Why = reports.RunUnjudged, "it was killed before it was judged: dlqbench check "+dir
	}
	return run
}

func exists(path string) bool {
	_, err := os.Stat(path)
	return err == nil
}

func modified(path string) time.Time {
	info, err := os.Stat(path)
	if err != nil {
		return time.Time{}
	}
	return info.ModTime()
}

// newest returns when the last file of a folder was written.
func newest(dir string) time.Time {
	out := modified(dir)
	files, _ := filepath.Glob(filepath.Join(dir, "*")) // the pattern is fine
	for _, file := range files {
		if at := modified(file); at.After(out) {
			out = at
		}
	}
	return out
}
