package subject

// An instance that somebody else starts: a person, an IDE, docker compose, Kubernetes. There is no process to watch, so
// its log, its exit codes and its usage are not known. What is known of it are its connections. Signals are acts of
// whoever can reach it.

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"syscall"
	"time"
)

const (
	// leftAfter is how long an instance that was told to end must be without connections to count as ended. It is longer
	// than the pauses in which clients connect again.
	leftAfter = time.Second
)

// ActStart is the name of the act that starts an instance. The others are the names of signals: TERM, KILL, STOP, CONT.
const ActStart = "START"

// Outside is an instance that somebody else starts.
type Outside struct {
	// Can reports whether there is a way to do an act. Act does it, until ctx ends.
	Can func(act string) bool
	Act func(ctx context.Context, act string) error
	// Address is where it is expected to connect, for messages.
	Address string
	// Absent says what to do about an instance that is not ready, by whether it is connected.
	Absent func(connected bool) string
	// Stays says that it is not told to end at the end of the run.
	Stays bool
	// Connected reports whether it has a connection. Cut closes its addresses for good.
	Connected func() bool
	Cut       func()
}

// outsider stands for the process of an instance that somebody else starts.
type outsider struct {
	*Outside
	leave sync.Once
}

// act does something to the instance. It ends with the instance, so that it never outlasts the run.
func (c *child) act(name string) error {
	if !c.outside.Can(name) {
		return fmt.Errorf("there is no command for %s: dlqbench does not start this consumer", name)
	}
	ctx, cancel := c.untilEnded()
	defer cancel()
	return c.outside.Act(ctx, name)
}

func (c *child) signalOutside(signal syscall.Signal) error {
	if c.over() {
		return ErrNotRunning
	}
	return c.act(signalName(signal))
}

// left notes that the instance is gone.
func (c *child) left() {
	c.outside.leave.Do(func() {
		c.exit = Exit{Code: -1, Expected: true, Forced: c.forced.Load()}
		close(c.ended)
	})
}

// beginOutside begins to expect an instance that somebody else starts, and has it started if there is a way.
func (g *Group) beginOutside(p *process) {
	if p.outside.Can(ActStart) {
		g.watching.Go(func() {
			if err := p.act(ActStart); err != nil && !p.over() {
				p.notStarted <- err
				p.left() // so that it can be started again
			}
		})
	}
}

// seeLeft watches for the end of an instance that was told to end.
func (g *Group) seeLeft(p *process) {
	const connected = time.Duration(-1)
	ticker := time.NewTicker(goneEvery)
	defer ticker.Stop()
	for since := connected; ; {
		switch now := g.cfg.Clock.Now(); {
		case p.outside.Connected():
			since = connected
		case since == connected:
			since = now
		case now-since >= leftAfter:
			p.gone.Store(int64(since))
			p.left()
			return
		}
		select {
		case <-ticker.C:
		case <-p.ended:
			return
		}
	}
}

// dismiss is the end of an instance at the end of the run: it is told to end if it may be told. Then its addresses are
// closed, as no more of what it does belongs to the run.
func (g *Group) dismiss(ctx context.Context, p *process) {
	if !p.outside.Stays && p.outside.Can(signalName(syscall.SIGTERM)) && !p.asked.Load() {
		if _, err := g.Stop(ctx, p.instance); err != nil && !errors.Is(err, ErrNotRunning) {
			g.cfg.Log.Warn().Err(err).Msg("the consumer did not end; its addresses are closed")
		}
	}
	p.outside.Cut()
	p.left()
	<-p.done
}

// killOutside is kill for an instance that somebody else starts.
func (g *Group) killOutside(p *process) (Exit, error) {
	if !p.outside.Can(signalName(syscall.SIGKILL)) {
		return Exit{}, fmt.Errorf("ending instance %d of subject %s: it is still connected to %s after its grace of %v, and "+
			"there is no command for KILL", p.instance, g.cfg.Name, p.outside.Address, g.cfg.Grace)
	}
	if err := g.signal(p, syscall.SIGKILL); err != nil && !errors.Is(err, ErrNotRunning) {
		return Exit{}, err
	}
	select {
	case <-p.done:
		return p.exit, nil
	case <-time.After(killLimit):
		return Exit{}, fmt.Errorf("killing instance %d of subject %s: the command for KILL has run, but it is still "+
			"connected to %s after %v: does it end the right process?", p.instance, g.cfg.Name, p.outside.Address, killLimit)
	}
}
