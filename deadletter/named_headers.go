package deadletter

import (
	"encoding/binary"
	"time"
)

// anyNumber decodes a number ≥ 0 in decimal, or as 4 or 8 bytes, big-endian. It returns -1 if the value is neither.
func (f *fields) anyNumber(field int, value []byte, bits int) int64 {
	if n, ok := number(string(value), 0, bits); ok {
		f.note(field, true)
		return n
	}
	n := int64(-1)
	switch len(value) {
	case 4:
		n = int64(int32(binary.BigEndian.Uint32(value)))
	case 8:
		n = int64(binary.BigEndian.Uint64(value))
	}
	ok := n >= 0 && (bits == 63 || n < 1<<bits)
	f.note(field, ok)
	if !ok {
		return -1
	}
	return n
}

// time decodes RFC 3339, or milliseconds since 1970 in decimal or as 8 bytes. It returns the zero time if the value
// is none of them.
func (f *fields) time(field int, value []byte) time.Time {
	if at, err := time.Parse(time.RFC3339Nano, string(value)); err == nil {
		f.note(field, true)
		return at
	}
	ms := f.anyNumber(field, value, 63)
	if ms < 0 {
		return time.Time{}
	}
	return fromMillis(ms)
}
