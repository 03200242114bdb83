package worker

import (
	"context"
	"fmt"
	"net/http"
	"net/http/httptest"
	"path/filepath"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/store"
	"github.com/dlqbench/dlqbench/store/open"
)

func TestMain(m *testing.M) {
	// fasthttp's cleaner of idle connections sleeps up to ten seconds at a time and cannot be woken. It ends by itself.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"))
}

const (
	sourceTopic = "orders"
	dlqTopic    = "orders.dlq"
	// testDeadline bounds every wait. It is reached only if something is broken.
	testDeadline = 30 * time.Second
)

// bench is an in-process Kafka with a dead-letter topic, and a store in a file.
type bench struct {
	*testing.T
	cluster *kfake.Cluster
	client  *kgo.Client
	admin   *kadm.Client
	store   store.Store
	address string
	log     *kafkatest.Log
}

func newBench(t *testing.T, partitions int32) *bench {
	t.Helper()
	log := &kafkatest.Log{}
	cluster, client := kafkatest.Start(t, log, partitions, []string{sourceTopic, dlqTopic})
	b := &bench{T: t, cluster: cluster, client: client, admin: kadm.NewClient(client), log: log}
	b.store, b.address = newStore(t)
	return b
}

// newStore makes a store in a separate file.
func newStore(t *testing.T) (store.Store, string) {
	t.Helper()
	address := "sqlite:" + filepath.Join(t.TempDir(), "letters.db")
	there := must.Get(open.Store(t.Context(), address, store.Options{}))(t)
	t.Cleanup(func() { there.Close() })
	must.Get(there.Migrate(t.Context()))(t)
	return there, address
}

// letter is the i-th dead letter of a source partition, encoded in the plain dialect.
func letter(partition int32, i int, reason string) *kgo.Record {
	record := &kgo.Record{
		Topic: sourceTopic, Partition: partition, Offset: int64(i), Key: fmt.Appendf(nil, "k%d", i%7),
		Value:   fmt.Appendf(nil, `{"id":"p%d-%d"}`, partition, i),
		Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("t")}},
	}
	sealed := deadletter.Plain{}.Seal(record, deadletter.Failure{Reason: reason, Attempts: 3, Topic: sourceTopic,
		Partition: partition, Offset: int64(i), Time: time.Now()})
	sealed.Topic, sealed.Partition = dlqTopic, partition
	return sealed
}

func (b *bench) produce(letters ...*kgo.Record) {
	b.Helper()
	must.Do(b, b.client.ProduceSync(b.Context(), letters...).FirstErr())
}

func (b *bench) routerConfig() RouterConfig {
	return RouterConfig{
		Bootstrap: b.cluster.ListenAddrs(), Topics: []string{dlqTopic}, Group: "router", ClientID: "router",
		BatchSize: DefaultBatch, Store: b.store, Strategies: DefaultStrategies(), Logger: zerolog.New(b.log),
	}
}

// route starts a router. stop ends it in order.
func (b *bench) route(config RouterConfig) (stop func()) {
	return b.background(func(ctx context.Context) error { return Route(ctx, config) })
}

// background runs a function until stop is called, at the latest until the end of the test.
func (b *bench) background(run func(context.Context) error) (stop func()) {
	b.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- run(ctx) }()
	stop = sync.OnceFunc(func() {
		cancel()
		select {
		case err := <-ended:
			if err != nil {
				b.Errorf("it ended with: %v", err)
			}
		case <-time.After(testDeadline):
			b.Error("it doesn't end")
		}
	})
	b.Cleanup(stop)
	return stop
}

// eventually waits for a condition that must become true.
func (b *bench) eventually(what string, come func() bool) {
	b.Helper()
	wait.Until(b, what, come)
}

func (b *bench) count(states ...store.State) int64 {
	b.Helper()
	n := must.Get(b.store.Count(b.Context(), store.Query{States: states}))(b)
	return n
}

func (b *bench) entries(query store.Query) []store.Entry {
	b.Helper()
	query.Limit = 1000
	entries, _, err := b.store.List(b.Context(), query)
	if err != nil {
		b.Fatal(err)
	}
	return entries
}

// committed is the router's offset in the dead-letter topic, or 0.
func (b *bench) committed(partition int32) int64 {
	b.Helper()
	offsets, err := b.admin.FetchOffsets(b.Context(), "router")
	if err != nil {
		return 0
	}
	at, found := offsets.Lookup(dlqTopic, partition)
	if !found {
		return 0
	}
	return at.At
}

func downstream(t *testing.T, answer http.HandlerFunc) string {
	t.Helper()
	server := httptest.NewServer(answer)
	t.Cleanup(server.Close)
	return server.URL
}

func plainOpener() deadletter.Opener { return deadletter.Plain{} }

// BenchmarkNewEntry measures the router's own work for one dead letter: finding its dialect, decoding it, analysing its
// error.
func BenchmarkNewEntry(b *testing.B) {
	one := letter(0, 1, "connection timed out")
	strategies, now := DefaultStrategies(), time.Now()
	for b.Loop() {
		name, opener := deadletter.Detect(one)
		entry := newEntry(one, name, opener)
		plan(&entry, strategies, now)
	}
}
