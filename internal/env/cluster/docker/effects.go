package docker

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"time"

	"github.com/moby/moby/client"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// This file counts the effects that faults in a broker have on clients. It observes them from outside: in the
// metadata of answering brokers, and in the system's table of the container's connections. Kafka's own resources
// (internal topics, its own connections) do not count.

// partition is a partition of one of the clients' topics.
type partition struct {
	topic string
	index int32
}

// duties are the partitions that a broker leads and the groups and transactional ids that it coordinates for
// clients.
type duties struct {
	leads       []partition
	coordinates []coordinated
}

// coordinated is a group with members, or a transactional id.
type coordinated struct {
	kind int8 // as in FindCoordinator
	key  string
}

// duties asks which partitions a broker leads, and what it coordinates. A paused broker cannot answer the latter,
// which then counts as nothing.
func (k *Kafka) duties(ctx context.Context, n *node) (duties, error) {
	var has duties
	asked := k.answering()
	if len(asked) == 0 {
		return has, nil // all are paused: no broker can be asked
	}
	leaders, err := leaders(ctx, asked)
	if err != nil {
		return has, fmt.Errorf("asking what it leads: %w", err)
	}
	for p, leader := range leaders {
		if leader == n.number {
			has.leads = append(has.leads, p)
		}
	}
	if n.paused {
		return has, nil
	}
	if has.coordinates, err = coordinates(ctx, n.address()); err != nil {
		return has, fmt.Errorf("asking what it coordinates: %w", err)
	}
	return has, nil
}

// leaders returns the leaders of the clients' partitions, according to the first broker that answers; -1 stands for
// none.
func leaders(ctx context.Context, asked []*node) (map[partition]int32, error) {
	var errs []error
	for _, n := range asked {
		answer, err := ask(ctx, n.address())
		if err != nil {
			errs = append(errs, fmt.Errorf("broker %d: %w", n.number, err))
			continue
		}
		led := map[partition]int32{}
		for _, topic := range answer.Topics {
			if topic.Topic == nil || topic.IsInternal {
				continue
			}
			for _, p := range topic.Partitions {
				led[partition{*topic.Topic, p.Partition}] = p.Leader
			}
		}
		return led, nil
	}
	return nil, errors.Join(errs...)
}

// coordinates returns the groups and transactional ids in use that a broker coordinates.
func coordinates(ctx context.Context, address string) ([]coordinated, error) {
	var found []coordinated
	groups, err := request[*kmsg.ListGroupsResponse](ctx, address, kmsg.NewPtrListGroupsRequest())
	if err != nil {
		return nil, err
	}
	for _, group := range groups.Groups {
		if group.GroupState != "Empty" && group.GroupState != "Dead" {
			found = append(found, coordinated{coordinatesGroup, group.Group})
		}
	}
	transactions, err := request[*kmsg.ListTransactionsResponse](ctx, address, kmsg.NewPtrListTransactionsRequest())
	if err != nil {
		return nil, err
	}
	for _, transaction := range transactions.TransactionStates {
		if transaction.TransactionState != "Dead" {
			found = append(found, coordinated{coordinatesTransaction, transaction.TransactionalID})
		}
	}
	return found, nil
}

// The coordinator types, with FindCoordinator's numbers.
const (
	coordinatesGroup       = 0
	coordinatesTransaction = 1
)

// settleLimit bounds the wait until the other brokers name new leaders for a stopped broker's partitions. The broker
// handed them over before it ended, but the others learn of it at different times.
const settleLimit = time.Second

// since counts the changes to the duties of a broker that has ended; with wait, once they have settled.
func (k *Kafka) since(ctx context.Context, n *node, before duties, wait bool) map[string]int {
	if !k.quorate() {
		return map[string]int{cluster.ChangeLeaderless: len(before.leads)} // no broker runs that could lead or report
	}
	settling, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	changes := k.moved(ctx, n, before)
	for wait && changes[cluster.ChangeMoved] < len(before.leads) && cluster.Sleep(settling, pollEvery) == nil {
		changes = k.moved(ctx, n, before)
	}
	changes[cluster.ChangeLeaderless] = len(before.leads) - changes[cluster.ChangeMoved]
	return changes
}

// moved counts the duties of a broker that others have taken over.
func (k *Kafka) moved(ctx context.Context, n *node, before duties) map[string]int {
	changes := map[string]int{}
	asked := k.answering()
	if now, err := leaders(ctx, asked); err == nil {
		for _, p := range before.leads {
			if leader, there := now[p]; there && leader >= 0 && leader != n.number {
				changes[cluster.ChangeMoved]++
			}
		}
	}
	for _, key := range before.coordinates {
		if now := coordinator(ctx, asked, key); now >= 0 && now != n.number {
			changes[cluster.ChangeCoordinators]++
		}
	}
	return changes
}

// coordinator returns the coordinator of a group or transactional id, according to the first broker that answers; -1
// stands for none.
func coordinator(ctx context.Context, asked []*node, what coordinated) int32 {
	for _, n := range asked {
		find := kmsg.NewPtrFindCoordinatorRequest()
		find.CoordinatorType, find.CoordinatorKey, find.CoordinatorKeys = what.kind, what.key, []string{what.key}
		answer, err := request[*kmsg.FindCoordinatorResponse](ctx, n.address(), find)
		if err != nil {
			continue
		}
		node, code := answer.NodeID, answer.ErrorCode
		if len(answer.Coordinators) == 1 {
			node, code = answer.Coordinators[0].NodeID, answer.Coordinators[0].ErrorCode
		}
		if code != 0 {
			return -1
		}
		return node
	}
	return -1
}

// request sends one request to one broker, on a separate connection: a connection that stayed open would count as a
// client's.
func request[R kmsg.Response](ctx context.Context, address string, message kmsg.Request) (answer R, err error) {
	ctx, cancel := context.WithTimeout(ctx, answerLimit)
	defer cancel()
	asking, err := kgo.NewClient(kgo.SeedBrokers(address), kgo.DialTimeout(answerLimit), kgo.RetryTimeout(answerLimit))
	if err != nil {
		return answer, err
	}
	defer asking.Close()
	response, err := asking.SeedBrokers()[0].Request(ctx, message)
	if err != nil {
		return answer, err
	}
	answer, ok := response.(R)
	if !ok {
		return answer, errors.New("it answered something else than was asked")
	}
	return answer, nil
}

// connected returns the number of clients' connections to a broker. dlqbench itself closes connections (it asks a
// paused broker whether it is back), and the engine's proxy closes them towards the broker only some time later. So
// connected takes the smallest of several counts.
func (k *Kafka) connected(ctx context.Context, n *node) int {
	least, _ := k.sockets(ctx, n)
	for range connectedLooks {
		if least == 0 || cluster.Sleep(ctx, pollEvery) != nil {
			break
		}
		now, _ := k.sockets(ctx, n)
		least = min(least, now)
	}
	return least
}

// sockets returns the number of clients' connections to a broker, and how many of them (including those not accepted
// yet) hold unread data. Both are 0 if the system does not show the container's connections. On macOS it does not,
// because the engine runs in a virtual machine.
func (k *Kafka) sockets(ctx context.Context, n *node) (open, unread int) {
	found, err := k.engine.ContainerInspect(ctx, n.container.ID, client.ContainerInspectOptions{})
	if err != nil || found.Container.State == nil || found.Container.State.Pid == 0 {
		return 0, 0
	}
	tables := filepath.Join("/proc", strconv.Itoa(found.Container.State.Pid), "net")
	var all socketTable
	for _, name := range []string{"tcp", "tcp6"} {
		table, err := os.ReadFile(filepath.Join(tables, name))
		if err != nil {
			continue
		}
		all.read(string(table))
	}
	if !all.isBroker() {
		return 0, 0 // the process with that number is another one: the engine numbers processes in its own machine
	}
	return all.open, all.unread
}

// socketTable is the content of /proc/PID/net/tcp for a broker.
type socketTable struct {
	listening    map[int]bool
	open, unread int
}

// connectedLooks is the number of counts.
const connectedLooks = 3

// The states of sockets, with the kernel's numbers.
const (
	established = "01"
	closeWait   = "08"
	listening   = "0A"
)

// read adds a table: a heading, then a line per socket ("sl local remote state tx:rx …", all but sl in hexadecimal).
func (t *socketTable) read(table string) {
	if t.listening == nil {
		t.listening = map[int]bool{}
	}
	for line := range strings.Lines(table) {
		fields := strings.Fields(line)
		if len(fields) < 5 {
			continue
		}
		_, portText, _ := strings.Cut(fields[1], ":")
		port, err := strconv.ParseUint(portText, 16, 16)
		if err != nil {
			continue
		}
		_, queue, _ := strings.Cut(fields[4], ":")
		waiting, err := strconv.ParseUint(queue, 16, 64)
		if err != nil {
			continue
		}
		switch state := fields[3]; {
		case state == listening:
			t.listening[int(port)] = true
		case port == clientPort && (state == established || state == closeWait):
			if state == established {
				t.open++
			}
			if waiting > 0 {
				t.unread++
			}
		}
	}
}

// isBroker reports whether the table belongs to a broker's container.
func (t *socketTable) isBroker() bool {
	return t.listening[clientPort] && t.listening[internalPort] && t.listening[controllerPort]
}
