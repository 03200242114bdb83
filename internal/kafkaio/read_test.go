package kafkaio

import (
	"bytes"
	"context"
	"errors"
	"testing"
	"time"

	"github.com/klauspost/compress/zstd"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func zstded(t *testing.T, data []byte) []byte {
	t.Helper()
	encoder := must.Get(zstd.NewWriter(nil))(t)
	defer encoder.Close()
	return encoder.EncodeAll(data, nil)
}

func TestABatchIsBoundedInBytesAndInRecords(t *testing.T) {
	var r Reader
	r.Options()
	empty := []byte{12, 0, 0, 0, 1, 1, 0} // a record of six bytes after its length
	for name, c := range map[string]struct {
		data []byte
		fits bool
	}{
		"as long as it may be": {make([]byte, MaxBatch), true}, "longer": {make([]byte, MaxBatch+1), false},
		"as many records": {bytes.Repeat(empty, MaxRecords), true}, "more": {bytes.Repeat(empty, MaxRecords+1), false},
	} {
		r.held.Store(0)
		if c.data[0] == 0 {
			c.data[0] = 1 // damaged: not a record
		}
		got, err := r.Decompress(zstded(t, c.data), kgo.CodecZstd)
		if c.fits && (err != nil || !bytes.Equal(got, c.data)) || !c.fits && !errors.Is(err, kgo.ErrMaxDecompress) {
			t.Errorf("%s: %d bytes, %v", name, len(got), err)
		}
	}
}

// Between two polls, the decompressed size is limited. Batches that must wait come later, in order, and are not
// failures.
func TestWhatIsHeldIsBounded(t *testing.T) {
	cluster := must.Get(kfake.NewCluster(kfake.NumBrokers(1), kfake.SeedTopics(2, "t")))(t)
	defer cluster.Close()
	writer := must.Get(kgo.NewClient(kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.DefaultProduceTopic("t"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()),
		kgo.ProducerBatchCompression(kgo.ZstdCompression()), kgo.ProducerBatchMaxBytes(100<<20)))(t)
	defer writer.Close()
	const each, most = 30 << 20, maxHeld / (30 << 20)
	for i := range int32(10) {
		must.Do(t, writer.ProduceSync(t.Context(), &kgo.Record{Partition: i % 2, Value: bytes.Repeat([]byte{byte(i)}, each)}).
			FirstErr())
	}
	var r Reader
	client, err := kgo.NewClient(append(r.Options(), kgo.SeedBrokers(cluster.ListenAddrs()...), kgo.ConsumeTopics("t"))...)
	if err != nil {
		t.Fatal(err)
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	last, seen := map[int32]int64{0: -1, 1: -1}, 0
	for seen < 10 {
		fetches, failed := r.Poll(ctx, client, 100)
		if len(failed) > 0 || fetches.NumRecords() > most {
			t.Fatalf("%d records at once, %v", fetches.NumRecords(), failed)
		}
		fetches.EachRecord(func(record *kgo.Record) {
			if record.Offset != last[record.Partition]+1 {
				t.Errorf("%d after %d", record.Offset, last[record.Partition])
			}
			last[record.Partition] = record.Offset
			seen++
		})
	}
}
