package subject

// Passwords in what a process writes. Its output goes to a file, and parts of it into the history and the reports,
// which people pass on: what the process was given as a secret is replaced before any of that.

import (
	"bytes"
	"slices"
)

// mask replaces secrets in a stream of bytes, wherever it is cut.
type mask struct {
	secrets [][]byte
	// begins tells the first bytes of secrets; held is the end of what came, which may be the beginning of one.
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

// next takes what came and returns what may be passed on. The result is only valid until the next call.
func (m *mask) next(chunk []byte) []byte {
	if m == nil || len(m.secrets) == 0 {
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

// at returns the length of the longest secret that data begins with, 0 if there is none; open tells that a longer one
// may still come of it.
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

// rest returns what was held back when nothing more comes.
func (m *mask) rest() []byte {
	if m == nil || len(m.held) == 0 {
		return nil
	}
	data := m.held
	m.held = nil
	for _, one := range m.secrets {
		data = bytes.ReplaceAll(data, one, []byte(masked))
	}
	return data
}
