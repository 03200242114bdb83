package external

import (
	"context"
	"maps"
	"net"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestMain(m *testing.M) {
	goleak.VerifyTestMain(m)
}

const (
	prefix   = "20260102-030405-dlq-abc123"
	patience = 10 * time.Second
)

// start starts brokers with node ids 0 to n-1, as a user's cluster may have them.
func start(t testing.TB, brokers int, options ...kfake.Opt) *kfake.Cluster {
	t.Helper()
	c, err := kfake.NewCluster(append([]kfake.Opt{kfake.NumBrokers(brokers), kfake.ClusterID("theirs")}, options...)...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(c.Close)
	return c
}

func plainConfig(c *kfake.Cluster) Config {
	return Config{Bootstrap: c.ListenAddrs(), Prefix: prefix}
}

func within(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	t.Cleanup(cancel)
	return ctx
}

func connect(t testing.TB, config Config, options Options) *Kafka {
	t.Helper()
	if options.Log.GetLevel() == zerolog.TraceLevel { // the zero value
		options.Log = zerolog.Nop()
	}
	k := must.Get(Connect(within(t), config, options))(t)
	t.Cleanup(func() { _ = k.Close() })
	return k
}

// owner is the cluster's owner.
type owner struct {
	*kadm.Client
	kafka *kgo.Client
}

func theirs(t testing.TB, c *kfake.Cluster, options ...kgo.Opt) owner {
	t.Helper()
	client := must.Get(kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(c.ListenAddrs()...)}, options...)...))(t)
	t.Cleanup(client.Close)
	return owner{kadm.NewClient(client), client}
}

// topics queries the brokers and bypasses the client's cache.
func (o owner) topics(t testing.TB) map[string]kmsg.MetadataResponseTopic {
	t.Helper()
	metadata := must.Get(kmsg.NewPtrMetadataRequest().RequestWith(within(t), o.kafka))(t)
	topics := map[string]kmsg.MetadataResponseTopic{}
	for _, topic := range metadata.Topics {
		topics[*topic.Topic] = topic
	}
	return topics
}

func (o owner) names(t testing.TB) []string {
	t.Helper()
	return slices.Sorted(maps.Keys(o.topics(t)))
}

func (o owner) create(t testing.TB, name string) {
	t.Helper()
	must.Get(o.CreateTopic(within(t), 2, 1, nil, name))(t)
}

func runTopics() []cluster.Topic {
	return []cluster.Topic{
		{Name: prefix + ".input", Partitions: 6},
		{Name: prefix + ".input.dlq", Partitions: 2, Configs: map[string]string{"max.message.bytes": "2000"}},
	}
}

// write makes a file and returns its path.
func write(t testing.TB, name, text string) string {
	t.Helper()
	path := t.TempDir() + string(os.PathSeparator) + name
	must.Do(t, os.WriteFile(path, []byte(text), 0o600))
	return path
}

func nothing(string) string { return "" }

// want fails unless the error contains all the texts.
func want(t testing.TB, err error, texts ...string) {
	t.Helper()
	if err == nil {
		t.Fatalf("no error, want one with %q", texts)
	}
	for _, text := range texts {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("the error is\n\t%v\nand has no %q", err, text)
		}
	}
}

// closedPort returns an address that refuses connections.
func closedPort(t testing.TB) string {
	t.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(t)
	defer listener.Close()
	return listener.Addr().String()
}
