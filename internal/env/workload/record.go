package workload

// The form of the workload's records: key, value and headers, built without garbage per record, and the hashes that
// identify them later.

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"io"
	"math/big"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cespare/xxhash/v2"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// headerPrefix is the beginning of the extra headers' names; a number from 1 follows.
const headerPrefix = "trace-"

// padding is the text that fills up values. A value takes as much of it as it needs, repeated if necessary.
const padding = "the quick brown fox jumps over the lazy dog 0123456789 THE QUICK BROWN FOX JUMPS OVER THE LAZY DOG "

// OriginalHeaders returns a function that reports whether a header is one that the workload gave a record, which has
// this number of extra headers and the named ones. Other headers were added to a copy of the record later.
func OriginalHeaders(extra int, named []NamedHeader) func(name string) bool {
	return func(name string) bool {
		if name == history.IDHeader || slices.ContainsFunc(named, func(one NamedHeader) bool { return one.Name == name }) {
			return true
		}
		digits, found := strings.CutPrefix(name, headerPrefix)
		n, err := strconv.Atoi(digits)
		return found && err == nil && n >= 1 && n <= extra && digits == strconv.Itoa(n)
	}
}

// HashHeaders returns a hash of the headers that keep accepts: of their names and values, and of their order among
// headers of one name. The order of different names does not matter, because clients that keep headers in a map lose
// it, and that breaks no promise. A null value differs from an empty one. No headers hash to 0.
func HashHeaders(headers []kgo.RecordHeader, keep func(name string) bool) uint64 {
	var sum uint64
	for i := range headers {
		header := &headers[i]
		if !keep(header.Key) {
			continue
		}
		nth := byte(0)
		for j := range i {
			if headers[j].Key == header.Key {
				nth++
			}
		}
		var room [128]byte // enough for most; a digest of the parts takes twice the time
		text := append(append(room[:0], header.Key...), 0, nth)
		if header.Value == nil {
			text = append(text, 0xff) // no value in the workload is the single byte 0xff
		}
		sum += xxhash.Sum64(append(text, header.Value...))
	}
	return sum
}

// HashValue returns the hash of a value, or, if content is true, that of its content as JSON.
func HashValue(value []byte, content bool) uint64 {
	if content {
		value = Canonical(value)
	}
	return history.HashBytes(value)
}

// builder builds records. It is not safe for concurrent use.
type builder struct {
	ids   *history.IDs
	seed  uint64
	topic string
	names []string
	named []NamedHeader
	odd   []string // names of the dialect's headers that odd headers use too
	// samples are what records are made from, nil for records of the workload's own.
	samples *samples.Set
	slabs   slabs
	id      []byte // of the record being built, which has it more than once
	second  writtenSecond
}

// newBuilder returns a builder. seed is the seed of the garbage.
func newBuilder(ids *history.IDs, seed uint64, topic string, extraHeaders int, named ...NamedHeader) *builder {
	b := &builder{ids: ids, seed: seed, topic: topic, names: []string{history.IDHeader}, named: named}
	for i := range extraHeaders {
		b.names = append(b.names, headerPrefix+strconv.Itoa(i+1))
	}
	return b
}

// build returns record seq of the plan, sent at the given wall-clock time. If its value has no id, and no other record
// has it, copies of the record are recognised by the value from now on.
func (b *builder) build(seq int32, planned *plan.Record, sentAt time.Time) *outgoing {
	record := b.slabs.next()
	record.seq, record.flags = seq, 0
	record.Record = kgo.Record{Topic: b.topic, Partition: planned.Partition, Timestamp: sentAt}
	b.id = b.ids.Append(b.id[:0], seq)
	record.Key = b.key(seq, planned)
	switch {
	case planned.Tombstone: // the value stays null
	case planned.Garbage:
		room := garbageSize(planned)
		record.Value = b.slabs.take(room, func(dst []byte) []byte { return b.appendGarbage(dst, seq, room) })
	case planned.Malformed != 0 && (b.samples != nil || planned.Malformed.Unreadable()):
		record.Value = b.malformed(seq, planned, sentAt)
	case b.samples != nil:
		record.Value = b.fromSample(seq, planned)
	default:
		room := max(int(planned.Size), smallestValue)
		record.Value = b.slabs.take(room, func(dst []byte) []byte { return b.appendValue(dst, seq, planned, sentAt) })
	}
	if planned.Garbage || b.samples == nil && planned.Malformed.Unreadable() { // malformed samples are alike
		b.ids.KnowValue(record.Value, seq)
	}
	record.Headers = b.headersOf(seq, planned)
	return record
}

// key returns the key of a record: null, the record's id, a sample's, or the workload's own.
func (b *builder) key(seq int32, planned *plan.Record) []byte {
	switch index := planned.Key; {
	case index == history.None:
		return nil
	case index == history.KeyIsID:
		return b.slabs.take(b.samples.KeyRoom(planned.Sample, b.ids), func(dst []byte) []byte {
			return b.samples.AppendKey(dst, planned.Sample, b.ids, seq)
		})
	case index >= history.SampleKey && index < history.BinaryKey:
		return b.samples.OwnKey(index - history.SampleKey) // nobody changes a key
	}
	return b.slabs.take(keyRoom, func(dst []byte) []byte { return plan.AppendKey(dst, planned.Key) })
}

// fromSample returns a sample's value with the record's id. Of the planned sizes, only the large ones count.
func (b *builder) fromSample(seq int32, planned *plan.Record) []byte {
	size := 0
	if planned.Large {
		size = int(planned.Size)
	}
	return b.slabs.take(b.samples.Room(planned.Sample, b.ids, size), func(dst []byte) []byte {
		return b.samples.AppendValue(dst, planned.Sample, b.ids, seq, size)
	})
}

// malformed returns the value of a sample, or of the workload's own record, with a fault.
func (b *builder) malformed(seq int32, planned *plan.Record, sentAt time.Time) []byte {
	if b.samples != nil {
		return b.samples.AppendMalformed(nil, planned.Malformed, planned.Sample, b.ids, seq)
	}
	before, after, _ := bytes.Cut(b.appendValue(nil, seq, planned, sentAt), b.id)
	return samples.Malform(nil, planned.Malformed, b.id, before, after)
}

// headersOf returns the headers of a record.
func (b *builder) headersOf(seq int32, planned *plan.Record) []kgo.RecordHeader {
	var sampled []samples.Header
	if b.samples != nil {
		hasKey, hasValue := planned.Key != history.None, !planned.Tombstone
		sampled = b.samples.Headers(planned.Sample, hasKey, hasValue, planned.Malformed)
	}
	var odd []kgo.RecordHeader
	if planned.OddHeaders {
		odd = oddHeaders(seq, b.odd)
	}
	headers := b.slabs.takeHeaders(len(b.names) + len(b.named) + len(sampled) + len(odd))
	for i, name := range b.names {
		headers[i].Key = name
		headers[i].Value = b.slabs.take(headerRoom, func(dst []byte) []byte { return b.appendHeader(dst, name, i, seq) })
	}
	rest := headers[len(b.names):]
	for i := range b.named {
		named := &b.named[i]
		rest[i].Key = named.Name
		rest[i].Value = b.slabs.take(named.room(), func(dst []byte) []byte { return named.append(dst, b.seed, seq) })
	}
	rest = rest[len(b.named):]
	for i, header := range sampled {
		if rest[i].Key, rest[i].Value = header.Name, header.Value; header.IsID {
			rest[i].Value = b.slabs.take(len(b.id), func(dst []byte) []byte { return append(dst, b.id...) })
		}
	}
	copy(rest[len(sampled):], odd)
	return headers
}

// The largest sizes, in bytes, of a key, an extra header's value, and a value without padding.
const (
	keyRoom       = len("key-") + len("2147483647") + len("\xff\xfe\x80")
	headerRoom    = history.IDLen + 16 // an id of any form, too
	smallestValue = 128
)

// appendValue appends the record's JSON, filled up to the planned size (without padding it is shorter than
// smallestValue). The number comes before the id, so that values which are cut off within the id differ.
func (b *builder) appendValue(dst []byte, seq int32, planned *plan.Record, sentAt time.Time) []byte {
	start := len(dst)
	dst = append(dst, `{"seq":`...)
	dst = strconv.AppendInt(dst, int64(seq), 10)
	dst = append(dst, `,"id":"`...)
	dst = append(dst, b.id...)
	if planned.Key == history.None {
		dst = append(dst, `","key":null`...)
	} else {
		dst = append(dst, `","key":"`...)
		dst = plan.AppendKey(dst, planned.Key%history.BinaryKey) // JSON is text
		dst = append(dst, '"')
	}
	dst = append(dst, `,"sent_at":"`...)
	dst = b.second.append(dst, sentAt)
	dst = append(dst, `","pad":"`...)
	const end = `"}`
	for left := int(planned.Size) - len(end) - (len(dst) - start); left > 0; {
		n := min(left, len(padding))
		dst = append(dst, padding[:n]...)
		left -= n
	}
	return append(dst, end...)
}

// writtenSecond is the second of the last time that was written, as text: thousands of records are sent in each.
type writtenSecond struct {
	unix int64
	text []byte
}

// append appends the time in UTC, as time.RFC3339Nano has it.
func (s *writtenSecond) append(dst []byte, at time.Time) []byte {
	if unix := at.Unix(); unix != s.unix || s.text == nil {
		s.unix, s.text = unix, at.UTC().AppendFormat(s.text[:0], "2006-01-02T15:04:05")
	}
	dst = append(dst, s.text...)
	if nanos := at.Nanosecond(); nanos != 0 {
		digits := [...]byte{'.', '0', '0', '0', '0', '0', '0', '0', '0', '0'}
		for i := len(digits) - 1; nanos > 0; i-- {
			digits[i] += byte(nanos % 10)
			nanos /= 10
		}
		dst = append(dst, bytes.TrimRight(digits[:], "0")...)
	}
	return append(dst, 'Z')
}

// Canonical returns JSON in one form, whatever spaces, order of members, escapes and ways to write a number it has.
// Anything else is returned as it is.
func Canonical(value []byte) []byte {
	decoder := json.NewDecoder(bytes.NewReader(value))
	decoder.UseNumber()
	var content any
	if !utf8.Valid(value) || decoder.Decode(&content) != nil {
		return value
	}
	if _, err := decoder.Token(); err != io.EOF {
		return value
	}
	text, err := json.Marshal(plainNumbers(content))
	if err != nil {
		return value
	}
	return text
}

// plainNumbers writes the numbers in a decoded value without an exponent and without zeros that change nothing. Very
// long ones stay as they are.
func plainNumbers(content any) any {
	switch one := content.(type) {
	case map[string]any:
		for name, member := range one {
			one[name] = plainNumbers(member)
		}
	case []any:
		for i, element := range one {
			one[i] = plainNumbers(element)
		}
	case json.Number:
		if _, exponent, _ := strings.Cut(strings.ToLower(one.String()), "e"); len(exponent) > len("-308") {
			return one
		}
		if exact, isNumber := new(big.Rat).SetString(one.String()); isNumber {
			digits, _ := exact.FloatPrec()
			return json.Number(exact.FloatString(digits))
		}
	}
	return content
}

// garbageGap is the distance between those bytes of garbage that cannot be part of any text.
const garbageGap = 8

// appendGarbage appends size bytes that are not a message: random bytes (splitmix64, from the plan's seed and the
// record's number), of which every eighth is 0xf8 to 0xff. None of these occurs in UTF-8 (RFC 3629, 1), nor in an id
// as text or its base64 form. Every run of eight bytes contains one, and an id is longer. Ids in binary have checksums.
func (b *builder) appendGarbage(dst []byte, seq int32, size int) []byte {
	state := b.seed ^ uint64(uint32(seq))*0xd1342543de82ef95
	for i := 0; i < size; i += garbageGap {
		state += 0x9e3779b97f4a7c15
		z := state
		z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
		z = (z ^ z>>27) * 0x94d049bb133111eb
		z ^= z >> 31
		var piece [garbageGap]byte
		binary.LittleEndian.PutUint64(piece[:], z|0xf8)
		dst = append(dst, piece[:min(garbageGap, size-i)]...)
	}
	return dst
}

func garbageSize(planned *plan.Record) int { return max(int(planned.Size), smallestValue) }

// appendHeader appends the value of the header with that name, the i-th, of record seq: the id, or for the extra
// headers a text that differs from record to record and from header to header.
func (b *builder) appendHeader(dst []byte, name string, i int, seq int32) []byte {
	if name == history.IDHeader {
		return append(dst, b.id...)
	}
	dst = append(dst, "span-"...)
	dst = strconv.AppendInt(dst, int64(i), 10)
	dst = append(dst, '-')
	return strconv.AppendUint(dst, uint64(uint32(seq))*2654435761%(1<<32), 16)
}
