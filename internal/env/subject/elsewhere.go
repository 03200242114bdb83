package subject

// An instance whose work is done elsewhere: in a container. The command that is started here stands for it: it lasts as
// long, and passes on output and exit code. Signals must not go to it, but inside; what can be read of the processes
// inside (they have ids here too, on Linux) is read there.

import (
	"context"
	"errors"
	"os"
	"syscall"
	"time"
)

// Elsewhere is where a command that only stands for an instance has the work done.
type Elsewhere interface {
	// Signal sends a signal; STOP and CONT freeze and thaw everything that is there. It waits for a start that is under
	// way. The error is os.ErrProcessDone when nothing runs there any more.
	Signal(ctx context.Context, signal syscall.Signal) error
	// PID waits for the start, and returns the id that the first process there has here.
	PID(ctx context.Context) (int, error)
	// Frozen reports whether everything stands still.
	Frozen(ctx context.Context) (bool, error)
	// Remove ends what runs there and leaves nothing.
	Remove(ctx context.Context) error
}

// elsewhereLimit bounds what is asked of an engine.
const elsewhereLimit = 15 * time.Second

// killedCode is the exit code by which engines tell that KILL ended a container: 128 and the signal's number.
const killedCode = 128 + int(syscall.SIGKILL)

// insideOut is how the work ended, as told by what stood for it.
func (e Exit) insideOut() Exit {
	if e.Code == killedCode {
		return Exit{Code: -1, Signal: signalName(syscall.SIGKILL)}
	}
	return e
}

// untilEnded returns a context that ends with the child, and at the latest after elsewhereLimit.
func (c *child) untilEnded() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithTimeout(context.Background(), elsewhereLimit)
	stop := make(chan struct{})
	go func() {
		defer cancel()
		select {
		case <-c.ended:
		case <-stop:
		}
	}()
	return ctx, func() { close(stop); <-ctx.Done() }
}

// findInside finds the first process there.
func (c *child) findInside() {
	ctx, done := c.untilEnded()
	defer done()
	if pid, err := c.elsewhere.PID(ctx); err == nil {
		c.inside.Store(int64(pid))
	}
}

func (c *child) signalElsewhere(signal syscall.Signal) error {
	ctx, done := c.untilEnded()
	defer done()
	err := c.elsewhere.Signal(ctx, signal)
	if errors.Is(err, os.ErrProcessDone) || err != nil && c.over() {
		return ErrNotRunning
	}
	if err != nil && signal == syscall.SIGKILL {
		// What stands for it is ended at least, and then what it stands for is removed.
		return errors.Join(err, c.signalGroup(signal))
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

// removeElsewhere leaves nothing there; what stood for it may have been killed.
func (c *child) removeElsewhere() error {
	ctx, cancel := context.WithTimeout(context.Background(), elsewhereLimit)
	defer cancel()
	return c.elsewhere.Remove(ctx)
}

// work is the id of the first of the processes that do the work, 0 if it is not known.
func (c *child) work() int {
	if c.elsewhere == nil {
		return c.pid
	}
	return int(c.inside.Load())
}

// standsStill reports whether the system says that the instance was stopped in its tracks.
func (c *child) standsStill(ctx context.Context) (bool, error) {
	if c.elsewhere == nil {
		return stopped(c.pid), nil
	}
	return c.elsewhere.Frozen(ctx)
}
