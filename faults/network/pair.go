package network

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// pair is a client's connection and the one to the upstream that belongs to it.
type pair struct {
	link   *Link
	number uint64
	client *net.TCPConn
	// holed: data of this connection was swallowed, so nothing may be written to it any more.
	holed atomic.Bool
	// counted: it was reset as it sent, and that has been counted.
	counted atomic.Bool
	ctx     context.Context
	cancel  context.CancelFunc

	mu       sync.Mutex
	upstream *net.TCPConn
	closed   bool
}

func newPair(l *Link, number uint64, client *net.TCPConn) *pair {
	p := &pair{link: l, number: number, client: client}
	p.ctx, p.cancel = context.WithCancel(l.ctx)
	return p
}

// serve connects to the upstream and forwards until both directions have ended. An upstream that can't be reached shows to the
// client as a reset.
func (p *pair) serve() {
	defer p.link.forget(p)
	dialer := net.Dialer{Timeout: dialLimit}
	upstream, err := dialer.DialContext(p.ctx, "tcp", p.link.upstream)
	if err != nil {
		p.close(true)
		return
	}
	if !p.attach(upstream.(*net.TCPConn)) {
		return
	}
	defer p.close(false)
	up := newPump(p, stream.Upstream, p.client, upstream.(*net.TCPConn))
	down := newPump(p, stream.Downstream, upstream.(*net.TCPConn), p.client)
	var wg sync.WaitGroup
	wg.Go(up.run)
	down.run()
	wg.Wait()
}

// attach enters the upstream connection; it reports false, and closes it, when the pair was closed meanwhile.
func (p *pair) attach(upstream *net.TCPConn) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		reset(upstream)
		return false
	}
	p.upstream = upstream
	return true
}

// close closes both connections, with a RST if asked for. Only the first call does, and reports true.
func (p *pair) close(withReset bool) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return false
	}
	p.closed = true
	p.cancel()
	for _, conn := range []*net.TCPConn{p.client, p.upstream} {
		switch {
		case conn == nil:
		case withReset:
			reset(conn)
		default:
			_ = conn.Close()
		}
	}
	return true
}

// What a pump reads at once at most: smallRead, and up to largeRead when there is always more than that and no fault in force. Bulk then
// takes half the processor time; the many connections that carry little stay small, and so does what a fault holds back.
const (
	smallRead = 32 << 10
	largeRead = 256 << 10
)

// errCut ends a pump whose connection a fault has ended.
var errCut = errors.New("cut by a fault")

// pump forwards one direction of a pair.
type pump struct {
	pair      *pair
	direction stream.Direction
	from, to  *net.TCPConn
	// faults is the set that line was made for; no line: data is written as it is read.
	faults *[]*fault
	line   *line
	// jitter of each latency fault, drawn from the fault's seed.
	jitter map[*fault]*rand.Rand
}

func newPump(p *pair, direction stream.Direction, from, to *net.TCPConn) *pump {
	return &pump{pair: p, direction: direction, from: from, to: to, jitter: map[*fault]*rand.Rand{}}
}

// run forwards until the end of the stream, which it passes on: an end as an end, anything else as a reset of both sides.
func (m *pump) run() {
	err := m.forward()
	m.finish()
	m.hold()
	if err != nil {
		m.pair.close(true)
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
			if err := m.pass(buffer[:n]); err != nil {
				return err
			}
		}
		if n == len(buffer) {
			buffer = wider(buffer)
		}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return err
		}
	}
}

// wider returns a buffer of twice the length, as far as largeRead allows.
func wider(buffer []byte) []byte {
	length := min(2*len(buffer), largeRead)
	if length <= cap(buffer) {
		return buffer[:length]
	}
	return make([]byte, length)
}

// pass sends a chunk on its way.
func (m *pump) pass(chunk []byte) error {
	if set := m.pair.link.faults.Load(); set != m.faults {
		m.finish()
		m.faults = set
		if set != nil {
			m.line = newLine(m, *set)
		}
	}
	switch {
	case m.pair.holed.Load() && (m.line == nil || !m.line.silent):
		return errCut // what follows a hole must not be written, see Link.remove
	case m.line != nil:
		return m.impede(chunk)
	}
	_, err := m.to.Write(chunk)
	return err
}

// impede gives a chunk to the line, having counted what becomes of it.
func (m *pump) impede(chunk []byte) error {
	at, size := time.Now(), int64(len(chunk))
	for _, f := range *m.faults {
		switch f.kind {
		case down:
			return errCut
		case resets:
			// Counted before the client can notice, and once though both directions may come here.
			if m.pair.ctx.Err() == nil && m.pair.counted.CompareAndSwap(false, true) {
				f.ledger.add("connections cut", 1, 0)
			}
			m.pair.close(true)
			return errCut
		case silence:
			// See Link.remove for the order.
			m.pair.holed.Store(true)
			f.ledger.add("bytes swallowed", 1, size)
			if f.ctx.Err() != nil {
				return errCut
			}
		}
	}
	if !m.line.silent {
		for _, f := range *m.faults {
			switch f.kind {
			case latency:
				at = at.Add(m.extra(f))
				f.ledger.add("bytes delayed", 1, size)
			case bandwidth:
				f.ledger.add("bytes throttled", 1, size)
			}
		}
	}
	m.line.input <- &stream.StreamChunk{Data: append([]byte(nil), chunk...), Timestamp: at}
	return nil
}

// extra is what a chunk waits beyond the whole milliseconds of the fault's latency: toxiproxy's toxic knows nothing finer, and
// would draw its jitter from a global source. It waits its latency from the chunk's timestamp on, which may lie in the future.
func (m *pump) extra(f *fault) time.Duration {
	extra := f.spec.Latency.D() % time.Millisecond
	if jitter := f.spec.Jitter.D(); jitter > 0 {
		source := m.jitter[f]
		if source == nil {
			source = rand.New(rand.NewPCG(f.seed, m.pair.number<<1|uint64(m.direction)))
			m.jitter[f] = source
		}
		extra += time.Duration(source.Int64N(int64(jitter)))
	}
	return extra
}

// finish waits until everything that was given to the line has been written, or can't be because the pair was closed.
func (m *pump) finish() {
	if m.line != nil {
		m.line.finish()
		m.line = nil
	}
}

// hold keeps the end of a stream back while the link is silent: not even that passes.
func (m *pump) hold() {
	for {
		var silent *fault
		for _, f := range m.pair.link.inForce() {
			if f.kind == silence {
				silent = f
			}
		}
		if silent == nil {
			return
		}
		select {
		case <-silent.ctx.Done():
		case <-m.pair.ctx.Done():
			return
		}
	}
}
