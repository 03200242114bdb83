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
	// MaxBatch is the maximum decompressed size of a batch in bytes. It is far above the size that a broker accepts
	// for an uncompressed batch (1 MiB by default).
	MaxBatch = 64 << 20
	// maxHeld is the maximum total decompressed size of the batches fetched between two polls.
	maxHeld = 2 * MaxBatch
	// recordCost is the approximate memory cost of a record in bytes, besides its data.
	recordCost = 256
	// fetchBytes limits the size of a fetch response. 50 MiB of small uncompressed records would take more than a
	// gigabyte of memory.
	fetchBytes = 16 << 20
)

// Reader limits the memory of one reading client. Its zero value is ready for use. A batch beyond MaxBatch or
// MaxRecords stops its partition with a *kgo.ErrDecompressTooLarge, which gives its position and the offset after it.
type Reader struct {
	inflater Inflater
	// held is the size decompressed since the last poll.
	held atomic.Int64
}

// errLater is the error for a batch that must wait for the next fetch, because the data in memory is polled first.
var errLater = errors.New("the batch is read again after what was fetched before it")

// Options returns the options for opening the client.
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

// Poll calls the client's PollRecords and returns the failures separately. The caller must have finished with the
// result of the previous poll, because its memory no longer counts.
func (r *Reader) Poll(ctx context.Context, client *kgo.Client, most int) (kgo.Fetches, []kgo.FetchError) {
	r.held.Store(0)
	fetches := client.PollRecords(ctx, most)
	failed := slices.DeleteFunc(fetches.Errors(), func(one kgo.FetchError) bool { return errors.Is(one.Err, errLater) })
	return fetches, failed
}

// countRecords returns the number of records in the data of a batch, MaxRecords+1 at most. Records after damaged data
// are not counted.
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
