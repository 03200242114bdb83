package tap

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
)

// The layout of a record batch (magic 2): https://kafka.apache.org/documentation/#recordbatch. The first 17 bytes are the same in
// all formats: base offset, length of the rest, and the magic byte at 16.
const (
	batchPrefix   = 12
	batchMagic    = 16
	batchHeader   = 61
	maxInflated   = maxFrame
	attrCodec     = 0x07
	attrTxn       = 0x10
	attrControl   = 0x20
	recordMinimum = 7 // length, attributes, two deltas, two lengths, number of headers: a byte each
	// maxRecords bounds the records of a batch: a few kilobytes of compressed data can hold tens of millions of empty ones, each of which is
	// remembered until it is answered. Clients stop far below; librdkafka's batch.num.messages allows a million.
	maxRecords = 1 << 20
)

// batch is the header of a record batch and its records, still compressed. Of the formats before magic 2 only base and magic are set.
type batch struct {
	base       int64
	magic      int8
	attributes int16
	lastDelta  int32
	producerID int64
	epoch      int16
	sequence   int32
	count      int32
	records    []byte
}

// nextBatch reads the batch at the start of data; ok is false at the end and for a batch that is cut off, as fetch responses may end.
func nextBatch(data []byte) (b batch, rest []byte, ok bool) {
	if len(data) <= batchMagic {
		return batch{}, nil, false
	}
	b.base = int64(binary.BigEndian.Uint64(data))
	length := int64(int32(binary.BigEndian.Uint32(data[8:])))
	if length < batchMagic+1-batchPrefix || length > int64(len(data)-batchPrefix) {
		return batch{}, nil, false
	}
	whole, rest := data[:batchPrefix+length], data[batchPrefix+length:]
	b.magic = int8(data[batchMagic])
	if b.magic < 2 {
		return b, rest, true
	}
	if len(whole) < batchHeader {
		return batch{}, nil, false
	}
	w := wire{rest: whole[21:]} // behind magic and CRC
	b.attributes, b.lastDelta = w.int16(), w.int32()
	w.span(16) // first and largest timestamp
	b.producerID, b.epoch, b.sequence, b.count = w.int64(), w.int16(), w.int32(), w.int32()
	b.records = w.rest
	return b, rest, true
}

// offsets returns the first and last offset of the records that data hands to a client that asked from fetched on (< 0: not known).
// A broker answers with whole batches, so the first may begin below; control batches are no records. Formats before magic 2 give
// only what their outer message tells.
func offsets(data []byte, fetched int64) (first, last int64, found bool) {
	for {
		b, rest, ok := nextBatch(data)
		if !ok {
			return first, last, found
		}
		data = rest
		end := b.base + int64(b.lastDelta)
		begin := b.base
		if b.magic < 2 {
			end = b.base
			if fetched >= 0 && !found {
				begin = min(fetched, end)
			}
		}
		if b.attributes&attrControl != 0 || b.magic >= 2 && b.count <= 0 || end < begin || end < fetched {
			continue
		}
		if !found {
			first, found = max(begin, fetched), true
		}
		last = max(last, end)
	}
}

// record is one record of a batch; key and value are nil for null.
type record struct {
	key, value []byte
	headers    []byte // still encoded
}

var errRecords = errors.New("its records are not in Kafka's record format")

// each gives every record of the batch to take.
func (b *batch) each(inflate *inflater, take func(index int32, r record)) error {
	if b.magic != 2 {
		return fmt.Errorf("a record batch has format %d; only format 2 (Kafka 0.11 and newer) can be observed", b.magic)
	}
	if b.count > maxRecords {
		return fmt.Errorf("a record batch claims %d records; up to %d can be observed", b.count, maxRecords)
	}
	data, err := inflate.inflate(b.records, b.attributes&attrCodec)
	if err != nil {
		return fmt.Errorf("decompressing a record batch of %d bytes: %w", len(b.records), err)
	}
	if int64(b.count)*recordMinimum > int64(len(data)) {
		return fmt.Errorf("a record batch claims %d records in %d bytes: %w", b.count, len(data), errRecords)
	}
	w := wire{rest: data}
	for i := range b.count {
		r := wire{rest: w.varintBytes()}
		r.int8()
		r.varint()
		r.varint()
		one := record{key: r.varintBytes(), value: r.varintBytes()}
		one.headers = r.rest
		if w.bad || r.bad {
			return fmt.Errorf("record %d of %d in a batch: %w", i, b.count, errRecords)
		}
		take(i, one)
	}
	return nil
}

// eachHeader gives every header of the record to take until it returns false.
func (r record) eachHeader(take func(key, value []byte) bool) {
	w := wire{rest: r.headers}
	for n := w.varint(); n > 0; n-- {
		key, value := w.varintBytes(), w.varintBytes()
		if w.bad || !take(key, value) {
			return
		}
	}
}

// inflater decompresses what the record format allows, up to limit bytes. It is safe for concurrent use.
type inflater struct {
	limit           int
	gzip, lz4, zstd sync.Pool
}

var errTooLong = errors.New("it is too long when decompressed")

func (f *inflater) inflate(data []byte, codec int16) ([]byte, error) {
	switch codec {
	case 0:
		return data, nil
	case 1:
		return f.gunzip(data)
	case 2:
		return f.unsnappy(data)
	case 3:
		from, _ := f.lz4.Get().(*lz4.Reader)
		if from == nil {
			from = lz4.NewReader(nil)
		}
		defer f.lz4.Put(from)
		from.Reset(bytes.NewReader(data))
		return f.readLimited(from)
	case 4:
		return f.unzstd(data)
	}
	return nil, fmt.Errorf("compression codec %d is not known", codec)
}

func (f *inflater) gunzip(data []byte) ([]byte, error) {
	from, _ := f.gzip.Get().(*gzip.Reader)
	if from == nil {
		from = new(gzip.Reader)
	}
	defer f.gzip.Put(from)
	if err := from.Reset(bytes.NewReader(data)); err != nil {
		return nil, err
	}
	return f.readLimited(from)
}

func (f *inflater) unzstd(data []byte) ([]byte, error) {
	// The decoder sets aside at once what a frame says that it holds. At best 4 bytes stand for a block, which holds up to 128 KiB (RFC 8878,
	// 3.1.1.2); a frame that claims more lies, and gets no memory for it.
	var head zstd.Header
	if head.Decode(data) == nil && head.HasFCS && head.FrameContentSize > uint64(1+len(data)/4)*(128<<10) {
		return nil, errTooLong
	}
	from, _ := f.zstd.Get().(*zstd.Decoder)
	if from == nil {
		var err error
		if from, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(uint64(f.limit))); err != nil {
			return nil, err
		}
	}
	defer f.zstd.Put(from)
	return from.DecodeAll(data, nil)
}

// unsnappy decodes a plain snappy block, or the sequence of blocks that Java's snappy library writes: an 8-byte mark, two 4-byte
// versions, then blocks after their 4-byte length.
func (f *inflater) unsnappy(data []byte) ([]byte, error) {
	mark := []byte("\x82SNAPPY\x00")
	if !bytes.HasPrefix(data, mark) {
		return f.snappyBlock(nil, data)
	}
	var out []byte
	w := wire{rest: data}
	w.span(len(mark) + 8)
	for len(w.rest) > 0 {
		block := w.span(int(w.int32()))
		if w.bad {
			return nil, errShort
		}
		var err error
		if out, err = f.snappyBlock(out, block); err != nil {
			return nil, err
		}
	}
	return out, nil
}

func (f *inflater) snappyBlock(out, block []byte) ([]byte, error) {
	n, err := s2.DecodedLen(block)
	if err != nil {
		return nil, err
	}
	// The best that snappy does is 64 bytes for 3; a block that claims more lies, and gets no memory for it.
	if n > f.limit-len(out) || n > 64*len(block) {
		return nil, errTooLong
	}
	decoded, err := s2.Decode(nil, block)
	if out == nil {
		return decoded, err
	}
	return append(out, decoded...), err
}

func (f *inflater) readLimited(from io.Reader) ([]byte, error) {
	out, err := io.ReadAll(io.LimitReader(from, int64(f.limit)+1))
	if len(out) > f.limit {
		return nil, errTooLong
	}
	return out, err
}
