package kafkaio

import (
	"context"
	"encoding/binary"
	"errors"
	"slices"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kgo"
)

const (
	// MaxBatch is the most bytes that a batch may decompress to: far more than a broker takes of one that is not
	// compressed (1 MiB unless it is told otherwise).
	MaxBatch = 64 << 20
	// maxHeld is the most that the batches of the fetches between two polls may decompress to together.
	maxHeld = 2 * MaxBatch
	// recordCost is what a record takes beside its bytes, about.
	recordCost = 256
	// fetchBytes bounds a fetch as it comes over the wire; 50 MiB of small records that are not compressed would take
	// more than a gigabyte.
	fetchBytes = 16 << 20
)

// Reader bounds the memory of one client that reads. Its zero value is ready. A batch past MaxBatch or MaxRecords stops
// its partition with a *kgo.ErrDecompressTooLarge, which says where it is and how to go past it.
type Reader struct {
	inflater Inflater
	// held is what was decompressed since the last poll.
	held atomic.Int64
}

// errLater is the error of a batch that has to wait for the next fetch: what is in memory is polled first.
var errLater = errors.New("the batch is read again after what was fetched before it")

// Options are what the client is opened with.
func (r *Reader) Options() []kgo.Opt {
	r.inflater.Limit = MaxBatch
	return []kgo.Opt{kgo.WithDecompressor(r), kgo.FetchMaxBytes(fetchBytes)}
}

// Decompress implements kgo.Decompressor.
func (r *Reader) Decompress(src []byte, codec kgo.CompressionCodecType) ([]byte, error) {
	if codec == kgo.CodecNone {
		return src, nil
	}
	data, err := r.inflater.Inflate(src, int16(codec))
	count := countRecords(data)
	if errors.Is(err, ErrTooLong) || count > MaxRecords {
		return nil, kgo.ErrMaxDecompress
	}
	if err != nil {
		return nil, err
	}
	cost := int64(len(data)) + int64(count)*recordCost
	if held := r.held.Add(cost); held > cost && held > maxHeld {
		r.held.Add(-cost)
		return nil, errLater
	}
	return data, nil
}

// Poll is the client's PollRecords, and what failed of it. What an earlier poll returned must be done with, since its
// memory counts no longer.
func (r *Reader) Poll(ctx context.Context, client *kgo.Client, most int) (kgo.Fetches, []kgo.FetchError) {
	r.held.Store(0)
	fetches := client.PollRecords(ctx, most)
	failed := slices.DeleteFunc(fetches.Errors(), func(one kgo.FetchError) bool { return errors.Is(one.Err, errLater) })
	return fetches, failed
}

// countRecords returns how many records the data of a batch holds, MaxRecords+1 at most; what comes after damage is not
// counted.
func countRecords(data []byte) int {
	count := 0
	for len(data) > 0 && count <= MaxRecords {
		length, size := binary.Varint(data)
		if size <= 0 || length < 0 || length > int64(len(data)-size) {
			break
		}
		data = data[size+int(length):]
		count++
	}
	return count
}
