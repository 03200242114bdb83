package assertions

// sparse holds a value for each of a few records. To find that a record has none takes one bit instead of a hash, and
// the checkers ask for nearly all records.
type sparse[V any] struct {
	has    []uint64 // a bit for each record
	values map[int32]V
}

// of returns the record's value, or the zero value if there is none.
func (s *sparse[V]) of(number int32) (value V) {
	if word := int(number) >> 6; number >= 0 && word < len(s.has) && s.has[word]&(1<<(number&63)) != 0 {
		value = s.values[number]
	}
	return value
}

// set gives the record a value. The number must not be negative.
func (s *sparse[V]) set(number int32, value V) {
	if s.values == nil {
		s.values = map[int32]V{}
	}
	word := int(number) >> 6
	if word >= len(s.has) {
		s.has = append(s.has, make([]uint64, word+1-len(s.has))...)
	}
	s.has[word] |= 1 << (number & 63)
	s.values[number] = value
}
