package cluster

import (
	"context"
	"errors"
	"fmt"
	"slices"
)

// This file stops and starts single brokers.

// StopBroker takes a broker off the net and returns once its port refuses connections. Its connections are closed; its
// partitions are led by their next replica, its groups coordinated elsewhere. What only this broker holds has no leader until
// it is back. Nothing that was acknowledged is lost. A request that was under way may have been carried out, its answer is
// lost, as with a real broker.
func (e *Embedded) StopBroker(ctx context.Context, id int32) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	gate, err := e.find(ctx, id)
	if err == nil && !e.layout.alive[id] {
		err = errors.New("it is stopped already")
	}
	if err != nil {
		return fmt.Errorf("stopping broker %d: %w", id, err)
	}
	e.frozen(func() {
		// Nobody can connect before the others say that the broker is gone, and its connections end before a client
		// of another broker can hear of it: no client finds both a new leader and an old one that still answers.
		gate.shut()
		e.layout.alive[id] = false
		e.settleLeaders()
		e.settleCoordinators()
		gate.drop()
	})
	refused, err := gate.refuses()
	if err == nil && !refused {
		err = errors.New("its port still accepts connections")
	}
	if err != nil {
		return fmt.Errorf("confirming that broker %d at %s is stopped: %w", id, gate.address, err)
	}
	return nil
}

// StartBroker brings a stopped broker back on its port, with what it held, and returns once the port accepts connections. It
// leads its partitions and coordinates its groups again.
func (e *Embedded) StartBroker(ctx context.Context, id int32) error {
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

// find returns a broker's gate. A call that was interrupted ends here: what it does after is quick, and must not be left half
// done.
func (e *Embedded) find(ctx context.Context, id int32) (*gate, error) {
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

// settleLeaders gives every partition the leader it belongs to. Partitions that are where they belong are not touched: their
// clients notice nothing.
func (e *Embedded) settleLeaders() {
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
				e.log.Error().Err(err).Str("topic", name).Int32("partition", partition).Int32("broker", belongs).Msg("moving a leader")
			}
		}
	}
}

// rehashes is how often coordinators are dealt anew until all lie where they belong. kfake deals them by a hash, all at once;
// with nine brokers and three groups one deal in 729 is right.
const rehashes = 4000

// settleCoordinators deals coordinators anew until those that clients use lie where they belong. If that can't be had, it takes
// the next deal in which all of them can be reached.
func (e *Embedded) settleCoordinators() {
	may := e.layout.mayCoordinate()
	if len(may) == 0 {
		return // every broker is stopped
	}
	for attempt := range rehashes {
		if now, ok := e.dealt(may, attempt < rehashes*3/4); ok {
			for key, node := range now {
				home := e.layout.coordinators[key].home
				if home == 0 {
					home = node
				}
				e.layout.coordinators[key] = coordinator{home: home, now: node}
			}
			return
		}
		e.kafka.RehashCoordinators()
	}
	e.log.Warn().Int("groups", len(e.layout.coordinators)).Msg("embedded Kafka: some group coordinators are on stopped brokers")
}

// dealt returns where coordinators are, and whether they belong there.
func (e *Embedded) dealt(may []int32, strict bool) (map[string]int32, bool) {
	now := make(map[string]int32, len(e.layout.coordinators))
	for key := range e.layout.coordinators {
		now[key] = e.kafka.CoordinatorFor(key)
		if !slices.Contains(may, now[key]) || !e.layout.belongs(key, now[key], may, strict) {
			return nil, false
		}
	}
	return now, true
}
