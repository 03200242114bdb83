package samples

// Values that a consumer may read or refuse: ones with an earlier schema, or with a field as large as no consumer
// expects it. They are made when they are sent, as few records are.

import (
	"bytes"
	"fmt"

	"github.com/dlqbench/dlqbench/history"
)

const (
	// Oversize is by how much an oversized text is longer, in bytes: twice what the usual limit of a text in a database
	// or an index, 64 KiB, allows.
	Oversize = 128 << 10
	// oversizedDigits is the length of an oversized number. Python and Jackson refuse to read one of that length.
	oversizedDigits = 5000
	// largestOversized bounds a value with an oversized field, so that the record stays below the brokers' limit of 1 MiB.
	largestOversized = 1000 << 10
)

// Age makes values with an earlier version of their schema possible: with the first of those given that every sample
// fits. It returns the index of that one. The error says why none does.
func (s *Set) Age(earlier ...Format) (int, error) {
	var first error
	for i, one := range earlier {
		err := s.fitsOld(one)
		if err == nil {
			s.old = one
			return i, nil
		}
		if first == nil {
			first = err
		}
	}
	return 0, first
}

// fitsOld says why a sample can't be written with an earlier schema.
func (s *Set) fitsOld(format Format) error {
	for i := range s.samples {
		if _, err := s.encode(format, s.source(&s.samples[i])); err != nil {
			return fmt.Errorf("sample %d without the field: %w", i+1, err)
		}
	}
	return nil
}

// Oversize says why a sample has no field that can be oversized; nil if every one has.
func (s *Set) Oversize() error {
	for _, part := range s.parts {
		if err := part.Oversize(); err != nil {
			return err
		}
	}
	if s.parts != nil {
		return nil
	}
	ids := history.NewIDsAs("", s.Form, 0)
	for i := range s.samples {
		value, found := s.oversized(&s.samples[i])
		switch {
		case !found:
			return fmt.Errorf("sample %d has no text and no number beside its id that the format lets grow", i+1)
		case value.room(ids) > largestOversized:
			return fmt.Errorf("sample %d with another %d KiB would not fit into a record of 1 MiB", i+1, Oversize>>10)
		}
	}
	return nil
}

// oversized returns the value of a sample in which a text is very long, or else a number has very many digits, or else
// a number is the largest one of 64 bits.
func (s *Set) oversized(one *Sample) (value pieces, found bool) {
	if value = s.changed(one, true, bytes.Repeat([]byte("x"), Oversize)); value.parts != nil {
		return value, true
	}
	for _, number := range [][]byte{bytes.Repeat([]byte("9"), oversizedDigits), []byte("9223372036854775807")} {
		if value = s.changed(one, false, number); value.parts != nil {
			return value, true
		}
	}
	return value, false
}
