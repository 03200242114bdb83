package history

import "time"

// Stamp is a time of the run in six bytes, exact to the nanosecond for more than three days. The zero Stamp is no time.
// It is a struct, and not an array, because Go keeps only small structs in registers.
type Stamp struct{ low, middle, high uint16 }

// StampOf returns the stamp of a time. A negative time is none.
func StampOf(at time.Duration) Stamp {
	n := uint64(max(at, None)) + 1
	return Stamp{uint16(n), uint16(n >> 16), uint16(n >> 32)}
}

// At returns the time, or None if there is none.
func (s Stamp) At() time.Duration {
	return time.Duration(uint64(s.low)|uint64(s.middle)<<16|uint64(s.high)<<32) - 1
}

// Known reports whether there is a time.
func (s Stamp) Known() bool { return s != Stamp{} }
