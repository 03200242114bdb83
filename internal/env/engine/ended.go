package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
)

// Ended returns an error with a container's exit code and its last lines if the container has ended, else nil. what is
// what runs in it, such as "broker 1".
func Ended(ctx context.Context, engine *testcontainers.DockerClient, id, what string) error {
	found, err := engine.ContainerInspect(ctx, id, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("asking the engine about %s: %w", what, err)
	}
	state := found.Container.State
	if state == nil || state.Status != container.StateExited && state.Status != container.StateDead {
		return nil
	}
	what = fmt.Sprintf("%s ended with exit code %d", what, state.ExitCode)
	if state.OOMKilled {
		what += ", as it ran out of memory"
	}
	if tail := Tail(ctx, engine, id); tail != "" {
		return fmt.Errorf("%s; its last lines:\n%s", what, tail)
	}
	return fmt.Errorf("%s and wrote nothing", what)
}

const (
	// tailLines is the number of last lines shown of a container that ended. Stack frames are left out, because they
	// outnumber the lines that give the reason.
	tailLines = 12
	// tailRead is the number of lines read for that.
	tailRead = 500
)

// Tail returns a container's last lines, indented; "" if they can't be read.
func Tail(ctx context.Context, engine *testcontainers.DockerClient, id string) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	logs, err := engine.ContainerLogs(ctx, id, client.ContainerLogsOptions{ShowStdout: true, ShowStderr: true,
		Tail: strconv.Itoa(tailRead)})
	if err != nil {
		return ""
	}
	defer logs.Close()
	var both bytes.Buffer
	if _, err := stdcopy.StdCopy(&both, &both, logs); err != nil && !errors.Is(err, io.ErrUnexpectedEOF) &&
		both.Len() == 0 {
		return ""
	}
	var lines []string
	for line := range strings.Lines(strings.TrimSpace(both.String())) {
		if line = strings.TrimRight(line, "\r\n"); !strings.HasPrefix(line, "\tat ") && line != "" {
			lines = append(lines, "  "+line)
		}
	}
	return strings.Join(lines[max(0, len(lines)-tailLines):], "\n")
}
