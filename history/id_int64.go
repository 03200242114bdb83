package history

// Ids as whole numbers of 16 decimal digits, from 10^15 to 10^15 + 2^52 - 1. That is less than 2^53, so readers of JSON
// that hold numbers as doubles keep them exactly (RFC 8259, 6; Number.MAX_SAFE_INTEGER in ECMAScript). A number with
// more or fewer digits is not an id: one that was cut off or repeated, or a time in seconds or milliseconds.
//
// An id is 10^15 + P(n). n is the record's sequence number. P is a permutation of the numbers of 52 bits that depends
// on the run's tag: a Feistel network, in which every bit of n and of the tag changes half of the id. For a run whose
// records are numbered in b bits (at most 31), the 52 bits before P are:
//
//	b bits       the record's sequence number
//	52 - b bits  zeros, which after P are the checksum and the tag at once
//
// A number is an id of the run if the inverse of P leads to one of the run's records. So a foreign number in the range
// of ids is taken for one with the probability records / 2^52: 2·10^-11 in a run of 100,000 records, and 4·10^-9 in one
// of 20 million, the most that a scenario can have. The same holds for an id of another run. If each of 100,000 records
// carries ten foreign numbers in this range, one of them is mistaken for an id in one of 45,000 runs.
//
// A fixed split into number, tag and checksum would refuse runs with more records than it has numbers, and leave fewer
// bits for the checksum in all others.

import (
	"bytes"
	"strconv"
)

const (
	// firstNumber is the smallest number of numberLen digits.
	firstNumber  = 1_000_000_000_000_000
	numberLen    = 16
	numberBits   = 52
	numberHalf   = numberBits / 2
	numberRounds = 6
)

// numberIDs are the ids of a run as numbers.
type numberIDs struct {
	keys    [numberRounds]uint64
	records uint64
}

func newNumberIDs(tag uint64, records int) *numberIDs {
	n := &numberIDs{records: uint64(max(records, 0))}
	for i := range n.keys { // splitmix64
		tag += 0x9e3779b97f4a7c15
		n.keys[i] = mixed(tag)
	}
	return n
}

// mixed is the finalizer of splitmix64.
func mixed(z uint64) uint64 {
	z = (z ^ z>>30) * 0xbf58476d1ce4e5b9
	z = (z ^ z>>27) * 0x94d049bb133111eb
	return z ^ z>>31
}

func (n *numberIDs) ids() *IDs {
	return &IDs{
		length:  numberLen,
		write:   func(dst []byte, seq int32) []byte { return strconv.AppendUint(dst, n.pack(seq), 10) },
		numbers: n,
		finders: []func([]byte) (int32, bool){
			n.findDigits, n.findExponent, n.findEncoded, n.findBinary, n.findBinaryEncoded,
		},
	}
}

// pack returns the id of record seq.
func (n *numberIDs) pack(seq int32) uint64 { return firstNumber + n.permuted(uint64(uint32(seq))) }

// unpack returns the record of an id, if the number is one of this run.
func (n *numberIDs) unpack(number uint64) (int32, bool) {
	number -= firstNumber
	if number >= 1<<numberBits { // smaller ones wrap around
		return 0, false
	}
	seq := n.restored(number)
	return int32(uint32(seq)), seq < min(n.records, 1<<31)
}

// permuted is P, restored its inverse.
func (n *numberIDs) permuted(bits uint64) uint64 {
	left, right := bits>>numberHalf, bits&(1<<numberHalf-1)
	for _, key := range n.keys {
		left, right = right, left^round(right, key)
	}
	return left<<numberHalf | right
}

func (n *numberIDs) restored(bits uint64) uint64 {
	left, right := bits>>numberHalf, bits&(1<<numberHalf-1)
	for i := numberRounds - 1; i >= 0; i-- {
		left, right = right^round(left, n.keys[i]), left
	}
	return left<<numberHalf | right
}

// round is the function of a round of the network: half as many bits as an id has, of a key and as many bits.
func round(half, key uint64) uint64 { return mixed(half^key) >> (64 - numberHalf) }

// findDigits finds an id among the runs of digits that are as long as one: in JSON, keys, headers, paths and texts,
// also as the double 1234567890123456.0. Any such run covers a byte at every numberLen-th place.
func (n *numberIDs) findDigits(data []byte) (int32, bool) {
	for at := numberLen - 1; at < len(data); at += numberLen {
		if !isDigit(data[at]) {
			continue
		}
		from := at
		for from > 0 && isDigit(data[from-1]) {
			from--
		}
		for at < len(data) && isDigit(data[at]) {
			at++
		}
		if at-from == numberLen {
			if seq, ok := n.unpack(digitsOf(data[from:at])); ok {
				return seq, true
			}
		}
	}
	return 0, false
}

// findExponent finds an id that was written as a double with an exponent: 1.234567890123456E15 by Java
// (Double.toString), 1.234567890123456e+15 by Go (%v), .NET and PHP. All write as many digits as are needed to read the
// same number again.
func (n *numberIDs) findExponent(data []byte) (int32, bool) {
	const exponent = "15"
	for from := 0; ; {
		at := bytes.Index(data[from:], []byte(exponent))
		if at < 0 {
			return 0, false
		}
		at += from
		from = at + 1
		if after := at + len(exponent); after < len(data) && isDigit(data[after]) {
			continue
		}
		if at > 0 && (data[at-1] == '+' || data[at-1] == ' ') { // decoding a query makes a space of a plus sign
			at--
		}
		if at == 0 || data[at-1]|0x20 != 'e' {
			continue
		}
		if number, ok := mantissa(data[:at-1]); ok {
			if seq, ok := n.unpack(number); ok {
				return seq, true
			}
		}
	}
}

// mantissa returns the number whose mantissa ends the data: one digit, a point, and 1 to 15 digits.
func mantissa(data []byte) (uint64, bool) {
	from := len(data)
	for from > 0 && isDigit(data[from-1]) && len(data)-from < numberLen {
		from--
	}
	fraction := data[from:]
	if len(fraction) == 0 || len(fraction) == numberLen || from < 2 || data[from-1] != '.' || !isDigit(data[from-2]) ||
		from > 2 && isDigit(data[from-3]) {
		return 0, false
	}
	number := uint64(data[from-2]-'0')*firstNumber + digitsOf(fraction)*power10(numberLen-1-len(fraction))
	return number, true
}

func power10(n int) uint64 {
	power := uint64(1)
	for range n {
		power *= 10
	}
	return power
}

// A group of base64 is four characters for three bytes. The 16 digits of an id fill four or five groups, wherever the
// first of them begins. As a double with an exponent, an id has fewer digits if it ends with zeros: 11 to 15 behind the
// point fill three to five groups. Shorter ones, fewer than one id in 10,000, are not found in this form in base64.
const (
	groupLen    = 4
	fewestFull  = 3
	mostFull    = 5
	groupsAhead = 2 // of the first full one: up to two digits, and "1."
	groupsAfter = 3 // the last full one: up to two digits, and "e+15"
	// A group of three digits begins with one of these characters, or one between them.
	firstOfGroup = 'M'
	lastOfGroup  = 'O'
)

// findEncoded finds an id in decimal digits, or as a double, in a text that was encoded in base64 as a whole. The cost
// is linear: each group of digits is decoded at most once.
func (n *numberIDs) findEncoded(data []byte) (int32, bool) {
	for at := 0; at+fewestFull*groupLen <= len(data); at++ {
		if data[at] < firstOfGroup || data[at] > lastOfGroup {
			continue // most bytes
		}
		full := 0
		for isDigitGroup(data[at+full*groupLen:]) {
			full++
		}
		if full < fewestFull {
			continue
		}
		if full <= mostFull {
			if seq, found := n.findAround(data, at, at+full*groupLen); found {
				return seq, true
			}
		}
		at += full*groupLen - 1
	}
	return 0, false
}

// findAround decodes the groups of digits in data[from:to] with those around them, and finds an id there. The text may
// be encoded apart from what surrounds it, as in a path: neither a separator next to it (/, _, -, + or =) nor a
// character outside base64 is decoded to a digit.
func (n *numberIDs) findAround(data []byte, from, to int) (int32, bool) {
	for range groupsAhead {
		if from < groupLen || !isBase64(data[from-groupLen:from]) {
			break
		}
		from -= groupLen
	}
	text := data[from:min(to+groupsAfter*groupLen, len(data))]
	var decoded [(groupsAhead + mostFull + groupsAfter) * groupLen]byte
	size := decodeGroups(decoded[:], text)
	if seq, found := n.findDigits(decoded[:size]); found {
		return seq, true
	}
	return n.findExponent(decoded[:size])
}

// isDigitGroup reports whether a text begins with what base64 makes of three digits.
func isDigitGroup(text []byte) bool {
	return len(text) >= groupLen && text[0] >= firstOfGroup && text[0] <= lastOfGroup && oneOf(text[1], "DTjz") &&
		oneOf(text[2], "AEIMQUYcgk") && oneOf(text[3], "wxyz012345")
}

func oneOf(c byte, all string) bool {
	for i := range len(all) {
		if all[i] == c {
			return true
		}
	}
	return false
}

func isBase64(text []byte) bool {
	for _, c := range text {
		if _, ok := base64Value(c); !ok {
			return false
		}
	}
	return true
}

// base64Value returns the six bits of a character of base64, in either alphabet (RFC 4648, 4 and 5).
func base64Value(c byte) (value byte, ok bool) {
	switch {
	case c >= 'A' && c <= 'Z':
		return c - 'A', true
	case c >= 'a' && c <= 'z':
		return c - 'a' + 26, true
	case isDigit(c):
		return c - '0' + 52, true
	case c == '+' || c == '-':
		return 62, true
	case c == '/' || c == '_':
		return 63, true
	}
	return 0, false
}

func isDigit(c byte) bool { return c >= '0' && c <= '9' }

// digitsOf returns the value of at most 16 digits.
func digitsOf(digits []byte) (value uint64) {
	for _, c := range digits {
		value = value*10 + uint64(c-'0')
	}
	return value
}
