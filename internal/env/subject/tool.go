package subject

// Programs of a run that are not instances: a build, the replay tool.

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// RunTool runs a program to its end, in this process's folder. Like an instance, it never outlives the run. Its
// output goes to NAME.log. An exit code other than 0 is an error. If ctx ends, the program is killed.
func (g *Group) RunTool(ctx context.Context, name string, tool Launch) error {
	if err := g.runToEnd(ctx, name, tool); err != nil {
		return fmt.Errorf("running %s: %w", name, err)
	}
	return nil
}

func (g *Group) runToEnd(ctx context.Context, name string, launch Launch) error {
	path := filepath.Join(g.cfg.LogDir, name+".log")
	out, err := newOutput(path, launch.secrets(), g.cfg.Clock, nil, nil)
	if err != nil {
		return err
	}
	child, err := g.start(history.None, launch, out)
	if err != nil {
		return err
	}
	select {
	case <-child.ended:
	case <-ctx.Done():
		_ = child.signal(syscall.SIGKILL)
		if err := child.waitKilled(); err != nil {
			return err
		}
		return fmt.Errorf("stopped before it was done: %w", context.Cause(ctx))
	}
	if exit := child.exit; exit.Code != 0 {
		return fmt.Errorf("%q ended with %v; its last lines are:\n%sall of its output is in %s",
			strings.Join(launch.Command, " "), exit, out.lastLines(), path)
	}
	return nil
}

// Attend starts a command that is not part of the subject and that the caller watches itself, such as a broker. The
// command runs in its own process group, which never outlives this process, however this process ends. The caller
// calls ended when it has waited for the command.
func (g *Group) Attend(cmd *exec.Cmd) (ended func(), err error) {
	if cmd.Env == nil {
		cmd.Env = CleanEnvironment(os.Environ())
	}
	cmd.Env = append(cmd.Env, RunIDVariable+"="+g.cfg.RunID)
	cmd.SysProcAttr = procgroup.Child(syscall.SIGKILL, nil)
	if err := g.spawner.start(cmd); err != nil {
		return nil, notStarted(Launch{Command: cmd.Args, Dir: cmd.Dir}, err)
	}
	pid := cmd.Process.Pid
	ended = func() { g.isGone(pid) }
	if err := g.began(history.None, pid); err != nil {
		_ = procgroup.Signal(pid, syscall.SIGKILL)
		_ = cmd.Wait()
		ended()
		return nil, err
	}
	return ended, nil
}
