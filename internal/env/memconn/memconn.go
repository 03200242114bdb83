// Package memconn makes connections within this process. They behave as TCP connections on loopback do: each direction
// ends by itself, a connection can be reset, and writing waits while the peer does not read. But nothing is copied
// through the kernel, which is most of what a hop costs.
package memconn

import (
	"context"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"time"
)

// room is how much data a direction holds that its reader has not read. It is what the links read at once.
const room = 256 << 10

// leastRing is the size of the first buffer of a direction.
const leastRing = 4 << 10

// Conn is one end of a connection. It is safe for concurrent use.
type Conn struct {
	in, out *direction
	once    sync.Once
	// abrupt: closing resets the connection (SetLinger).
	abrupt bool
	mu     sync.Mutex
}

// Pair returns the two ends of a new connection.
func Pair() (near, far *Conn) {
	there, back := newDirection(), newDirection()
	return &Conn{in: back, out: there}, &Conn{in: there, out: back}
}

// Read implements net.Conn.
func (c *Conn) Read(into []byte) (int, error) {
	n, err := c.in.read(into)
	return n, c.failed("read", err)
}

// Write implements net.Conn.
func (c *Conn) Write(data []byte) (int, error) {
	n, err := c.out.write(data)
	return n, c.failed("write", err)
}

// Close implements net.Conn. The peer reads what was written and then the end. As with TCP, it is a reset instead if
// data from the peer is unread, or after SetLinger(0).
func (c *Conn) Close() error {
	err := net.ErrClosed
	c.once.Do(func() {
		c.mu.Lock()
		abrupt := c.abrupt
		c.mu.Unlock()
		end := io.EOF
		if c.in.abandon() > 0 || abrupt {
			end = syscall.ECONNRESET
		}
		c.out.end(end, net.ErrClosed)
		err = nil
	})
	return c.failed("close", err)
}

// CloseWrite ends the direction to the peer.
func (c *Conn) CloseWrite() error {
	c.out.end(io.EOF, syscall.EPIPE)
	return nil
}

// SetLinger says how to close the connection: with 0 it is reset, otherwise it ends as usual.
func (c *Conn) SetLinger(seconds int) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.abrupt = seconds == 0
	return nil
}

// SetDeadline implements net.Conn.
func (c *Conn) SetDeadline(at time.Time) error {
	c.in.reading.set(at)
	c.out.writing.set(at)
	return nil
}

// SetReadDeadline implements net.Conn.
func (c *Conn) SetReadDeadline(at time.Time) error { c.in.reading.set(at); return nil }

// SetWriteDeadline implements net.Conn.
func (c *Conn) SetWriteDeadline(at time.Time) error { c.out.writing.set(at); return nil }

// LocalAddr implements net.Conn.
func (c *Conn) LocalAddr() net.Addr { return here{} }

// RemoteAddr implements net.Conn.
func (c *Conn) RemoteAddr() net.Addr { return here{} }

// failed says in the way of package net what failed. The end of a stream is not a failure.
func (c *Conn) failed(what string, err error) error {
	if err == nil || err == io.EOF { //nolint:errorlint // it comes from this package
		return err
	}
	return &net.OpError{Op: what, Net: here{}.Network(), Source: here{}, Addr: here{}, Err: err}
}

// here is the address of all ends.
type here struct{}

// Network implements net.Addr.
func (here) Network() string { return "memory" }

// String implements net.Addr.
func (here) String() string { return "memory" }

// direction carries what one end writes and the other reads.
type direction struct {
	mu      sync.Mutex
	changed *sync.Cond
	// ring holds what was written and is not read: size bytes from first on, past its end from its start.
	ring        []byte
	first, size int
	// ended, if set, is what a reader gets after the data: io.EOF or a reset. refused is what a writer gets then.
	ended, refused error
	// abandoned: the reader has closed its end.
	abandoned        bool
	reading, writing deadline
}

func newDirection() *direction {
	d := new(direction)
	d.changed = sync.NewCond(&d.mu)
	d.reading.of, d.writing.of = d, d
	return d
}

func (d *direction) read(into []byte) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch {
		case d.abandoned:
			return 0, net.ErrClosed
		case d.reading.over():
			return 0, os.ErrDeadlineExceeded
		case d.size > 0:
			n := d.take(into)
			d.changed.Broadcast()
			return n, nil
		case len(into) == 0:
			return 0, nil
		case d.ended != nil:
			return 0, d.ended
		}
		d.changed.Wait()
	}
}

func (d *direction) write(data []byte) (written int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for {
		switch free := room - d.size; {
		case d.ended != nil:
			return written, d.refused
		case d.abandoned:
			return written, syscall.EPIPE
		case d.writing.over():
			return written, os.ErrDeadlineExceeded
		case written == len(data):
			return written, nil
		case free > 0:
			n := min(free, len(data)-written)
			d.put(data[written : written+n])
			written += n
			d.changed.Broadcast()
			continue
		}
		d.changed.Wait()
	}
}

// put adds data. There is room for it.
func (d *direction) put(data []byte) {
	if wanted := d.size + len(data); wanted > len(d.ring) {
		wider := make([]byte, min(room, max(leastRing, 2*wanted)))
		d.size = d.take(wider[:d.size]) // from the start: it is empty meanwhile
		d.ring = wider
	}
	at := (d.first + d.size) % len(d.ring)
	n := copy(d.ring[at:], data)
	copy(d.ring, data[n:])
	d.size += len(data)
}

// take moves data out, as much as there is or fits.
func (d *direction) take(into []byte) int {
	into = into[:min(len(into), d.size)]
	n := copy(into, d.ring[d.first:])
	n += copy(into[n:], d.ring)
	if d.size -= n; d.size == 0 {
		d.first = 0
		return n
	}
	d.first = (d.first + n) % len(d.ring)
	return n
}

// end is called when nothing more is written. The reader sees the first end: on TCP, too, a reset after it is not seen.
func (d *direction) end(ended, refused error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.ended == nil {
		d.ended = ended
	}
	d.refused = refused
	d.changed.Broadcast()
}

// abandon is called when nothing more is read. It returns how much was unread.
func (d *direction) abandon() (unread int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	unread = d.size
	d.abandoned, d.ring, d.first, d.size = true, nil, 0, 0
	d.changed.Broadcast()
	return unread
}

// deadline is that of reading or writing. The zero time is none.
type deadline struct {
	of    *direction
	at    time.Time
	timer *time.Timer
}

// over reports whether it has passed. The direction is locked.
func (d *deadline) over() bool { return !d.at.IsZero() && !time.Now().Before(d.at) }

func (d *deadline) set(at time.Time) {
	d.of.mu.Lock()
	defer d.of.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
	}
	d.at = at
	if wait := time.Until(at); !at.IsZero() && wait > 0 {
		d.timer = time.AfterFunc(wait, func() {
			d.of.mu.Lock()
			defer d.of.mu.Unlock()
			d.of.changed.Broadcast()
		})
	}
	d.of.changed.Broadcast()
}

// Listener accepts connections within this process.
type Listener struct {
	offered chan *Conn
	closed  chan struct{}
	once    sync.Once
}

// NewListener returns a listener.
func NewListener() *Listener {
	return &Listener{offered: make(chan *Conn), closed: make(chan struct{})}
}

// Connect returns a connection whose other end is accepted. The error is net.ErrClosed after Close, or that of ctx.
func (l *Listener) Connect(ctx context.Context) (*Conn, error) {
	near, far := Pair()
	select {
	case l.offered <- far:
		return near, nil
	case <-l.closed:
		return nil, near.failed("dial", net.ErrClosed)
	case <-ctx.Done():
		return nil, near.failed("dial", ctx.Err())
	}
}

// Accept implements net.Listener.
func (l *Listener) Accept() (net.Conn, error) {
	select {
	case conn := <-l.offered:
		return conn, nil
	case <-l.closed:
		return nil, (&Conn{}).failed("accept", net.ErrClosed)
	}
}

// Close implements net.Listener. Connections that were accepted go on.
func (l *Listener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

// Addr implements net.Listener.
func (l *Listener) Addr() net.Addr { return here{} }
