package tap

import (
	"encoding/binary"
	"errors"
	"fmt"

	"github.com/dlqbench/dlqbench/internal/kafkaio"
)

// The layout of a record batch (magic 2): https://kafka.apache.org/documentation/#recordbatch. The first 17 bytes are
// the same in all formats: base offset, length of the rest, and the magic byte at 16.
const (
	batchPrefix   = 12
	batchMagic    = 16
	batchHeader   = 61
	maxInflated   = maxFrame
	attrCodec     = 0x07
	attrTxn       = 0x10
	attrControl   = 0x20
	recordMinimum = 7 // length, attributes, two deltas, two lengths, number of headers: a byte each
)

// batch is the header of a record batch, and its records in compressed form. Of formats before magic 2, only base
// and magic are set.
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

// nextBatch reads the batch at the start of data. ok is false at the end, and for a truncated batch, which may end a
// fetch response.
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
	w := wire{rest: whole[21:]} // after magic and CRC
	b.attributes, b.lastDelta = w.int16(), w.int32()
	w.span(16) // first and largest timestamp
	b.producerID, b.epoch, b.sequence, b.count = w.int64(), w.int16(), w.int32(), w.int32()
	b.records = w.rest
	return b, rest, true
}

// offsets returns the first and last offset of the records that data delivers to a client that fetched from the
// offset fetched (< 0: not known). A broker answers with whole batches, so the first batch may begin below that
// offset. Control batches contain no records. Formats before magic 2 give only the information in their outer
// message.
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

// each calls take for every record of the batch.
func (b *batch) each(inflate *kafkaio.Inflater, take func(index int32, r record)) error {
	if b.magic != 2 {
		return fmt.Errorf("a record batch has format %d; only format 2 (Kafka 0.11 and newer) can be observed", b.magic)
	}
	if b.count > kafkaio.MaxRecords {
		return fmt.Errorf("a record batch claims %d records; up to %d can be observed", b.count, kafkaio.MaxRecords)
	}
	data, err := inflate.Inflate(b.records, b.attributes&attrCodec)
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

// eachHeader calls take for every header of the record until take returns false.
func (r record) eachHeader(take func(key, value []byte) bool) {
	w := wire{rest: r.headers}
	for n := w.varint(); n > 0; n-- {
		key, value := w.varintBytes(), w.varintBytes()
		if w.bad || !take(key, value) {
			return
		}
	}
}
