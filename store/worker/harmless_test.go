package worker

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/kafkaio"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/store"
)

// Not every consumer has every codec, and a consumer that lacks one crashes.
func TestRepublishingWritesNoCodec(t *testing.T) {
	b := newBench(t, 1)
	client := must.Get(kgo.NewClient(ProducerOptions(b.cluster.ListenAddrs())...))(t)
	defer client.Close()
	value := bytes.Repeat([]byte("compressible "), 1000)
	must.Do(t, (&Republish{Producer: client, To: sourceTopic}).Retry(t.Context(), store.Entry{Value: value}))
	reader := must.Get(kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.ConsumeTopics(sourceTopic)))(t)
	defer reader.Close()
	got := reader.PollRecords(t.Context(), 1).Records()
	if len(got) != 1 || !bytes.Equal(got[0].Value, value) || got[0].Attrs.CompressionType() != 0 {
		t.Errorf("%d records, codec %d", len(got), got[0].Attrs.CompressionType())
	}
}

// A batch that cannot be read is neither dropped nor committed, and does not block other partitions.
func TestARouterStopsAtABatchThatIsTooLarge(t *testing.T) {
	b := newBench(t, 2)
	client := must.Get(kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...), kgo.ProducerBatchMaxBytes(100<<20),
		kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(kgo.ZstdCompression())))(t)
	defer client.Close()
	large := letter(0, 1, "timeout")
	large.Value = make([]byte, kafkaio.MaxBatch+1)
	for _, one := range []*kgo.Record{letter(0, 0, "timeout"), large, letter(0, 2, "timeout"), letter(1, 3, "timeout")} {
		must.Do(t, client.ProduceSync(t.Context(), one).FirstErr())
	}
	b.route(b.routerConfig())
	b.eventually("the others are stored", func() bool {
		return b.count() == 2 && b.committed(0) == 1 && b.committed(1) == 1
	})
}
