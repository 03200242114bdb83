package docker

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"syscall"
	"time"

	"github.com/moby/moby/client"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
	"github.com/dlqbench/dlqbench/internal/env/engine"
)

// This file injects faults into single brokers through the engine, and lifts them.

const (
	// stopGrace is how long the engine lets a broker shut down in order before it kills the broker, in seconds.
	stopGrace = 10
	// engineCallLimit bounds a call of the engine. An interrupted run waits for the call, so that the container's state
	// is known.
	engineCallLimit = (stopGrace + 5) * time.Second
	// catchUpLimit bounds the wait for a returned broker to be in sync.
	catchUpLimit = 10 * time.Second
	// refuseLimit bounds how long the port of an ended container may continue to accept connections.
	refuseLimit = 5 * time.Second
)

// StopBroker lets a broker shut down in order, and returns once its port refuses connections. The broker hands over
// its partitions before it ends. Partitions that only this broker holds have no leader until it returns. It returns
// the counted changes, none if no client used the broker.
func (k *Kafka) StopBroker(ctx context.Context, id int32) (changed map[string]int, err error) {
	changed, err = k.takeDown(ctx, id, cluster.ChangeClosed, func(ctx context.Context, n *node) error {
		grace := stopGrace
		_, err := k.engine.ContainerStop(ctx, n.container.ID, client.ContainerStopOptions{Timeout: &grace})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("stopping broker %d: %w", id, err)
	}
	return changed, nil
}

// KillBroker ends a broker with KILL, and returns once its port refuses connections. The other brokers detect the
// loss when the broker's session ends. Until then they name it as the leader of its partitions, which therefore
// count as leaderless.
func (k *Kafka) KillBroker(ctx context.Context, id int32) (changed map[string]int, err error) {
	changed, err = k.takeDown(ctx, id, cluster.ChangeReset, func(ctx context.Context, n *node) error {
		_, err := k.engine.ContainerKill(ctx, n.container.ID, client.ContainerKillOptions{Signal: "KILL"})
		return err
	})
	if err != nil {
		return nil, fmt.Errorf("killing broker %d: %w", id, err)
	}
	return changed, nil
}

// takeDown ends a container. It looks up the broker's duties before, while the broker can still be asked, and
// compares them after.
func (k *Kafka) takeDown(ctx context.Context, id int32, ended string,
	end func(context.Context, *node) error) (map[string]int, error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, err := k.findAlive(ctx, id)
	if err != nil {
		return nil, err
	}
	connections := k.connected(ctx, n) // first, because the next queries open connections too
	before, err := k.duties(ctx, n)
	if err != nil {
		return nil, err
	}
	// From here on the operation is not aborted.
	calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineCallLimit)
	defer cancel()
	if err := end(calling, n); err != nil {
		return nil, fmt.Errorf("asking the engine for it: %w", err)
	}
	n.alive, n.paused = false, false
	if err := refuses(calling, n.address()); err != nil {
		return nil, err
	}
	// The partitions of a killed broker move when its session ends. This is not waited for: until then they have no
	// leader.
	changes := k.since(calling, n, before, ended == cluster.ChangeClosed)
	changes[ended] = connections
	return cluster.Counted(changes), nil
}

// refuses returns once a port refuses connections.
func refuses(ctx context.Context, address string) error {
	ctx, cancel := context.WithTimeout(ctx, refuseLimit)
	defer cancel()
	var dialer net.Dialer
	for {
		conn, err := dialer.DialContext(ctx, "tcp", address)
		if errors.Is(err, syscall.ECONNREFUSED) {
			return nil
		}
		if err == nil {
			conn.Close()
		}
		if err := cluster.Sleep(ctx, pollEvery/5); err != nil {
			return fmt.Errorf("confirming that it is off the net: %s still accepts connections", address)
		}
	}
}

// StartBroker starts a stopped broker with its data, on its port. It returns once this broker and all others say
// that it is back, it has caught up, and it leads and coordinates again as before. While too few brokers run for a
// quorum of controllers, nothing can be decided. Then it returns when the container runs, and the broker that
// completes the quorum is waited for.
func (k *Kafka) StartBroker(ctx context.Context, id int32) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, err := k.find(ctx, id)
	if err == nil && n.alive {
		err = errors.New("it is running")
	}
	if err == nil {
		err = k.startAgain(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("starting broker %d: %w", id, err)
	}
	return nil
}

func (k *Kafka) startAgain(ctx context.Context, n *node) error {
	ctx, release := cluster.During(ctx, k.ended)
	defer release()
	if _, err := k.engine.ContainerStart(ctx, n.container.ID, client.ContainerStartOptions{}); err != nil {
		if engine.PortTaken(err) {
			return fmt.Errorf("another program has taken its port %d while it was stopped: %w", n.port, err)
		}
		return fmt.Errorf("asking the engine for it: %w", err)
	}
	n.alive = true
	if !k.quorate() {
		return nil
	}
	return k.rejoin(ctx, n)
}

// rejoin returns once a broker is back in the cluster and leads its partitions again. A broker that takes long to
// catch up continues to do so by itself.
func (k *Kafka) rejoin(ctx context.Context, n *node) error {
	starting, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := k.waitReady(starting, k.answering()); err != nil {
		return err
	}
	catching, cancel := context.WithTimeout(ctx, catchUpLimit)
	defer cancel()
	if err := k.administer(func(a *admin.Admin) error { return settle(catching, a, n) }); err != nil {
		k.options.Log.Warn().Err(err).Msgf("broker %d runs, but does not lead again what it led", n.number)
	}
	return context.Cause(ctx)
}

// settle restores a broker's leaders once it has caught up.
func settle(ctx context.Context, a *admin.Admin, n *node) error {
	if err := a.WaitInSync(ctx, n.number); err != nil {
		return err
	}
	if n.returns {
		if _, err := a.ReturnLeaders(ctx, n.number); err != nil {
			return err
		}
		n.returns = false
	}
	return a.PreferLeader(ctx, n.number)
}

// PauseBroker freezes a broker's processes. Its connections stay open, the system accepts new ones, and nothing is
// read or answered until ResumeBroker. The other brokers detect this when its session ends.
func (k *Kafka) PauseBroker(ctx context.Context, id int32) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, err := k.findAlive(ctx, id)
	if err == nil && n.paused {
		err = errors.New("it is paused already")
	}
	if err == nil {
		n.duties, err = k.duties(ctx, n)
	}
	if err == nil {
		calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineCallLimit)
		defer cancel()
		_, err = k.engine.ContainerPause(calling, n.container.ID, client.ContainerPauseOptions{})
	}
	if err != nil {
		return fmt.Errorf("pausing broker %d: %w", id, err)
	}
	n.paused = true
	return nil
}

// ResumeBroker lets a paused broker continue. It returns the number of connections on which requests had been held
// (at least one request each; only on Linux), and the duties that others had taken over. It returns once the broker
// is back in the cluster. A broker that is not paused any more, because it was stopped meanwhile, is left alone.
func (k *Kafka) ResumeBroker(ctx context.Context, id int32) (changed map[string]int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, err := k.find(ctx, id)
	if err == nil && n.paused {
		changed, err = k.resume(ctx, n)
	}
	if err != nil {
		return cluster.Counted(changed), fmt.Errorf("letting broker %d go on: %w", id, err)
	}
	return cluster.Counted(changed), nil
}

func (k *Kafka) resume(ctx context.Context, n *node) (map[string]int, error) {
	ctx, release := cluster.During(ctx, k.ended)
	defer release()
	changes := map[string]int{}
	if k.quorate() {
		changes = k.moved(ctx, n, n.duties)
	}
	_, changes[cluster.ChangeRequests] = k.sockets(ctx, n)
	calling, cancel := context.WithTimeout(context.WithoutCancel(ctx), engineCallLimit)
	defer cancel()
	if _, err := k.engine.ContainerUnpause(calling, n.container.ID, client.ContainerUnpauseOptions{}); err != nil {
		return nil, fmt.Errorf("asking the engine for it: %w", err)
	}
	n.paused = false
	if !k.quorate() {
		return changes, nil
	}
	return changes, k.rejoin(ctx, n)
}

// quorate reports whether enough controllers answer for anything to be decided.
func (k *Kafka) quorate() bool { return len(k.answering()) > len(k.nodes)/2 }

// answering returns the brokers that are neither stopped nor paused.
func (k *Kafka) answering() []*node {
	return slices.DeleteFunc(slices.Clone(k.nodes), func(n *node) bool { return !n.alive || n.paused })
}

// findAlive returns a broker that is not stopped.
func (k *Kafka) findAlive(ctx context.Context, id int32) (*node, error) {
	n, err := k.find(ctx, id)
	if err == nil && !n.alive {
		err = errors.New("it is stopped already")
	}
	return n, err
}

func (k *Kafka) find(ctx context.Context, id int32) (*node, error) {
	if k.closed {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	if id < 1 || int(id) > len(k.nodes) {
		return nil, fmt.Errorf("the cluster has brokers 1 to %d", len(k.nodes))
	}
	return k.nodes[id-1], nil
}
