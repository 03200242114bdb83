package postgres

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strconv"
	"syscall"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/rs/zerolog"
	"github.com/testcontainers/testcontainers-go"

	"github.com/dlqbench/dlqbench/internal/env/engine"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// DefaultImage is the image of servers in containers.
const DefaultImage = "postgres:17-alpine"

// Container describes a server in a container.
type Container struct {
	// Image obeys the variables of the official image: POSTGRES_USER and POSTGRES_HOST_AUTH_METHOD.
	Image string
	// RunID is the value of the container's engine.Label.
	RunID string
	// Settings are settings of postgresql.conf; nil for none.
	Settings map[string]string
	Log      zerolog.Logger
}

// contained is a server in a container, which keeps its data from start to start.
type contained struct {
	Container
	engine *testcontainers.DockerClient
	id     string // "" before the first start
	port   int
}

// StartContainer creates and starts a new server in a container, and pulls the image if it is not here. The error is
// engine.ErrNoEngine if no container engine answers.
func StartContainer(ctx context.Context, c Container) (*Server, error) {
	docker, err := engine.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("running PostgreSQL in a container: %w", err)
	}
	if err := engine.HaveImage(ctx, docker, c.Image, c.Log); err != nil {
		return nil, errors.Join(fmt.Errorf("running PostgreSQL in a container: %w", err), docker.Close())
	}
	return started(ctx, &contained{Container: c, engine: docker})
}

// Start implements host.
func (c *contained) Start(ctx context.Context) (port int, err error) {
	if c.id == "" {
		_, err = engine.OnFreePort(ctx, c.engine, c.create)
		return c.port, err
	}
	_, err = c.engine.ContainerStart(ctx, c.id, client.ContainerStartOptions{})
	return c.port, err
}

// create creates and starts the container with its server on a port of this machine.
func (c *contained) create(ctx context.Context, port int) (*testcontainers.DockerContainer, error) {
	c.port = port
	made, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image:        c.Image,
			Name:         fmt.Sprintf("dlqbench-%s-postgres-%d", c.RunID, port),
			Env:          map[string]string{"POSTGRES_USER": superuser, "POSTGRES_HOST_AUTH_METHOD": "trust"},
			Cmd:          append([]string{"postgres"}, arguments(c.Settings)...),
			Labels:       map[string]string{engine.Label: c.RunID},
			ExposedPorts: []string{serverPort},
			HostConfigModifier: func(host *container.HostConfig) {
				host.PortBindings = network.PortMap{network.MustParsePort(serverPort): {{
					HostIP: netip.MustParseAddr("127.0.0.1"), HostPort: strconv.Itoa(port)}}}
			},
		},
		Started: true,
		Logger:  engine.Quiet{},
	})
	ours, _ := made.(*testcontainers.DockerContainer)
	if ours != nil {
		c.id = ours.ID
	}
	return ours, err
}

// serverPort is the port of the server inside the container.
const serverPort = "5432/tcp"

// Ended implements host.
func (c *contained) Ended(ctx context.Context) (ended bool, log string) {
	if err := engine.Ended(ctx, c.engine, c.id, "PostgreSQL"); err != nil {
		return true, err.Error()
	}
	return false, engine.Tail(ctx, c.engine, c.id)
}

// End implements host. The engine sends KILL if the signal does not end the server in time.
func (c *contained) End(by syscall.Signal) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*stopLimit)
	defer cancel()
	seconds := int(stopLimit.Seconds())
	_, err := c.engine.ContainerStop(ctx, c.id, client.ContainerStopOptions{Signal: procgroup.SignalName(by),
		Timeout: &seconds})
	return err
}

// Remove implements host.
func (c *contained) Remove() error {
	defer func() { _ = c.engine.Close() }()
	if c.id == "" {
		return nil
	}
	ctx, cancel := context.WithTimeout(context.Background(), stopLimit)
	defer cancel()
	return engine.Remove(ctx, c.engine.Client, c.id)
}
