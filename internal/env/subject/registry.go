package subject

// The registry: a file in the run's directory that tells a later `clean` which processes the run started, in case
// even the subprocess reaper was killed. Process ids are reused, so each entry contains the start of its process.

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// ErrRunActive says that the run whose processes were to be swept is still in progress.
var ErrRunActive = errors.New("the run is still going on")

// entry is one process: its id, and what tells it from a later process with the same id.
type entry struct {
	Instance int    `json:"instance"`
	PID      int    `json:"pid"`
	PGID     int    `json:"pgid"`
	Start    string `json:"start"`
}

// registryFile is the content of processes.json.
type registryFile struct {
	RunID     string  `json:"run_id"`
	Owner     entry   `json:"owner"`
	Processes []entry `json:"processes"`
}

type registry struct {
	path string

	mu      sync.Mutex
	content registryFile
}

func newRegistry(path, runID string) (*registry, error) {
	pid := os.Getpid()
	r := &registry{path: path, content: registryFile{
		RunID: runID, Owner: entry{Instance: -1, PID: pid, PGID: procgroup.Own(), Start: startToken(pid)},
		Processes: []entry{},
	}}
	return r, r.write()
}

// Claim records in a run's folder, before there is a Group, that the run is in progress, so that Sweep leaves it
// alone. The Group takes over the file. A run that ends without a Group removes the file (RegistryFile) itself.
func Claim(runDir, runID string) error {
	_, err := newRegistry(filepath.Join(runDir, RegistryFile), runID)
	return err
}

func (r *registry) add(instance, pid int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.content.Processes = append(r.content.Processes, entry{Instance: instance, PID: pid, PGID: pid,
		Start: startToken(pid)})
	return r.write()
}

func (r *registry) drop(pid int) error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.content.Processes = slices.DeleteFunc(r.content.Processes, func(process entry) bool { return process.PID == pid })
	return r.write()
}

// write replaces the file in one step, so that a killed run leaves either the old file or the new one.
func (r *registry) write() error {
	data, err := json.MarshalIndent(r.content, "", "  ")
	if err == nil {
		err = os.WriteFile(r.path+".new", append(data, '\n'), 0o600)
	}
	if err == nil {
		err = os.Rename(r.path+".new", r.path)
	}
	if err != nil {
		return fmt.Errorf("writing the registry of processes: %w", err)
	}
	return nil
}

func (r *registry) remove() error {
	if err := os.Remove(r.path); err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("removing the registry of processes: %w", err)
	}
	return nil
}

// Sweep kills the remaining processes of a dead run: those in its registry file and, on Linux, every other process
// that carries the run's id in its environment. It waits until they are gone, and removes the file. It leaves alone
// a process that merely has the same id as one of them. It returns the ids of the killed processes. Without the file
// there is nothing to do. The error is ErrRunActive if the run's own process is alive.
func Sweep(file string) (killed []int, err error) {
	data, err := os.ReadFile(file)
	if errors.Is(err, os.ErrNotExist) {
		return nil, nil
	}
	var content registryFile
	if err == nil {
		err = json.Unmarshal(data, &content)
	}
	if err != nil {
		return nil, fmt.Errorf(
			"reading the registry of processes %s: %w (if no process of that run is left, remove the file)", file, err)
	}
	if owner := content.Owner; owner.Start != "" && startToken(owner.PID) == owner.Start {
		return nil, fmt.Errorf("ending the processes of run %s: %w (pid %d)", content.RunID, ErrRunActive, owner.PID)
	}
	for _, process := range content.Processes {
		killed = append(killed, sweepGroup(process, content.RunID)...)
	}
	killed = append(killed, killRun(content.RunID)...)
	slices.Sort(killed)
	killed = slices.Compact(killed)
	if err := waitDead(killed); err != nil {
		return killed, err
	}
	if err := os.Remove(file); err != nil && !errors.Is(err, os.ErrNotExist) { // another sweep may have been as fast
		return killed, fmt.Errorf("removing the registry of processes: %w", err)
	}
	return killed, nil
}

// sweepGroup kills the processes of a group that belong to the run: the first is identified by its start, the others
// by their environment.
func sweepGroup(process entry, runID string) (killed []int) {
	if process.PGID <= 1 {
		return nil
	}
	for _, pid := range members(process.PGID) {
		first := pid == process.PID && process.Start != "" && startToken(pid) == process.Start
		if (first || ofRun(pid, runID)) && procgroup.SignalProcess(pid, syscall.SIGKILL) == nil {
			killed = append(killed, pid)
		}
	}
	return killed
}

func waitDead(pids []int) error {
	deadline := time.Now().Add(killLimit)
	for _, pid := range pids {
		for startToken(pid) != "" {
			if time.Now().After(deadline) {
				return fmt.Errorf("ending left-over process %d: %w", pid, errStuck)
			}
			time.Sleep(2 * time.Millisecond)
		}
	}
	return nil
}
