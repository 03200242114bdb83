package subject

// Programs that the subject needs while it runs, such as a cache.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// need is a program that the subject needs.
type need struct {
	*child
	name string
}

// Serve starts a program that the subject needs, in its own process group, and waits until it is ready. Its launch must
// have a Ready with Log, Port, URL or End. Its output goes to NAME.log. It runs until the group is closed. If it ends
// before that without End, failed gets the error, once.
func (g *Group) Serve(ctx context.Context, name string, launch Launch, failed func(error)) error {
	if err := g.serve(ctx, name, launch, failed); err != nil {
		return fmt.Errorf("starting %s, which subject %s needs: %w", name, g.cfg.Name, err)
	}
	return nil
}

func (g *Group) serve(ctx context.Context, name string, launch Launch, failed func(error)) error {
	if err := errors.Join(launch.Ready.free(), writeFiles(launch)); err != nil {
		return err
	}
	path, said := filepath.Join(g.cfg.LogDir, name+".log"), make(chan struct{})
	out, err := newOutput(path, launch.secrets(), g.cfg.Clock, launch.Ready.watch(said), nil)
	if err != nil {
		return err
	}
	n := &need{name: name}
	if n.child, err = g.start(history.None, launch, out); err != nil {
		return err
	}
	g.mu.Lock()
	g.needs = append(g.needs, n)
	g.mu.Unlock()
	probing, cancel := context.WithCancel(ctx)
	defer cancel()
	ready := g.readinessBy(probing, launch.Ready, said)
	limit := launch.Ready.limit()
	var problem string
	select {
	case <-ready:
		g.watching.Go(func() { n.watch(path, out, failed) })
		return nil
	case <-n.ended:
		if launch.Ready.End && n.exit.Code == 0 {
			return nil
		}
		problem = fmt.Sprintf("it ended with %v before it was ready", n.exit)
	case <-time.After(limit):
		problem = fmt.Sprintf("it was not ready after %v (%s)", limit, launch.Ready.waitsFor())
	case <-ctx.Done():
		return context.Cause(ctx)
	}
	return fmt.Errorf("%q: %s; its last lines are:\n%sall of its output is in %s", strings.Join(launch.Command, " "),
		problem, out.lastLines(), path)
}

// watch reports that the program ended while it was needed.
func (n *need) watch(path string, out *output, failed func(error)) {
	if <-n.ended; !n.exit.Expected {
		failed(fmt.Errorf("%s ended with %v while the run needed it; its last lines are:\n%sall of its output is in %s",
			n.name, n.exit, out.lastLines(), path))
	}
}

// end asks the program to end, gives it its grace period, and then kills it.
func (n *need) end() error {
	n.asked.Store(true)
	if err := n.signal(syscall.SIGTERM); err != nil && !errors.Is(err, ErrNotRunning) {
		return err
	}
	select {
	case <-n.ended:
		return nil
	case <-time.After(n.grace):
	}
	if err := n.signal(syscall.SIGKILL); err != nil && !errors.Is(err, ErrNotRunning) {
		return err
	}
	return n.waitKilled()
}

// endNeeds ends all programs that the subject needed, concurrently.
func (g *Group) endNeeds() error {
	g.mu.Lock()
	needs := g.needs
	g.mu.Unlock()
	errs := make([]error, len(needs))
	var ending sync.WaitGroup
	for i, n := range needs {
		ending.Go(func() {
			if err := n.end(); err != nil {
				errs[i] = fmt.Errorf("ending %s, which subject %s needed: %w", n.name, g.cfg.Name, err)
			}
		})
	}
	ending.Wait()
	return errors.Join(errs...)
}
