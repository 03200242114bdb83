package subject

// Passwords in a process's output. The output goes to a file, and parts of it into the history and the reports,
// which people pass on. Secrets given to the process are replaced before any of that.

import (
	"bytes"
	"slices"
)

// mask replaces secrets in a stream of bytes, however it is split.
type mask struct {
	secrets [][]byte
	// begins marks the first bytes of secrets. held is the end of the input so far, which may be the beginning of a
	// secret.
	begins [256]bool
	held   []byte
}

func newMask(secrets [][]byte) *mask {
	m := &mask{secrets: secrets}
	for _, one := range secrets {
		m.begins[one[0]] = true
	}
	return m
}

// next takes a chunk of input and returns the bytes that may be passed on. The result is valid only until the next
// call.
func (m *mask) next(chunk []byte) []byte {
	if len(m.secrets) == 0 {
		return chunk
	}
	data := append(m.held, chunk...)
	out := make([]byte, 0, len(data))
	for len(data) > 0 {
		if !m.begins[data[0]] {
			out, data = append(out, data[0]), data[1:]
			continue
		}
		whole, open := m.at(data)
		switch {
		case open:
			m.held = slices.Clone(data)
			return out
		case whole > 0:
			out, data = append(out, masked...), data[whole:]
		default:
			out, data = append(out, data[0]), data[1:]
		}
	}
	m.held = nil
	return out
}

// at returns the length of the longest secret that data begins with, 0 if there is none. open says that more input
// may complete a longer one.
func (m *mask) at(data []byte) (whole int, open bool) {
	for _, one := range m.secrets {
		if len(one) > len(data) {
			open = open || bytes.HasPrefix(one, data)
		} else if whole == 0 && bytes.HasPrefix(data, one) {
			whole = len(one)
		}
	}
	return whole, open
}

// rest returns the held bytes at the end of the input.
func (m *mask) rest() []byte {
	data := m.held
	m.held = nil
	for _, one := range m.secrets {
		data = bytes.ReplaceAll(data, one, []byte(masked))
	}
	return data
}
