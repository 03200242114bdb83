package docker

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
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

// This file counts what breaking a broker changed for clients. What is counted was seen from outside: in the metadata
// of brokers that answer, and in the system's table of the container's connections. What Kafka has for itself (internal
// topics, its own connections) does not count.

// partition is one of a topic of the clients.
type partition struct {
	topic string
	index int32
}

// duties are what clients have a broker for.
type duties struct {
	leads       []partition
	coordinates []coordinated
}

// coordinated is a group with members, or a transactional id.
type coordinated struct {
	kind int8 // as FindCoordinator has it
	key  string
}

// duties asks what a broker leads and coordinates. A paused broker can't tell what it coordinates: that counts as
// nothing.
func (k *Kafka) duties(ctx context.Context, n *node) (duties, error) {
	var has duties
	asked := k.answering()
	if len(asked) == 0 {
		return has, nil // all stand still: nobody can be asked
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

// leaders returns who leads the clients' partitions, as the first broker that answers knows it; -1 is nobody.
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

// coordinates returns what a broker coordinates that somebody uses.
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

// The kinds of coordinators, as FindCoordinator numbers them.
const (
	coordinatesGroup       = 0
	coordinatesTransaction = 1
)

// settleLimit bounds the wait until the others say that what a stopped broker handed on is led by another: it did so
// before it ended, but they hear of it in their own time.
const settleLimit = time.Second

// since counts what became of the duties of a broker that has ended; with wait, as soon as it is settled.
func (k *Kafka) since(ctx context.Context, n *node, before duties, wait bool) map[string]int {
	if !k.quorate() {
		return map[string]int{cluster.ChangeLeaderless: len(before.leads)} // nobody is there to lead, or to say who does
	}
	settling, cancel := context.WithTimeout(ctx, settleLimit)
	defer cancel()
	changes := k.moved(ctx, n, before)
	for wait && changes[cluster.ChangeMoved] < len(before.leads) && sleep(settling, pollEvery) == nil {
		changes = k.moved(ctx, n, before)
	}
	changes[cluster.ChangeLeaderless] = len(before.leads) - changes[cluster.ChangeMoved]
	return changes
}

// moved counts what others lead and coordinate that was a broker's.
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

// coordinator returns who coordinates something, as the first broker that answers knows it; -1 is nobody.
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

// counted leaves out what did not happen.
func counted(changes map[string]int) map[string]int {
	maps.DeleteFunc(changes, func(_ string, count int) bool { return count <= 0 })
	return changes
}

// request sends one request to one broker, on a connection of its own: one that stayed open would be counted with the
// clients'.
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

// connected returns how many connections clients have to a broker. What dlqbench itself has just closed (it asks a
// broker that was paused whether it is back) is closed towards the broker by the engine's proxy, some time later, so
// that it takes the least of a few looks.
func (k *Kafka) connected(ctx context.Context, n *node) int {
	least, _ := k.sockets(ctx, n)
	for range connectedLooks {
		if least == 0 || sleep(ctx, pollEvery) != nil {
			break
		}
		now, _ := k.sockets(ctx, n)
		least = min(least, now)
	}
	return least
}

// sockets returns how many connections clients have to a broker, and on how many of them (those not accepted yet
// included) something lies that it has not read. Both are 0 where the system does not show the container's connections:
// that of macOS, whose engine is in a virtual machine, does not.
func (k *Kafka) sockets(ctx context.Context, n *node) (open, unread int) {
	found, err := k.engine.ContainerInspect(ctx, n.container.ID, client.ContainerInspectOptions{})
	if err != nil || found.Container.State == nil || found.Container.State.Pid == 0 {
		return 0, 0
	}
	tables := filepath.Join("/proc", strconv.Itoa(found.Container.State.Pid), "net")
	var all socketTable
	for _, name := range []string{"tcp", "tcp6"} {
		file, err := os.Open(filepath.Join(tables, name))
		if err != nil {
			continue
		}
		all.read(file)
		file.Close()
	}
	if !all.isBroker() {
		return 0, 0 // the process of that number is another one: the engine counts in a machine of its own
	}
	return all.open, all.unread
}

// socketTable is what /proc/PID/net/tcp says of a broker.
type socketTable struct {
	listening    map[int]bool
	open, unread int
}

// connectedLooks is how often connections are counted again.
const connectedLooks = 3

// The states of sockets, as the kernel numbers them.
const (
	established = "01"
	closeWait   = "08"
	listening   = "0A"
)

// read adds a table: a heading, and then a line per socket ("sl local remote state tx:rx …", all but sl in
// hexadecimal).
func (t *socketTable) read(table io.Reader) {
	if t.listening == nil {
		t.listening = map[int]bool{}
	}
	lines := bufio.NewScanner(table)
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
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

// isBroker reports whether the table is that of a broker's container.
func (t *socketTable) isBroker() bool {
	return t.listening[clientPort] && t.listening[internalPort] && t.listening[controllerPort]
}
