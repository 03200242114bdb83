package deadletter

import (
	"bytes"
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/kafkaio"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// compressed writes values to a partition of the topic, in one batch with the codec.
func (b *bench) compressed(topic string, partition int32, codec kgo.CompressionCodec, values ...[]byte) {
	b.Helper()
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(codec), kgo.ProducerBatchMaxBytes(100<<20), kgo.MaxBufferedBytes(1<<30)))(b)
	defer client.Close()
	var all []*kgo.Record
	for _, value := range values {
		letter := Plain{}.Seal(&kgo.Record{Value: value}, Failure{Reason: "timeout", Attempts: 1, Topic: "orders",
			Partition: partition})
		letter.Topic, letter.Partition = topic, partition
		all = append(all, letter)
	}
	must.Do(b, client.ProduceSync(b.Context(), all...).FirstErr())
}

// Not every consumer has every codec, and a consumer that lacks one crashes.
func TestReplayWritesNoCodec(t *testing.T) {
	for _, codec := range []kgo.CompressionCodec{kgo.NoCompression(), kgo.SnappyCompression(), kgo.GzipCompression()} {
		b := newBench(t)
		b.compressed("orders.dlq", 0, codec, bytes.Repeat([]byte("compressible "), 1000),
			bytes.Repeat([]byte("this too "), 1000))
		if result := b.run(b.config()); result.Replayed != letters+2 {
			t.Fatalf("%+v", result)
		}
		for _, record := range b.content("orders") {
			if used := record.Attrs.CompressionType(); used != 0 {
				t.Fatalf("%.20q was written with codec %d", record.Value, used)
			}
		}
	}
}

// A batch is exactly as large as the topic accepts. A larger batch would be rejected with all its records, and a
// smaller maximum would reject a record that fits.
func TestReplayFillsBatchesAsTheTopicTakesThem(t *testing.T) {
	b := newBench(t)
	limit := "30000"
	b.alter("orders", "max.message.bytes", limit)
	b.alter("elsewhere", "max.message.bytes", "5000000")
	many := make([][]byte, 200)
	for i := range many {
		many[i] = bytes.Repeat([]byte{byte('a' + i%26)}, 2000)
	}
	b.compressed("orders.dlq", 1, kgo.ZstdCompression(), many...)
	if result := b.run(b.config()); result.Failed > 0 || result.Replayed != letters+200 {
		t.Errorf("%+v", result)
	}
	b.compressed("orders.dlq", 1, kgo.ZstdCompression(), bytes.Repeat([]byte("x"), 2_000_000))
	config := b.config()
	config.To, config.Where = "elsewhere", `partition == 1 && offset >= 220`
	if result := b.run(config); result.Failed > 0 || result.Replayed != 1 {
		t.Errorf("a record of 2 MB, to a topic that takes 5: %+v", result)
	}
}

func TestReplayPassesOverBatchesThatAreTooLarge(t *testing.T) {
	b := newBench(t)
	for range 3 {
		b.compressed("orders.dlq", 0, kgo.ZstdCompression(), make([]byte, kafkaio.MaxBatch+1))
	}
	b.compressed("orders.dlq", 0, kgo.ZstdCompression(), []byte("behind"))
	result := b.run(b.config())
	if result.Replayed != letters+1 || result.Unreadable != 3 || result.Failed != 0 ||
		len(result.Failures) != 3 || !strings.HasPrefix(result.Failures[0], "orders.dlq-0@20 to 20: ") {
		t.Errorf("%+v", result)
	}
	b.deadLetter(1)
	if result := b.run(b.config()); result.Replayed != 1 || result.Unreadable != 0 {
		t.Errorf("the next run: %+v", result)
	}
}

// The size of a fetch is also limited. Batches that are each small enough are read one after the other.
func TestReplayOfManyLargeBatches(t *testing.T) {
	b := newBench(t)
	for i := range 8 {
		b.compressed("orders.dlq", int32(i%3), kgo.ZstdCompression(), bytes.Repeat([]byte{byte(i)}, 40<<20))
	}
	config := b.config()
	config.DryRun, config.FromStart = true, true
	seen := map[string]bool{}
	config.OnLetter = func(letter, _ *kgo.Record) { seen[fmt.Sprint(letter.Partition, letter.Offset)] = true }
	if result := b.run(config); result.Selected != letters+8 || len(seen) != letters+8 {
		t.Errorf("%+v, %d seen", result, len(seen))
	}
}

func (b *bench) alter(topic, name, value string) {
	b.Helper()
	must.Get(b.admin().AlterTopicConfigs(context.Background(), alteration(name, value), topic))(b)
}

func (b *bench) admin() *kadm.Client { return kadm.NewClient(b.client) }

func alteration(name, value string) []kadm.AlterConfig {
	return []kadm.AlterConfig{{Op: kadm.SetConfig, Name: name, Value: &value}}
}
