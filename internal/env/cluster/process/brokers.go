package process

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// This file injects faults into single brokers, and counts the effects on clients.

// settleLimit is how long the other brokers may take to agree on the new leaders after a broker was stopped in
// order, and how long a returned broker may take to catch up.
const settleLimit = 15 * time.Second

// before is what a broker led and coordinated for clients before a fault was injected into it.
type before struct {
	connections int
	led         []admin.Partition
	coordinated admin.Coordinated
}

// StopBroker makes a broker shut down in order (TERM): its leaders and coordinators move first, then its connections
// are closed. It returns once the process has ended, its port refuses connections, and the other brokers know the
// new leaders. Partitions that only this broker held have no leader until it returns. The result is the counted
// changes for clients.
func (k *Kafka) StopBroker(ctx context.Context, id int32) (changed map[string]int, err error) {
	err = k.breaking(ctx, "stopping", id, func(ctx context.Context, n *node) error {
		had := k.before(ctx, n)
		if err := k.shutDown(ctx, n); err != nil {
			return err
		}
		changed, err = k.afterStop(ctx, n, had)
		return err
	})
	return changed, err
}

// KillBroker kills a broker's process (KILL). It returns once the broker's port refuses connections, with the
// counted changes for clients. The partitions that it led have no leader from this moment on. Another replica takes
// over when the controller has missed the broker for its session, 4 s, or when the broker is back.
func (k *Kafka) KillBroker(ctx context.Context, id int32) (changed map[string]int, err error) {
	err = k.breaking(ctx, "killing", id, func(ctx context.Context, n *node) error {
		had := k.before(ctx, n)
		if err := n.process.kill(ctx); err != nil {
			return err
		}
		changed = cluster.Counted(map[string]int{cluster.ChangeReset: had.connections,
			cluster.ChangeLeaderless: len(had.led)})
		return k.confirmDown(ctx, n)
	})
	return changed, err
}

// breaking runs do on a running broker.
func (k *Kafka) breaking(ctx context.Context, doing string, id int32, do func(context.Context, *node) error) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, err := k.find(ctx, id)
	if err == nil && !n.alive() {
		err = errors.New("it is stopped already")
	}
	if err == nil {
		var release func()
		ctx, release = cluster.During(ctx, k.life)
		defer release()
		err = do(ctx, n)
	}
	if err != nil {
		return fmt.Errorf("%s broker %d: %w", doing, id, err)
	}
	return nil
}

func (k *Kafka) find(ctx context.Context, id int32) (*node, error) {
	if k.closed {
		return nil, ErrClosed
	}
	for _, n := range k.config.nodes {
		if n.broker && n.number == id {
			return n, ctx.Err()
		}
	}
	return nil, fmt.Errorf("the cluster has brokers 1 to %d", k.config.brokers)
}

// before records what a broker does for clients. Queries that fail (for example of a paused broker) count as
// nothing.
func (k *Kafka) before(ctx context.Context, n *node) before {
	var had before
	had.connections, _ = connections(n.clients)
	if n.process.paused {
		had.led = n.process.led
		return had
	}
	had.led = k.led(ctx, n)
	var err error
	if had.coordinated, err = k.admin.Coordinated(ctx, n.number); err != nil {
		k.log.Debug().Err(err).Msg("what a broker coordinates is not known")
	}
	return had
}

// led returns the partitions that a broker leads, without Kafka's own.
func (k *Kafka) led(ctx context.Context, n *node) []admin.Partition {
	partitions, err := k.admin.Partitions(ctx, 0)
	if err != nil {
		k.log.Debug().Err(err).Msg("what a broker leads is not known")
	}
	return slices.DeleteFunc(partitions, func(p admin.Partition) bool { return p.Leader != n.number })
}

// shutDown ends a broker's process in order. A process that does not end in time is killed; the broker is down in
// either case.
func (k *Kafka) shutDown(ctx context.Context, n *node) error {
	p := n.process
	p.asked.Store(true)
	err := p.signal(syscall.SIGTERM)
	if err == nil && p.paused {
		err = p.signal(procgroup.Continue) // a stopped process receives no TERM
	}
	if err == nil {
		err = p.wait(ctx, k.stopped)
	}
	if err != nil {
		k.log.Warn().Err(err).Msgf("%s does not shut down, and is killed", n.name())
		err = errors.Join(ctx.Err(), p.kill(context.WithoutCancel(ctx)))
	}
	if err != nil {
		return err
	}
	return k.confirmDown(ctx, n)
}

func (k *Kafka) confirmDown(ctx context.Context, n *node) error {
	for range int(dialLimit / poll) {
		if _, refused := accepts(n.clients); refused {
			return nil
		}
		if err := cluster.Sleep(ctx, poll); err != nil {
			return err
		}
	}
	return fmt.Errorf("its port %d still accepts connections: another program listens on it", n.clients)
}

// afterStop counts the changes to a broker's former duties.
func (k *Kafka) afterStop(ctx context.Context, n *node, had before) (map[string]int, error) {
	changes := map[string]int{cluster.ChangeClosed: had.connections}
	if !k.quorate() || k.alive() == 0 {
		changes[cluster.ChangeLeaderless] = len(had.led) // no broker runs that could lead, or report leaders
		return cluster.Counted(changes), nil
	}
	moved, leaderless, err := k.settled(ctx, n, had.led)
	if err != nil {
		return nil, err
	}
	changes[cluster.ChangeMoved], changes[cluster.ChangeLeaderless] = moved, leaderless
	if changes[cluster.ChangeCoordinators], err = k.admin.MovedFrom(ctx, n.number, had.coordinated); err != nil {
		return nil, err
	}
	return cluster.Counted(changes), nil
}

// settled waits until no other broker considers a broker the leader any more.
func (k *Kafka) settled(ctx context.Context, n *node, led []admin.Partition) (moved, leaderless int, err error) {
	ctx, cancel := context.WithTimeoutCause(ctx, settleLimit, errors.New("the others still take it for a leader"))
	defer cancel()
	for {
		var still int
		moved, leaderless, still, err = k.became(ctx, n, led)
		if err == nil && still == 0 {
			return moved, leaderless, nil
		}
		if over := cluster.Sleep(ctx, poll); over != nil {
			return 0, 0, errors.Join(over, err)
		}
	}
}

// became asks every running broker about the partitions that a broker led. still is the number of partitions that they
// consider unchanged, summed over the brokers asked.
func (k *Kafka) became(ctx context.Context, n *node, led []admin.Partition) (moved, leaderless, still int, err error) {
	for _, other := range k.config.nodes {
		if other == n || !other.broker || !other.alive() || other.process.paused {
			continue
		}
		now, err := k.admin.Partitions(ctx, other.number)
		if err != nil {
			return 0, 0, 0, err
		}
		var unchanged int
		moved, leaderless, unchanged = compare(led, now, n.number)
		still += unchanged
	}
	return moved, leaderless, still, nil
}

// compare counts the partitions that a broker led by their present state: led by another broker, without a leader,
// and still led by it.
func compare(led, now []admin.Partition, number int32) (moved, leaderless, still int) {
	for _, was := range led {
		for _, is := range now {
			switch {
			case is.Topic != was.Topic || is.Partition != was.Partition:
			case is.Leader == number:
				still++
			case is.Leader == 0:
				leaderless++
			default:
				moved++
			}
		}
	}
	return moved, leaderless, still
}

// alive returns the number of running brokers.
func (k *Kafka) alive() (count int) {
	for _, n := range k.config.nodes {
		if n.broker && n.alive() {
			count++
		}
	}
	return count
}

// quorate reports whether enough controllers run for anything to be decided.
func (k *Kafka) quorate() bool {
	running, all := 0, 0
	for _, n := range k.config.nodes {
		if n.controller {
			all++
			if n.alive() && !n.process.paused {
				running++
			}
		}
	}
	return running > all/2
}

// StartBroker starts a stopped broker on its ports and data. It returns once the broker accepts connections, the
// others know it, its replicas are in sync, and it again leads the partitions whose preferred leader it is. While
// too few brokers run for a quorum of controllers, nothing can be decided. Then it returns when the process runs,
// and the broker that completes the quorum is waited for.
func (k *Kafka) StartBroker(ctx context.Context, id int32) error {
	if err := k.startBroker(ctx, id); err != nil {
		return fmt.Errorf("starting broker %d: %w", id, err)
	}
	return nil
}

func (k *Kafka) startBroker(ctx context.Context, id int32) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, err := k.find(ctx, id)
	if err != nil {
		return err
	}
	if n.alive() {
		return errors.New("it is running")
	}
	for _, port := range []int{n.clients, n.internal, n.quorum} {
		if accepted, _ := accepts(port); accepted {
			return fmt.Errorf("%w: another program listens on %s", errPortInUse, address(port))
		}
	}
	ctx, release := cluster.During(ctx, k.life)
	defer release()
	if err := k.startNode(n); err != nil {
		return err
	}
	if !k.quorate() {
		return nil
	}
	for _, n := range k.config.nodes {
		if n.alive() && n.broker && !n.process.paused {
			if err := k.awaitPort(ctx, n); err != nil {
				return err
			}
			if err := k.admin.WaitBrokers(ctx, n.number); err != nil {
				return err
			}
			if err := k.confirmOurs(ctx, n); err != nil {
				return err
			}
		}
	}
	return k.restore(ctx, n)
}

// restore lets a broker catch up and lead again. A broker that takes long to catch up continues to do so by itself.
func (k *Kafka) restore(ctx context.Context, n *node) error {
	waiting, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	err := k.admin.WaitInSync(waiting, n.number)
	if err == nil {
		err = k.admin.PreferLeader(waiting, n.number)
	}
	if err != nil {
		k.log.Warn().Err(err).Msgf("broker %d runs, but does not lead again what it led", n.number)
	}
	return context.Cause(ctx)
}

// PauseBroker stops a broker's process (STOP). Its connections stay open, the system accepts new ones, and the
// broker reads nothing until ResumeBroker. After its session, 4 s, the controller transfers its partitions to
// others.
func (k *Kafka) PauseBroker(ctx context.Context, id int32) error {
	return k.breaking(ctx, "pausing", id, func(ctx context.Context, n *node) error {
		p := n.process
		if p.paused {
			return errors.New("it is paused already")
		}
		led := k.led(ctx, n)
		if err := p.signal(procgroup.Stop); err != nil {
			return err
		}
		for range int(dialLimit / poll) {
			if standsStill(p.cmd.Process.Pid) {
				break
			}
			time.Sleep(poll)
		}
		p.paused, p.led = true, led
		return nil
	})
}

// ResumeBroker lets a paused broker continue (CONT), and returns the counted changes for clients: connections with
// requests that it had not read (at least one request each; only on Linux), and leaders that were moved away. It
// returns once the broker is back in the cluster.
func (k *Kafka) ResumeBroker(ctx context.Context, id int32) (changed map[string]int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	n, err := k.find(ctx, id)
	if err == nil {
		var release func()
		ctx, release = cluster.During(ctx, k.life)
		defer release()
		changed, err = k.resume(ctx, n)
	}
	if err != nil {
		return changed, fmt.Errorf("letting broker %d go on: %w", id, err)
	}
	return changed, nil
}

func (k *Kafka) resume(ctx context.Context, n *node) (map[string]int, error) {
	p := n.process
	if !n.alive() || !p.paused {
		return map[string]int{}, nil
	}
	_, unread := connections(n.clients)
	if err := p.signal(procgroup.Continue); err != nil {
		return nil, err
	}
	p.paused = false
	changes := map[string]int{cluster.ChangeRequests: unread}
	if !k.quorate() {
		return cluster.Counted(changes), nil
	}
	if err := k.admin.WaitBrokers(ctx, n.number); err != nil {
		return cluster.Counted(changes), err
	}
	// The broker itself may not yet know the changes from the time when it was paused.
	now, err := k.admin.Partitions(ctx, k.anyBut(n))
	if err != nil {
		return cluster.Counted(changes), err
	}
	moved, leaderless, _ := compare(p.led, now, n.number)
	if changes[cluster.ChangeMoved] = moved; moved+leaderless > 0 {
		err = k.restore(ctx, n)
	}
	return cluster.Counted(changes), err
}

// anyBut returns the number of another running broker, 0 if there is none.
func (k *Kafka) anyBut(but *node) int32 {
	for _, n := range k.config.nodes {
		if n != but && n.broker && n.alive() && !n.process.paused {
			return n.number
		}
	}
	return 0
}

// MoveLeaders transfers the partitions that a broker leads to other replicas; see admin.Admin.
func (k *Kafka) MoveLeaders(ctx context.Context, id int32) (changed map[string]int, err error) {
	err = k.breaking(ctx, "moving the leaders of", id, func(ctx context.Context, _ *node) error {
		changed, err = k.admin.MoveLeaders(ctx, id)
		return err
	})
	return changed, err
}

// ReturnLeaders restores the leaders from before MoveLeaders.
func (k *Kafka) ReturnLeaders(ctx context.Context, id int32) (changed map[string]int, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if _, err := k.find(ctx, id); err != nil {
		return nil, fmt.Errorf("moving the leaders back to broker %d: %w", id, err)
	}
	ctx, release := cluster.During(ctx, k.life)
	defer release()
	return k.admin.ReturnLeaders(ctx, id)
}

// MoveCoordinator moves a group's coordinator to another broker; see admin.Admin.
func (k *Kafka) MoveCoordinator(ctx context.Context, group string) (from, to int32, err error) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return 0, 0, fmt.Errorf("moving the coordinator of group %s: %w", group, ErrClosed)
	}
	ctx, release := cluster.During(ctx, k.life)
	defer release()
	return k.admin.MoveCoordinator(ctx, group)
}

// exercise writes and reads a record, so that a broker has loaded the classes needed for that.
func (k *Kafka) exercise(ctx context.Context, topic string) error {
	client, err := kgo.NewClient(append(k.ClientOptions(), kgo.DefaultProduceTopic(topic), kgo.ConsumeTopics(topic),
		kgo.ConsumerGroup(topic), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))...)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.ProduceSync(ctx, kgo.StringRecord("a record")).FirstErr(); err != nil {
		return err
	}
	for ctx.Err() == nil {
		if fetches := client.PollFetches(ctx); fetches.NumRecords() > 0 {
			return client.CommitUncommittedOffsets(ctx)
		}
	}
	return context.Cause(ctx)
}
