package engine

// A subject's container. Two parties use it. A process that stands for the container lasts as long as the container,
// and passes on its output and exit code (Run). The party that started that process signals the processes inside
// (Handle). The container's name connects the two.

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"strings"
	"syscall"
	"time"

	"github.com/containerd/errdefs"
	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/mount"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"

	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// Container is one container of a subject. It shares this machine's network, so that servers on 127.0.0.1 can be
// reached from inside.
type Container struct {
	// Name is the container's name, Image its image, RunID the value of its Label.
	Name, Image, RunID string
	// Command replaces the image's own command if it is set.
	Command []string
	// Env is the container's environment, as NAME=value. No variable of this process's own environment is passed on.
	Env []string
	// Mounts are folders that are mounted at the same paths.
	Mounts []string
}

// Subcommand is the name of the program's subcommand that runs a container in the foreground.
const Subcommand = "container"

// Arguments returns the arguments with which this program runs the container in the foreground. names are the
// environment variables to pass on: their values must not be on a command line.
func Arguments(c Container, names []string) []string {
	arguments := []string{Subcommand, "--name", c.Name, "--image", c.Image, "--run", c.RunID}
	for _, folder := range c.Mounts {
		arguments = append(arguments, "--mount", folder)
	}
	for _, name := range names {
		arguments = append(arguments, "--env", name)
	}
	return append(append(arguments, "--"), c.Command...)
}

// outputLimit bounds the wait for the last output of an ended container.
const outputLimit = 2 * time.Second

// Run runs the container in the foreground and removes it when it has ended. The container's output goes to out. Run
// returns the exit code, which is 137 (128 plus the signal's number) if KILL ended the container.
func Run(ctx context.Context, c Container, out io.Writer) (code int, err error) {
	engine, err := Connect(ctx)
	if err != nil {
		return 0, err
	}
	defer func() { _ = engine.Close() }()
	made, err := engine.ContainerCreate(ctx, c.options())
	if err != nil {
		return 0, fmt.Errorf("making a container of image %s: %w", c.Image, err)
	}
	defer func() {
		removing, cancel := context.WithTimeout(context.WithoutCancel(ctx), callLimit)
		defer cancel()
		err = errors.Join(err, Remove(removing, engine.Client, made.ID))
	}()
	attached, err := engine.ContainerAttach(ctx, made.ID, client.ContainerAttachOptions{Stream: true, Stdout: true,
		Stderr: true})
	if err != nil {
		return 0, fmt.Errorf("attaching to container %s: %w", c.Name, err)
	}
	copied := make(chan struct{})
	go func() {
		defer close(copied)
		_, _ = stdcopy.StdCopy(out, out, attached.Reader) // it ends with the container, or when the connection is closed
	}()
	defer func() { attached.Close(); <-copied }()
	ended := engine.ContainerWait(ctx, made.ID, client.ContainerWaitOptions{Condition: container.WaitConditionNextExit})
	if _, err := engine.ContainerStart(ctx, made.ID, client.ContainerStartOptions{}); err != nil {
		return 0, fmt.Errorf("starting container %s: %w", c.Name, err)
	}
	select {
	case result := <-ended.Result:
		select {
		case <-copied:
		case <-time.After(outputLimit):
		}
		return int(result.StatusCode), nil
	case err := <-ended.Error:
		return 0, fmt.Errorf("waiting for container %s: %w", c.Name, err)
	}
}

func (c Container) options() client.ContainerCreateOptions {
	host := &container.HostConfig{NetworkMode: "host"}
	for _, folder := range c.Mounts {
		host.Mounts = append(host.Mounts, mount.Mount{Type: mount.TypeBind, Source: folder, Target: folder})
	}
	return client.ContainerCreateOptions{
		Name: c.Name, HostConfig: host,
		Config: &container.Config{Image: c.Image, Cmd: c.Command, Env: c.Env, Labels: map[string]string{Label: c.RunID}},
	}
}

// Handle sends signals to a subject's container, identified by its name.
type Handle struct {
	engine *testcontainers.DockerClient
	name   string
}

// NewHandle returns a handle of the container with the name. The container need not exist yet.
func NewHandle(engine *testcontainers.DockerClient, name string) *Handle {
	return &Handle{engine: engine, name: name}
}

// lookEvery is the interval of polls for a container's state.
const lookEvery = 5 * time.Millisecond

// callLimit bounds one request to the engine.
const callLimit = 10 * time.Second

// Signal sends a signal to the container's first process. STOP and CONT freeze and thaw all its processes. Signal
// waits for a container that is about to start. If the container has ended or is gone, the error is
// os.ErrProcessDone.
func (h *Handle) Signal(ctx context.Context, signal syscall.Signal) error {
	if _, err := h.running(ctx); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	var err error
	switch signal {
	case procgroup.Stop:
		_, err = h.engine.ContainerPause(ctx, h.name, client.ContainerPauseOptions{})
	case procgroup.Continue:
		if frozen, err := h.Frozen(ctx); err != nil || !frozen {
			return err // the engine itself thaws a container to which it sends a signal
		}
		_, err = h.engine.ContainerUnpause(ctx, h.name, client.ContainerUnpauseOptions{})
	default:
		_, err = h.engine.ContainerKill(ctx, h.name, client.ContainerKillOptions{Signal: procgroup.SignalName(signal)})
	}
	switch {
	case err == nil:
		return nil
	case errdefs.IsNotFound(err), errdefs.IsConflict(err) && strings.Contains(err.Error(), "is not running"):
		return os.ErrProcessDone
	}
	return fmt.Errorf("asking the engine to send %s to container %s: %w", procgroup.SignalName(signal), h.name, err)
}

// PID waits until the container runs and returns the number of its first process on this machine. The error is
// os.ErrProcessDone if the container has ended.
func (h *Handle) PID(ctx context.Context) (int, error) {
	state, err := h.running(ctx)
	if err != nil {
		return 0, err
	}
	return state.Pid, nil
}

// Frozen reports whether the container is frozen.
func (h *Handle) Frozen(ctx context.Context) (bool, error) {
	state, err := h.running(ctx)
	if err != nil {
		return false, err
	}
	return state.Paused, nil
}

// Remove removes the container, running or not. It is not an error if the container does not exist.
func (h *Handle) Remove(ctx context.Context) error {
	return Remove(ctx, h.engine.Client, h.name)
}

// running waits until the container runs or is frozen. It fails if the container has ended.
func (h *Handle) running(ctx context.Context) (*container.State, error) {
	ctx, cancel := context.WithTimeout(ctx, callLimit)
	defer cancel()
	for {
		found, err := h.engine.ContainerInspect(ctx, h.name, client.ContainerInspectOptions{})
		switch {
		case err == nil && found.Container.State != nil:
			switch state := found.Container.State; state.Status {
			case container.StateRunning, container.StatePaused:
				return state, nil
			case container.StateExited, container.StateDead, container.StateRemoving:
				return nil, os.ErrProcessDone
			}
		case err != nil && !errdefs.IsNotFound(err):
			return nil, fmt.Errorf("asking the engine about container %s: %w", h.name, err)
		}
		select {
		case <-ctx.Done():
			return nil, fmt.Errorf("waiting for container %s: %w", h.name, context.Cause(ctx))
		case <-time.After(lookEvery):
		}
	}
}
