package history

import "strconv"

// BinaryKey is added to the index of a key whose bytes are not valid text.
const BinaryKey = 1 << 30

// AppendKey appends to dst the bytes of the key with that index (≥ 0). The workload sends these bytes, and an event
// identifies a key by its index. Keys have at least six digits, so most keys of a run have the same length. For an
// index of BinaryKey or more, bytes that are not UTF-8 follow the digits.
func AppendKey(dst []byte, index int32) []byte {
	if index >= BinaryKey {
		return append(AppendKey(dst, index-BinaryKey), 0xff, 0xfe, 0x80)
	}
	dst = append(dst, "key-"...)
	for limit := int32(100_000); limit > index && limit > 1; limit /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(index), 10)
}
