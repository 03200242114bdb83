package embedded

import (
	"context"
	"strconv"
	"testing"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// BenchmarkStart measures how long an embedded Kafka takes to start and to close.
func BenchmarkStart(b *testing.B) {
	for _, brokers := range []int{1, 3} {
		b.Run(strconv.Itoa(brokers), func(b *testing.B) {
			for b.Loop() {
				e, err := Start(context.Background(), Options{Brokers: brokers, Dir: b.TempDir(), Log: zerolog.Nop()})
				if err != nil {
					b.Fatal(err)
				}
				topics := []cluster.Topic{{Name: "input", Partitions: 6}, {Name: "dlq", Partitions: 6, Broker: int32(brokers)}}
				if err := e.CreateTopics(context.Background(), topics); err != nil {
					b.Fatal(err)
				}
				if err := e.Close(); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// BenchmarkStopStart measures a broker's stop and start, with the moves of leaders and coordinators.
func BenchmarkStopStart(b *testing.B) {
	e, err := Start(context.Background(), Options{Brokers: 3, Dir: b.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if err := e.CreateTopics(context.Background(), []cluster.Topic{{Name: "input", Partitions: 60}}); err != nil {
		b.Fatal(err)
	}
	for _, group := range []string{"a", "b", "c"} {
		if _, err := e.CoordinatorFor(group); err != nil {
			b.Fatal(err)
		}
	}
	for b.Loop() {
		if _, err := e.StopBroker(context.Background(), 2); err != nil {
			b.Fatal(err)
		}
		if err := e.StartBroker(context.Background(), 2); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkProduce measures the throughput of one idempotent producer.
func BenchmarkProduce(b *testing.B) {
	e, err := Start(context.Background(), Options{Brokers: 1, Dir: b.TempDir(), Log: zerolog.Nop()})
	if err != nil {
		b.Fatal(err)
	}
	defer func() { _ = e.Close() }()
	if err := e.CreateTopics(context.Background(), []cluster.Topic{{Name: "input", Partitions: 6}}); err != nil {
		b.Fatal(err)
	}
	c, err := kgo.NewClient(kgo.SeedBrokers(e.Bootstrap()...), kgo.DefaultProduceTopic("input"))
	if err != nil {
		b.Fatal(err)
	}
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
	if err := c.Flush(context.Background()); err != nil {
		b.Fatal(err)
	}
}
