package docker

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/testcontainers/testcontainers-go"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
	"github.com/dlqbench/dlqbench/internal/env/engine"
)

// DefaultImage is the image used when none is named.
const DefaultImage = "apache/kafka:4.4.0"

const (
	// loopback is the only address at which brokers are published.
	loopback = "127.0.0.1"
	// startLimit bounds the start of brokers once the image is present. Three JVMs on a busy machine took 95 s. A
	// broker that has ended is not waited for.
	startLimit = 5 * time.Minute
	// closeLimit bounds how long the engine may take to remove everything.
	closeLimit = 10 * time.Second
)

// ErrClosed is returned by calls on a cluster that was closed.
var ErrClosed = errors.New("the cluster of containers is closed")

// Options configure a cluster of containers.
type Options struct {
	// Brokers is the number of brokers, 1 to cluster.MaxBrokers.
	Brokers int
	// Image is a container image of Apache Kafka that is configured like apache/kafka, by KAFKA_ variables; default
	// DefaultImage. It is pulled if the engine does not have it.
	Image string
	// RunID is part of the label and name of everything that is started. It must not be in use by another cluster, and
	// may contain only letters, digits, '_', '.' and '-'.
	RunID string
	// Log receives noteworthy events.
	Log zerolog.Logger

	environment map[string]string // replaces that of settings
}

// Kafka is a cluster of containers. It is safe for concurrent use.
type Kafka struct {
	options Options
	engine  *testcontainers.DockerClient
	network *testcontainers.DockerNetwork
	client  *kgo.Client // the admin's
	dialer  *dialer
	admin   *admin.Admin

	// ended ends when the cluster is closed; waits for brokers then give up.
	ended context.Context
	end   context.CancelCauseFunc

	mu     sync.Mutex
	nodes  []*node // by number - 1
	closed bool
}

// node is one broker.
type node struct {
	number    int32
	port      int // on the host
	container *testcontainers.DockerContainer
	alive     bool // started, and not stopped or killed
	paused    bool
	duties    duties // what it led and coordinated when it was paused
	returns   bool   // its leaders are to be restored when it is started
}

func (n *node) address() string { return net.JoinHostPort(loopback, strconv.Itoa(n.port)) }

// Start starts brokers in containers. It returns when each of them says that all are present. Without an engine the
// error is engine.ErrNoEngine, within two seconds. If it fails, nothing is left behind.
func Start(ctx context.Context, options Options) (*Kafka, error) {
	options.Image = cmp.Or(options.Image, DefaultImage)
	if err := options.check(); err != nil {
		return nil, fmt.Errorf("starting Kafka in containers: %w", err)
	}
	found, err := engine.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting Kafka in containers: %w", err)
	}
	k := &Kafka{options: options, engine: found}
	k.ended, k.end = context.WithCancelCause(context.Background())
	if err := k.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Kafka in containers: %w", err), k.Close())
	}
	return k, nil
}

func (o Options) check() error {
	if err := cluster.CheckSize(o.Brokers); err != nil {
		return err
	}
	if o.RunID == "" || strings.Trim(o.RunID, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_.-") != "" {
		return fmt.Errorf("the run id %q is to name containers: only letters, digits, '_', '.' and '-' are possible", o.RunID)
	}
	return nil
}

func (k *Kafka) start(ctx context.Context) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if err := engine.HaveImage(ctx, k.engine, k.options.Image, k.options.Log); err != nil {
		return err
	}
	ctx, cancel := context.WithTimeout(ctx, startLimit)
	defer cancel()
	if err := k.makeNetwork(ctx); err != nil {
		return err
	}
	clusterID := cluster.NewID()
	for number := range int32(k.options.Brokers) {
		k.nodes = append(k.nodes, &node{number: number + 1})
	}
	var starting sync.WaitGroup
	errs := make([]error, len(k.nodes))
	for i, n := range k.nodes {
		starting.Go(func() { errs[i] = k.run(ctx, n, clusterID) })
	}
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		return err
	}
	if err := k.waitReady(ctx, k.nodes); err != nil {
		return err
	}
	if err := k.openAdmin(); err != nil {
		return err
	}
	return k.allowShareGroups(ctx)
}

// Brokers returns all brokers, running or stopped, in order.
func (k *Kafka) Brokers() []cluster.Broker {
	brokers := make([]cluster.Broker, 0, len(k.nodes))
	for _, n := range k.nodes {
		brokers = append(brokers, cluster.Broker{Number: n.number, ID: n.number, Address: n.address()})
	}
	return brokers
}

// ClientOptions returns the options that a client needs to reach the cluster.
func (k *Kafka) ClientOptions() []kgo.Opt {
	var addresses []string
	for _, n := range k.nodes {
		addresses = append(addresses, n.address())
	}
	return []kgo.Opt{kgo.SeedBrokers(addresses...)}
}

// Describe names the cluster for the record of a run.
func (k *Kafka) Describe() string {
	plural := "s"
	if len(k.nodes) == 1 {
		plural = ""
	}
	return fmt.Sprintf("docker, %s, %d broker%s", withoutRegistry(k.options.Image), len(k.nodes), plural)
}

// withoutRegistry removes the registry from an image's name, because it may be a private host.
func withoutRegistry(image string) string {
	host, rest, found := strings.Cut(image, "/")
	if found && (strings.ContainsAny(host, ".:") || host == "localhost") {
		return rest
	}
	return image
}

// Close removes the containers and the network. Closing again does nothing.
func (k *Kafka) Close() error {
	k.end(ErrClosed)
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	ctx, cancel := context.WithTimeout(context.Background(), closeLimit)
	defer cancel()
	if k.client != nil {
		k.client.Close()
	}
	_, err := engine.RemoveAll(ctx, k.engine.Client, k.options.RunID)
	return errors.Join(err, k.engine.Close())
}
