package history

// Ids as numbers in binary, as formats with a schema write them. An id is at least 10^15 and less than 10^15 + 2^52,
// and has eight bytes in all of these forms. A varint holds 7 bits in each byte, and an id has 50 to 53 bits, in zigzag
// one more. The two highest bytes of the other forms are in a narrow range, so few places of a text can be an id, and
// the same rule as for digits holds for each of them.

import (
	"encoding/binary"
	"math"
)

// IDWriting is how an id stands in a key or value.
type IDWriting uint8

// The ways of writing an id: as IDs.Append writes it; and, of the form IDInt64, as Protobuf's int64 and uint64, as
// Avro's long and Protobuf's sint64, as Protobuf's fixed64 and sfixed64, and as the double of both.
const (
	IDAppended IDWriting = iota
	IDVarint
	IDZigzag
	IDFixed
	IDDouble
	idWritings
)

const (
	numberBytes = 8 // of a number in binary
	// The two highest bytes of an id are 0, and between these.
	secondLowest  = firstNumber >> 48
	secondHighest = (firstNumber + 1<<numberBits - 1) >> 48
	// doubleHighest is the highest byte of an id as a double: the sign, and most of the exponent.
	doubleHighest = 0x43
	// more marks a byte of a varint that is not its last one.
	more = 0x80
)

// AppendAs appends the id of record seq to dst, written in a way. Other forms than IDInt64 have IDAppended alone.
func (ids *IDs) AppendAs(dst []byte, seq int32, as IDWriting) []byte {
	if as == IDAppended {
		return ids.Append(dst, seq)
	}
	return as.append(dst, ids.numbers.pack(seq))
}

// AppendNone appends what is as long as an id that is written in a way, can be read as one, and is none.
func (ids *IDs) AppendNone(dst []byte, as IDWriting) []byte {
	if as != IDAppended {
		return as.append(dst, firstNumber+1<<numberBits) // the first number that is too large
	}
	for range ids.length {
		dst = append(dst, '0')
	}
	return dst
}

// LenAs is the length in bytes of an id that is written in a way.
func (ids *IDs) LenAs(as IDWriting) int {
	if as == IDAppended {
		return ids.length
	}
	return numberBytes
}

// Writings are the ways in which ids can be written.
func (ids *IDs) Writings() []IDWriting {
	if ids.numbers == nil {
		return []IDWriting{IDAppended}
	}
	all := make([]IDWriting, idWritings)
	for i := range all {
		all[i] = IDWriting(i)
	}
	return all
}

func (as IDWriting) append(dst []byte, number uint64) []byte {
	switch as {
	case IDVarint:
		return binary.AppendUvarint(dst, number)
	case IDZigzag:
		return binary.AppendVarint(dst, int64(number))
	case IDFixed:
		return binary.LittleEndian.AppendUint64(dst, number)
	}
	return binary.LittleEndian.AppendUint64(dst, math.Float64bits(float64(number)))
}

// findBinary finds an id in 8 bytes: as IDWriting says, or with the highest byte first, as Java's LongSerializer and
// ByteBuffer write it.
func (n *numberIDs) findBinary(data []byte) (int32, bool) {
	for i := numberBytes - 1; i < len(data); i++ {
		window := data[i-numberBytes+1 : i+1]
		if seq, found := n.unpackBinary(window); found {
			return seq, true
		}
	}
	return 0, false
}

// unpackBinary returns the record of an id in 8 bytes.
func (n *numberIDs) unpackBinary(b []byte) (int32, bool) {
	if b[0] == 0 && b[1] >= secondLowest && b[1] <= secondHighest {
		if seq, found := n.unpack(binary.BigEndian.Uint64(b)); found {
			return seq, true
		}
	}
	switch last := b[numberBytes-1]; {
	case last == 0:
		return n.unpack(binary.LittleEndian.Uint64(b))
	case last == doubleHighest:
		number := math.Float64frombits(binary.LittleEndian.Uint64(b))
		seq, found := n.unpack(uint64(number))
		return seq, found && float64(uint64(number)) == number
	case last < more && b[numberBytes-2] >= more:
		return n.unpackVarint(b)
	}
	return 0, false
}

// unpackVarint returns the record of an id as a varint, in zigzag or not, that ends with the last of 8 bytes.
func (n *numberIDs) unpackVarint(b []byte) (int32, bool) {
	number, length := binary.Uvarint(b)
	if length != numberBytes {
		return 0, false
	}
	if seq, found := n.unpack(number); found {
		return seq, true
	}
	seq, found := n.unpack(number / 2)
	return seq, found && number%2 == 0
}

const (
	// fewestEncoded is the fewest characters of base64 that hold 8 bytes, mostEncoded how many are decoded at a time.
	fewestEncoded = (numberBytes*8 + 5) / 6
	mostEncoded   = 512
)

// findBinaryEncoded finds an id in binary in a text that was encoded in base64 as a whole. A text begins behind a
// character that is not one of base64, such as a quote.
func (n *numberIDs) findBinaryEncoded(data []byte) (int32, bool) {
	for from := 0; from+fewestEncoded <= len(data); from++ {
		to := from
		for to < len(data) {
			if _, is := base64Value(data[to]); !is {
				break
			}
			to++
		}
		if to-from >= fewestEncoded {
			if seq, found := n.findDecoded(data[from:to]); found {
				return seq, true
			}
		}
		from = to
	}
	return 0, false
}

// findDecoded finds an id in binary in what a text of base64 stands for.
func (n *numberIDs) findDecoded(text []byte) (int32, bool) {
	const again = (numberBytes + 2) / 3 * groupLen // the groups in which an id may have begun
	for {
		var decoded [mostEncoded]byte
		size := decodeGroups(decoded[:], text[:min(len(text), mostEncoded)])
		if seq, found := n.findBinary(decoded[:size]); found || len(text) <= mostEncoded {
			return seq, found
		}
		text = text[mostEncoded-again:]
	}
}

// decodeGroups decodes characters of base64, and returns the number of bytes. An incomplete group is filled up.
func decodeGroups(dst, text []byte) (size int) {
	for len(text) > 1 {
		var bits uint32
		group := text[:min(groupLen, len(text))]
		for _, c := range group {
			value, _ := base64Value(c)
			bits = bits<<6 | uint32(value)
		}
		bits <<= 6 * (groupLen - len(group))
		dst[size], dst[size+1], dst[size+2] = byte(bits>>16), byte(bits>>8), byte(bits)
		size, text = size+3, text[len(group):]
	}
	return size
}
