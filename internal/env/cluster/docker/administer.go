package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
)

// This file delegates to package admin the operations that any Kafka provides through the admin protocol.

// openAdmin creates the client that package admin uses. It keeps no connection open between two calls, so that its
// connections never count as clients' when a fault is injected into a broker.
func (k *Kafka) openAdmin() error {
	k.dialer = &dialer{open: map[net.Conn]struct{}{}}
	client, err := kgo.NewClient(append(k.ClientOptions(), kgo.Dialer(k.dialer.dial), kgo.MetadataMaxAge(time.Hour),
		kgo.RetryTimeout(answerLimit))...)
	if err != nil {
		return fmt.Errorf("making a client: %w", err)
	}
	k.client, k.admin = client, admin.New(client, k.Brokers())
	return nil
}

// administer runs an operation of package admin, and closes the connections that it opened.
func (k *Kafka) administer(do func(*admin.Admin) error) error {
	defer k.dialer.hangUp()
	return do(k.admin)
}

// CreateTopics creates topics in their prescribed places; see admin.Admin.
func (k *Kafka) CreateTopics(ctx context.Context, topics []cluster.Topic) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return fmt.Errorf("creating topics: %w", ErrClosed)
	}
	ctx, release := cluster.During(ctx, k.ended)
	defer release()
	return k.administer(func(a *admin.Admin) error { return a.CreateTopics(ctx, topics) })
}

// shareFeature is the feature that turns share groups on (KIP-932: off in a new cluster up to 4.1).
const shareFeature = "share.version"

// allowShareGroups turns share groups on where the brokers' version has them.
func (k *Kafka) allowShareGroups(ctx context.Context) error {
	can, err := request[*kmsg.ApiVersionsResponse](ctx, k.nodes[0].address(), kmsg.NewPtrApiVersionsRequest())
	if err != nil {
		return fmt.Errorf("asking what the brokers can do: %w", err)
	}
	for _, feature := range can.SupportedFeatures {
		k.admin.ShareGroups = k.admin.ShareGroups || feature.Name == shareFeature && feature.MaxVersion >= 1
	}
	isOn := func(f kmsg.ApiVersionsResponseFinalizedFeature) bool {
		return f.Name == shareFeature && f.MaxVersionLevel >= 1
	}
	if !k.admin.ShareGroups || slices.ContainsFunc(can.FinalizedFeatures, isOn) {
		return nil
	}
	return k.administer(func(*admin.Admin) error {
		updated, err := kadm.NewClient(k.client).UpdateFeatures(ctx, false,
			kadm.FeatureUpdate{Feature: shareFeature, MaxVersionLevel: 1, UpgradeType: 1})
		if err := cmp.Or(err, updated.Error()); err != nil {
			return fmt.Errorf("turning share groups on: %w", err)
		}
		return nil
	})
}

// MoveLeaders transfers the partitions that a broker leads to other in-sync replicas. The broker continues as a
// follower. Partitions that only this broker holds stay. It returns the counted changes.
func (k *Kafka) MoveLeaders(ctx context.Context, id int32) (changed map[string]int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.findAlive(ctx, id); err != nil {
		return nil, fmt.Errorf("moving the leaders off broker %d: %w", id, err)
	}
	ctx, release := cluster.During(ctx, k.ended)
	defer release()
	err = k.administer(func(a *admin.Admin) error { changed, err = a.MoveLeaders(ctx, id); return err })
	return changed, err
}

// ReturnLeaders restores the leaders from before MoveLeaders. A stopped broker gets them back when it is started.
func (k *Kafka) ReturnLeaders(ctx context.Context, id int32) (changed map[string]int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, err := k.find(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("moving the leaders back to broker %d: %w", id, err)
	}
	if !n.alive {
		n.returns = true
		return map[string]int{}, nil
	}
	ctx, release := cluster.During(ctx, k.ended)
	defer release()
	err = k.administer(func(a *admin.Admin) error { changed, err = a.ReturnLeaders(ctx, id); return err })
	return changed, err
}

// MoveCoordinator moves a group to the next broker that may coordinate groups, where it stays, and returns both
// brokers. It fails if there is no other such broker.
func (k *Kafka) MoveCoordinator(ctx context.Context, group string) (from, to int32, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return 0, 0, fmt.Errorf("moving the coordinator of group %s: %w", group, ErrClosed)
	}
	ctx, release := cluster.During(ctx, k.ended)
	defer release()
	err = k.administer(func(a *admin.Admin) error { from, to, err = a.MoveCoordinator(ctx, group); return err })
	return from, to, err
}

// dialer keeps track of the connections that it opened.
type dialer struct {
	mu   sync.Mutex
	open map[net.Conn]struct{}
}

func (d *dialer) dial(ctx context.Context, network, address string) (net.Conn, error) {
	var net net.Dialer
	conn, err := net.DialContext(ctx, network, address)
	if err != nil {
		return nil, err
	}
	tracked := &trackedConn{Conn: conn, dialer: d}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.open[tracked] = struct{}{}
	return tracked, nil
}

// hangUp closes all open connections.
func (d *dialer) hangUp() {
	d.mu.Lock()
	open := slices.Collect(maps.Keys(d.open))
	d.mu.Unlock()
	for _, conn := range open {
		_ = conn.Close()
	}
}

// trackedConn tells its dialer when it is closed.
type trackedConn struct {
	net.Conn
	dialer *dialer
}

// Close closes the connection. A second call has the usual effect on a closed connection.
func (c *trackedConn) Close() error {
	c.dialer.mu.Lock()
	delete(c.dialer.open, c)
	c.dialer.mu.Unlock()
	if err := c.Conn.Close(); err != nil && !errors.Is(err, net.ErrClosed) {
		return err
	}
	return nil
}
