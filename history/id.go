package history

import (
	"bytes"
	"encoding/base64"
	"hash/crc32"

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

// IDs creates and finds the record ids of one run. An id is an ASCII token with a checksum that can be found anywhere
// in a value, key or header, raw or inside base64. Tokens of other runs are not found, so leftover data is never
// mistaken for a record. IDs is safe for concurrent use.
type IDs struct {
	head    [idHeadLen]byte
	encoded [3][]byte // the head in base64, for its three possible alignments
}

// NewIDs returns the ids of the run with the id runID.
func NewIDs(runID string) *IDs {
	ids := &IDs{}
	copy(ids.head[:], idMark)
	appendBase32(ids.head[:len(idMark)], xxhash.Sum64String(runID), idTagLen)
	for shift := range ids.encoded {
		padded := append(make([]byte, shift), ids.head[:]...)
		text := base64.RawStdEncoding.EncodeToString(padded)
		first := []int{0, 2, 3}[shift]      // earlier characters also hold bits of the preceding bytes
		last := (shift + idHeadLen) / 3 * 4 // later characters also hold bits of the sequence number
		ids.encoded[shift] = []byte(text[first:min(last, len(text))])
	}
	return ids
}

// Append appends the id of record seq (≥ 0) to dst.
func (ids *IDs) Append(dst []byte, seq int32) []byte {
	start := len(dst)
	dst = append(dst, ids.head[:]...)
	dst = appendBase32(dst, uint64(uint32(seq)), idSeqLen)
	sum := crc32.ChecksumIEEE(dst[start:])
	return appendBase32(dst, uint64(sum), idSumLen)
}

// Token returns the id of record seq.
func (ids *IDs) Token(seq int32) string { return string(ids.Append(nil, seq)) }

// Find returns the sequence number of the first id of this run in data.
func (ids *IDs) Find(data []byte) (seq int32, found bool) {
	for rest := data; ; {
		at := bytes.Index(rest, ids.head[:])
		if at < 0 {
			break
		}
		if seq, ok := ids.parse(rest[at:]); ok {
			return seq, true
		}
		rest = rest[at+1:]
	}
	return ids.findEncoded(data)
}

func (ids *IDs) findEncoded(data []byte) (int32, bool) {
	for shift, needle := range ids.encoded {
		first := []int{0, 2, 3}[shift]
		for from := 0; ; {
			at := bytes.Index(data[from:], needle)
			if at < 0 {
				break
			}
			group := from + at - first
			if seq, ok := ids.decodeAt(data, group, shift); ok {
				return seq, true
			}
			from += at + 1
		}
	}
	return 0, false
}

// decodeAt decodes the base64 groups that begin at data[group:] and hold an id after shift bytes.
func (ids *IDs) decodeAt(data []byte, group, shift int) (int32, bool) {
	chars := ((shift+IDLen)*8 + 5) / 6
	if group < 0 || group+chars > len(data) {
		return 0, false
	}
	text := data[group : group+chars]
	for _, encoding := range []*base64.Encoding{base64.RawStdEncoding, base64.RawURLEncoding} {
		var out [IDLen + 6]byte
		n, _ := encoding.Decode(out[:], text)
		if n >= shift+IDLen {
			if seq, ok := ids.parse(out[shift:n]); ok {
				return seq, true
			}
		}
	}
	return 0, false
}

func (ids *IDs) parse(data []byte) (int32, bool) {
	if len(data) < IDLen || !bytes.Equal(data[:idHeadLen], ids.head[:]) {
		return 0, false
	}
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
