package history

import "strconv"

// AppendKey appends to dst the bytes of the key with that index (≥ 0): the workload sends these, and an event names a key by its index. They
// have six digits at least, so that most keys of a run are equally long.
func AppendKey(dst []byte, index int32) []byte {
	dst = append(dst, "key-"...)
	for limit := int32(100_000); limit > index && limit > 1; limit /= 10 {
		dst = append(dst, '0')
	}
	return strconv.AppendInt(dst, int64(index), 10)
}
