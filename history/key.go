package history

import "strconv"

// An event identifies a key by a number. Those of the workload's own keys are below the ones here, which are added to
// the index of a key in Header.Keys, to the number of a record whose key is its own id, and to the index of a key whose
// bytes are not valid text.
const (
	SampleKey = 1 << 28
	IDKey     = 1 << 29
	BinaryKey = 1 << 30
)

// KeyIsID stands in a plan for the key of a record that is the record's own id.
const KeyIsID = None - 1

// AppendKey appends to dst the bytes of the workload's own key with that index (≥ 0). Keys have at least six digits, so
// most keys of a run have the same length. For an index of BinaryKey or more, bytes that are not UTF-8 follow the
// digits.
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

// Key returns the key with that number, "" if the header does not have it.
func (h *Header) Key(number int32) string {
	switch index := int(number); {
	case index < SampleKey || index >= BinaryKey:
		return string(AppendKey(nil, number))
	case index >= IDKey:
		return h.IDs().Token(number - IDKey)
	case index-SampleKey < len(h.Keys):
		return h.Keys[index-SampleKey]
	}
	return ""
}
