package history

import "time"

// Stamp is a time of the run in six bytes, exact to the nanosecond for more than three days. The zero Stamp is no time.
type Stamp [6]byte

// StampOf returns the stamp of a time. A negative time is none.
func StampOf(at time.Duration) Stamp {
	n := uint64(max(at, None)) + 1
	return Stamp{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24), byte(n >> 32), byte(n >> 40)}
}

// At returns the time, or None if there is none.
func (s *Stamp) At() time.Duration {
	return time.Duration(uint64(s[0])|uint64(s[1])<<8|uint64(s[2])<<16|uint64(s[3])<<24|uint64(s[4])<<32|
		uint64(s[5])<<40) - 1
}

// Known reports whether there is a time.
func (s *Stamp) Known() bool { return *s != Stamp{} }
