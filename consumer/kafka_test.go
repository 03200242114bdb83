package consumer

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/internal/testkit/kafkatest"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/internal/units"
)

func TestMain(m *testing.M) {
	// Most of these tests wait: for sessions to expire, for backoffs, for a group to settle.
	flag.Parse()
	if flag.Lookup("test.parallel").Value.String() == fmt.Sprint(runtime.GOMAXPROCS(0)) {
		if err := flag.Set("test.parallel", fmt.Sprint(2*runtime.GOMAXPROCS(0))); err != nil {
			panic(err)
		}
	}
	// fasthttp's cleaners of idle connections and workers sleep up to ten seconds at a time and cannot be woken. They
	// end by themselves.
	goleak.VerifyTestMain(m, goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*HostClient).connsCleaner"),
		goleak.IgnoreAnyFunction("github.com/valyala/fasthttp.(*workerPool).Start.func2"))
}

const (
	inputTopic = "orders"
	dlqTopic   = "orders.dlq"
	groupID    = "orders-service"
	// testDeadline is the limit of every wait. It is reached only if something is broken.
	testDeadline = 20 * time.Second
)

// bench is an in-process Kafka with a source and a dead-letter topic.
type bench struct {
	*testing.T
	cluster *kfake.Cluster
	client  *kgo.Client
	admin   *kadm.Client
	log     *kafkatest.Log
}

func newBench(t *testing.T, partitions int32) *bench {
	t.Helper()
	return newBenchWith(t, partitions, []string{inputTopic, dlqTopic})
}

func newBenchWith(t *testing.T, partitions int32, topics []string, options ...kfake.Opt) *bench {
	t.Helper()
	log := &kafkatest.Log{}
	cluster, client := kafkatest.Start(t, log, partitions, topics, options...)
	return &bench{T: t, cluster: cluster, client: client, admin: kadm.NewClient(client), log: log}
}

// testSettings returns settings with short times. A test changes those that it is about.
func testSettings() Settings {
	settings := DefaultSettings()
	settings.RetryBackoffMS, settings.MaxRetryBackoffMS, settings.RetryJitterMS = 20, 100, 5
	settings.CommitInterval = units.Duration(20 * time.Millisecond)
	return settings
}

func (b *bench) config(settings Settings, handler Handler) Config {
	return Config{
		Bootstrap: b.cluster.ListenAddrs(), Topic: inputTopic, DLQTopic: dlqTopic, Group: groupID, ClientID: "test",
		Settings: settings, Handler: handler, Logger: zerolog.New(b.log),
	}
}

// produce writes count records to the partition; the i-th has the key "k<i%keys>" and the value "<partition>:<offset>".
func (b *bench) produce(partition int32, count, keys int) {
	b.Helper()
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = &kgo.Record{
			Topic: inputTopic, Partition: partition, Key: fmt.Appendf(nil, "k%d", i%keys),
			Value: fmt.Appendf(nil, "%d:%d", partition, i), Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("t")}},
		}
	}
	must.Do(b, b.client.ProduceSync(b.Context(), records...).FirstErr())
}

// started is a running consumer. stop ends it in order.
type started struct {
	*Consumer
	stop func() error
}

func (b *bench) start(config Config, parts Parts) started {
	b.Helper()
	consumer := must.Get(New(config, parts))(b)
	ctx, cancel := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- consumer.Run(ctx) }()
	var once sync.Once
	var result error
	stop := func() error {
		once.Do(func() {
			cancel()
			select {
			case result = <-ended:
			case <-time.After(testDeadline):
				result = errors.New("the consumer didn't stop")
			}
		})
		return result
	}
	b.Cleanup(func() {
		if err := stop(); err != nil {
			b.Errorf("stopping: %v", err)
		}
	})
	return started{consumer, stop}
}

// eventually waits until the condition holds.
func (b *bench) eventually(what string, condition func() bool) {
	b.Helper()
	wait.Until(b, what, condition)
}

// committed returns the committed offset of the partition, -1 if there is none.
func (b *bench) committed(partition int32) int64 {
	b.Helper()
	offsets, err := b.admin.FetchOffsets(b.Context(), groupID)
	if errors.Is(err, kerr.GroupIDNotFound) {
		return -1
	}
	if err != nil {
		b.Fatal(err)
	}
	if offset, ok := offsets.Lookup(inputTopic, partition); ok {
		return offset.At
	}
	return -1
}

// letters returns the dead letters that are visible to readers of committed data.
func (b *bench) letters() []*kgo.Record { return b.read(kgo.ReadCommitted()) }

// read returns the records of the dead-letter topic up to its end.
func (b *bench) read(level kgo.IsolationLevel) []*kgo.Record {
	b.Helper()
	ends := must.Get(b.admin.ListEndOffsets(b.Context(), dlqTopic))(b)
	left, assign := map[int32]int64{}, map[int32]kgo.Offset{}
	ends.Each(func(end kadm.ListedOffset) {
		assign[end.Partition] = kgo.NewOffset().AtStart()
		if end.Offset > 0 {
			left[end.Partition] = end.Offset
		}
	})
	reader := must.Get(kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.FetchIsolationLevel(level),
		kgo.KeepControlRecords(), kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{dlqTopic: assign})))(b)
	defer reader.Close()
	var letters []*kgo.Record
	ctx, cancel := context.WithTimeout(b.Context(), testDeadline)
	defer cancel()
	for len(left) > 0 {
		fetches := reader.PollFetches(ctx)
		if err := fetches.Err0(); err != nil {
			b.Fatalf("reading the dead letters: %v", err)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if !record.Attrs.IsControl() {
				letters = append(letters, record)
			}
			if record.Offset+1 >= left[record.Partition] {
				delete(left, record.Partition)
			}
		})
	}
	return letters
}

// calls counts a handler's calls per record value and remembers their order.
type calls struct {
	mu    sync.Mutex
	count map[string]int
	order []string
}

func (c *calls) add(record *kgo.Record) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.count == nil {
		c.count = map[string]int{}
	}
	c.count[string(record.Value)]++
	c.order = append(c.order, string(record.Value))
	return c.count[string(record.Value)]
}

func (c *calls) of(value string) int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.count[value]
}

func (c *calls) total() int {
	c.mu.Lock()
	defer c.mu.Unlock()
	return len(c.order)
}

func valueOf(partition int32, offset int64) []byte {
	return fmt.Appendf(nil, "%d:%d", partition, offset)
}

func mustListen(tb testing.TB) net.Listener {
	tb.Helper()
	listener := must.Get(net.Listen("tcp", "127.0.0.1:0"))(tb)
	return listener
}
