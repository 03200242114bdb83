package docker

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"net/netip"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/api/pkg/stdcopy"
	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/moby/moby/client"
	"github.com/testcontainers/testcontainers-go"
	tcnetwork "github.com/testcontainers/testcontainers-go/network"

	"github.com/dlqbench/dlqbench/internal/env/engine"
	"github.com/dlqbench/dlqbench/internal/env/ports"
)

// makeNetwork creates the network in which the brokers know each other by name.
func (k *Kafka) makeNetwork(ctx context.Context) error {
	made, err := tcnetwork.New(ctx, tcnetwork.WithLabels(map[string]string{engine.Label: k.options.RunID}))
	if err != nil {
		return fmt.Errorf("making a network: %w", err)
	}
	k.network = made
	return nil
}

// portAttempts is the number of ports that are tried for a broker when a chosen port is taken.
const portAttempts = 5

// run creates a broker's container and starts it. Its port is chosen here because the engine would choose another
// one at every start.
func (k *Kafka) run(ctx context.Context, n *node, clusterID string) (err error) {
	for attempt := range portAttempts {
		free, err := ports.Free(1)
		if err != nil {
			return err
		}
		n.port = free[0]
		n.container, err = k.create(ctx, n, clusterID)
		if err == nil {
			n.alive = true
			return nil
		}
		if !portTaken(err) || attempt == portAttempts-1 {
			break
		}
		if n.container != nil {
			if err := engine.Remove(ctx, k.engine.Client, n.container.ID); err != nil {
				return err
			}
		}
	}
	return fmt.Errorf("starting broker %d: %w", n.number, err)
}

// portTaken reports whether the engine could not publish a port because it is in use. It recognises the messages of
// several engine versions.
func portTaken(err error) bool {
	text := err.Error()
	return strings.Contains(text, "port is already allocated") ||
		strings.Contains(text, "address already in use") || strings.Contains(text, "ports are not available")
}

// create creates and starts a container. If the container cannot be started, it is returned with the error.
func (k *Kafka) create(ctx context.Context, n *node, clusterID string) (*testcontainers.DockerContainer, error) {
	environment := settings(k.options.Brokers, n.number, clusterID, n.port)
	maps.Copy(environment, k.options.environment)
	published := fmt.Sprintf("%d/tcp", clientPort)
	made, err := testcontainers.GenericContainer(ctx, testcontainers.GenericContainerRequest{
		ContainerRequest: testcontainers.ContainerRequest{
			Image:          k.options.Image,
			Name:           fmt.Sprintf("dlqbench-%s-%s", k.options.RunID, alias(n.number)),
			Env:            environment,
			Labels:         map[string]string{engine.Label: k.options.RunID, brokerLabel: strconv.Itoa(int(n.number))},
			Networks:       []string{k.network.Name},
			NetworkAliases: map[string][]string{k.network.Name: {alias(n.number)}},
			ExposedPorts:   []string{published},
			HostConfigModifier: func(host *container.HostConfig) {
				host.PortBindings = network.PortMap{network.MustParsePort(published): {{HostIP: netip.MustParseAddr(loopback),
					HostPort: strconv.Itoa(n.port)}}}
			},
		},
		Started: true,
		Logger:  engine.Quiet{},
	})
	ours, _ := made.(*testcontainers.DockerContainer)
	return ours, err
}

// brokerLabel is the label with the number of the container's broker.
const brokerLabel = "dlqbench.broker"

const (
	// tailLines is the number of last lines shown of a broker that died. Stack frames are left out, because they
	// outnumber the lines that give the reason.
	tailLines = 12
	// tailRead is the number of lines read for that.
	tailRead = 500
)

// died returns an error with a container's last lines if the container has ended, else nil.
func (k *Kafka) died(ctx context.Context, n *node) error {
	found, err := k.engine.ContainerInspect(ctx, n.container.ID, client.ContainerInspectOptions{})
	if err != nil {
		return fmt.Errorf("asking the engine about broker %d: %w", n.number, err)
	}
	state := found.Container.State
	if state == nil || state.Status != container.StateExited && state.Status != container.StateDead {
		return nil
	}
	what := fmt.Sprintf("broker %d ended with exit code %d", n.number, state.ExitCode)
	if state.OOMKilled {
		what += ", as it ran out of memory"
	}
	if tail := k.tail(ctx, n); tail != "" {
		return fmt.Errorf("%s; its last lines:\n%s", what, tail)
	}
	return fmt.Errorf("%s and wrote nothing", what)
}

// tail returns a container's last lines, indented.
func (k *Kafka) tail(ctx context.Context, n *node) string {
	ctx, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	logs, err := k.engine.ContainerLogs(ctx, n.container.ID, client.ContainerLogsOptions{ShowStdout: true,
		ShowStderr: true, Tail: strconv.Itoa(tailRead)})
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
