package workload

// Headers that a subject's records must carry. Their values differ from record to record but follow from the plan's
// seed.

import (
	"encoding/binary"
	"encoding/hex"

	"github.com/cespare/xxhash/v2"
)

// NamedHeader is a header that every record carries.
type NamedHeader struct {
	Name string
	// Pieces are the texts around the fresh UUIDs of the value; their number is one more than that of the UUIDs.
	Pieces []string
}

// uuidLength is the length of a UUID as text.
const uuidLength = 36

func (h *NamedHeader) room() int {
	room := (len(h.Pieces) - 1) * uuidLength
	for _, piece := range h.Pieces {
		room += len(piece)
	}
	return room
}

// append appends the header's value for record seq of the plan with this seed.
func (h *NamedHeader) append(dst []byte, seed uint64, seq int32) []byte {
	for i, piece := range h.Pieces {
		if i > 0 {
			dst = appendUUID(dst, seed, h.Name, i, seq)
		}
		dst = append(dst, piece...)
	}
	return dst
}

// appendUUID appends a UUID of version 4 (RFC 9562, 5.4) whose random bits follow from seed, name, place and record.
func appendUUID(dst []byte, seed uint64, name string, nth int, seq int32) []byte {
	var id [16]byte
	for half := range 2 {
		digest := xxhash.NewWithSeed(seed + uint64(half))
		_, _ = digest.WriteString(name) // a digest never fails
		var place [12]byte
		binary.BigEndian.PutUint32(place[:], uint32(seq))
		binary.BigEndian.PutUint64(place[4:], uint64(nth))
		_, _ = digest.Write(place[:])
		binary.BigEndian.PutUint64(id[8*half:], digest.Sum64())
	}
	id[6] = id[6]&0x0f | 0x40
	id[8] = id[8]&0x3f | 0x80
	for i, end := range [...]int{4, 6, 8, 10, 16} {
		from := [...]int{0, 4, 6, 8, 10}[i]
		if i > 0 {
			dst = append(dst, '-')
		}
		dst = hex.AppendEncode(dst, id[from:end])
	}
	return dst
}
