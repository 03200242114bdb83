package cost

// This file measures what producers and consumers lose to the components between them and their broker.

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/faults/network"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/memconn"
	"github.com/dlqbench/dlqbench/internal/env/workload"
	"github.com/dlqbench/dlqbench/internal/plan"
)

// BenchmarkProduce compares the workload's producer with the client that it uses, and with kafka-producer-perf-test and
// xk6-kafka where they are there. All send at maximum speed with the same settings; each has a broker of its own,
// because earlier records in the topics would distort the result.
func BenchmarkProduce(b *testing.B) {
	const records = 250_000
	for _, producer := range []struct {
		name    string
		produce func(*testing.B, *rig, *meter, int)
	}{
		{"franz-go", produceBare}, {"workload", produceWorkload}, {"kafka-producer-perf-test", produceTool},
		{"xk6-kafka", produceK6},
	} {
		b.Run("way="+producer.name, func(b *testing.B) {
			var m meter
			for b.Loop() {
				producer.produce(b, newRig(b), &m, records)
			}
			m.report(b, "record")
		})
	}
}

// produceBare sends prepared records with the workload's client options.
func produceBare(b *testing.B, r *rig, m *meter, count int) {
	records := make([]*kgo.Record, count)
	for i := range records {
		records[i] = r.record(int32(i))
	}
	client := must(kgo.NewClient(
		kgo.SeedBrokers(r.address()), kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.RequiredAcks(kgo.AllISRAcks()),
		kgo.MaxBufferedRecords(count), kgo.ProducerLinger(time.Millisecond),
		kgo.ProducerBatchCompression(kgo.NoCompression()),
	))(b)
	defer client.Close()
	var acked atomic.Int64
	m.take(b, count, func() error {
		for _, record := range records {
			client.TryProduce(b.Context(), record, func(_ *kgo.Record, err error) {
				if err == nil {
					acked.Add(1)
				}
			})
		}
		return client.Flush(b.Context())
	})
	wholly(b, acked.Load(), count)
}

// produceWorkload builds, hashes, stamps and records each record and each acknowledgement.
func produceWorkload(b *testing.B, r *rig, m *meter, count int) {
	p := &plan.Plan{Records: make([]plan.Record, count)}
	for i := range p.Records {
		p.Records[i] = plan.Record{
			Outcome: history.OutcomeSuccess, Key: int32(i % keyCount), Partition: int32(i % partitions), Size: valueSize,
		}
	}
	producer := must(workload.NewProducer(workload.ProducerConfig{
		Client: r.kafka.ClientOptions(), Inputs: []workload.Input{{Topic: inputTopic}}, Plan: p, IDs: r.ids, Clock: r.clock,
		Sink: r.sink,
	}))(b)
	defer producer.Close()
	m.take(b, count, func() error {
		if err := producer.Run(b.Context(), r.clock.Now()); err != nil {
			return err
		}
		return producer.Flush(b.Context())
	})
	_, acked, _, _ := producer.Counts()
	wholly(b, acked, count)
}

func wholly(b *testing.B, done int64, count int) {
	b.Helper()
	if done != int64(count) {
		b.Fatalf("only %d of %d records went through", done, count)
	}
}

// BenchmarkConsume reads stored records and does nothing with them: the worst case, as client and broker share the
// processors with what is between them.
func BenchmarkConsume(b *testing.B) {
	const records = 1_000_000
	r := newRig(b)
	r.fill(b, records)
	for _, w := range r.ways(b) {
		b.Run("way="+w.name, func(b *testing.B) {
			var m meter
			warmUp := 0
			if w.jvm {
				warmUp = 10
			}
			for range warmUp {
				w.consume(b, &meter{}, records)
			}
			for b.Loop() {
				w.consume(b, &m, records)
			}
			if w.apart {
				m.cpu = 0
			}
			m.report(b, "record")
		})
	}
}

// consume reads the input topic from its beginning, through the way.
func (w way) consume(b *testing.B, m *meter, count int) {
	from := map[int32]kgo.Offset{}
	for partition := range int32(partitions) {
		from[partition] = kgo.NewOffset().AtStart()
	}
	client := w.client(b, kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{inputTopic: from}))
	defer client.Close()
	m.take(b, count, func() error {
		for read := 0; read < count; {
			fetches := client.PollFetches(b.Context())
			if err := fetches.Err(); err != nil {
				return err
			}
			read += fetches.NumRecords()
		}
		return nil
	})
}

// BenchmarkReference measures the reference consumer, with one HTTP call per record: with direct connections; through
// the tap as in a run without network faults, with the observations only counted; with links, as with such faults; and
// without links, with the observations recorded.
func BenchmarkReference(b *testing.B) {
	// The topic has more records than are measured, because at the end of a topic a consumer waits for records instead
	// of working.
	const records, stored = 40_000, 50_000
	r := newRig(b)
	r.fill(b, stored)
	p := &plan.Plan{Records: make([]plan.Record, stored)}
	for i := range p.Records {
		p.Records[i].Outcome = history.OutcomeSuccess
	}
	stub := must(workload.NewStub(workload.StubConfig{
		AttemptsConfig: workload.AttemptsConfig{
			Plan: p, IDs: r.ids, Instances: 1, Ops: &r.ops, Clock: r.clock, Sink: r.sink,
		},
		Topics: topics(),
	}))(b)
	b.Cleanup(stub.Close)
	through := r.tap(b, network.Straight{Upstream: r.upstream()})
	broker := r.link(b, r.upstream())
	downstream := r.link(b, network.Upstream{Inside: func(ctx context.Context) (*memconn.Conn, error) {
		return stub.Connect(ctx, 0)
	}})
	groups := 0
	for _, w := range []struct {
		name, kafka, downstream string
		recorded                bool
	}{
		{"straight", r.address(), stub.Addr(0), false}, {"observed", through, stub.Addr(0), false},
		{"linked", r.tap(b, broker), downstream.Address(), false},
		{"recorded", through, stub.Addr(0), true},
	} {
		b.Run("way="+w.name, func(b *testing.B) {
			if w.recorded {
				recorder := must(history.NewRecorder(filepath.Join(b.TempDir(), "history"), synthetic{}.Header(), r.clock))(b)
				r.sink.keep.Store(recorder)
				b.Cleanup(func() { r.sink.keep.Store(nil); done(b, recorder.Close()) })
			}
			var m meter
			for b.Loop() {
				groups++
				processAll(b, &m, w.kafka, "http://"+w.downstream, fmt.Sprintf("bench-%d", groups), records)
			}
			m.report(b, "record")
		})
	}
}

// processAll runs the reference consumer, with a new group, until it has processed count records. The measurement
// begins with its first record, because the time for joining a group varies.
func processAll(b *testing.B, m *meter, kafka, downstream, group string, count int) {
	call := must(consumer.HTTPHandler(downstream))(b)
	var processed atomic.Int64
	first, last := make(chan struct{}), make(chan struct{})
	settings := consumer.DefaultSettings()
	consuming := must(consumer.New(consumer.Config{
		Bootstrap: []string{kafka}, Topic: inputTopic, DLQTopic: dlqTopic, Group: group, ClientID: "bench",
		Settings: settings, Logger: zerolog.Nop(), Handler: func(ctx context.Context, record *kgo.Record) error {
			err := call(ctx, record)
			switch n := processed.Add(1); {
			case n == 1:
				close(first)
			case n == int64(count):
				close(last)
			}
			return err
		},
	}, consumer.DefaultParts(settings)))(b)
	ctx, stop := context.WithCancel(b.Context())
	ended := make(chan error, 1)
	go func() { ended <- consuming.Run(ctx) }()
	await := func(signal <-chan struct{}) error {
		select {
		case <-signal:
			return nil
		case <-time.After(limit):
			return fmt.Errorf("the consumer has processed %d of %d records in %s", processed.Load(), count, limit)
		}
	}
	done(b, await(first))
	m.take(b, count, func() error { return await(last) })
	stop()
	done(b, <-ended)
}

// BenchmarkRoundTrip measures what the components add to the round trip of one record with acks=all. It goes to the
// dead-letter topic, which the tap observes.
func BenchmarkRoundTrip(b *testing.B) {
	const trips = 400
	r := newRig(b)
	for _, w := range r.ways(b) {
		b.Run("way="+w.name, func(b *testing.B) {
			client := w.client(b, kgo.RequiredAcks(kgo.AllISRAcks()), kgo.ProducerLinger(0),
				kgo.RecordPartitioner(kgo.ManualPartitioner()))
			defer client.Close()
			var took []time.Duration
			trip := func(n int) {
				record := r.record(int32(n))
				record.Topic = dlqTopic
				start := time.Now()
				done(b, client.ProduceSync(b.Context(), record).FirstErr())
				took = append(took, time.Since(start))
			}
			warmUp := trips / 4 // connects, and creates buffers
			if w.jvm {
				warmUp = 50 * trips
			}
			for n := range warmUp {
				trip(n)
			}
			took = nil
			for b.Loop() {
				for n := range trips {
					trip(n)
				}
			}
			slices.Sort(took)
			b.ReportMetric(0, "ns/op")
			b.ReportMetric(took[len(took)/2].Seconds()*1e6, "p50-µs")
			b.ReportMetric(took[len(took)*99/100].Seconds()*1e6, "p99-µs")
		})
	}
}
