package history

// Ids as UUIDs of version 8 (RFC 9562, 5.8), whose 122 free bits are:
//
//	48 bits  the run's tag
//	31 bits  the record's sequence number
//	43 bits  a checksum of both, which depends on the whole hash of the run's id
//
// Services that take only UUIDs of version 4, which are random, get ids that say so and are otherwise the same. A UUID
// of any other version has another version nibble. A random UUID of the ids' version is taken for an id of the run with
// a probability of 2^-91.

import (
	"bytes"
	"encoding/binary"
	"encoding/hex"

	"github.com/cespare/xxhash/v2"
)

const (
	uuidBytes  = 16
	uuidLen    = 36 // as text with dashes
	uuidTag    = 6  // bytes of the tag
	uuidSumLen = 43 // bits of the checksum
	// uuidLow is the number of bits after the variant, in which the end of the sequence number precedes the checksum.
	uuidLow = 62
)

// uuidKind is the tag of a run, and the version of its UUIDs.
type uuidKind struct{ tag, version uint64 }

// pack returns the UUID of record seq.
func (k uuidKind) pack(seq int32) (id [uuidBytes]byte) {
	const lowSeq = uuidLow - uuidSumLen
	number := uint64(uint32(seq))
	binary.BigEndian.PutUint64(id[:], k.tag<<16|k.version<<12|number>>lowSeq)
	binary.BigEndian.PutUint64(id[8:], 1<<63|number&(1<<lowSeq-1)<<uuidSumLen|uuidSum(k.tag, seq))
	return id
}

func uuidSum(tag uint64, seq int32) uint64 {
	digest := xxhash.NewWithSeed(tag)
	var number [4]byte
	binary.BigEndian.PutUint32(number[:], uint32(seq))
	_, _ = digest.Write(number[:]) // a digest never fails
	return digest.Sum64() & (1<<uuidSumLen - 1)
}

// unpack returns the record of a UUID, if it is one of this kind.
func (k uuidKind) unpack(id []byte) (int32, bool) {
	const lowSeq = uuidLow - uuidSumLen
	high, low := binary.BigEndian.Uint64(id)&(1<<12-1), binary.BigEndian.Uint64(id[8:])&(1<<uuidLow-1)
	seq := high<<lowSeq | low>>uuidSumLen
	if seq > 1<<31-1 {
		return 0, false
	}
	want := k.pack(int32(seq))
	return int32(seq), bytes.Equal(want[:], id[:uuidBytes])
}

// shapes are the ways in which consumers and their libraries write UUIDs: with dashes, in lower or upper case;
// without dashes; and as 16 bytes.
func (k uuidKind) shapes() []idShape {
	binary := idShape{
		length: uuidBytes,
		append: func(dst []byte, seq int32) []byte {
			id := k.pack(seq)
			return append(dst, id[:]...)
		},
		parse: func(data []byte) (int32, bool) { return k.unpack(data) },
	}
	binary.head = binary.append(nil, 0)[:uuidTag]
	digits := func(upper bool) idShape { return k.hexShape([]int{uuidBytes}, upper) }
	dashed := func(upper bool) idShape { return k.hexShape([]int{4, 2, 2, 2, 6}, upper) }
	return []idShape{dashed(false), dashed(true), digits(false), digits(true), binary}
}

// hexShape is the shape of UUIDs in hexadecimal digits, with dashes between groups of these lengths in bytes.
func (k uuidKind) hexShape(groups []int, upper bool) idShape {
	s := idShape{length: 2*uuidBytes + len(groups) - 1}
	s.append = func(dst []byte, seq int32) []byte {
		id := k.pack(seq)
		start, from := len(dst), 0
		for i, length := range groups {
			if i > 0 {
				dst = append(dst, '-')
			}
			dst = hex.AppendEncode(dst, id[from:from+length])
			from += length
		}
		if upper {
			copy(dst[start:], bytes.ToUpper(dst[start:]))
		}
		return dst
	}
	s.parse = func(data []byte) (int32, bool) {
		var id [uuidBytes]byte
		from := 0
		for i, length := range groups {
			if i > 0 {
				if data[0] != '-' {
					return 0, false
				}
				data = data[1:]
			}
			if _, err := hex.Decode(id[from:], data[:2*length]); err != nil {
				return 0, false
			}
			data, from = data[2*length:], from+length
		}
		return k.unpack(id[:])
	}
	// The dash after the first group, if any, is part of the head.
	s.head = s.append(nil, 0)[:2*uuidTag+min(len(groups)-1, 1)]
	return s
}
