package subject

// A child is a command in its own process group. It is started, watched until the whole group is gone, and never
// signalled after that, when another process may have its number.

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

type child struct {
	// pid is the id of the first process and of the group.
	pid   int
	cmd   *exec.Cmd
	grace time.Duration
	// elsewhere is where the work is done, if the command only stands for it. inside is the id of the first process
	// there, 0 until it is known.
	elsewhere Elsewhere
	inside    atomic.Int64
	// outside is set in place of a command, if somebody else starts the instance; then pid is 0.
	outside *outsider
	// asked says that the end is expected. forced says that the grace period was over.
	asked, forced atomic.Bool
	// ended is closed when the group is gone; exit is set before.
	ended chan struct{}
	exit  Exit

	mu   sync.Mutex
	gone bool
}

// errStuck says that a group was killed but did not end.
var errStuck = errors.New("it was killed and has not ended; it may be stuck in the kernel")

// start starts the command and watches it. The command's output goes to out, which is closed at the end.
func (g *Group) start(instance int, launch Launch, out *output) (*child, error) {
	reader, writer, err := os.Pipe()
	if err != nil {
		return nil, errors.Join(fmt.Errorf("making a pipe for the output: %w", err), out.close())
	}
	c := &child{cmd: g.command(launch), grace: g.cfg.Grace, elsewhere: launch.Elsewhere, ended: make(chan struct{})}
	// One pipe for both, so that the lines keep their order.
	c.cmd.Stdout, c.cmd.Stderr = writer, writer
	err = g.spawner.start(c.cmd)
	writer.Close()
	if err != nil {
		reader.Close()
		return nil, errors.Join(notStarted(launch, err), out.close())
	}
	c.pid = c.cmd.Process.Pid
	noted := g.began(instance, c.pid)
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		out.copy(reader)
	}()
	g.watching.Go(func() {
		defer close(c.ended)
		g.watch(c)
		waitCopied(copied, reader)
		if err := out.close(); err != nil {
			g.cfg.Log.Warn().Err(err).Msg("the subject's output is incomplete")
		}
	})
	if c.elsewhere != nil {
		g.watching.Go(c.findInside)
	}
	if noted != nil {
		_ = c.signal(syscall.SIGKILL)
		return nil, errors.Join(noted, c.waitKilled())
	}
	return c, nil
}

// notStarted explains why a command could not be started, and where it was looked for.
func notStarted(launch Launch, err error) error {
	program, whole, dir := launch.Command[0], strings.Join(launch.Command, " "), launch.Dir
	dir = cmp.Or(dir, ".")
	switch {
	case errors.Is(err, exec.ErrNotFound):
		return fmt.Errorf(
			"there is no program %q in the PATH; if it is a file, write it with a slash (./%s), counted from %s", program,
			program, dir)
	case errors.Is(err, fs.ErrNotExist):
		return fmt.Errorf("running %q in %s: %w; is it built, and is its path right, counted from there?", whole, dir, err)
	}
	return fmt.Errorf("running %q in %s: %w", whole, dir, err)
}

func (g *Group) command(launch Launch) *exec.Cmd {
	cmd := exec.Command(launch.Command[0], launch.Command[1:]...)
	cmd.Dir = launch.Dir
	cmd.Env = append(CleanEnvironment(os.Environ()), launch.Env...)
	cmd.Env = append(cmd.Env, RunIDVariable+"="+g.cfg.RunID)
	cmd.SysProcAttr = procgroup.Child(syscall.SIGKILL, nil)
	return cmd
}

// CleanEnvironment returns the environment without the variables that an outer run would have set.
func CleanEnvironment(environment []string) []string {
	return slices.DeleteFunc(slices.Clone(environment), func(variable string) bool {
		return strings.HasPrefix(variable, "DLQBENCH_")
	})
}

// watch waits until the first process and then the whole group has ended.
func (g *Group) watch(c *child) {
	_ = c.cmd.Wait()
	c.exit = exitOf(c.cmd.ProcessState)
	if c.elsewhere != nil {
		c.exit = c.exit.insideOut()
		if err := c.removeElsewhere(); err != nil {
			g.cfg.Log.Error().Err(err).Msg("a container of the subject may be left")
		}
	}
	// The end of the first process is the end of the instance, unless it was asked to end: then the other processes
	// have a grace period too. The first may be a script, which dies of TERM and passes nothing on.
	deadline := time.Now()
	if c.asked.Load() && groupAlive(c.pid) {
		_ = procgroup.Signal(c.pid, syscall.SIGTERM)
		deadline = deadline.Add(c.grace)
	}
	stuck := deadline.Add(killLimit)
	for groupAlive(c.pid) {
		now := time.Now()
		if now.After(stuck) {
			g.cfg.Log.Error().Int("pgid", c.pid).Err(errStuck).Msg("a process group of the subject is left")
			break
		}
		if !now.Before(deadline) {
			_ = procgroup.Signal(c.pid, syscall.SIGKILL)
		}
		time.Sleep(2 * time.Millisecond)
	}
	c.mu.Lock()
	c.gone = true
	c.mu.Unlock()
	c.exit.Expected, c.exit.Forced = c.asked.Load(), c.forced.Load()
	if !groupAlive(c.pid) {
		g.isGone(c.pid)
	}
}

// began tells the subprocess reaper and the registry that a process group was started, history.None for no instance.
func (g *Group) began(instance, pid int) error {
	g.guard.tell("+" + strconv.Itoa(pid))
	return g.registry.add(instance, pid)
}

// isGone tells them that nothing is left of it.
func (g *Group) isGone(pid int) {
	g.guard.tell("-" + strconv.Itoa(pid))
	if err := g.registry.drop(pid); err != nil {
		g.cfg.Log.Warn().Err(err).Msg("the registry of processes is out of date")
	}
}

// waitCopied waits for the last output. It does not wait for processes that left the group and still hold the pipe.
func waitCopied(copied <-chan struct{}, reader *os.File) {
	select {
	case <-copied:
	case <-time.After(500 * time.Millisecond):
	}
	reader.Close()
	<-copied
}

// signal sends a signal to the processes, or to the place where the work is done, unless it is gone. TERM goes to the
// first process alone, as from a container engine or a supervisor: it decides what becomes of those that it has
// started. Many of these end at once of a TERM of their own, or of a second one.
func (c *child) signal(signal syscall.Signal) error {
	switch {
	case c.outside != nil:
		return c.signalOutside(signal)
	case c.elsewhere != nil:
		return c.signalElsewhere(signal)
	}
	if signal == syscall.SIGTERM {
		return c.unlessGone(signal, procgroup.SignalProcess)
	}
	return c.unlessGone(signal, procgroup.Signal)
}

func (c *child) unlessGone(signal syscall.Signal, send func(pid int, signal syscall.Signal) error) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.gone {
		return ErrNotRunning
	}
	if err := send(c.pid, signal); err != nil {
		if errors.Is(err, syscall.ESRCH) {
			return ErrNotRunning
		}
		return err
	}
	return nil
}

// untilEnded returns a context that ends with the child.
func (c *child) untilEnded() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	go func() {
		select {
		case <-c.ended:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// waitKilled waits for the end of a group that was killed.
func (c *child) waitKilled() error {
	// The group's own watcher gives up after killLimit; this timer only has to outlast it.
	select {
	case <-c.ended:
		return nil
	case <-time.After(2 * killLimit):
		return errStuck
	}
}

func exitOf(state *os.ProcessState) Exit {
	if status, ok := state.Sys().(syscall.WaitStatus); ok && status.Signaled() {
		return Exit{Code: -1, Signal: signalName(status.Signal())}
	}
	return Exit{Code: state.ExitCode()}
}

// signalName returns "TERM" for SIGTERM.
func signalName(signal syscall.Signal) string {
	if name := procgroup.SignalName(signal); name != "" {
		return strings.TrimPrefix(name, "SIG")
	}
	return fmt.Sprintf("signal %d", int(signal))
}

// spawner starts every child from one thread that lives as long as the group. On Linux a child is killed when the
// thread (not the process) that started it ends, and Go ends threads at any time.
type spawner struct {
	requests chan spawnRequest
	ended    chan struct{}
}

type spawnRequest struct {
	cmd    *exec.Cmd
	result chan error
}

func newSpawner() *spawner {
	s := &spawner{requests: make(chan spawnRequest), ended: make(chan struct{})}
	go func() {
		defer close(s.ended)
		runtime.LockOSThread()
		for request := range s.requests {
			request.result <- request.cmd.Start()
		}
	}()
	return s
}

func (s *spawner) start(cmd *exec.Cmd) error {
	request := spawnRequest{cmd, make(chan error, 1)}
	s.requests <- request
	return <-request.result
}

func (s *spawner) close() {
	close(s.requests)
	<-s.ended
}
