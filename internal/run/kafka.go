package run

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"os/exec"
	"slices"
	"strings"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	faultbroker "github.com/dlqbench/dlqbench/faults/broker"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/docker"
	"github.com/dlqbench/dlqbench/internal/env/cluster/embedded"
	"github.com/dlqbench/dlqbench/internal/env/cluster/external"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/env/cluster/process"
	"github.com/dlqbench/dlqbench/internal/env/memconn"
	"github.com/dlqbench/dlqbench/internal/env/subject"
	"github.com/dlqbench/dlqbench/scenarios"
)

// The providers of a run's Kafka.
const (
	// ClusterEmbedded is kfake, in this process.
	ClusterEmbedded = "embedded"
	// ClusterProcess is Apache Kafka, a JVM process for each broker.
	ClusterProcess = "process"
	// ClusterDocker is a container for each broker.
	ClusterDocker = "docker"
	// ClusterExternal is the user's own cluster.
	ClusterExternal = "external"
)

// environmentKafka is the name of the Kafka in a history's environment. Until the Kafka is started, it holds only
// the provider's name.
const environmentKafka = "kafka"

// ClusterOptions select the Kafka to run against.
type ClusterOptions struct {
	// Provider is one of the constants; "" is ClusterEmbedded.
	Provider string
	// Version of Apache Kafka for ClusterProcess; "" is the version of KAFKA_HOME or, without KAFKA_HOME,
	// install.DefaultVersion.
	Version string
	// Image for ClusterDocker; "" is docker.DefaultImage.
	Image string
	// External configures the connection for ClusterExternal.
	External external.Config
	// Toxiproxy is the toxiproxy server whose proxies are the links to it and to all else, as in
	// network.ToxiproxySettings. "" is for links of this process.
	Toxiproxy string
}

// Fits checks, before anything is started, whether a scenario can run with its subject, on the Kafka and through the
// links. The error
// says what to do.
func (o ClusterOptions) Fits(s *scenarios.Scenario) error {
	if !o.Real() && !s.RunsOnEmbedded() {
		return fmt.Errorf("%s needs a real Kafka, as %s; run it with --cluster %s", s.Name, s.Cluster.Real, ClusterProcess)
	}
	if why := s.NeedsSubject(); why != "" {
		return errors.New(why)
	}
	for i, fault := range s.Written() {
		if o.Toxiproxy != "" && fault.Network != nil {
			if err := fault.Network.OnToxiproxy(); err != nil {
				return fmt.Errorf("fault %d of %s: %w", i+1, s.Name, err)
			}
		}
		if o.Provider != ClusterExternal || fault.Broker == nil {
			continue
		}
		if err := o.canBreak(fault.Broker.Action()); err != nil {
			return fmt.Errorf("fault %d of %s breaks a broker: %w", i+1, s.Name, err)
		}
	}
	return nil
}

// Real reports whether the brokers are Apache Kafka's or another product's, not an imitation.
func (o ClusterOptions) Real() bool { return !o.provider().imitation }

// canBreak checks whether a fault, by the scenario's word for it, can be injected into the brokers.
func (o ClusterOptions) canBreak(action string) error {
	if o.provider().shared {
		return o.External.CanBreak(action)
	}
	return nil
}

// provider is a way to provide a Kafka, and what distinguishes it.
type provider struct {
	name  string
	start func(r *run, ctx context.Context, log zerolog.Logger) (*provided, error)
	// usual and most are how long its start takes, for the estimate.
	usual, most time.Duration
	// imitation: scenarios that need a real Kafka cannot run on it.
	imitation bool
	// shared: others use it too. The names of everything in it begin with the run's id, its clients may need
	// credentials, and only what its owner has allowed is done to its brokers.
	shared bool
}

func providers() []provider {
	return []provider{
		{name: ClusterEmbedded, start: (*run).startEmbedded, usual: time.Second, most: 2 * time.Second, imitation: true},
		{name: ClusterProcess, start: (*run).startProcesses, usual: 8 * time.Second, most: time.Minute},
		{name: ClusterDocker, start: (*run).startContainers, usual: 15 * time.Second, most: 2 * time.Minute},
		{name: ClusterExternal, start: (*run).connect, usual: 2 * time.Second, most: 30 * time.Second, shared: true},
	}
}

// provider returns the selected provider, or one without a start if there is none of that name.
func (o ClusterOptions) provider() provider {
	all := providers()
	if i := slices.IndexFunc(all, func(p provider) bool {
		return p.name == cmp.Or(o.Provider, ClusterEmbedded)
	}); i >= 0 {
		return all[i]
	}
	return provider{}
}

// Clusters returns the names of the providers.
func Clusters() []string {
	var names []string
	for _, one := range providers() {
		names = append(names, one.name)
	}
	return names
}

// kafka is a cluster, regardless of its provider.
type kafka interface {
	Brokers() []cluster.Broker
	// CreateTopics returns when every partition has its leader.
	CreateTopics(ctx context.Context, topics []cluster.Topic) error
	// Describe returns a description for the run's record, without hosts, paths and secrets.
	Describe() string
	Close() error
}

// provided is a cluster that was started or connected to.
type provided struct {
	kafka
	// client configures dlqbench's own clients, which bypass taps and links.
	client []kgo.Opt
	// breaker injects faults into its brokers.
	breaker faultbroker.Brokers
	// tls configures the tap's connections to a broker; nil means plaintext.
	tls func(cluster.Broker) *tls.Config
	// inside connects to the broker with an id without a socket; nil if it is another process.
	inside func(ctx context.Context, id int32) (*memconn.Conn, error)
}

// upstream is where the link of a broker leads.
func (p *provided) upstream(broker cluster.Broker) network.Upstream {
	upstream := network.Upstream{Address: broker.Address}
	if p.inside != nil {
		upstream.Inside = func(ctx context.Context) (*memconn.Conn, error) { return p.inside(ctx, broker.ID) }
	}
	return upstream
}

func (r *run) startCluster(ctx context.Context) error {
	var err error
	if r.cluster, err = r.provide(ctx, r.options.Log.Hook(silentWhen(&r.discarding))); err != nil {
		return err
	}
	if wanted, there := r.scenario.Topics.DLQ.Broker, len(r.cluster.Brokers()); wanted > there {
		return fmt.Errorf("the scenario puts the DLQ topic on broker %d, and the cluster has %d", wanted, there)
	}
	r.header.Environment[environmentKafka] = r.cluster.Describe()
	if err := r.recorder.Amend(r.header); err != nil {
		return err
	}
	client, err := kgo.NewClient(append(slices.Clone(r.cluster.client), kgo.AlwaysRetryEOF())...)
	if err != nil {
		return err
	}
	r.admin = kadm.NewClient(client)
	var topics []cluster.Topic
	for _, topic := range r.header.Topics {
		if topic.Downstream {
			continue
		}
		created := cluster.Topic{Name: topic.Name, Partitions: topic.Partitions}
		if topic.Role == history.RoleDLQ {
			created.Broker = int32(r.scenario.Topics.DLQ.Broker)
			if created.Configs, err = r.takesDeadLetters(ctx, client, topic.Name); err != nil {
				return err
			}
		}
		topics = append(topics, created)
	}
	if err := r.cluster.CreateTopics(ctx, topics); err != nil {
		return err
	}
	return r.beginGroup(ctx, client)
}

// topicIDs returns the ids of existing topics by name; none on a cluster without ids (before Kafka 2.8).
func (r *run) topicIDs(ctx context.Context, names []string) (map[string][16]byte, error) {
	topics, err := r.admin.ListTopics(ctx, names...)
	if err != nil {
		return nil, err
	}
	ids := map[string][16]byte{}
	for name, topic := range topics {
		if topic.Err == nil && topic.ID != (kadm.TopicID{}) {
			ids[name] = topic.ID
		}
	}
	return ids, nil
}

// provide starts the cluster, or connects to it.
func (r *run) provide(ctx context.Context, log zerolog.Logger) (*provided, error) {
	if start := r.options.Cluster.provider().start; start != nil {
		return start(r, ctx, log)
	}
	return nil, fmt.Errorf("there is no cluster %q: it is %s", r.options.Cluster.Provider, strings.Join(Clusters(), ", "))
}

// owned is a cluster that dlqbench starts for the run.
type owned interface {
	kafka
	faultbroker.Brokers
	ClientOptions() []kgo.Opt
}

func provideOwned[K owned](k K, err error) (*provided, error) {
	if err != nil {
		return nil, err
	}
	return &provided{kafka: k, client: k.ClientOptions(), breaker: k}, nil
}

func (r *run) startEmbedded(ctx context.Context, log zerolog.Logger) (*provided, error) {
	k, err := embedded.Start(ctx, embedded.Options{
		Brokers: r.scenario.Cluster.Brokers, Dir: r.dir.file(dirKafka), Log: log,
	})
	p, err := provideOwned(k, err)
	if err == nil {
		p.inside = k.Connect
	}
	return p, err
}

func (r *run) startProcesses(ctx context.Context, log zerolog.Logger) (*provided, error) {
	installed, err := install.Open(r.options.Cluster.Version)
	if err != nil {
		return nil, err
	}
	return provideOwned(process.Start(ctx, process.Options{
		Brokers: r.scenario.Cluster.Brokers, Dir: r.dir.file(dirKafka), Kafka: installed, Starter: attended{r.subject},
		Log: log,
	}))
}

func (r *run) startContainers(ctx context.Context, log zerolog.Logger) (*provided, error) {
	return provideOwned(docker.Start(ctx, docker.Options{
		Brokers: r.scenario.Cluster.Brokers, Image: r.options.Cluster.Image, RunID: r.dir.id, Log: log,
	}))
}

// connect connects to the user's own cluster. Everything that the run creates there has the run's prefix.
func (r *run) connect(ctx context.Context, log zerolog.Logger) (*provided, error) {
	config := r.options.Cluster.External
	config.Prefix = r.dir.id
	k, err := external.Connect(ctx, config, external.Options{Log: log, Ledger: r.dir.file(fileLedger),
		LargestRecord: r.plan.LargestRecord()})
	if err != nil {
		return nil, err
	}
	return &provided{kafka: k, client: k.ClientOptions(), breaker: k, tls: k.UpstreamTLS}, nil
}

// attended starts brokers under the subprocess reaper, so that they never outlive this process.
type attended struct{ group *subject.Group }

// Start implements process.Starter.
func (a attended) Start(cmd *exec.Cmd) (ended func(), err error) { return a.group.Attend(cmd) }
