package network

import (
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"slices"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// The maximum that a pump reads at once. It is smallRead, and grows up to largeRead if more data is always available
// and no fault is in force. This halves the processor time for bulk data. The many connections with little data keep
// small buffers, and faults hold back small chunks.
const (
	smallRead = 32 << 10
	largeRead = 256 << 10
)

// errCut ends a pump whose connection was ended by a fault.
var errCut = errors.New("cut by a fault")

// pump forwards one direction of a pair.
type pump struct {
	pair      *pair
	direction stream.Direction
	from, to  socket
	// set is what was in force when the pump last checked, hits the faults in it that touch this direction, and
	// shapers the subset of hits that the line was made for. Without a line, data is written as it is read.
	set     *[]*fault
	hits    []*fault
	shapers []*fault
	line    *line
	// jitters and carried are the state of faults for this direction: their source of jitter, and the number of bytes
	// that they have counted.
	jitters map[*fault]*rand.Rand
	carried map[*fault]int64
}

func newPump(p *pair, direction stream.Direction, from, to socket) *pump {
	return &pump{pair: p, direction: direction, from: from, to: to, jitters: map[*fault]*rand.Rand{},
		carried: map[*fault]int64{}}
}

// run forwards until the end of the stream and then passes that on: a regular end as an end, anything else as a reset
// of both sides.
func (m *pump) run() {
	err := m.forward()
	m.finish()
	if !errors.Is(err, errCut) {
		m.pair.hold(m.direction)
		m.pair.linger()
		m.pair.hold(m.direction)
	}
	if err != nil {
		m.pair.close(nil, true)
		return
	}
	_ = m.to.CloseWrite()
}

func (m *pump) forward() error {
	buffer := make([]byte, smallRead)
	for {
		if m.pair.link.faults.Load() != nil {
			buffer = buffer[:smallRead]
		}
		n, err := m.from.Read(buffer)
		if n > 0 {
			if m.pair.observer != nil {
				m.pair.observer.passed(m.direction, n)
			}
			if err := m.pass(buffer[:n]); err != nil {
				return err
			}
		}
		if n == len(buffer) {
			buffer = wider(buffer)
		}
		if err == nil {
			continue
		}
		if asReset := m.ended(m.direction == stream.Downstream, err); errors.Is(err, io.EOF) && !asReset {
			return nil
		}
		return err
	}
}

// ended tells the observer, if any, that a peer is gone. It reports whether the other peer is to see a reset.
func (m *pump) ended(atUpstream bool, err error) (asReset bool) {
	if m.pair.observer == nil || errors.Is(err, net.ErrClosed) { // closed by this process
		return false
	}
	return m.pair.observer.ended(atUpstream, err)
}

// wider returns a buffer of twice the length, up to largeRead.
func wider(buffer []byte) []byte {
	length := min(2*len(buffer), largeRead)
	if length <= cap(buffer) {
		return buffer[:length]
	}
	return make([]byte, length)
}

// pass applies the faults to a chunk and sends it. The order is: faults that end connections, faults that discard
// data, faults that cut it short, faults that slow it down.
func (m *pump) pass(chunk []byte) error {
	read := m.follow()
	for _, f := range m.hits {
		if f.kind == down || f.kind == resets {
			m.pair.close(f, f.kind == resets)
			return errCut
		}
	}
	switch {
	case m.set != nil && m.pair.silencer(m.direction) != nil:
		return m.swallow(len(chunk))
	case m.pair.holed[m.direction].Load():
		return errCut // after a hole nothing may be written, see Relay.remove
	}
	chunk, limiting := m.limit(chunk)
	if err := m.send(chunk, read); err != nil {
		return err
	}
	if limiting == nil {
		return nil
	}
	m.finish() // data within the limit arrives
	m.pair.close(limiting, false)
	return errCut
}

// follow checks which faults are in force. If those that shape the stream have changed, it waits until the line has
// written everything that it was given, and makes a new line. It returns the time at which the current chunk was read
// if a fault is in force.
func (m *pump) follow() (read time.Time) {
	for set := m.pair.link.faults.Load(); ; set = m.pair.link.faults.Load() {
		if set != nil && read.IsZero() {
			read = time.Now()
		}
		if set == m.set {
			return read
		}
		m.set, m.hits = set, nil
		var shapers []*fault
		for _, f := range members(set) {
			if !f.touches(m.pair, m.direction) {
				continue
			}
			m.hits = append(m.hits, f)
			if f.shapes() {
				shapers = append(shapers, f)
			}
		}
		if slices.Equal(shapers, m.shapers) {
			continue
		}
		m.finish()
		if m.shapers = shapers; len(shapers) > 0 {
			m.line = newLine(m, shapers)
		}
	}
}

func (m *pump) swallow(size int) error {
	if m.pair.swallow(m.direction, size) {
		return nil
	}
	return errCut
}

// limit returns the part of a chunk that still passes, and the fault that ends the connection after it, if any.
func (m *pump) limit(chunk []byte) (passes []byte, limiting *fault) {
	for _, f := range m.hits {
		if f.kind != limit {
			continue
		}
		if left := f.spec.LimitData.Bytes() - m.carried[f]; int64(len(chunk)) >= left {
			chunk, limiting = chunk[:left], f
		}
	}
	for _, f := range m.hits {
		if f.kind == limit {
			m.carried[f] += int64(len(chunk))
		}
	}
	return chunk, limiting
}

// send writes a chunk, or passes it to the line. If the direction has fallen silent meanwhile, the client must not
// notice that a peer is gone.
func (m *pump) send(chunk []byte, read time.Time) error {
	if m.line != nil {
		for _, f := range m.shapers {
			f.impeded(len(chunk))
		}
		m.line.input <- &stream.StreamChunk{Data: slices.Clone(chunk), Timestamp: read}
		return nil
	}
	_, err := m.to.Write(chunk)
	if err != nil {
		m.ended(m.direction == stream.Upstream, err)
	}
	if err != nil && m.pair.silencer(m.direction) != nil {
		return m.swallow(len(chunk))
	}
	return err
}

// jitter returns the fault's source of jitter for this direction. It continues where it was when a new line is made.
func (m *pump) jitter(f *fault) *rand.Rand {
	if m.jitters[f] == nil {
		m.jitters[f] = f.jitter(m.pair, m.direction)
	}
	return m.jitters[f]
}

// finish waits until everything passed to the line has been written, or cannot be written because the pair was
// closed.
func (m *pump) finish() {
	if m.line != nil {
		m.line.finish()
		m.line, m.shapers = nil, nil
	}
}
