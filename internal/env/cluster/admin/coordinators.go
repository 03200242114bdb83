package admin

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"unicode/utf16"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// Coordinated contains the groups and transactional ids that a broker coordinates.
type Coordinated struct{ Groups, Transactions []string }

// Coordinated returns the groups and transactional ids that a broker coordinates now, according to the broker
// itself.
func (a *Admin) Coordinated(ctx context.Context, number int32) (Coordinated, error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	var found Coordinated
	broker := a.client.Broker(int(a.id(number)))
	groups, err := kmsg.NewPtrListGroupsRequest().RequestWith(ctx, broker)
	if err == nil {
		err = refusal(groups.ErrorCode, nil)
	}
	if err != nil {
		return found, fmt.Errorf("asking broker %d for its groups: %w", number, err)
	}
	for _, group := range groups.Groups {
		found.Groups = append(found.Groups, group.Group)
	}
	transactions, err := kmsg.NewPtrListTransactionsRequest().RequestWith(ctx, broker)
	if err == nil {
		err = refusal(transactions.ErrorCode, nil)
	}
	if err != nil {
		return found, fmt.Errorf("asking broker %d for its transactions: %w", number, err)
	}
	for _, transaction := range transactions.TransactionStates {
		found.Transactions = append(found.Transactions, transaction.TransactionalID)
	}
	return found, nil
}

// MovedFrom counts how many of these another broker coordinates now.
func (a *Admin) MovedFrom(ctx context.Context, number int32, what Coordinated) (moved int, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	for _, found := range []kadm.FindCoordinatorResponses{
		a.requests.FindGroupCoordinators(ctx, what.Groups...), a.requests.FindTxnCoordinators(ctx, what.Transactions...),
	} {
		for _, one := range found {
			now, err := a.coordinating(one)
			switch {
			case isRefusal(err, kerr.CoordinatorNotAvailable):
			case err != nil:
				return moved, err
			case now != number:
				moved++
			}
		}
	}
	return moved, nil
}

// Coordinator returns the broker that coordinates a group.
func (a *Admin) Coordinator(ctx context.Context, group string) (number int32, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	return a.coordinating(a.requests.FindGroupCoordinators(ctx, group)[group])
}

func (a *Admin) coordinating(found kadm.FindCoordinatorResponse) (number int32, err error) {
	if found.Err != nil {
		return 0, fmt.Errorf("looking for the coordinator of %s: %w", found.Name,
			&kadm.ErrAndMessage{Err: found.Err, ErrMessage: found.ErrMessage})
	}
	return a.number(found.NodeID), nil
}

// MoveCoordinator moves a group to the next broker that may coordinate groups, where it stays, and returns both
// brokers. To do so it moves the leader of the partition of __consumer_offsets that contains the group, and with it
// every other group of that partition. It returns once the new broker answers for the group. It fails if there is no
// other such broker.
func (a *Admin) MoveCoordinator(ctx context.Context, group string) (from, to int32, err error) {
	defer func() { err = wrap(err, "moving the coordinator of group %s", group) }()
	a.mu.Lock()
	defer a.mu.Unlock()
	partitions, err := a.partitionsOf(ctx, 0, []string{offsetsTopic})
	if err != nil {
		return 0, 0, err
	}
	at := partitions[groupPartition(group, len(partitions))]
	to = next(at, Shared(a.numbers(), maps.Values(a.topics)))
	switch {
	case at.Leader == 0:
		return 0, 0, errors.New("it has none now: the brokers that hold it are down")
	case to == 0:
		return 0, 0, fmt.Errorf("no broker but %d may coordinate it: the others are down or behind, or hold a topic alone",
			at.Leader)
	}
	assignments := map[partitionID][]int32{at.id(): rotated(at.Replicas, to)}
	if err := a.reassign(ctx, assignments); err != nil {
		return 0, 0, err
	}
	if err := a.elect(ctx, assignments); err != nil {
		return 0, 0, err
	}
	return at.Leader, to, a.waitLoaded(ctx, group, to)
}

// next returns the in-sync replica after the leader that may coordinate, cyclically in the order of the numbers; 0
// if there is none.
func next(at Partition, may []int32) int32 {
	var after, before int32
	for _, number := range slices.Sorted(slices.Values(at.ISR)) {
		switch {
		case !slices.Contains(may, number) || number == at.Leader:
		case number > at.Leader && after == 0:
			after = number
		case before == 0:
			before = number
		}
	}
	return cmp.Or(after, before)
}

// waitLoaded waits until a broker answers for a group, that is, until it has loaded the group's state.
func (a *Admin) waitLoaded(ctx context.Context, group string, number int32) error {
	return wait(ctx, fmt.Sprintf("broker %d to take over", number), func(ctx context.Context) string {
		if now, err := a.Coordinator(ctx, group); err != nil || now != number {
			return fmt.Sprintf("the coordinator is broker %d (%v)", now, err)
		}
		bounded, cancel := context.WithTimeout(ctx, answerLimit)
		defer cancel()
		request := kmsg.NewPtrOffsetFetchRequest()
		request.Group = group
		asked := kmsg.NewOffsetFetchRequestGroup()
		asked.Group = group
		request.Groups = append(request.Groups, asked)
		response, err := request.RequestWith(bounded, a.client.Broker(int(a.id(number))))
		if err != nil {
			return err.Error()
		}
		code := response.ErrorCode
		if len(response.Groups) == 1 {
			code = response.Groups[0].ErrorCode
		}
		if err := refusal(code, nil); isRefusal(err, kerr.CoordinatorLoadInProgress, kerr.NotCoordinator,
			kerr.CoordinatorNotAvailable) {
			return err.Error()
		}
		return ""
	})
}

// groupPartition returns the partition of __consumer_offsets that contains a group, as computed by Kafka:
// Utils.abs(group.hashCode()) % partitions, where the absolute value of the smallest integer is 0.
func groupPartition(group string, partitions int) int {
	var hash int32
	for _, unit := range utf16.Encode([]rune(group)) {
		hash = 31*hash + int32(unit)
	}
	switch {
	case hash == math.MinInt32:
		return 0
	case hash < 0:
		hash = -hash
	}
	return int(hash) % partitions
}
