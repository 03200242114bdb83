package docker

import (
	"context"
	"fmt"
	"net"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

const (
	// pollEvery is the interval of polls for changes.
	pollEvery = 50 * time.Millisecond
	// answerLimit bounds how long a broker may take to answer. A starting broker accepts connections before it answers.
	answerLimit = 3 * time.Second
)

// waitReady returns when each of the brokers says that all of them are present, or when one has died.
//
// A broker is in that list once its controller has admitted it, so topics can be created on it from then on.
func (k *Kafka) waitReady(ctx context.Context, nodes []*node) error {
	for {
		last := ready(ctx, nodes)
		if last == nil {
			return nil
		}
		for _, n := range nodes {
			if err := k.died(ctx, n); err != nil && ctx.Err() == nil {
				return err
			}
		}
		if err := cluster.Sleep(ctx, pollEvery); err != nil {
			return fmt.Errorf("waiting until the brokers answer at %s (%w); the containers run: if dlqbench is in a container "+
				"itself, it must share the host's network: %w",
				loopback, last, err)
		}
	}
}

// ready returns nil when each of the brokers names all of them.
func ready(ctx context.Context, nodes []*node) error {
	for _, n := range nodes {
		answer, err := ask(ctx, n.address())
		if err != nil {
			return fmt.Errorf("broker %d: %w", n.number, err)
		}
		named := map[int32]string{}
		for _, b := range answer.Brokers {
			named[b.NodeID] = net.JoinHostPort(b.Host, fmt.Sprint(b.Port))
		}
		for _, other := range nodes {
			if named[other.number] != other.address() {
				return fmt.Errorf("broker %d does not know broker %d yet", n.number, other.number)
			}
		}
	}
	return nil
}

// ask asks one broker for its view of the cluster.
func ask(ctx context.Context, address string) (*kmsg.MetadataResponse, error) {
	return request[*kmsg.MetadataResponse](ctx, address, kmsg.NewPtrMetadataRequest())
}
