package history

import "strconv"

// BinaryKey is added to the index of a key whose bytes are no text.
const BinaryKey = 1 << 30

// AppendKey appends to dst the bytes of the key with that index (≥ 0): the workload sends these, and an event names a
// key by its index. They have six digits at least, so that most keys of a run are equally long. One of BinaryKey and
// more has bytes behind them that are not UTF-8.
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
