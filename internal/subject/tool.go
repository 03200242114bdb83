package subject

// What belongs to a run and is no instance: a build, the replay tool.

import (
	"context"
	"fmt"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/dlqbench/dlqbench/history"
)

// RunTool runs a program to its end, in this process's folder; like an instance it never outlives the run. Its output goes to NAME.log
// and its last lines are returned. An exit code other than 0 is an error; when ctx ends the program is killed.
func (g *Group) RunTool(ctx context.Context, name string, command []string) (last string, err error) {
	last, err = g.runToEnd(ctx, name, Launch{Command: command})
	if err != nil {
		return last, fmt.Errorf("running %s: %w", name, err)
	}
	return last, nil
}

// runToEnd runs a command to its end and returns the last lines of its output.
func (g *Group) runToEnd(ctx context.Context, name string, launch Launch) (last string, err error) {
	path := filepath.Join(g.cfg.LogDir, name+".log")
	out, err := newOutput(path, nil, nil)
	if err != nil {
		return "", err
	}
	child, err := g.start(history.None, launch, out)
	if err != nil {
		return "", err
	}
	select {
	case <-child.ended:
	case <-ctx.Done():
		_ = child.signal(syscall.SIGKILL)
		if err := child.waitKilled(); err != nil {
			return "", err
		}
		return out.lastLines(), fmt.Errorf("stopped before it was done: %w", context.Cause(ctx))
	}
	if exit := child.exit; exit.Code != 0 {
		return out.lastLines(), fmt.Errorf("%q ended with %v; its last lines are:\n%sall of its output is in %s",
			strings.Join(launch.Command, " "), exit, out.lastLines(), path)
	}
	return out.lastLines(), nil
}
