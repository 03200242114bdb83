// Package cost measures what dlqbench itself costs, as benchmarks of Go: `make bench` runs them in turns and compares
// the ways with benchstat. It uses every part of the product from outside and judges nothing.
package cost

// This file sets up the compared ways to a Kafka: direct, through a link, a tap, and both as in a run, and through the
// proxies of others.

import (
	"context"
	"flag"
	"fmt"
	"net"
	"runtime"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	faultkafka "github.com/dlqbench/dlqbench/faults/kafka"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/cluster/embedded"
	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	"github.com/dlqbench/dlqbench/internal/env/cluster/process"
	"github.com/dlqbench/dlqbench/internal/env/memconn"
	"github.com/dlqbench/dlqbench/internal/env/tap"
)

var (
	program   = flag.String("dlqbench", "../../dlqbench", "the program that is started as the consumer of whole runs")
	realKafka = flag.Bool("real", false, "use Apache Kafka as a process (see dlqbench kafka install) for clients")
	entries   = flag.Int("entries", 100_000, "entries of the dead-letter store whose lists are measured")
)

const (
	inputTopic = "bench.input"
	dlqTopic   = "bench.dlq"
	partitions = 6
	valueSize  = 256
	// keyCount is the number of different keys.
	keyCount = 1000
	// limit bounds one measurement. It is reached only if something hangs.
	limit = time.Minute
)

// meter adds up the cost of processing items, in wall-clock and in processor time. The latter is affected less by other
// work on the machine.
type meter struct {
	items     int
	wall, cpu time.Duration
}

// take measures one call of do that processes a number of items. It collects garbage of the set-up first.
func (m *meter) take(b *testing.B, items int, do func() error) {
	b.Helper()
	runtime.GC()
	cpu, start := processorTime(syscall.RUSAGE_SELF), time.Now()
	err := do()
	m.items, m.wall, m.cpu = m.items+items, m.wall+time.Since(start), m.cpu+processorTime(syscall.RUSAGE_SELF)-cpu
	if err != nil {
		b.Fatal(err)
	}
}

// report reports the rate per second, and the processor time per item if all of it was measured.
func (m *meter) report(b *testing.B, item string) {
	b.ReportMetric(0, "ns/op") // it would contain the set-up
	b.ReportMetric(float64(m.items)/m.wall.Seconds(), item+"s/s")
	if m.cpu > 0 {
		b.ReportMetric(m.cpu.Seconds()*1e6/float64(m.items), "cpu-µs/"+item)
	}
}

// reportPerCore reports the rate per second of processor time.
func (m *meter) reportPerCore(b *testing.B, item string) {
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(float64(m.items)/m.cpu.Seconds(), item+"s/cpu-s")
}

// processorTime is the processor time used so far by this process, or by its children that have ended.
func processorTime(who int) time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(who, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// topics are the topics of a rig, in the form of a run's header.
func topics() []history.Topic {
	return []history.Topic{
		{Name: inputTopic, Role: history.RoleInput, Partitions: partitions},
		{Name: dlqTopic, Role: history.RoleDLQ, Partitions: partitions},
	}
}

// counter is a sink that counts events and discards them unless told otherwise, so that the observer is measured and
// not the recorder.
type counter struct {
	count atomic.Int64
	keep  atomic.Pointer[history.Recorder]
}

// Record implements history.Sink.
func (c *counter) Record(event history.Event) {
	c.count.Add(1)
	if recorder := c.keep.Load(); recorder != nil {
		recorder.Record(event)
	}
}

// kafka is the Kafka of a rig.
type kafka interface {
	Brokers() []cluster.Broker
	CreateTopics(ctx context.Context, topics []cluster.Topic) error
	ClientOptions() []kgo.Opt
	Close() error
}

// rig is a Kafka with one broker, embedded unless the command line asks for a real one. It ends with its benchmark.
type rig struct {
	kafka kafka
	ids   *history.IDs
	clock history.Clock
	sink  *counter
	ops   atomic.Int64
}

func newRig(b *testing.B) *rig {
	r := &rig{ids: history.NewIDs("bench"), clock: history.NewClock(), sink: &counter{}}
	r.kafka = must(startKafka(b.Context(), b.TempDir()))(b)
	b.Cleanup(func() { done(b, r.kafka.Close()) })
	var all []cluster.Topic
	for _, topic := range topics() {
		all = append(all, cluster.Topic{Name: topic.Name, Partitions: topic.Partitions})
	}
	done(b, r.kafka.CreateTopics(b.Context(), all))
	return r
}

// startKafka starts the Kafka that the command line selects.
func startKafka(ctx context.Context, dir string) (kafka, error) {
	if !*realKafka {
		return embedded.Start(ctx, embedded.Options{Brokers: 1, Dir: dir, Log: zerolog.Nop()})
	}
	installed, err := install.Open("")
	if err != nil {
		return nil, err
	}
	return process.Start(ctx, process.Options{Brokers: 1, Dir: dir, Kafka: installed, Log: zerolog.Nop()})
}

// must returns the result of a call, and ends the benchmark if the call failed.
func must[T any](result T, err error) func(testing.TB) T {
	return func(t testing.TB) T {
		t.Helper()
		done(t, err)
		return result
	}
}

// done ends the benchmark if a call failed.
func done(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// address is the broker's address.
func (r *rig) address() string { return r.kafka.Brokers()[0].Address }

// way is one of the ways to the broker of a rig.
type way struct {
	name, address string
	// jvm says that much work is done before it is measured, as a JVM gets faster while it runs.
	jvm bool
	// apart says that the way has a process of its own, whose processor time is not measured.
	apart bool
	// absent is the reason why the way is skipped, if it is.
	absent string
}

// client opens a client that connects through the way, whatever address the broker announces: on a bare link, no tap
// rewrites that address. It skips the benchmark if the way is not there.
func (w way) client(b *testing.B, options ...kgo.Opt) *kgo.Client {
	if w.absent != "" {
		skip(b, w.absent)
	}
	return must(kgo.NewClient(append(options, kgo.SeedBrokers(w.address), kgo.DisableClientMetrics(),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, w.address)
		}))...))(b)
}

// skip skips a benchmark and prints why. The testing package prints that only with -test.v.
func skip(b *testing.B, why string) {
	b.Helper()
	fmt.Printf("SKIP %s: %s\n", b.Name(), why)
	b.SkipNow()
}

// ways returns the ways, the direct one first, and those that others use last.
func (r *rig) ways(b *testing.B) []way {
	straight := r.address()
	link := r.link(b, r.upstream())
	return []way{
		// The first way warms up the broker, which is a JVM if it is a real one.
		{name: "straight", address: straight, jvm: *realKafka}, {name: "link", address: link.Address()},
		{name: "tap", address: r.tap(b, network.Straight{Upstream: r.upstream()})}, {name: "both", address: r.tap(b, link)},
		{name: "toxiproxy", address: r.toxiproxy(b, straight)}, r.kroxylicious(b, straight),
	}
}

// upstream is where a run's links lead.
func (r *rig) upstream() network.Upstream {
	upstream := network.Upstream{Address: r.address()}
	if embedded, is := r.kafka.(*embedded.Kafka); is {
		upstream.Inside = func(ctx context.Context) (*memconn.Conn, error) {
			return embedded.Connect(ctx, r.kafka.Brokers()[0].ID)
		}
	}
	return upstream
}

// link opens a link without faults.
func (r *rig) link(b *testing.B, upstream network.Upstream) network.Link {
	link := must(network.NewRelay("bench", upstream))(b)
	b.Cleanup(func() { done(b, link.Close()) })
	return link
}

// tap opens a tap as in a run, with the injector of a run without Kafka faults.
func (r *rig) tap(b *testing.B, link network.Link) string {
	t := tap.New(tap.Config{
		Clock: r.clock, Sink: r.sink, NextOp: func() int64 { return r.ops.Add(1) }, IDs: r.ids, Topics: topics(),
		Upstreams: []tap.Upstream{{NodeID: r.kafka.Brokers()[0].ID, Dial: link.Connect}}, Log: zerolog.Nop(),
		Interceptor: faultkafka.NewInjector(topics()),
	})
	b.Cleanup(func() { done(b, t.Close()) })
	return must(t.Open(0))(b)
}

// fill produces records to the input topic.
func (r *rig) fill(b *testing.B, count int) {
	client := must(kgo.NewClient(kgo.SeedBrokers(r.address()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression())))(b)
	defer client.Close()
	for i := range count {
		client.Produce(b.Context(), r.record(int32(i)), func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	done(b, client.Flush(b.Context()))
}

// record returns record number seq of the input topic.
func (r *rig) record(seq int32) *kgo.Record {
	value := append([]byte(`{"id":"`), r.ids.Token(seq)...)
	value = append(value, `","pad":"`...)
	value = append(value, strings.Repeat("x", valueSize-len(value)-2)...)
	return &kgo.Record{
		Topic: inputTopic, Partition: seq % partitions, Key: strconv.AppendInt([]byte("key-"), int64(seq%keyCount), 10),
		Value: append(value, `"}`...), Headers: []kgo.RecordHeader{{Key: history.IDHeader, Value: []byte(r.ids.Token(seq))}},
	}
}
