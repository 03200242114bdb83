package engine

import (
	"context"
	"strings"

	"github.com/testcontainers/testcontainers-go"

	"github.com/dlqbench/dlqbench/internal/env/ports"
)

// portAttempts is the number of ports that are tried for a container when a chosen port is taken.
const portAttempts = 5

// OnFreePort has a container created and started that publishes a port of this machine. The port is chosen here because
// the engine would choose another one at every start. If it was taken meanwhile, the container is removed and created
// with another one. A container that could not be started is returned with the error.
func OnFreePort(ctx context.Context, engine *testcontainers.DockerClient,
	create func(ctx context.Context, port int) (*testcontainers.DockerContainer, error),
) (*testcontainers.DockerContainer, error) {
	for attempt := 1; ; attempt++ {
		free, err := ports.Free(1)
		if err != nil {
			return nil, err
		}
		made, err := create(ctx, free[0])
		if err == nil || !PortTaken(err) || attempt == portAttempts {
			return made, err
		}
		if made != nil {
			if err := Remove(ctx, engine.Client, made.ID); err != nil {
				return nil, err
			}
		}
	}
}

// PortTaken reports whether the engine could not publish a port because it is in use. It recognises the messages of
// several engine versions.
func PortTaken(err error) bool {
	text := err.Error()
	return strings.Contains(text, "port is already allocated") ||
		strings.Contains(text, "address already in use") || strings.Contains(text, "ports are not available")
}
