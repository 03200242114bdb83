package tap

import "encoding/binary"

// wire reads Kafka's primitive types from a message. After a read past the end, bad is set, rest is empty and every
// further read returns zero values, so a caller checks only once.
type wire struct {
	rest []byte
	bad  bool
}

func (w *wire) span(n int) []byte {
	if n < 0 || n > len(w.rest) {
		w.bad, w.rest = true, nil
		return nil
	}
	taken := w.rest[:n:n]
	w.rest = w.rest[n:]
	return taken
}

func (w *wire) int8() int8 {
	if b := w.span(1); b != nil {
		return int8(b[0])
	}
	return 0
}

func (w *wire) int16() int16 {
	if b := w.span(2); b != nil {
		return int16(binary.BigEndian.Uint16(b))
	}
	return 0
}

func (w *wire) int32() int32 {
	if b := w.span(4); b != nil {
		return int32(binary.BigEndian.Uint32(b))
	}
	return 0
}

func (w *wire) int64() int64 {
	if b := w.span(8); b != nil {
		return int64(binary.BigEndian.Uint64(b))
	}
	return 0
}

func (w *wire) uuid() (id [16]byte) {
	copy(id[:], w.span(16))
	return id
}

func (w *wire) uvarint() uint32 {
	v, n := binary.Uvarint(w.rest)
	if n <= 0 || v > 1<<32-1 {
		w.bad, w.rest = true, nil
		return 0
	}
	w.rest = w.rest[n:]
	return uint32(v)
}

// varint reads a zigzag number of up to 64 bits.
func (w *wire) varint() int64 {
	v, n := binary.Varint(w.rest)
	if n <= 0 {
		w.bad, w.rest = true, nil
		return 0
	}
	w.rest = w.rest[n:]
	return v
}

// varintBytes reads bytes after their zigzag length; nil when the length is negative, never nil otherwise.
func (w *wire) varintBytes() []byte {
	n := w.varint()
	if n < 0 {
		return nil
	}
	if n > int64(len(w.rest)) {
		w.bad, w.rest = true, nil
		return nil
	}
	return w.span(int(n))
}

func (w *wire) nullableString() []byte {
	n := w.int16()
	if n < 0 {
		return nil
	}
	return w.span(int(n))
}

// text reads a string; in a flexible message it is in compact form.
func (w *wire) text(flexible bool) []byte {
	if !flexible {
		return w.nullableString()
	}
	return w.compact()
}

// data reads nullable bytes.
func (w *wire) data(flexible bool) []byte {
	if flexible {
		return w.compact()
	}
	n := w.int32()
	if n < 0 {
		return nil
	}
	return w.span(int(n))
}

func (w *wire) compact() []byte {
	n := int64(w.uvarint()) - 1
	if n < 0 {
		return nil
	}
	return w.span(int(n))
}

// array reads the number of an array's elements. The result is never larger than the number of remaining bytes.
func (w *wire) array(flexible bool) int {
	var n int64
	if flexible {
		n = int64(w.uvarint()) - 1
	} else {
		n = int64(w.int32())
	}
	if n > int64(len(w.rest)) {
		w.bad, w.rest = true, nil
		return 0
	}
	return int(max(n, 0))
}

// tags skips tagged fields.
func (w *wire) tags() {
	for n := w.uvarint(); n > 0 && !w.bad; n-- {
		w.uvarint()
		w.span(int(w.uvarint()))
	}
}
