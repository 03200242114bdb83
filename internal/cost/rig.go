package main

// This file sets up the compared ways to a Kafka: direct, through a link, through a tap, and through both as in a run.

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"strings"
	"sync/atomic"
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
	"github.com/dlqbench/dlqbench/internal/env/tap"
)

const (
	inputTopic = "bench.input"
	dlqTopic   = "bench.dlq"
	partitions = 6
	valueSize  = 256
	// keyCount is the number of different keys.
	keyCount = 1000
)

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

// rig is a Kafka with one broker, embedded unless the command line asks for a real one.
type rig struct {
	dir   string
	kafka kafka
	taps  []*tap.Tap
	links []*network.Relay
	ids   *history.IDs
	clock history.Clock
	sink  *counter
	ops   atomic.Int64
}

func newRig(ctx context.Context, o options) (*rig, error) {
	dir, err := os.MkdirTemp(o.dir, "kafka-")
	if err != nil {
		return nil, err
	}
	r := &rig{dir: dir, ids: history.NewIDs("bench"), clock: history.NewClock(), sink: &counter{}}
	if r.kafka, err = o.startKafka(ctx, dir); err != nil {
		return nil, err
	}
	var all []cluster.Topic
	for _, topic := range topics() {
		all = append(all, cluster.Topic{Name: topic.Name, Partitions: topic.Partitions})
	}
	if err := r.kafka.CreateTopics(ctx, all); err != nil {
		return nil, errors.Join(err, r.close())
	}
	return r, nil
}

// startKafka starts the Kafka that the command line selects.
func (o options) startKafka(ctx context.Context, dir string) (kafka, error) {
	if !o.real {
		return embedded.Start(ctx, embedded.Options{Brokers: 1, Dir: dir, Log: zerolog.Nop()})
	}
	installed, err := install.Open("")
	if err != nil {
		return nil, err
	}
	return process.Start(ctx, process.Options{Brokers: 1, Dir: dir, Kafka: installed, Log: zerolog.Nop()})
}

// address is the broker's address.
func (r *rig) address() string { return r.kafka.Brokers()[0].Address }

func (r *rig) close() error {
	var errs []error
	for _, t := range r.taps {
		errs = append(errs, t.Close())
	}
	for _, l := range r.links {
		errs = append(errs, l.Close())
	}
	errs = append(errs, r.kafka.Close())
	return errors.Join(append(errs, os.RemoveAll(r.dir))...)
}

// way is one of the ways to the broker of a rig.
type way struct {
	name, address string
}

// client opens a client that connects through the way, whatever address the broker announces: on a bare link, no tap
// rewrites that address.
func (w way) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append(options, kgo.SeedBrokers(w.address), kgo.DisableClientMetrics(),
		kgo.Dialer(func(ctx context.Context, network, _ string) (net.Conn, error) {
			return (&net.Dialer{}).DialContext(ctx, network, w.address)
		}))...)
}

// ways returns the four ways, the direct one first.
func (r *rig) ways() ([]way, error) {
	straight := r.address()
	link, err := r.link(straight)
	if err != nil {
		return nil, err
	}
	tapped, err := r.tap(straight)
	if err != nil {
		return nil, err
	}
	both, err := r.tap(link)
	if err != nil {
		return nil, err
	}
	return []way{{"straight", straight}, {"link", link}, {"tap", tapped}, {"tap and link", both}}, nil
}

// link opens a link without faults.
func (r *rig) link(upstream string) (string, error) {
	link, err := network.NewRelay("bench", upstream)
	if err != nil {
		return "", err
	}
	r.links = append(r.links, link)
	return link.Address(), nil
}

// tap opens a tap as in a run, with the injector of a run without Kafka faults.
func (r *rig) tap(upstream string) (string, error) {
	t := tap.New(tap.Config{
		Clock: r.clock, Sink: r.sink, NextOp: func() int64 { return r.ops.Add(1) }, IDs: r.ids, Topics: topics(),
		Upstreams: []tap.Upstream{{NodeID: r.kafka.Brokers()[0].ID, Dial: upstream}}, Log: zerolog.Nop(),
		Interceptor: faultkafka.NewInjector(topics()),
	})
	r.taps = append(r.taps, t)
	return t.Open(0)
}

// fill produces records to the input topic.
func (r *rig) fill(ctx context.Context, count int) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(r.address()), kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.NoCompression()))
	if err != nil {
		return err
	}
	defer client.Close()
	var failed atomic.Pointer[error]
	for i := range count {
		client.Produce(ctx, r.record(int32(i)), func(_ *kgo.Record, err error) {
			if err != nil {
				failed.Store(&err)
			}
		})
	}
	if err := client.Flush(ctx); err != nil {
		return err
	}
	if err := failed.Load(); err != nil {
		return *err
	}
	return nil
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

// limit bounds one measurement. It is reached only if something hangs.
const limit = time.Minute
