package history

import (
	"bytes"
	"encoding/base64"
	"hash/crc32"
	"sort"
	"sync"

	"github.com/cespare/xxhash/v2"
)

// IDLen is the length of a record id in bytes. It is a multiple of three so that an id encoded in base64 keeps its
// shape.
const IDLen = 24

const (
	idMark    = "DLQB"
	idTagLen  = 8
	idSeqLen  = 7
	idSumLen  = 5
	idHeadLen = len(idMark) + idTagLen
)

// IDHeader is the record header that repeats the record's id.
const IDHeader = "dlqbench-id"

// IDForm is how ids are written.
type IDForm string

// The forms of ids: an ASCII token, a UUID of version 8 (RFC 9562, 5.8), one that says it is of version 4, and a whole
// number of 16 digits.
const (
	IDText  IDForm = "text"
	IDUUID  IDForm = "uuid"
	IDUUID4 IDForm = "uuid4"
	IDInt64 IDForm = "int64"
)

// UUID reports whether ids of this form are UUIDs.
func (f IDForm) UUID() bool { return f.version() > 0 }

// version is that of the UUIDs of this form, 0 if it has none.
func (f IDForm) version() uint64 {
	switch f {
	case IDUUID:
		return 8
	case IDUUID4:
		return 4
	}
	return 0
}

// IDs creates and finds the record ids of one run. An id carries the run's tag, the record's sequence number and a
// checksum, so it can be found anywhere in a value, key or header, raw or inside base64. Ids of other runs are not
// found, so leftover data is never mistaken for a record. IDs is safe for concurrent use.
type IDs struct {
	// write appends the id of a record to dst, which takes length bytes.
	write  func(dst []byte, seq int32) []byte
	length int
	// numbers are the ids of the form IDInt64, nil of any other.
	numbers *numberIDs
	// finders find the first id in data, each in one of the ways in which ids may be written. The likeliest come first.
	finders []func(data []byte) (seq int32, found bool)
	// values are the records that are known by their values, by the xxHash64 of these. mu guards it.
	mu     sync.RWMutex
	values map[uint64]int32
}

// idShape is one way in which ids are written. All ids of a run begin with the same bytes in it.
type idShape struct {
	head   []byte
	length int
	append func(dst []byte, seq int32) []byte
	// parse reads the id at the start of data, which has at least length bytes.
	parse func(data []byte) (int32, bool)
	// encoded is the head in base64: for its three possible alignments, and in the alphabet of URLs where that differs.
	encoded []encodedHead
}

// encodedHead is what base64 makes of a head that begins shift bytes after the first byte of a group.
type encodedHead struct {
	text  []byte
	shift int
}

// base64Skip returns the number of leading base64 characters that also hold bits of the shift bytes before the id.
func base64Skip(shift int) int { return [...]int{0, 2, 3}[shift] }

// NewIDs returns the ids of the run with the id runID, as text.
func NewIDs(runID string) *IDs { return NewIDsAs(runID, IDText, 0) }

// NewIDsAs returns the ids of the run with the id runID in a form; "" stands for text. records is the number of the
// run's records: of the form IDInt64, only their ids are found. The other forms have room for a checksum that makes
// this needless.
func NewIDsAs(runID string, form IDForm, records int) *IDs {
	tag := xxhash.Sum64String(runID)
	switch form {
	case IDInt64:
		return newNumberIDs(tag, records).ids()
	case IDUUID, IDUUID4:
		return idsOf(uuidKind{tag, form.version()}.shapes())
	}
	return idsOf([]idShape{textShape(tag)})
}

// idsOf returns ids that may be written in these shapes, and are written in the first.
func idsOf(shapes []idShape) *IDs {
	ids := &IDs{write: shapes[0].append, length: shapes[0].length}
	for i := range shapes {
		shapes[i].encode()
		ids.finders = append(ids.finders, shapes[i].find)
	}
	for i := range shapes {
		ids.finders = append(ids.finders, shapes[i].findEncoded)
	}
	return ids
}

func (s *idShape) encode() {
	for shift := range 3 {
		padded := append(make([]byte, shift), s.head...)
		last := len(padded) / 3 * 4 // later characters also hold bits of what follows the head
		text := base64.RawStdEncoding.EncodeToString(padded)
		inURL := base64.RawURLEncoding.EncodeToString(padded)
		from, to := base64Skip(shift), min(last, len(text))
		s.encoded = append(s.encoded, encodedHead{[]byte(text[from:to]), shift})
		if inURL[from:to] != text[from:to] {
			s.encoded = append(s.encoded, encodedHead{[]byte(inURL[from:to]), shift})
		}
	}
}

// Len is the length in bytes of an id that Append writes.
func (ids *IDs) Len() int { return ids.length }

// Append appends the id of record seq (≥ 0) to dst.
func (ids *IDs) Append(dst []byte, seq int32) []byte { return ids.write(dst, seq) }

// Token returns the id of record seq.
func (ids *IDs) Token(seq int32) string { return string(ids.Append(nil, seq)) }

// Find returns the sequence number of the first id of this run in data: the first of those written in the likeliest
// way.
func (ids *IDs) Find(data []byte) (seq int32, found bool) {
	for _, find := range ids.finders {
		if seq, found = find(data); found {
			return seq, true
		}
	}
	return 0, false
}

// KnowValue says that record seq has this value, which holds no id, and which no other record has.
func (ids *IDs) KnowValue(value []byte, seq int32) {
	ids.mu.Lock()
	defer ids.mu.Unlock()
	if ids.values == nil {
		ids.values = map[uint64]int32{}
	}
	ids.values[xxhash.Sum64(value)] = seq
}

// OfValue returns the sequence number of the record that is known by this value.
func (ids *IDs) OfValue(value []byte) (seq int32, found bool) {
	ids.mu.RLock()
	defer ids.mu.RUnlock()
	seq, found = ids.values[xxhash.Sum64(value)]
	return seq, found
}

// All returns the sequence numbers of the records whose ids are in data, in order, each once. All of them must be
// written in the way in which the first is.
func (ids *IDs) All(data []byte) []int32 {
	for _, find := range ids.finders {
		seq, found := find(data)
		if !found {
			continue
		}
		all, known := []int32{}, map[int32]bool{}
		for rest := data; found; seq, found = find(rest) {
			if !known[seq] {
				known[seq], all = true, append(all, seq)
			}
			rest = rest[ids.end(find, rest, seq):]
		}
		return all
	}
	return nil
}

// end returns where the id of record seq ends, the first that a finder finds in data.
func (ids *IDs) end(find func([]byte) (int32, bool), data []byte, seq int32) int {
	token := ids.Append(nil, seq)
	if at := bytes.Index(data, token); at >= 0 {
		return at + len(token)
	}
	// It is written in another way, and ends with the shortest beginning of data that has it.
	within := func(end int) bool { first, found := find(data[:end]); return found && first == seq }
	reach := min(len(token), len(data))
	for !within(reach) && reach < len(data) {
		reach = min(2*reach, len(data))
	}
	return max(sort.Search(reach, within), 1)
}

// HasOther reports whether data, in which Find found the id of record seq, has the id of another record behind it,
// written in the same way.
func (ids *IDs) HasOther(data []byte, seq int32) bool {
	token := ids.Append(nil, seq)
	for rest := data; ; {
		at := bytes.Index(rest, token)
		if at < 0 {
			return false
		}
		rest = rest[at+len(token):]
		next, found := ids.finders[0](rest)
		if !found || next != seq {
			return found
		}
	}
}

func (s *idShape) find(data []byte) (int32, bool) {
	for rest := data; ; {
		at := bytes.Index(rest, s.head)
		if at < 0 || at+s.length > len(rest) {
			return 0, false
		}
		if seq, ok := s.parse(rest[at:]); ok {
			return seq, true
		}
		rest = rest[at+1:]
	}
}

func (s *idShape) findEncoded(data []byte) (int32, bool) {
	for _, head := range s.encoded {
		for from := 0; ; {
			at := bytes.Index(data[from:], head.text)
			if at < 0 {
				break
			}
			group := from + at - base64Skip(head.shift)
			if seq, ok := s.decodeAt(data, group, head.shift); ok {
				return seq, true
			}
			from += at + 1
		}
	}
	return 0, false
}

// decodeAt decodes the base64 groups that begin at data[group:] and hold an id after shift bytes.
func (s *idShape) decodeAt(data []byte, group, shift int) (int32, bool) {
	chars := ((shift+s.length)*8 + 5) / 6
	if group < 0 || group+chars > len(data) {
		return 0, false
	}
	text := data[group : group+chars]
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		var out [longestID + 6]byte
		n, _ := encoding.Decode(out[:], text)
		if n >= shift+s.length {
			if seq, ok := s.parse(out[shift:n]); ok {
				return seq, true
			}
		}
	}
	return 0, false
}

// longestID is the length of the longest shape.
const longestID = uuidLen

// textShape is the shape of ids as text: the mark, the run's tag, the sequence number and the checksum, in base 32.
func textShape(tag uint64) idShape {
	head := appendBase32([]byte(idMark), tag, idTagLen)
	return idShape{
		head: head, length: IDLen,
		append: func(dst []byte, seq int32) []byte {
			start := len(dst)
			dst = append(dst, head...)
			dst = appendBase32(dst, uint64(uint32(seq)), idSeqLen)
			return appendBase32(dst, uint64(crc32.ChecksumIEEE(dst[start:])), idSumLen)
		},
		parse: parseText,
	}
}

// parseText reads an id as text whose head is known to be right.
func parseText(data []byte) (int32, bool) {
	seq, ok := parseBase32(data[idHeadLen : idHeadLen+idSeqLen])
	sum, sumOK := parseBase32(data[idHeadLen+idSeqLen : IDLen])
	want := uint64(crc32.ChecksumIEEE(data[:idHeadLen+idSeqLen])) & (1<<(5*idSumLen) - 1)
	if !ok || !sumOK || sum != want || seq > 1<<31-1 {
		return 0, false
	}
	return int32(seq), true
}

// base32Digits is Crockford's alphabet, in which no letter can be mistaken for a digit.
const base32Digits = "0123456789ABCDEFGHJKMNPQRSTVWXYZ"

func appendBase32(dst []byte, v uint64, digits int) []byte {
	for i := digits - 1; i >= 0; i-- {
		dst = append(dst, base32Digits[v>>(5*i)&31])
	}
	return dst
}

func parseBase32(data []byte) (v uint64, ok bool) {
	for _, c := range data {
		d := bytes.IndexByte([]byte(base32Digits), c)
		if d < 0 {
			return 0, false
		}
		v = v<<5 | uint64(d)
	}
	return v, true
}
