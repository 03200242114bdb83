package docker

import (
	"context"
	"fmt"
	"maps"
	"net/netip"
	"strconv"

	"github.com/moby/moby/api/types/container"
	"github.com/moby/moby/api/types/network"
	"github.com/testcontainers/testcontainers-go"
	tcnetwork "github.com/testcontainers/testcontainers-go/network"

	"github.com/dlqbench/dlqbench/internal/env/engine"
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

// run creates a broker's container and starts it.
func (k *Kafka) run(ctx context.Context, n *node, clusterID string) error {
	create := func(ctx context.Context, port int) (*testcontainers.DockerContainer, error) {
		n.port = port
		return k.create(ctx, n, clusterID)
	}
	made, err := engine.OnFreePort(ctx, k.engine, create)
	n.container, n.alive = made, err == nil
	if err != nil {
		return fmt.Errorf("starting broker %d: %w", n.number, err)
	}
	return nil
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

// died returns an error with a container's last lines if the container has ended, else nil.
func (k *Kafka) died(ctx context.Context, n *node) error {
	return engine.Ended(ctx, k.engine, n.container.ID, fmt.Sprintf("broker %d", n.number))
}
