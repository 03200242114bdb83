package campaign

// This file manages the folder of a campaign: the results of its cells, and the files that are made of them.

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
)

const (
	// dirCells has a folder for each cell; dirRuns in it has the run directories, fileLog what the cell's process wrote.
	dirCells = "cells"
	dirRuns  = "runs"
	fileLog  = "log.txt"
	// fileLock is locked by a campaign and, in a cell's folder, by the process that runs the cell.
	fileLock = ".lock"
)

// Folder is the folder of a campaign.
type Folder struct{ dir string }

// NewFolder is the folder at a path.
func NewFolder(dir string) Folder { return Folder{dir} }

// Open creates the folder and locks it until release is called or the process ends. fresh removes the results in it.
func (f Folder) Open(fresh bool) (release func(), err error) {
	if err := os.MkdirAll(filepath.Join(f.dir, dirCells), 0o755); err != nil {
		return nil, fmt.Errorf("making the campaign's folder: %w (choose another with --artifacts)", err)
	}
	lock := flock.New(filepath.Join(f.dir, fileLock))
	switch locked, err := lock.TryLock(); {
	case err != nil:
		return nil, fmt.Errorf("locking the campaign's folder: %w", err)
	case !locked:
		return nil, fmt.Errorf("another campaign is running in %s: wait for its end, or choose another folder with "+
			"--artifacts", f.dir)
	}
	if fresh {
		if err := os.RemoveAll(filepath.Join(f.dir, dirCells)); err != nil {
			return nil, errors.Join(fmt.Errorf("removing earlier results: %w", err), lock.Unlock())
		}
	}
	return func() { _ = lock.Unlock() }, nil // the lock ends with the process at the latest
}

// Cell is the folder of a cell, relative to the campaign's.
func (c Cell) folder() string { return filepath.Join(dirCells, c.Name) }

// Runs is the folder for a cell's run directories.
func (f Folder) Runs(cell Cell) string { return filepath.Join(f.dir, cell.folder(), dirRuns) }

// Claim locks a cell for the process that runs it. It waits for a process that is still ending after an earlier
// campaign was killed.
func (f Folder) Claim(ctx context.Context, cell Cell) (release func(), err error) {
	dir := filepath.Join(f.dir, cell.folder())
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return nil, fmt.Errorf("making the folder of a cell: %w", err)
	}
	lock := flock.New(filepath.Join(dir, fileLock))
	if _, err := lock.TryLockContext(ctx, lockRetry); err != nil {
		return nil, fmt.Errorf("waiting for another process that runs %s: %w", cell.Name, err)
	}
	return func() { _ = lock.Unlock() }, nil
}

// lockRetry is the interval at which a locked cell is asked for again.
const lockRetry = 100 * time.Millisecond

// Result reads the result of a cell; found is false if there is none yet.
func (f Folder) Result(cell Cell) (result Result, found bool, err error) {
	result, err = readResult(filepath.Join(f.dir, cell.folder()))
	if errors.Is(err, fs.ErrNotExist) {
		return result, false, nil
	}
	if err == nil {
		err = result.of(cell)
	}
	return result, err == nil, err
}

// Keep stores the result of a cell, unless it has one: the first counts.
func (f Folder) Keep(cell Cell, result Result) error {
	if err := result.of(cell); err != nil {
		return err
	}
	if _, found, err := f.Result(cell); found || err != nil {
		return err
	}
	return result.write(filepath.Join(f.dir, cell.folder()))
}
