package tap

// Arbitrary input from a peer causes no panic, and uses no more memory than the input can stand for. The fuzz bodies
// measure allocated memory, so that the fuzzer finds lengths that are accepted without a check.

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"hash/crc32"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
	"github.com/pierrec/lz4/v4"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/dlqbench/dlqbench/internal/kafkaio"
)

// codecs are the compression methods of clients, by the attribute bits that name them.
func codecs() map[string]struct {
	code int16
	pack func([]byte) []byte
} {
	type codec = struct {
		code int16
		pack func([]byte) []byte
	}
	return map[string]codec{
		"none":        {0, bytes.Clone},
		"gzip":        {1, gzipped},
		"snappy":      {2, func(data []byte) []byte { return s2.EncodeSnappy(nil, data) }},
		"java snappy": {2, xerial},
		"lz4":         {3, lz4ed},
		"zstd":        {4, zstded},
	}
}

func gzipped(data []byte) []byte {
	var out bytes.Buffer
	w := gzip.NewWriter(&out)
	_, _ = w.Write(data)
	_ = w.Close()
	return out.Bytes()
}

func lz4ed(data []byte) []byte {
	var out bytes.Buffer
	w := lz4.NewWriter(&out)
	_, _ = w.Write(data)
	_ = w.Close()
	return out.Bytes()
}

func zstded(data []byte) []byte {
	w, _ := zstd.NewWriter(nil)
	defer w.Close()
	return w.EncodeAll(data, nil)
}

// packed returns the batch with other records, already compressed.
func packed(batch []byte, code int16, records []byte) []byte {
	out := append(bytes.Clone(batch[:batchHeader]), records...)
	binary.BigEndian.PutUint32(out[8:], uint32(len(out)-batchPrefix))
	binary.BigEndian.PutUint16(out[21:], uint16(code))
	binary.BigEndian.PutUint32(out[17:], crc32.Checksum(out[21:], crc32.MakeTable(crc32.Castagnoli)))
	return out
}

// counted returns the batch with another number of records.
func counted(batch []byte, records uint32) []byte {
	out := bytes.Clone(batch)
	binary.BigEndian.PutUint32(out[57:], records)
	return out
}

// The tap reads the original records from a compressed batch, whatever the codec.
func TestEveryCodecIsRead(t *testing.T) {
	want := []string{"a", strings.Repeat("a dead letter ", 200), ""}
	plain := makeBatch(7, want...)
	inflate := kafkaio.Inflater{Limit: 1 << 20}
	for name, codec := range codecs() {
		for range 2 { // the second time with a used decoder
			b, rest, ok := nextBatch(packed(plain, codec.code, codec.pack(plain[batchHeader:])))
			var got []string
			err := b.each(&inflate, func(_ int32, r record) { got = append(got, string(r.value)) })
			if !ok || len(rest) > 0 || err != nil || !slices.Equal(got, want) {
				t.Errorf("%s: %d records, %v", name, len(got), err)
			}
		}
	}
}

// setAside returns the number of bytes allocated so far.
func setAside() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// spare is the memory that decoding may allocate for any input: decoders and their buffers, and the allocations of
// other goroutines meanwhile.
const spare = 64 << 20

// Small data with a large claimed size gets no memory. Truly large data gets no more than the limit, doubled a few
// times as it grows.
func TestBombsCostLittle(t *testing.T) {
	claim := func(length uint64) []byte { // a zstd frame of one segment, its size in eight bytes, and one byte in it
		return append(binary.LittleEndian.AppendUint64([]byte{0x28, 0xb5, 0x2f, 0xfd, 0xe0}, length), 0x09, 0, 0, 'x')
	}
	zeroed := make([]byte, 16<<20)
	for name, c := range map[string]struct {
		code  int16
		data  []byte
		limit int
	}{
		"zstd says the limit": {4, claim(maxInflated), maxInflated},
		"zstd says 2 GiB":     {4, claim(2 << 30), maxInflated},
		"zstd says 8 EiB":     {4, claim(8 << 60), maxInflated},
		"snappy says 4 GiB":   {2, []byte("\xff\xff\xff\xff\x0f\x00"), maxInflated},
		"a java snappy block of 2 GiB": {2, []byte("\x82SNAPPY\x00\x00\x00\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff\x00"),
			maxInflated},
		"gzip":        {1, gzipped(zeroed), 1 << 20},
		"snappy":      {2, s2.EncodeSnappy(nil, zeroed), 1 << 20},
		"java snappy": {2, xerial(zeroed[:2<<20]), 1 << 20},
		"lz4":         {3, lz4ed(zeroed), 1 << 20},
		"zstd":        {4, zstded(zeroed), 1 << 20},
	} {
		b, _, ok := nextBatch(packed(makeBatch(0, "a"), c.code, c.data))
		inflate := kafkaio.Inflater{Limit: c.limit}
		before := setAside()
		err := b.each(&inflate, func(int32, record) { t.Errorf("%s: it has a record", name) })
		if cost := setAside() - before; !ok || err == nil || cost > spare {
			t.Errorf("%s: %v, %d KiB were set aside", name, err, cost>>10)
		}
	}
}

// Millions of empty records fit in a few kilobytes.
func TestBatchesOfTooManyRecordsAreRefused(t *testing.T) {
	empty := makeBatch(0, "")[batchHeader:]
	for count, whole := range map[int]bool{1000: true, kafkaio.MaxRecords + 1: false} {
		batch := counted(packed(makeBatch(0, ""), 4, zstded(bytes.Repeat(empty, count))), uint32(count))
		b, _, _ := nextBatch(batch)
		seen := 0
		err := b.each(&kafkaio.Inflater{Limit: maxInflated}, func(int32, record) { seen++ })
		if (err == nil) != whole || whole && seen != count || !whole && seen > 0 {
			t.Errorf("%d records in %d bytes: %d were read, %v", count, len(batch), seen, err)
		}
	}
}

func FuzzFrame(f *testing.F) {
	f.Add([]byte{0, 0, 0, 2, 1, 2, 0, 0, 0, 0})
	f.Add([]byte{0x7f, 0xff, 0xff, 0xff})
	f.Fuzz(func(t *testing.T, data []byte) {
		before := setAside()
		var pool frames
		from := bufio.NewReader(bytes.NewReader(data))
		for total := 0; ; {
			fr, err := pool.read(from)
			if err != nil {
				break
			}
			if total += len(fr.data); total > len(data) || cap(fr.data) > max(2*len(data), 2*firstRead) {
				t.Fatalf("read %d bytes of %d into %d", total, len(data), cap(fr.data))
			}
			pool.put(fr)
		}
		if cost := setAside() - before; cost > spare+uint64(4*len(data)) {
			t.Fatalf("%d MiB were set aside for %d bytes", cost>>20, len(data))
		}
	})
}

func FuzzHeader(f *testing.F) {
	apis := newAPIs()
	f.Add(requestFrame(1, kmsg.NewPtrMetadataRequest())[4:])
	f.Add(requestFrame(1, produce(9, -1, map[string][]string{"a": {"b"}}))[4:])
	f.Fuzz(func(t *testing.T, payload []byte) {
		before := setAside()
		h, err := apis.parseHeader(payload)
		if err != nil {
			return
		}
		if h.known && (h.body < 8 || h.body > len(payload)) {
			t.Fatalf("the body begins at %d of %d", h.body, len(payload))
		}
		_, _ = h.responseHeader(payload)
		_, _ = walkProduce(payload[h.body:], h.version, h.flexible, func([]byte, [16]byte, int32, []byte) error {
			return nil
		})
		if h.known {
			// False lengths cost a hundred times the memory of the frame, and more; maxDecoded bounds it.
			_, _ = decodeRequest(h, &frame{data: append(make([]byte, sizeLen), payload...)})
		}
		if cost := setAside() - before; cost > spare+uint64(400*len(payload)) {
			t.Fatalf("%d MiB were set aside for %d bytes", cost>>20, len(payload))
		}
	})
}

func FuzzBatch(f *testing.F) {
	plain := makeBatch(0, "a", strings.Repeat("b", 300))
	f.Add(plain, int64(0))
	f.Add(control(makeBatch(5, "a")), int64(-1))
	for _, codec := range codecs() {
		f.Add(packed(plain, codec.code, codec.pack(plain[batchHeader:])), int64(0))
	}
	inflate := kafkaio.Inflater{Limit: 1 << 20}
	f.Fuzz(func(t *testing.T, data []byte, from int64) {
		if first, last, found := offsets(data, from); found && (last < first || from >= 0 && first < from) {
			t.Fatalf("asked from %d, got %d to %d", from, first, last)
		}
		for rest := data; ; {
			b, left, ok := nextBatch(rest)
			if !ok {
				break
			}
			rest = left
			before, records := setAside(), int32(0)
			err := b.each(&inflate, func(_ int32, r record) {
				records++
				if len(r.key)+len(r.value)+len(r.headers) > max(inflate.Limit, len(data)) {
					t.Fatalf("a record is larger than all of them")
				}
				r.eachHeader(func(_, _ []byte) bool { return true })
			})
			if err == nil && records != max(b.count, 0) {
				t.Fatalf("%d of %d records were read", records, b.count)
			}
			if cost := setAside() - before; cost > spare {
				t.Fatalf("%d MiB were set aside for a batch of %d bytes", cost>>20, len(b.records))
			}
		}
	})
}
