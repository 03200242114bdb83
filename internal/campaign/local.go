package campaign

// This file runs cells as processes on this machine.

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/procgroup"
	"github.com/dlqbench/dlqbench/internal/gate"
)

// Local runs each cell in a process of its own on this machine.
type Local struct {
	Folder Folder
	// Command is the command line of the process that runs a cell. The process ends in order when its stdin ends, so that
	// it does not outlive this one.
	Command func(cell Cell) []string
	// Parallel is the number of cells that run at a time.
	Parallel int
	// Limit is the time after which a cell is taken to hang.
	Limit func(cell Cell) time.Duration
}

// mostFailures is the number of cells in a row that may end without a result before the campaign gives up.
const mostFailures = 5

// Run runs the cells, Parallel at a time.
func (l Local) Run(ctx context.Context, cells []Cell, into Sink) error {
	ctx, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	var (
		group   sync.WaitGroup
		failed  atomic.Int64 // cells in a row
		waiting = make(chan Cell)
	)
	for range l.Parallel {
		group.Go(func() {
			for cell := range waiting {
				if ctx.Err() != nil {
					continue
				}
				if err := l.one(ctx, cell, into, &failed); err != nil {
					stop(err)
				}
			}
		})
	}
	for _, cell := range cells {
		waiting <- cell
	}
	close(waiting)
	group.Wait()
	return context.Cause(ctx)
}

// one runs a cell. The error is a reason to run no others.
func (l Local) one(ctx context.Context, cell Cell, into Sink, failed *atomic.Int64) error {
	err := l.process(ctx, cell)
	result, found, readErr := l.Folder.Result(cell)
	switch {
	case readErr != nil:
		return readErr
	case found:
		failed.Store(0)
		return into.Result(cell, result)
	case ctx.Err() == nil:
		into.Failed(cell, err)
		if failed.Add(1) >= mostFailures {
			return fmt.Errorf("giving up after %d cells in a row without a result: %w", mostFailures, err)
		}
	case errors.Is(context.Cause(ctx), gate.ErrBudget):
		into.Failed(cell, gate.NotRun{Why: "it was cut short: " + gate.ErrBudget.Error()})
	}
	return nil
}

// grace is the time that an interrupted cell has to lift its faults and to end its processes.
const grace = time.Minute

// process runs the process of a cell to its end. The error says why there can be no result.
func (l Local) process(ctx context.Context, cell Cell) error {
	limit := l.Limit(cell)
	ctx, stop := context.WithTimeout(ctx, limit)
	defer stop()
	path := filepath.Join(l.Folder.dir, cell.folder(), fileLog)
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("making the folder of a cell: %w", err)
	}
	log, err := os.Create(path)
	if err != nil {
		return fmt.Errorf("keeping the log of a cell: %w", err)
	}
	defer log.Close()
	words := l.Command(cell)
	command := exec.CommandContext(ctx, words[0], words[1:]...)
	command.Stdout, command.Stderr = log, log
	command.SysProcAttr = procgroup.Session() // Ctrl-C is for this process, which tells the cells
	command.WaitDelay = grace
	command.Cancel = func() error { return command.Process.Signal(syscall.SIGTERM) }
	stdin, err := command.StdinPipe()
	if err != nil {
		return fmt.Errorf("starting a cell: %w", err)
	}
	defer stdin.Close()
	err = command.Run()
	switch {
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		return fmt.Errorf("it did not end within %s and was stopped; its log is %s", limit, path)
	case err != nil:
		return fmt.Errorf("%w; its log, %s, ends with: %s", err, path, lastLine(path))
	}
	return fmt.Errorf("it ended without a result; its log is %s", path)
}

// lastLine is what the log of a cell ends with.
func lastLine(path string) string {
	data, err := os.ReadFile(path)
	if err != nil {
		return err.Error()
	}
	return lastOf(data)
}

// longestLine is the maximum length of what is repeated from a log.
const longestLine = 1000

// lastOf returns the error that a log of dlqbench ends with, in one line; without one, its last line.
func lastOf(log []byte) string {
	text := strings.TrimSpace(string(log))
	if at := strings.LastIndex("\n"+text, "\n"+errorMark); at >= 0 {
		text = text[at+len(errorMark):]
	} else {
		text = text[strings.LastIndex(text, "\n")+1:]
	}
	text = strings.Join(strings.Fields(text), " ")
	if text == "" {
		return "nothing"
	}
	return text[:min(len(text), longestLine)]
}

// errorMark begins the error with which the program ends.
const errorMark = "dlqbench: "
