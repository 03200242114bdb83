package subject

// An instance whose work is done elsewhere, in a container. The command started here stands for it: the command
// lasts as long as the container and passes on its output and exit code. Signals must go inside the container, not
// to the command. Figures of the processes inside are read there; on Linux these processes have ids here too.

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// Elsewhere is the place where the work is done for a command that only stands for an instance.
type Elsewhere interface {
	// Signal sends a signal. STOP and CONT freeze and thaw everything in that place. It waits for a start in progress.
	// The error is os.ErrProcessDone when nothing runs there any more.
	Signal(ctx context.Context, signal syscall.Signal) error
	// PID waits for the start and returns the id that the first process there has on this machine.
	PID(ctx context.Context) (int, error)
	// Frozen reports whether everything there is frozen.
	Frozen(ctx context.Context) (bool, error)
	// Remove ends everything that runs there and leaves nothing behind.
	Remove(ctx context.Context) error
}

// elsewhereLimit bounds one request to an engine.
const elsewhereLimit = 15 * time.Second

// killedCode is the exit code by which engines report that KILL ended a container: 128 plus the signal's number.
const killedCode = 128 + int(syscall.SIGKILL)

// insideOut returns how the work ended, as reported by the command that stood for it.
func (e Exit) insideOut() Exit {
	if e.Code == killedCode {
		return Exit{Code: -1, Signal: signalName(syscall.SIGKILL)}
	}
	return e
}

// findInside finds the first process in the container.
func (c *child) findInside() {
	ctx, cancel := c.untilEnded()
	defer cancel()
	ctx, done := context.WithTimeout(ctx, elsewhereLimit)
	defer done()
	if pid, err := c.elsewhere.PID(ctx); err == nil {
		c.inside.Store(int64(pid))
	}
}

func (c *child) signalElsewhere(signal syscall.Signal) error {
	ctx, cancel := c.untilEnded()
	defer cancel()
	ctx, done := context.WithTimeout(ctx, elsewhereLimit)
	defer done()
	err := c.elsewhere.Signal(ctx, signal)
	if errors.Is(err, os.ErrProcessDone) || err != nil && c.over() {
		return ErrNotRunning
	}
	if err != nil && signal == syscall.SIGKILL {
		// At least the command that stands for the work is ended; then the container is removed.
		return errors.Join(err, c.unlessGone(signal, procgroup.Signal))
	}
	return err
}

func (c *child) over() bool {
	select {
	case <-c.ended:
		return true
	default:
		return false
	}
}

// removeElsewhere removes the container, because the command that stood for it may have been killed.
func (c *child) removeElsewhere() error {
	ctx, cancel := context.WithTimeout(context.Background(), elsewhereLimit)
	defer cancel()
	return c.elsewhere.Remove(ctx)
}

// work returns the id of the first of the processes that do the work, 0 if it is not known.
func (c *child) work() int {
	if c.elsewhere == nil {
		return c.pid
	}
	return int(c.inside.Load())
}

// standsStill reports whether the system shows the instance as stopped.
func (c *child) standsStill(ctx context.Context) (bool, error) {
	if c.elsewhere == nil {
		return stopped(c.pid), nil
	}
	return c.elsewhere.Frozen(ctx)
}
