package docker

import (
	"context"
	"crypto/rand"
	"encoding/base64"
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

// MaxBrokers is the largest cluster.
const MaxBrokers = 9

// DefaultImage is what is started when no image is named.
const DefaultImage = "apache/kafka:4.4.0"

const (
	// loopback is where brokers are published, and nowhere else.
	loopback = "127.0.0.1"
	// startLimit bounds how long brokers may take to be there, once there is the image. Three JVMs on a busy machine took
	// 95 s; one that has ended is not waited for.
	startLimit = 5 * time.Minute
	// closeLimit bounds what the engine may take to remove everything.
	closeLimit = 10 * time.Second
)

// ErrClosed is returned by calls on a cluster that was closed.
var ErrClosed = errors.New("the cluster of containers is closed")

// Options say what to start.
type Options struct {
	// Brokers is their number, 1 to MaxBrokers.
	Brokers int
	// Image is a container image of Apache Kafka that is configured as apache/kafka is, by KAFKA_ variables; default
	// DefaultImage. It is pulled if the engine does not have it.
	Image string
	// RunID is in the label and name of everything that is started. It must be no other cluster's, and have only
	// letters, digits, '_', '.' and '-'.
	RunID string
	// Log gets what is noteworthy.
	Log zerolog.Logger

	environment map[string]string // instead of what settings has
}

// Kafka is a cluster of containers. Its methods may be called from several goroutines.
type Kafka struct {
	options Options
	engine  *testcontainers.DockerClient
	network *testcontainers.DockerNetwork
	client  *kgo.Client // the admin's
	dialer  *dialer
	admin   *admin.Admin

	// ended is over when the cluster is closed: whoever waits for brokers gives up.
	ended context.Context
	end   context.CancelCauseFunc

	mu          sync.Mutex
	nodes       []*node        // by number - 1
	reserved    map[int32]bool // brokers that hold topics alone
	shareGroups bool           // the brokers' version has them
	internal    bool           // Kafka's own topics are there
	closed      bool
}

// node is one broker.
type node struct {
	number    int32
	port      int // on the host
	container *testcontainers.DockerContainer
	alive     bool // started, and not stopped or killed
	paused    bool
	duties    duties // what it had to do when it was paused
	returns   bool   // its leaders are to be given back when it is started
}

func (n *node) address() string { return net.JoinHostPort(loopback, strconv.Itoa(n.port)) }

// Start starts brokers in containers and returns when each says that all of them are there. Where there is no engine
// the error is engine.ErrNoEngine, within two seconds. When it fails nothing is left.
func Start(ctx context.Context, options Options) (*Kafka, error) {
	if options.Image == "" {
		options.Image = DefaultImage
	}
	if err := options.check(); err != nil {
		return nil, fmt.Errorf("starting Kafka in containers: %w", err)
	}
	found, err := engine.Connect(ctx)
	if err != nil {
		return nil, fmt.Errorf("starting Kafka in containers: %w", err)
	}
	k := &Kafka{options: options, engine: found, reserved: map[int32]bool{}}
	k.ended, k.end = context.WithCancelCause(context.Background())
	if err := k.start(ctx); err != nil {
		return nil, errors.Join(fmt.Errorf("starting Kafka in containers: %w", err), k.Close())
	}
	return k, nil
}

func (o Options) check() error {
	if o.Brokers < 1 || o.Brokers > MaxBrokers {
		return fmt.Errorf("%d brokers were asked for: 1 to %d are possible", o.Brokers, MaxBrokers)
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
	clusterID, err := newClusterID()
	if err != nil {
		return err
	}
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

// during returns a context that also ends when the cluster is closed.
func (k *Kafka) during(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := context.AfterFunc(k.ended, func() { cancel(ErrClosed) })
	return ctx, func() { stop(); cancel(nil) }
}

// newClusterID makes an id as Kafka writes them: 16 random bytes in base64.
func newClusterID() (string, error) {
	var id [16]byte
	if _, err := rand.Read(id[:]); err != nil {
		return "", fmt.Errorf("making a cluster id: %w", err)
	}
	// Tools take an id that begins with a dash for an option.
	id[0] &= 0x7f
	return base64.RawURLEncoding.EncodeToString(id[:]), nil
}

// Brokers returns all brokers, running or stopped, in order.
func (k *Kafka) Brokers() []cluster.Broker {
	brokers := make([]cluster.Broker, 0, len(k.nodes))
	for _, n := range k.nodes {
		brokers = append(brokers, cluster.Broker{Number: n.number, ID: n.number, Address: n.address()})
	}
	return brokers
}

// ClientOptions returns what a client needs to reach the cluster.
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

// withoutRegistry leaves out of an image's name where it comes from, which may be a host that is nobody else's
// business.
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
