package deadletter

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/google/uuid"
	"github.com/twmb/franz-go/pkg/kgo"
)

// fields notes which of a dialect's fields a letter has in a form that can be decoded. Of several headers of one name
// the last counts, as for every Kafka client: each one sets its field anew, also to missing. A field has the number
// that is its place in the list given to missing; there are 16 at most.
type fields uint16

func (f *fields) note(field int, decoded bool) {
	if decoded {
		*f |= 1 << field
	} else {
		*f &^= 1 << field
	}
}

// text decodes UTF-8, also the empty one.
func (f *fields) text(field int, value []byte) string {
	valid := utf8.Valid(value)
	f.note(field, valid)
	if !valid {
		return ""
	}
	return string(value)
}

// name decodes UTF-8 that isn't empty.
func (f *fields) name(field int, value []byte) string {
	text := f.text(field, value)
	f.note(field, text != "")
	return text
}

// decimal decodes a number of at least least and at most bits bits; -1 if it is none.
func (f *fields) decimal(field int, value []byte, least int64, bits int) int64 {
	n, ok := number(string(value), least, bits)
	f.note(field, ok)
	return n
}

// bigEndian decodes a number of exactly size bytes, 4 or 8; -1 if it is none.
func (f *fields) bigEndian(field int, value []byte, size int) int64 {
	f.note(field, len(value) == size)
	if len(value) != size {
		return -1
	}
	if size == 4 {
		return int64(int32(binary.BigEndian.Uint32(value)))
	}
	return int64(binary.BigEndian.Uint64(value))
}

// position decodes a number of exactly size bytes that is no less than 0; -1 if it is none.
func (f *fields) position(field int, value []byte, size int) int64 {
	n := f.bigEndian(field, value, size)
	f.note(field, n >= 0)
	return max(n, -1)
}

// all reports whether the first so many fields were found.
func (f *fields) all(many int) bool { return *f == 1<<many-1 }

// missing returns which of the names, which are those of Traits.Fields, were not found.
func (f *fields) missing(names []string) []string {
	var missing []string
	for i, name := range names {
		if *f&(1<<i) == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// validText decodes what no letter needs to have: "" unless it is UTF-8.
func validText(value []byte) string {
	if !utf8.Valid(value) {
		return ""
	}
	return string(value)
}

// last returns the last header of the name.
func last(headers []kgo.RecordHeader, name string) (header kgo.RecordHeader, found bool) {
	for _, header := range slices.Backward(headers) {
		if header.Key == name {
			return header, true
		}
	}
	return kgo.RecordHeader{}, false
}

// backToSource prepares a replay for the dialects that keep a record as it was and give it back to the topic it came
// from.
func backToSource(dialect Dialect, letter *kgo.Record) *kgo.Record {
	failure, _ := dialect.Open(letter)
	return &kgo.Record{
		Key: letter.Key, Value: letter.Value, Headers: ownHeaders(letter.Headers, dialect),
		Topic: failure.Topic, Partition: failure.Partition,
	}
}

// ownHeaders returns the headers that a letter's record had: all but those that the envelope put on. A record may have
// headers of its own with the dialect's names, and an envelope says each thing once; so of each name one is the
// envelope's, the last, or the first in a dialect that writes before the record's headers. A letter that was put back
// as it was and failed again has several envelopes, as many as there are of every field that each has: all of them go.
//
// What can't be told is taken for the envelope's: a header whose name is that of a field which a letter may lack, and
// this one does.
func ownHeaders(headers []kgo.RecordHeader, dialect Dialect) []kgo.RecordHeader {
	kept := make([]kgo.RecordHeader, 0, len(headers))
	owned := func(header kgo.RecordHeader) bool { return dialect.IsFailureHeader(header.Key) }
	if !slices.ContainsFunc(headers, owned) {
		return append(kept, headers...)
	}
	traits, taken := dialect.Traits(), map[string]int{}
	envelopes := max(countEnvelopes(headers, traits.Fields), 1)
	take := func(header kgo.RecordHeader) {
		if owned(header) && taken[header.Key] < envelopes {
			taken[header.Key]++
			return
		}
		kept = append(kept, header)
	}
	if traits.Before {
		for _, header := range headers {
			take(header)
		}
		return kept
	}
	for _, header := range slices.Backward(headers) {
		take(header)
	}
	slices.Reverse(kept)
	return kept
}

// countEnvelopes returns how often each of the fields is there.
func countEnvelopes(headers []kgo.RecordHeader, fields []string) int {
	counts := map[string]int{}
	for i := range headers {
		counts[headers[i].Key]++
	}
	least := len(headers)
	for _, name := range fields {
		least = min(least, counts[name])
	}
	return least
}

// sealed returns the headers that a letter of the record keeps: all of them, unless the record is a letter itself, put
// back without being prepared.
func sealed(record *kgo.Record, dialect Dialect) []kgo.RecordHeader {
	owned := func(header kgo.RecordHeader) bool { return dialect.IsFailureHeader(header.Key) }
	if !slices.ContainsFunc(record.Headers, owned) || countEnvelopes(record.Headers, dialect.Traits().Fields) == 0 {
		return record.Headers
	}
	return ownHeaders(record.Headers, dialect)
}

// envelope collects a letter's headers; the values it writes itself lie in one piece of memory.
type envelope struct {
	headers []kgo.RecordHeader
	text    []byte
}

// wrap begins with the record's headers, with room for so many more of so many bytes together.
func wrap(record *kgo.Record, dialect Dialect, more, bytes int) envelope {
	e := envelope{headers: make([]kgo.RecordHeader, 0, len(record.Headers)+more), text: make([]byte, 0, bytes)}
	e.headers = append(e.headers, sealed(record, dialect)...)
	return e
}

// end appends a header whose value is what was written since start.
func (e *envelope) end(name string, start int) {
	e.headers = append(e.headers, kgo.RecordHeader{Key: name, Value: e.text[start:len(e.text):len(e.text)]})
}

// string appends a header with a text in UTF-8: what is none is U+FFFD.
func (e *envelope) string(name, text string) {
	start := len(e.text)
	if utf8.ValidString(text) {
		e.text = append(e.text, text...)
	} else {
		e.text = append(e.text, strings.ToValidUTF8(text, "\uFFFD")...)
	}
	e.end(name, start)
}

// known appends a header with a text that is not empty.
func (e *envelope) known(name, text string) {
	if text != "" {
		e.string(name, text)
	}
}

func (e *envelope) decimal(name string, n int64) {
	start := len(e.text)
	e.text = strconv.AppendInt(e.text, n, 10)
	e.end(name, start)
}

func (e *envelope) int32(name string, n int32) {
	start := len(e.text)
	e.text = binary.BigEndian.AppendUint32(e.text, uint32(n))
	e.end(name, start)
}

func (e *envelope) int64(name string, n int64) {
	start := len(e.text)
	e.text = binary.BigEndian.AppendUint64(e.text, uint64(n))
	e.end(name, start)
}

// bigInteger appends a header with the shortest two's complement of the number, as java.math.BigInteger.toByteArray
// gives it.
func (e *envelope) bigInteger(name string, n int64) {
	start := len(e.text)
	size := 1
	for rest := n; rest > 127 || rest < -128; rest >>= 8 {
		size++
	}
	for i := size - 1; i >= 0; i-- {
		e.text = append(e.text, byte(n>>(8*i)))
	}
	e.end(name, start)
}

// decodeBigInteger is new BigInteger(value).longValue() for 1 to 8 bytes.
func decodeBigInteger(value []byte) (n int64, ok bool) {
	if len(value) == 0 || len(value) > 8 {
		return 0, false
	}
	n = int64(int8(value[0]))
	for _, b := range value[1:] {
		n = n<<8 | int64(b)
	}
	return n, true
}

// noTimestamp is Kafka's ConsumerRecord.NO_TIMESTAMP.
const noTimestamp = -1

// millis is the time as Kafka has it.
func millis(at time.Time) int64 {
	if at.IsZero() {
		return noTimestamp
	}
	return at.UnixMilli()
}

func fromMillis(ms int64) time.Time {
	if ms == noTimestamp {
		return time.Time{}
	}
	return time.UnixMilli(ms).UTC()
}

// asciiText writes what is not ASCII as Python's backslashreplace does: \xhh for a byte that is no UTF-8 and for U+0080
// to U+00FF, \uhhhh and \Uhhhhhhhh.
func asciiText(text string) []byte {
	if !strings.ContainsFunc(text, func(char rune) bool { return char >= utf8.RuneSelf }) {
		return []byte(text)
	}
	var out []byte
	for i := 0; i < len(text); {
		char, size := utf8.DecodeRuneInString(text[i:])
		switch {
		case char < utf8.RuneSelf:
			out = append(out, text[i])
		case char == utf8.RuneError && size == 1:
			out = fmt.Appendf(out, `\x%02x`, text[i])
		case char <= 0xff:
			out = fmt.Appendf(out, `\x%02x`, char)
		case char <= 0xffff:
			out = fmt.Appendf(out, `\u%04x`, char)
		default:
			out = fmt.Appendf(out, `\U%08x`, char)
		}
		i += size
	}
	return out
}

// newUUID returns a fresh UUID4.
func newUUID() string { return uuid.NewString() }
