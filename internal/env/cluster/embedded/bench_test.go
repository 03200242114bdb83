package embedded

import (
	"context"
	"strconv"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// BenchmarkStart measures how long an embedded Kafka takes to start and to close.
func BenchmarkStart(b *testing.B) {
	for _, brokers := range []int{1, 3} {
		b.Run(strconv.Itoa(brokers), func(b *testing.B) {
			for b.Loop() {
				e := must.Get(Start(context.Background(), Options{Brokers: brokers, Dir: b.TempDir(), Log: zerolog.Nop()}))(b)
				topics := []cluster.Topic{{Name: "input", Partitions: 6}, {Name: "dlq", Partitions: 6, Broker: int32(brokers)}}
				must.Do(b, e.CreateTopics(context.Background(), topics))
				must.Do(b, e.Close())
			}
		})
	}
}

// BenchmarkStopStart measures a broker's stop and start, with the moves of leaders and coordinators.
func BenchmarkStopStart(b *testing.B) {
	e := must.Get(Start(context.Background(), Options{Brokers: 3, Dir: b.TempDir(), Log: zerolog.Nop()}))(b)
	defer func() { _ = e.Close() }()
	must.Do(b, e.CreateTopics(context.Background(), []cluster.Topic{{Name: "input", Partitions: 60}}))
	for _, group := range []string{"a", "b", "c"} {
		must.Get(e.CoordinatorFor(group))(b)
	}
	for b.Loop() {
		must.Get(e.StopBroker(context.Background(), 2))(b)
		must.Do(b, e.StartBroker(context.Background(), 2))
	}
}

// BenchmarkProduce measures the throughput of one idempotent producer.
func BenchmarkProduce(b *testing.B) {
	e := must.Get(Start(context.Background(), Options{Brokers: 1, Dir: b.TempDir(), Log: zerolog.Nop()}))(b)
	defer func() { _ = e.Close() }()
	must.Do(b, e.CreateTopics(context.Background(), []cluster.Topic{{Name: "input", Partitions: 6}}))
	c := must.Get(kgo.NewClient(kgo.SeedBrokers(e.Bootstrap()...), kgo.DefaultProduceTopic("input")))(b)
	defer c.Close()
	value := make([]byte, 256)
	b.SetBytes(int64(len(value)))
	for b.Loop() {
		c.Produce(context.Background(), &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
			if err != nil {
				b.Error(err)
			}
		})
	}
	must.Do(b, c.Flush(context.Background()))
}
