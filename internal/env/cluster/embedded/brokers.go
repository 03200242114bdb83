package embedded

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// This file injects faults into single brokers: it stops, starts and pauses them, and moves the partitions that they
// lead and the groups that they coordinate.

// StopBroker takes a broker off the net and returns once its port refuses connections. Its partitions are led by
// their next replica, its groups are coordinated elsewhere, and then its connections are closed. Partitions that
// only this broker holds have no leader until it returns. No acknowledged record is lost. As with a real broker, a
// request in progress may have been carried out although its answer is lost. It returns the counted changes, none if
// no client used the broker.
func (e *Kafka) StopBroker(ctx context.Context, id int32) (changed map[string]int, err error) {
	changed, err = e.takeDown(ctx, id, false)
	if err != nil {
		return nil, fmt.Errorf("stopping broker %d: %w", id, err)
	}
	return changed, nil
}

// KillBroker is StopBroker without an orderly shutdown: clients first notice that their connections are reset. (The
// other brokers know the loss at once; a real controller takes its session timeout to detect it.)
func (e *Kafka) KillBroker(ctx context.Context, id int32) (changed map[string]int, err error) {
	changed, err = e.takeDown(ctx, id, true)
	if err != nil {
		return nil, fmt.Errorf("killing broker %d: %w", id, err)
	}
	return changed, nil
}

func (e *Kafka) takeDown(ctx context.Context, id int32, reset bool) (map[string]int, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	gate, err := e.findAlive(ctx, id)
	if err != nil {
		return nil, err
	}
	var ended, moved, coordinators int
	e.frozen(func() {
		// The port refuses connections before the other brokers report the loss, and the broker's connections end
		// before a client of another broker can learn of it. So no client finds both a new leader and an old one that
		// still answers.
		gate.shut()
		if reset {
			ended = gate.drop(true)
		}
		e.layout.alive[id] = false
		moved = e.settleLeaders()
		coordinators = e.settleCoordinators()
		ended += gate.drop(false)
	})
	if err := gate.becomesShut(ctx); err != nil {
		return nil, fmt.Errorf("confirming that it is off the net at %s: %w", gate.address, err)
	}
	end := cluster.ChangeClosed
	if reset {
		end = cluster.ChangeReset
	}
	return cluster.Counted(map[string]int{end: ended, cluster.ChangeMoved: moved,
		cluster.ChangeLeaderless: e.layout.leads(id), cluster.ChangeCoordinators: coordinators}), nil
}

// StartBroker restores a stopped broker on its port, with its data. It returns once the port accepts connections.
// The broker leads its partitions and coordinates its groups again.
func (e *Kafka) StartBroker(ctx context.Context, id int32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	gate, err := e.find(ctx, id)
	if err == nil && e.layout.alive[id] {
		err = errors.New("it is running")
	}
	if err == nil {
		err = gate.open(ctx)
	}
	if err != nil {
		return fmt.Errorf("starting broker %d: %w", id, err)
	}
	e.frozen(func() {
		e.layout.alive[id] = true
		e.settleLeaders()
		e.settleCoordinators()
	})
	refused, err := gate.refuses()
	if err == nil && refused {
		err = errors.New("its port refuses connections")
	}
	if err != nil {
		return fmt.Errorf("confirming that broker %d at %s is running: %w", id, gate.address, err)
	}
	return nil
}

// PauseBroker pauses a broker. Its connections stay open, new ones are accepted, and no request to it is read or
// answered until ResumeBroker. Requests that it had read before are carried out, but their answers are held too. The
// other brokers do not notice: it continues to lead and coordinate, and sessions expire meanwhile.
func (e *Kafka) PauseBroker(ctx context.Context, id int32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	gate, err := e.findAlive(ctx, id)
	if err == nil && !gate.pause() {
		err = errors.New("it is paused already")
	}
	if err != nil {
		return fmt.Errorf("pausing broker %d: %w", id, err)
	}
	return nil
}

// ResumeBroker lets a paused broker continue with all requests that it was sent, and returns their number.
func (e *Kafka) ResumeBroker(ctx context.Context, id int32) (changed map[string]int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	gate, err := e.find(ctx, id)
	if err != nil {
		return nil, fmt.Errorf("letting broker %d go on: %w", id, err)
	}
	requests, answers := gate.resume()
	return cluster.Counted(map[string]int{cluster.ChangeRequests: requests, cluster.ChangeAnswers: answers}), nil
}

// MoveLeaders transfers the partitions that a broker leads to other replicas, as long as other replicas are alive.
// The broker continues as a follower. Partitions that only this broker holds stay. It returns the counted changes.
func (e *Kafka) MoveLeaders(ctx context.Context, id int32) (changed map[string]int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	_, err = e.findAlive(ctx, id)
	if err == nil && len(e.gates) == 1 {
		err = errors.New("it is the only one, so there is no other to lead them")
	}
	if err != nil {
		return nil, fmt.Errorf("moving the leaders off broker %d: %w", id, err)
	}
	return e.demote(id, true), nil
}

// ReturnLeaders restores the leaders from before MoveLeaders.
func (e *Kafka) ReturnLeaders(ctx context.Context, id int32) (changed map[string]int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if _, err := e.find(ctx, id); err != nil {
		return nil, fmt.Errorf("moving the leaders back to broker %d: %w", id, err)
	}
	return e.demote(id, false), nil
}

func (e *Kafka) demote(id int32, on bool) map[string]int {
	var moved int
	e.frozen(func() {
		e.layout.demoted[id] = on
		moved = e.settleLeaders()
	})
	return cluster.Counted(map[string]int{cluster.ChangeMoved: moved})
}

// MoveCoordinator moves a group to the next broker that may coordinate groups, where it stays, and returns both
// brokers. The group's state moves with it; its members receive NOT_COORDINATOR and look for the new coordinator. It
// fails if there is no other such broker.
func (e *Kafka) MoveCoordinator(ctx context.Context, group string) (from, to int32, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	defer func() {
		if err != nil {
			err = fmt.Errorf("moving the coordinator of group %s: %w", group, err)
		}
	}()
	if e.closed {
		return 0, 0, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return 0, 0, err
	}
	from, _, _, code := e.coordinatorOf(group)
	may := e.layout.mayCoordinate()
	switch {
	case code != 0:
		return 0, 0, errors.New("every broker is stopped")
	case len(may) < 2:
		return 0, 0, fmt.Errorf("no broker but %d may coordinate groups: the others are stopped, or hold the DLQ topic alone",
			from)
	}
	to = may[(slices.Index(may, from)+1)%len(may)]
	e.frozen(func() {
		e.layout.coordinators[group] = coordinator{home: to, now: to}
		e.settleCoordinators()
	})
	if now := e.kafka.CoordinatorFor(group); now != to {
		return 0, 0, fmt.Errorf("it is broker %d, and broker %d was wanted", now, to)
	}
	return from, to, nil
}

// findAlive returns the gate of a broker that is not stopped.
func (e *Kafka) findAlive(ctx context.Context, id int32) (*gate, error) {
	gate, err := e.find(ctx, id)
	if err == nil && !e.layout.alive[id] {
		err = errors.New("it is stopped already")
	}
	return gate, err
}

// find returns a broker's gate. It fails if the call was interrupted. The caller's later steps are short and must
// not be left incomplete.
func (e *Kafka) find(ctx context.Context, id int32) (*gate, error) {
	if e.closed {
		return nil, ErrClosed
	}
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	gate := e.gates[id]
	if gate == nil {
		return nil, fmt.Errorf("the cluster has brokers 1 to %d", len(e.gates))
	}
	return gate, nil
}

// settleLeaders gives every partition its prescribed leader. It does not touch partitions that have it already, so
// their clients notice nothing. It returns the number of moved partitions.
func (e *Kafka) settleLeaders() (moved int) {
	for name, table := range e.layout.topics {
		for partition := range int32(len(table.homes)) {
			belongs, leads := e.layout.leader(name, partition), e.kafka.LeaderFor(name, partition)
			if leads < 0 {
				delete(e.layout.topics, name) // a client has deleted it
				break
			}
			if belongs == leads {
				continue
			}
			if err := e.kafka.MoveTopicPartition(name, partition, belongs); err != nil {
				e.log.Error().Err(err).Str("topic", name).Int32("partition", partition).Int32("broker",
					belongs).Msg("moving a leader")
				continue
			}
			moved++
		}
	}
	return moved
}

// rehashes is the maximum number of attempts to redistribute coordinators until all are in their prescribed places.
// kfake distributes them by a hash, all at once. With nine brokers and three groups, one distribution in 729 is
// right.
const rehashes = 4000

// settleCoordinators redistributes coordinators until those that clients use are in their prescribed places. If that
// is not possible, it takes the next distribution in which all of them can be reached. It returns the number of
// moved coordinators.
func (e *Kafka) settleCoordinators() (moved int) {
	may := e.layout.mayCoordinate()
	if len(may) == 0 {
		return 0 // every broker is stopped
	}
	before := maps.Clone(e.layout.coordinators)
	for attempt := range rehashes {
		if now, ok := e.dealt(may, attempt < rehashes*3/4); ok {
			for key, node := range now {
				home := cmp.Or(e.layout.coordinators[key].home, node)
				if before[key].now != node {
					moved++
				}
				e.layout.coordinators[key] = coordinator{home: home, now: node}
			}
			return moved
		}
		e.kafka.RehashCoordinators()
	}
	e.log.Warn().Int("groups", len(e.layout.coordinators)).Msg(
		"embedded Kafka: some group coordinators are on stopped brokers")
	return 0
}

// dealt returns the places of coordinators, and whether these are the prescribed ones.
func (e *Kafka) dealt(may []int32, strict bool) (map[string]int32, bool) {
	now := make(map[string]int32, len(e.layout.coordinators))
	for key := range e.layout.coordinators {
		now[key] = e.kafka.CoordinatorFor(key)
		if !slices.Contains(may, now[key]) || !e.layout.belongs(key, now[key], may, strict) {
			return nil, false
		}
	}
	return now, true
}
