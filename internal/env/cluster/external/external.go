package external

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

const (
	// connectLimit bounds Connect.
	connectLimit = 8 * time.Second
	// probesAtOnce is the maximum number of brokers that are tried at the same time.
	probesAtOnce = 16
)

// Options set how to use a cluster.
type Options struct {
	Log zerolog.Logger
	// Ledger is the file that records created objects, for Sweep. It is written when something is created, and removed
	// when everything recorded in it is removed again. With Config.Keep nothing is recorded.
	Ledger string
	// LargestRecord is the size in bytes of the largest record of the run, including headers. Topics with a smaller
	// limit are rejected. 0 skips the check.
	LargestRecord int
}

// Kafka is the user's own cluster. It is safe for concurrent use.
type Kafka struct {
	config  Config
	options Options
	brokers []cluster.Broker
	id      string // of the cluster
	client  *kgo.Client
	admin   *kadm.Client

	mu     sync.Mutex
	ledger *ledger
	broken map[int32]*breakage // by number, while a broker is down or paused
	closed bool
}

// Connect checks, broker by broker, whether the cluster can be used, in a few seconds at most. The error says what
// was found and what to do. It matches ErrUnreachable, ErrProtocol, ErrCertificate or ErrAuthentication.
func Connect(ctx context.Context, config Config, options Options) (*Kafka, error) {
	ctx, cancel := context.WithTimeout(ctx, connectLimit)
	defer cancel()
	if config.Prefix == "" {
		return nil, errors.New("connecting to the cluster: the run has no prefix to keep its topics and groups apart by")
	}
	k, err := open(ctx, config, options)
	if err != nil {
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	if err := k.tryAll(ctx); err != nil {
		k.client.Close()
		return nil, fmt.Errorf("connecting to the cluster: %w", err)
	}
	return k, nil
}

// open learns the brokers and creates a client for them. It does not check whether all of them can be reached.
func open(ctx context.Context, config Config, options Options) (*Kafka, error) {
	k := &Kafka{config: config, options: options, broken: map[int32]*breakage{}}
	if err := k.find(ctx); err != nil {
		return nil, err
	}
	var err error
	if k.client, err = kgo.NewClient(k.ClientOptions()...); err != nil {
		return nil, err
	}
	k.admin = kadm.NewClient(k.client)
	k.ledger = newLedger(options.Ledger, config.Prefix, k.id)
	return k, nil
}

// find asks the bootstrap brokers for all others.
func (k *Kafka) find(ctx context.Context) error {
	if err := k.config.TLS.ownCertificate(time.Now()); err != nil {
		return err
	}
	metadata, err := k.config.ask(ctx)
	if err != nil {
		return err
	}
	if metadata.ClusterID != nil {
		k.id = *metadata.ClusterID
	}
	nodes := metadata.Brokers
	slices.SortFunc(nodes, func(a, b kmsg.MetadataResponseBroker) int { return int(a.NodeID) - int(b.NodeID) })
	for i, node := range nodes {
		k.brokers = append(k.brokers, cluster.Broker{
			Number: int32(i + 1), ID: node.NodeID, Address: net.JoinHostPort(node.Host, strconv.Itoa(int(node.Port))),
		})
	}
	if len(k.brokers) == 0 {
		return fmt.Errorf("%w: it names no broker that is alive", ErrUnreachable)
	}
	return nil
}

// ask tries the bootstrap addresses concurrently and takes the first answer. If there is none, the error lists the
// result of each.
func (c Config) ask(ctx context.Context) (*kmsg.MetadataResponse, error) {
	ctx, cancel := context.WithCancel(ctx)
	type found struct {
		metadata *kmsg.MetadataResponse
		err      error
	}
	results := make(chan found)
	var asking sync.WaitGroup
	defer asking.Wait()
	defer cancel()
	for _, address := range c.Bootstrap {
		asking.Go(func() {
			metadata, err := c.askOne(ctx, address)
			select {
			case results <- found{metadata, err}:
			case <-ctx.Done(): // another address has answered
			}
		})
	}
	var errs []error
	for range c.Bootstrap {
		select {
		case result := <-results:
			if result.err == nil {
				return result.metadata, nil
			}
			errs = append(errs, result.err)
		case <-ctx.Done():
			return nil, errors.Join(append(errs, fmt.Errorf("%w: no broker answered in time", ErrUnreachable))...)
		}
	}
	if len(errs) == 0 {
		return nil, fmt.Errorf("%w: no address of a broker is given", ErrUnreachable)
	}
	return nil, errors.Join(errs...)
}

func (c Config) askOne(ctx context.Context, address string) (*kmsg.MetadataResponse, error) {
	p, err := c.reach(ctx, address)
	if err != nil {
		return nil, err
	}
	defer p.close()
	return p.metadata(ctx)
}

// tryAll connects to every broker at the address that the cluster advertises, because a client admitted by one
// broker must continue to the others.
func (k *Kafka) tryAll(ctx context.Context) error {
	errs := make([]error, len(k.brokers))
	places := make(chan struct{}, probesAtOnce)
	var trying sync.WaitGroup
	for i, broker := range k.brokers {
		trying.Go(func() {
			places <- struct{}{}
			defer func() { <-places }()
			p, err := k.config.reach(ctx, broker.Address)
			if err != nil {
				errs[i] = fmt.Errorf("the cluster says that its broker %d is at %s (its advertised.listeners), but: %w", broker.ID,
					broker.Address, err)
				return
			}
			p.close()
		})
	}
	trying.Wait()
	return errors.Join(errs...)
}

// Brokers returns the brokers that the cluster had at the time of the connection, numbered from 1 in the order of
// their node ids.
func (k *Kafka) Brokers() []cluster.Broker { return slices.Clone(k.brokers) }

// ClientOptions returns the options of dlqbench's own clients: its own credentials, bypassing tap and links.
func (k *Kafka) ClientOptions() []kgo.Opt {
	var seeds []string
	for _, broker := range k.brokers {
		seeds = append(seeds, broker.Address)
	}
	options := []kgo.Opt{kgo.SeedBrokers(seeds...)}
	// Both configurations were used to reach the brokers, so they cause no errors any more.
	if config, _ := k.config.TLS.config(""); config != nil {
		options = append(options, kgo.DialTLSConfig(config))
	}
	if mechanism, _ := k.config.SASL.mechanism(); mechanism != nil {
		options = append(options, kgo.SASL(mechanism))
	}
	return options
}

// UpstreamTLS returns the TLS configuration for the tap's connection to a broker, whatever link is in between; nil
// for plaintext.
func (k *Kafka) UpstreamTLS(broker cluster.Broker) *tls.Config {
	host, _, _ := net.SplitHostPort(broker.Address) // made by JoinHostPort
	config, _ := k.config.TLS.config(host)          // was used to reach the broker
	return config
}

// Describe describes the cluster for the run's record, without hosts: "external, SASL_SSL, SCRAM-SHA-256, 3
// brokers".
func (k *Kafka) Describe() string {
	security := k.config.protocol()
	if k.config.SASL.Mechanism != "" {
		security += ", " + k.config.SASL.Mechanism
	}
	if len(k.brokers) == 1 {
		return fmt.Sprintf("external, %s, 1 broker", security)
	}
	return fmt.Sprintf("external, %s, %d brokers", security, len(k.brokers))
}

// byNumber returns a broker.
func (k *Kafka) byNumber(number int32) (cluster.Broker, error) {
	if number < 1 || int(number) > len(k.brokers) {
		return cluster.Broker{}, fmt.Errorf("the cluster has no broker %d: it has 1 to %d", number, len(k.brokers))
	}
	return k.brokers[number-1], nil
}
