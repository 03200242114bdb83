package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/memconn"
)

// ErrClosed is returned by calls on a cluster that was closed.
var ErrClosed = errors.New("the embedded Kafka is closed")

// Options configure an embedded Kafka.
type Options struct {
	// Brokers is the number of brokers, 1 to cluster.MaxBrokers.
	Brokers int
	// Dir is the folder for logs, groups and producers. It is created. It must not be in use by another cluster.
	Dir string
	// Log receives kfake's warnings and errors.
	Log zerolog.Logger
}

// Kafka is a Kafka inside this process. It is safe for concurrent use.
type Kafka struct {
	kafka *kfake.Cluster
	log   zerolog.Logger
	// gates are the brokers' gates by node id.
	gates  map[int32]*gate
	parked *parkedRequests

	// The keeper runs until stop is closed. Close waits for it.
	keeper sync.WaitGroup
	stop   chan struct{}

	mu     sync.Mutex
	layout layout
	closed bool
}

// Start starts brokers on ports of 127.0.0.1 that the system chooses.
//
// Topics are not created automatically, so that a client with a wrong name sees an error. Groups form at once (kfake
// has no initial rebalance delay). A stopped broker keeps its data: records are written to the files' page cache
// before they are acknowledged and are never discarded. Syncing each write would cost much and protect from nothing
// that a run does, so the files are synced at Close.
func Start(ctx context.Context, options Options) (*Kafka, error) {
	if err := options.check(ctx); err != nil {
		return nil, fmt.Errorf("starting the embedded Kafka: %w", err)
	}
	e := &Kafka{
		log: options.Log, gates: map[int32]*gate{}, layout: newLayout(options.Brokers), parked: newParkedRequests(),
		stop: make(chan struct{}),
	}
	// kfake numbers nodes from 0 and makes the last one the controller. Node 0 is removed while it is empty.
	kafka, err := kfake.NewCluster(
		kfake.NumBrokers(options.Brokers+1),
		kfake.ListenFn(e.listen),
		kfake.ClusterID("dlqbench-embedded"),
		kfake.DataDir(options.Dir),
		kfake.WithLogger(kfakeLog{options.Log}),
		kfake.GroupMinSessionTimeout(minSessionTimeout), kfake.GroupMaxSessionTimeout(maxSessionTimeout),
		kfake.BrokerConfigs(map[string]string{
			// Under KIP-848 and in share groups (KIP-932) the broker sets these. Kafka's own (5 s and 45 s, and a lock
			// of 30 s) are longer than a run's drain.
			"group.consumer.heartbeat.interval.ms": "500",
			"group.consumer.session.timeout.ms":    "6000",
			"group.share.heartbeat.interval.ms":    "500",
			"group.share.session.timeout.ms":       "6000",
			"group.share.record.lock.duration.ms":  "15000",
		}),
	)
	if err != nil {
		e.closeGates()
		return nil, fmt.Errorf("starting the embedded Kafka: %w", err)
	}
	e.kafka = kafka
	kafka.ControlKey(int16(kmsg.JoinGroup), withRebalanceTimeout)
	if err := kafka.RemoveNode(0); err != nil {
		return nil, errors.Join(fmt.Errorf("starting the embedded Kafka: numbering brokers from 1: %w", err), e.Close())
	}
	delete(e.gates, 0)
	e.keeper.Go(func() { e.keep(e.stop) })
	return e, nil
}

// minSessionTimeout lets consumers ask for a shorter session than Kafka's minimum (6 s), so that the partitions of a
// killed consumer are reassigned within a run.
const minSessionTimeout = time.Second

// maxSessionTimeout is the default of Kafka's group.max.session.timeout.ms. kfake's own is shorter and makes it
// refuse members that ask for more.
const maxSessionTimeout = 30 * time.Minute

func (o Options) check(ctx context.Context) error {
	if err := cluster.CheckSize(o.Brokers); err != nil {
		return err
	}
	if o.Dir == "" {
		return errors.New("no directory for its data was given")
	}
	if err := os.MkdirAll(o.Dir, 0o755); err != nil {
		return fmt.Errorf("creating its data directory: %w", err)
	}
	return ctx.Err()
}

// listen gives kfake the listener of its next node. kfake asks for the nodes in order.
func (e *Kafka) listen(string, string) (net.Listener, error) {
	gate, err := newGate(e, e.parked)
	if err != nil {
		return nil, err
	}
	e.gates[int32(len(e.gates))] = gate
	return gate, nil
}

func (e *Kafka) closeGates() {
	for _, gate := range e.gates {
		_ = gate.Close()
	}
}

// Connect connects a client of this process to the broker with an id, without a socket. The error is ECONNREFUSED if it
// is stopped.
func (e *Kafka) Connect(_ context.Context, id int32) (*memconn.Conn, error) {
	return e.gates[id].connect()
}

// Brokers returns all brokers, running or stopped, in order.
func (e *Kafka) Brokers() []cluster.Broker {
	brokers := make([]cluster.Broker, 0, len(e.gates))
	for id := range int32(len(e.gates)) {
		brokers = append(brokers, cluster.Broker{Number: id + 1, ID: id + 1, Address: e.gates[id+1].address.String()})
	}
	return brokers
}

// Bootstrap returns the addresses of all brokers.
func (e *Kafka) Bootstrap() []string {
	var addresses []string
	for _, broker := range e.Brokers() {
		addresses = append(addresses, broker.Address)
	}
	return addresses
}

// ClientOptions returns the options that a client needs to reach the brokers.
func (e *Kafka) ClientOptions() []kgo.Opt { return []kgo.Opt{kgo.SeedBrokers(e.Bootstrap()...)} }

// Describe describes the Kafka for the record of a run.
func (e *Kafka) Describe() string {
	if len(e.gates) == 1 {
		return "embedded, 1 broker"
	}
	return fmt.Sprintf("embedded, %d brokers", len(e.gates))
}

// Controller returns the broker at which clients create topics: the last one. While it is stopped they cannot
// (CreateTopics below can).
func (e *Kafka) Controller() int32 { return int32(len(e.gates)) }

// CoordinatorFor returns the broker that coordinates a group.
func (e *Kafka) CoordinatorFor(group string) (int32, error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return 0, ErrClosed
	}
	node, _, _, code := e.coordinatorOf(group)
	if code != 0 {
		return 0, fmt.Errorf("looking for the coordinator of group %s: every broker is stopped", group)
	}
	return node, nil
}

// CreateTopics creates topics and gives each partition its prescribed leader. It fails at the first topic that
// exists or is ill-defined; the topics before it are created.
func (e *Kafka) CreateTopics(ctx context.Context, topics []cluster.Topic) error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return fmt.Errorf("creating topics: %w", ErrClosed)
	}
	for _, topic := range topics {
		if err := e.create(ctx, topic); err != nil {
			return fmt.Errorf("creating topic %s: %w", topic.Name, err)
		}
	}
	e.frozen(func() {
		e.settleLeaders()
		e.settleCoordinators()
	})
	return nil
}

func (e *Kafka) create(ctx context.Context, topic cluster.Topic) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if topic.Partitions < 1 || topic.Partitions > maxPartitions {
		return fmt.Errorf("%d partitions were asked for: 1 to %d are possible", topic.Partitions, maxPartitions)
	}
	if topic.Broker != 0 && e.gates[topic.Broker] == nil {
		return fmt.Errorf("it is to lie on broker %d: the cluster has brokers 1 to %d", topic.Broker, len(e.gates))
	}
	if err := e.kafka.CreateTopic(topic.Name, int32(topic.Partitions), topic.Configs); err != nil {
		return err
	}
	e.layout.add(topic)
	return nil
}

// maxPartitions of one topic; each has two open files.
const maxPartitions = 1000

// Close stops all brokers and writes their data to Dir. A second call does nothing.
func (e *Kafka) Close() error {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return nil
	}
	e.closed = true
	close(e.stop)
	e.closeGates()
	e.keeper.Wait() // it sends requests to kfake, which answers none once it is closed
	e.kafka.Close()
	return nil
}

// frozen makes changes that clients see all at once: kfake handles no request until it returns. (kfake runs its
// administrative calls even while a control function blocks a request.)
func (e *Kafka) frozen(change func()) {
	done := make(chan struct{})
	e.kafka.Control(func(kmsg.Request) (kmsg.Response, error, bool) { //nolint:revive // the signature is kfake's
		e.kafka.DropControl()
		<-done
		return nil, nil, false
	})
	defer close(done)
	change()
}

// kfakeLog passes kfake's log on.
type kfakeLog struct{ log zerolog.Logger }

// Logf writes warnings and errors; the rest is kfake's debugging.
func (l kfakeLog) Logf(level kfake.LogLevel, format string, args ...any) {
	switch level {
	case kfake.LogLevelError:
		l.log.Error().Msgf("embedded Kafka: "+format, args...)
	case kfake.LogLevelWarn:
		// A broker's warnings (a member fell silent) concern deliberate actions of a run, and are no news for its user.
		l.log.Info().Msgf("embedded Kafka: "+format, args...)
	}
}
