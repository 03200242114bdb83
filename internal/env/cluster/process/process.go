package process

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/env/ports"
)

// ErrClosed is returned by calls on a cluster that was closed.
var ErrClosed = errors.New("the brokers were ended")

const (
	// startLimit bounds a start, which takes a few seconds on an idle machine. A broker that has ended is not waited
	// for.
	startLimit = 5 * time.Minute
	// stopLimit is how long a controlled shutdown, which takes well under a second, may take before the broker is
	// killed.
	stopLimit = 20 * time.Second
	// killLimit bounds the wait for a killed process. Only a process that is stuck in the kernel takes longer.
	killLimit = 10 * time.Second
	// dialLimit bounds a connection on loopback.
	dialLimit = time.Second
	// poll is the interval of polls for changes.
	poll = 10 * time.Millisecond
	// startAttempts is the number of attempts to start a cluster. Each draws other ports, because one may turn out to
	// be in use.
	startAttempts = 3
)

// logsDir is the folder of the brokers' output, below Options.Dir.
const logsDir = "logs"

// Options configure a cluster of processes.
type Options struct {
	// Brokers is the number of brokers, 1 to cluster.MaxBrokers.
	Brokers int
	// Dir is the folder for data, settings and logs. It is created. It must not be in use by another cluster.
	Dir string
	// Kafka is the installation to run.
	Kafka *install.Installation
	// Starter starts the processes. Without one they are started directly. On Linux they then die with this process, on
	// other systems only if it ends in order.
	Starter Starter
	// Settings are added to every broker's server.properties, and override the settings there.
	Settings map[string]string
	// Log receives noteworthy events of the brokers.
	Log zerolog.Logger
}

// Kafka is a cluster of processes. It is safe for concurrent use.
type Kafka struct {
	config  *config
	log     zerolog.Logger
	client  *kgo.Client
	admin   *admin.Admin
	stopped time.Duration // how long a controlled shutdown may take

	// life ends with Close, and at once if a broker dies while the cluster starts. Its cause gives the reason.
	life     context.Context
	end      context.CancelCauseFunc
	watching sync.WaitGroup

	starting atomic.Bool

	mu     sync.Mutex
	closed bool
}

// Start starts a cluster. It returns when every broker accepts connections and knows all others. If it fails, or ctx
// ends first, nothing is left running.
//
// Topics are not created automatically. Writes are not synced to disk: records that a killed broker had acknowledged
// are in the system's page cache, and on other replicas.
func Start(ctx context.Context, options Options) (*Kafka, error) {
	k, err := start(ctx, options)
	if err != nil {
		return nil, fmt.Errorf("starting Kafka as processes: %w", err)
	}
	return k, nil
}

func start(ctx context.Context, options Options) (*Kafka, error) {
	if err := cluster.CheckSize(options.Brokers); err != nil {
		return nil, err
	}
	if options.Dir == "" || options.Kafka == nil {
		return nil, errors.New("no directory, or no Kafka to run, was given")
	}
	var err error
	if options.Dir, err = filepath.Abs(options.Dir); err != nil {
		return nil, err
	}
	if strings.Contains(options.Dir, ",") {
		return nil, fmt.Errorf(
			"its directory %s has a comma in its path, which Kafka takes for the end of it (log.dirs); choose another",
			options.Dir)
	}
	c, err := prepare(ctx, options)
	if err != nil {
		return nil, err
	}
	for attempt := 1; ; attempt++ {
		own := *c
		k, err := launch(ctx, &own, options)
		if err == nil || !errors.Is(err, errPortInUse) || attempt == startAttempts || ctx.Err() != nil {
			return k, err
		}
		options.Log.Info().Err(err).Msg("starting the brokers again, on other ports")
		if err := os.RemoveAll(options.Dir); err != nil {
			return nil, fmt.Errorf("removing what the brokers wrote: %w", err)
		}
	}
}

// launch tries once to start a cluster on newly drawn ports.
func launch(ctx context.Context, c *config, options Options) (*Kafka, error) {
	c.brokers, c.dir, c.extra, c.nodes = options.Brokers, options.Dir, options.Settings,
		makeNodes(options.Brokers, options.Dir)
	c.clusterID = cluster.NewID()
	free, err := ports.Free(3 * len(c.nodes))
	if err != nil {
		return nil, err
	}
	for i, n := range c.nodes {
		n.clients, n.internal, n.quorum = free[3*i], free[3*i+1], free[3*i+2]
	}
	k := &Kafka{config: c, log: options.Log, stopped: stopLimit}
	k.starting.Store(true)
	if c.dump != "" {
		k.stopped = dumpLimit // it then writes the archive
	}
	k.life, k.end = context.WithCancelCause(context.Background())
	if err := k.open(ctx); err != nil {
		return nil, errors.Join(err, k.Close())
	}
	return k, nil
}

// open writes the nodes' files, starts the nodes and waits for them.
func (k *Kafka) open(ctx context.Context) error {
	ctx, cancel := context.WithTimeoutCause(ctx, startLimit, fmt.Errorf("the brokers were not ready after %s; their "+
		"logs are in %s", startLimit, filepath.Join(k.config.dir, logsDir)))
	defer cancel()
	ctx, release := cluster.During(ctx, k.life)
	defer release()
	if err := k.lay(); err != nil {
		return fmt.Errorf("writing the brokers' settings: %w", err)
	}
	var seeds []string
	for _, n := range k.config.nodes {
		if n.broker {
			seeds = append(seeds, address(n.internal))
		}
	}
	var err error
	k.client, err = kgo.NewClient(append(patience(), kgo.SeedBrokers(seeds...))...)
	if err != nil {
		return err
	}
	k.admin = admin.New(k.client, k.Brokers())
	k.admin.ShareGroups = shareGroups(k.config.version)
	for _, n := range k.config.nodes {
		if err := k.startNode(n); err != nil {
			return fmt.Errorf("%s: %w", n.name(), err)
		}
	}
	for _, n := range k.config.nodes {
		if err := k.awaitPort(ctx, n); err != nil {
			return err
		}
	}
	err = k.admin.WaitBrokers(ctx)
	for _, n := range k.config.nodes {
		if err == nil {
			err = k.confirmOurs(ctx, n)
		}
	}
	if cause := context.Cause(ctx); cause != nil {
		return cause // err is only a consequence
	}
	k.starting.Store(false)
	return err
}

// lay writes all files that the nodes read.
func (k *Kafka) lay() error {
	for _, n := range k.config.nodes {
		if err := n.lay(k.config); err != nil {
			return err
		}
	}
	_, file, content := logging(k.config.version)
	return os.WriteFile(filepath.Join(k.config.dir, file), []byte(content), 0o644)
}

// startNode starts a node's process and watches it.
func (k *Kafka) startNode(n *node) error {
	if err := n.startJava(k.config, n.arguments(k.config)); err != nil {
		return err
	}
	p := n.process
	k.watching.Go(func() {
		<-p.done
		if p.asked.Load() {
			return
		}
		err := n.death(p)
		if k.starting.Load() {
			k.end(err)
		} else {
			k.log.Error().Err(err).Msg("a broker ended unexpectedly")
		}
	})
	return nil
}

// awaitPort waits until a node accepts connections.
func (k *Kafka) awaitPort(ctx context.Context, n *node) error {
	port := n.clients
	if !n.broker {
		port = n.quorum
	}
	for {
		if accepted, _ := accepts(port); accepted {
			return nil
		}
		if err := n.sleep(ctx); err != nil {
			return err
		}
	}
}

// sleep waits between two looks at a starting node. It fails if ctx or the node's process ends first.
func (n *node) sleep(ctx context.Context) error {
	select {
	case <-ctx.Done():
		return context.Cause(ctx)
	case <-n.process.done:
		return n.death(n.process)
	case <-time.After(poll):
		return nil
	}
}

// confirmOurs waits until the server at the clients' port says that it belongs to this cluster. Another program may
// have taken the port while the broker was starting, and the broker may not have noticed yet. A listener that
// requires more than plain text is accepted.
func (k *Kafka) confirmOurs(ctx context.Context, n *node) error {
	if _, secured := k.config.extra["listener.security.protocol.map"]; secured || !n.broker {
		return nil
	}
	client, err := kgo.NewClient(append(patience(), kgo.SeedBrokers(address(n.clients)))...)
	if err != nil {
		return err
	}
	defer client.Close()
	for {
		metadata, err := kmsg.NewPtrMetadataRequest().RequestWith(ctx, client)
		if err == nil && metadata.ClusterID != nil && *metadata.ClusterID == k.config.clusterID {
			return nil
		}
		if err := n.sleep(ctx); err != nil {
			return err
		}
	}
}

// patience returns the options of this package's own clients, which repeat their requests themselves.
func patience() []kgo.Opt {
	return []kgo.Opt{
		kgo.ClientID("dlqbench"), kgo.DialTimeout(dialLimit), kgo.RequestRetries(3), kgo.RetryTimeout(5 * time.Second),
		kgo.RequestTimeoutOverhead(3 * time.Second), kgo.RetryBackoffFn(func(int) time.Duration {
			return 50 * time.Millisecond
		}),
	}
}

// Brokers returns all brokers, running or stopped, in order.
func (k *Kafka) Brokers() []cluster.Broker {
	var brokers []cluster.Broker
	for _, n := range k.config.nodes {
		if n.broker {
			brokers = append(brokers, cluster.Broker{Number: n.number, ID: n.number, Address: address(n.clients)})
		}
	}
	return brokers
}

// ClientOptions returns the options that a client needs to reach the cluster.
func (k *Kafka) ClientOptions() []kgo.Opt {
	var seeds []string
	for _, broker := range k.Brokers() {
		seeds = append(seeds, broker.Address)
	}
	return []kgo.Opt{kgo.SeedBrokers(seeds...)}
}

// Describe describes the cluster for the record of a run.
func (k *Kafka) Describe() string {
	brokers := "brokers"
	if k.config.brokers == 1 {
		brokers = "broker"
	}
	return fmt.Sprintf("process, Apache Kafka %s, %d %s", k.config.version, k.config.brokers, brokers)
}

// CreateTopics creates topics in their prescribed places; see admin.Admin.
func (k *Kafka) CreateTopics(ctx context.Context, topics []cluster.Topic) error {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return fmt.Errorf("creating topics: %w", ErrClosed)
	}
	ctx, release := cluster.During(ctx, k.life)
	defer release()
	return k.admin.CreateTopics(ctx, topics)
}

// Close kills all brokers, whose data is not needed any more. A second call does nothing.
func (k *Kafka) Close() error {
	k.end(ErrClosed) // waits for a broker give up
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.closed {
		return nil
	}
	k.closed = true
	var errs []error
	for _, n := range k.config.nodes {
		if n.alive() {
			errs = append(errs, n.process.signalKill())
		}
	}
	for _, n := range k.config.nodes {
		if n.process != nil {
			errs = append(errs, n.process.wait(context.Background(), killLimit))
		}
	}
	if k.client != nil {
		k.client.Close()
	}
	if err := errors.Join(errs...); err != nil {
		return fmt.Errorf("ending the brokers: %w", err)
	}
	k.watching.Wait() // they end with their processes
	return nil
}
