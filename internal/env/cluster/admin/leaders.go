package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// MoveLeaders transfers the partitions that a broker leads to their next in-sync replica, and returns their number.
// Partitions that only this broker holds stay. The broker continues as a follower. Kafka's own topics stay: see
// MoveCoordinator.
func (a *Admin) MoveLeaders(ctx context.Context, number int32) (changed map[string]int, err error) {
	defer func() { err = wrap(err, "moving the leaders off broker %d", number) }()
	if len(a.brokers) == 1 {
		return nil, errors.New("it is the only one, so there is no other to lead them")
	}
	partitions, err := a.Partitions(ctx, 0)
	if err != nil {
		return nil, err
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	assignments := map[partitionID][]int32{}
	for _, p := range partitions {
		to := slices.IndexFunc(p.Replicas, func(other int32) bool { return other != number && slices.Contains(p.ISR, other) })
		if p.Leader != number || to < 0 {
			continue
		}
		if a.homes[p.id()] == nil {
			a.homes[p.id()] = p.Replicas
		}
		assignments[p.id()] = rotated(p.Replicas, p.Replicas[to])
	}
	return a.lead(ctx, assignments)
}

// ReturnLeaders undoes MoveLeaders: the broker again leads the partitions whose preferred leader it was. It returns
// their number.
func (a *Admin) ReturnLeaders(ctx context.Context, number int32) (changed map[string]int, err error) {
	defer func() { err = wrap(err, "moving the leaders back to broker %d", number) }()
	a.mu.Lock()
	defer a.mu.Unlock()
	assignments := map[partitionID][]int32{}
	for id, home := range a.homes {
		if home[0] == number {
			assignments[id] = home
		}
	}
	changed, err = a.lead(ctx, assignments)
	if err == nil {
		maps.DeleteFunc(a.homes, func(id partitionID, _ []int32) bool { return assignments[id] != nil })
	}
	return changed, err
}

// lead makes the first replica of each partition its leader, and returns the changes.
func (a *Admin) lead(ctx context.Context, assignments map[partitionID][]int32) (map[string]int, error) {
	if len(assignments) == 0 {
		return map[string]int{}, nil
	}
	before, err := a.leadersOf(ctx, assignments)
	if err == nil {
		err = a.reassign(ctx, assignments)
	}
	if err == nil {
		err = a.elect(ctx, assignments)
	}
	if err != nil {
		return nil, err
	}
	moved := 0
	for id, replicas := range assignments {
		if before[id] != replicas[0] {
			moved++
		}
	}
	return cluster.Counted(map[string]int{cluster.ChangeMoved: moved}), nil
}

// PreferLeader makes a broker the leader of the partitions whose preferred leader it is, Kafka's own included. Only
// the controller reliably knows the current leaders and in-sync replicas: a broker that is asked soon after another
// has returned may still describe the time before that one left.
func (a *Admin) PreferLeader(ctx context.Context, number int32) error {
	a.mu.Lock()
	defer a.mu.Unlock()
	partitions, err := a.partitionsOf(ctx, 0, slices.Sorted(maps.Keys(a.topics)))
	if err != nil {
		return wrap(err, "giving broker %d its leaders back", number)
	}
	assignments := map[partitionID][]int32{}
	for _, p := range partitions {
		if p.Replicas[0] == number {
			assignments[p.id()] = p.Replicas
		}
	}
	var refused error
	err = wait(ctx, "its election", func(ctx context.Context) string {
		if refused = a.elect(ctx, assignments); isRefusal(refused, kerr.PreferredLeaderNotAvailable) {
			return refused.Error()
		}
		return ""
	})
	return wrap(cmp.Or(err, refused), "giving broker %d its leaders back", number)
}

// WaitInSync returns once a broker is in sync with every partition that it holds as a replica, Kafka's own included.
func (a *Admin) WaitInSync(ctx context.Context, number int32) error {
	a.mu.Lock()
	names := slices.Sorted(maps.Keys(a.topics))
	a.mu.Unlock()
	return wait(ctx, fmt.Sprintf("broker %d to be in sync", number), func(ctx context.Context) string {
		partitions, err := a.partitionsOf(ctx, 0, names)
		if err != nil {
			return err.Error()
		}
		behind := 0
		for _, p := range partitions {
			if slices.Contains(p.Replicas, number) && !slices.Contains(p.ISR, number) {
				behind++
			}
		}
		if behind > 0 {
			return fmt.Sprintf("it is behind in %d partitions", behind)
		}
		return ""
	})
}

// reassign gives partitions other replicas, or the same in another order. It returns once they have these replicas
// and all are in sync.
func (a *Admin) reassign(ctx context.Context, assignments map[partitionID][]int32) error {
	var request kadm.AlterPartitionAssignmentsReq
	for id, replicas := range assignments {
		request.Assign(id.topic, id.partition, a.ids(replicas))
	}
	bounded, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	answers, err := a.requests.AlterPartitionAssignments(bounded, request)
	if err != nil {
		return fmt.Errorf("reassigning partitions: %w", err)
	}
	for _, one := range answers.Sorted() {
		if one.Err != nil {
			return fmt.Errorf("reassigning partition %d of topic %s: %w", one.Partition, one.Topic,
				&kadm.ErrAndMessage{Err: one.Err, ErrMessage: one.ErrMessage})
		}
	}
	return a.waitFor(ctx, "partitions to be reassigned", assignments, func(p Partition, replicas []int32) bool {
		return slices.Equal(p.Replicas, replicas)
	})
}

// elect makes the first replica of each partition its leader, and returns once every broker knows it.
func (a *Admin) elect(ctx context.Context, assignments map[partitionID][]int32) error {
	if len(assignments) == 0 {
		return nil
	}
	bounded, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	answers, err := a.requests.ElectLeaders(bounded, kadm.ElectPreferredReplica, partitionsIn(assignments))
	if err != nil {
		return fmt.Errorf("electing the preferred leaders: %w", err)
	}
	for topic, partitions := range answers {
		for partition, one := range partitions {
			if one.Err != nil && !isRefusal(one.Err, kerr.ElectionNotNeeded) {
				return fmt.Errorf("electing the preferred leader of partition %d of topic %s: %w", partition, topic,
					&kadm.ErrAndMessage{Err: one.Err, ErrMessage: one.ErrMessage})
			}
		}
	}
	return a.waitFor(ctx, "leaders to be elected", assignments, func(p Partition, replicas []int32) bool {
		return p.Leader == replicas[0]
	})
}

// waitFor waits until every running broker reports the partitions in the expected state. A broker that does not
// answer (it is paused, and its absence has not been detected yet) cannot mislead a client either.
func (a *Admin) waitFor(ctx context.Context, what string, assignments map[partitionID][]int32,
	good func(Partition, []int32) bool) error {
	names := partitionsIn(assignments).Topics()
	return wait(ctx, what, func(ctx context.Context) string {
		up, err := a.metadata(ctx, 0, []string{})
		if err != nil {
			return err.Error()
		}
		for _, broker := range up.Brokers {
			partitions, err := a.partitionsOf(ctx, a.number(broker.NodeID), names)
			if err != nil {
				continue
			}
			for _, p := range partitions {
				if replicas := assignments[p.id()]; replicas != nil && !good(p, replicas) {
					return fmt.Sprintf("partition %d of topic %s is led by broker %d and lies on %v, and belongs on %v", p.Partition,
						p.Topic, p.Leader, p.Replicas, replicas)
				}
			}
		}
		return ""
	})
}

func (a *Admin) leadersOf(ctx context.Context, assignments map[partitionID][]int32) (map[partitionID]int32, error) {
	partitions, err := a.partitionsOf(ctx, 0, partitionsIn(assignments).Topics())
	if err != nil {
		return nil, err
	}
	leaders := map[partitionID]int32{}
	for _, p := range partitions {
		leaders[p.id()] = p.Leader
	}
	return leaders, nil
}

func partitionsIn(assignments map[partitionID][]int32) kadm.TopicsSet {
	partitions := kadm.TopicsSet{}
	for id := range assignments {
		partitions.Add(id.topic, id.partition)
	}
	return partitions
}

func wrap(err error, doing string, args ...any) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf(doing+": %w", append(args, err)...)
}
