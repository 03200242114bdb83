package harness

import (
	"context"
	"fmt"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	faultbroker "github.com/dlqbench/dlqbench/faults/broker"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/cluster"
	"github.com/dlqbench/dlqbench/internal/cluster/embedded"
)

// Where the Kafka of a run comes from.
const (
	// ClusterEmbedded is kfake, in this process.
	ClusterEmbedded = "embedded"
	// ClusterProcess is Apache Kafka, a JVM process for each broker.
	ClusterProcess = "process"
)

// ClusterOptions say which Kafka to run against.
type ClusterOptions struct {
	// Provider is ClusterEmbedded ("" too) or ClusterProcess.
	Provider string
}

func (o ClusterOptions) describe(brokers int) string {
	return fmt.Sprintf("%s, %d broker(s)", or(o.Provider, ClusterEmbedded), brokers)
}

// kafka is a cluster, whoever provides it.
type kafka interface {
	Brokers() []cluster.Broker
	// CreateTopics returns when every partition has its leader.
	CreateTopics(ctx context.Context, topics []cluster.Topic) error
	Close() error
}

// provided is a cluster that was started or connected to.
type provided struct {
	kafka
	// client is how dlqbench itself talks to it, around taps and links.
	client []kgo.Opt
	// breaker breaks its brokers.
	breaker faultbroker.Brokers
}

func (r *run) startCluster(ctx context.Context) error {
	var err error
	if r.cluster, err = r.provide(ctx); err != nil {
		return err
	}
	client, err := kgo.NewClient(r.cluster.client...)
	if err != nil {
		return err
	}
	r.admin = kadm.NewClient(client)
	var topics []cluster.Topic
	for _, topic := range r.header.Topics {
		created := cluster.Topic{Name: topic.Name, Partitions: topic.Partitions}
		if topic.Role == history.RoleDLQ {
			created.Broker = int32(r.scenario.Topics.DLQ.Broker)
		}
		topics = append(topics, created)
	}
	return r.cluster.CreateTopics(ctx, topics)
}

// provide starts the cluster, or connects to it.
func (r *run) provide(ctx context.Context) (*provided, error) {
	log := r.options.Log.Hook(silentWhen(&r.discarding))
	switch r.options.Cluster.Provider {
	case "", ClusterEmbedded:
		started, err := embedded.Start(ctx, embedded.Options{Brokers: r.scenario.Cluster.Brokers, Dir: r.dir.file(dirKafka), Log: log})
		if err != nil {
			return nil, err
		}
		return &provided{kafka: started, client: started.ClientOptions(), breaker: started}, nil
	}
	return nil, fmt.Errorf("there is no cluster %q: it is %s or %s", r.options.Cluster.Provider, ClusterEmbedded, ClusterProcess)
}
