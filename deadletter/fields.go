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

// fields is the set of a dialect's fields that a dead letter has in decodable form. If several headers have one name,
// the last counts, as in every Kafka client: each one sets its field anew, also to missing. A field's number is its
// index in the list passed to missing. There are at most 16 fields.
type fields uint16

func (f *fields) note(field int, decoded bool) {
	if decoded {
		*f |= 1 << field
	} else {
		*f &^= 1 << field
	}
}

// text decodes UTF-8, which may be empty.
func (f *fields) text(field int, value []byte) string {
	valid := utf8.Valid(value)
	f.note(field, valid)
	if !valid {
		return ""
	}
	return string(value)
}

// name decodes non-empty UTF-8.
func (f *fields) name(field int, value []byte) string {
	text := f.text(field, value)
	f.note(field, text != "")
	return text
}

// decimal decodes a decimal number not below least that fits in the given number of bits. It returns -1 if the value
// is not one.
func (f *fields) decimal(field int, value []byte, least int64, bits int) int64 {
	n, ok := number(string(value), least, bits)
	f.note(field, ok)
	return n
}

// bigEndian decodes a number of exactly size bytes, 4 or 8. It returns -1 if the value is not one.
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

// position decodes a non-negative number of exactly size bytes. It returns -1 if the value is not one.
func (f *fields) position(field int, value []byte, size int) int64 {
	n := f.bigEndian(field, value, size)
	f.note(field, n >= 0)
	return max(n, -1)
}

// all reports whether the first many fields were found.
func (f *fields) all(many int) bool { return *f == 1<<many-1 }

// missing returns the names that were not found. names are those of Traits.Fields.
func (f *fields) missing(names []string) []string {
	var missing []string
	for i, name := range names {
		if *f&(1<<i) == 0 {
			missing = append(missing, name)
		}
	}
	return missing
}

// validText decodes an optional text: "" unless it is UTF-8.
func validText(value []byte) string {
	if !utf8.Valid(value) {
		return ""
	}
	return string(value)
}

// last returns the last header with the name.
func last(headers []kgo.RecordHeader, name string) (header kgo.RecordHeader, found bool) {
	for _, header := range slices.Backward(headers) {
		if header.Key == name {
			return header, true
		}
	}
	return kgo.RecordHeader{}, false
}

// backToSource prepares a replay for dialects that keep the record unchanged and return it to its source topic.
func backToSource(dialect Dialect, letter *kgo.Record) *kgo.Record {
	failure, _ := dialect.Open(letter)
	return &kgo.Record{
		Key: letter.Key, Value: letter.Value, Headers: ownHeaders(letter.Headers, dialect),
		Topic: failure.Topic, Partition: failure.Partition,
	}
}

// ownHeaders returns the original headers of a dead letter's record: all headers but those of the envelope. A record
// may have its own headers with the dialect's names, and an envelope has each field once. So one header of each name
// belongs to the envelope: the last, or the first in a dialect that writes before the record's headers. A dead letter
// that was put back unprepared and failed again has several envelopes. Their number is the smallest count among the
// mandatory fields, and all of them are removed. Reserved headers are the envelope's, however many there are.
//
// Ambiguous headers are attributed to the envelope: a header with the name of an optional field that this dead letter
// lacks.
func ownHeaders(headers []kgo.RecordHeader, dialect Dialect) []kgo.RecordHeader {
	kept := make([]kgo.RecordHeader, 0, len(headers))
	owned := func(header kgo.RecordHeader) bool { return dialect.IsFailureHeader(header.Key) }
	if !slices.ContainsFunc(headers, owned) {
		return append(kept, headers...)
	}
	traits, taken := dialect.Traits(), map[string]int{}
	envelopes := max(countEnvelopes(headers, traits.Fields), 1)
	take := func(header kgo.RecordHeader) {
		if owned(header) && (taken[header.Key] < envelopes || slices.Contains(traits.Reserved, header.Key)) {
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

// countEnvelopes returns how often each of the fields is present.
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

// sealed returns the headers that a dead letter of the record keeps. It keeps all of them, unless the record is
// itself a dead letter that was put back unprepared.
func sealed(record *kgo.Record, dialect Dialect) []kgo.RecordHeader {
	owned := func(header kgo.RecordHeader) bool { return dialect.IsFailureHeader(header.Key) }
	if !slices.ContainsFunc(record.Headers, owned) || countEnvelopes(record.Headers, dialect.Traits().Fields) == 0 {
		return record.Headers
	}
	return ownHeaders(record.Headers, dialect)
}

// envelope collects the headers of a dead letter. The values it writes share one allocation.
type envelope struct {
	headers []kgo.RecordHeader
	text    []byte
}

// wrap starts with the record's headers and reserves room for more headers with the given total size of values in
// bytes.
func wrap(record *kgo.Record, dialect Dialect, more, bytes int) envelope {
	e := envelope{headers: make([]kgo.RecordHeader, 0, len(record.Headers)+more), text: make([]byte, 0, bytes)}
	e.headers = append(e.headers, sealed(record, dialect)...)
	return e
}

// end appends a header whose value is the bytes written since start.
func (e *envelope) end(name string, start int) {
	e.headers = append(e.headers, kgo.RecordHeader{Key: name, Value: e.text[start:len(e.text):len(e.text)]})
}

// string appends a header with a text in UTF-8. Invalid bytes become U+FFFD.
func (e *envelope) string(name, text string) {
	start := len(e.text)
	if utf8.ValidString(text) {
		e.text = append(e.text, text...)
	} else {
		e.text = append(e.text, strings.ToValidUTF8(text, "\uFFFD")...)
	}
	e.end(name, start)
}

// known appends a header with the text unless it is empty.
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

// decodeBigInteger decodes like new BigInteger(value).longValue(), for 1 to 8 bytes.
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

// millis returns the time as a Kafka timestamp.
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

// asciiText escapes non-ASCII text as Python's backslashreplace does: \xhh for an invalid UTF-8 byte and for U+0080
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
