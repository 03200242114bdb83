package workload

import (
	"context"
	"errors"
	"net"
	"os"
	"strings"
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// Conn is a subject's connection to a downstream. It is attributed to a process when it is accepted, so a late
// request of an ended process never counts for its successor.
type Conn struct {
	socket
	instance int16
	run      uint16
	// early contains the bytes that the client sent while its request was being answered. They are read next.
	early []byte
	// greeting, if set, gets the first bytes that the client sends.
	greeting func([]byte)
}

// socket is a connection over TCP, or within this process.
type socket interface {
	net.Conn
	CloseWrite() error
	SetLinger(seconds int) error
}

// NewConn returns the connection of an instance's process.
func NewConn(conn socket, instance int16, run uint16) *Conn {
	return &Conn{socket: conn, instance: instance, run: run}
}

// Instance returns the instance whose connection it is.
func (c *Conn) Instance() int { return int(c.instance) }

// Attempt returns the event of an attempt that begins on the connection.
func (c *Conn) Attempt(now time.Duration) history.Event {
	event := history.New(history.KindAttemptStart, now)
	event.Instance, event.Run = c.instance, c.run
	return event
}

// Read returns the early bytes first, then continues to read.
func (c *Conn) Read(into []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(into, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	n, err := c.socket.Read(into)
	if c.greeting != nil && n > 0 {
		c.greeting(into[:n])
		c.greeting = nil
	}
	return n, err
}

// Waited says how a wait on a connection ended.
type Waited int

const (
	// Elapsed says that the time is over, or the wait was cancelled.
	Elapsed Waited = iota
	// Gone says that the client closed the connection.
	Gone
	// Unusable says that the connection was closed here, or the client sent more than can be kept.
	Unusable
)

// Wait implements Caller. It waits for limit (0 for no limit), until ctx ends, or until the client closes the
// connection. Nothing else reads the connection while its request is being handled. Bytes that a pipelining client
// sends meanwhile are kept.
func (c *Conn) Wait(ctx context.Context, limit time.Duration) Waited {
	var until time.Time
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	if c.SetReadDeadline(until) != nil {
		return Unusable
	}
	// A deadline in the past cancels the wait. It must have been set before the deadline is cleared, or the next
	// request would run into it.
	set := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		_ = c.SetReadDeadline(time.Unix(1, 0))
		close(set)
	})
	ended := c.watch()
	if !stop() {
		<-set
	}
	_ = c.SetReadDeadline(time.Time{})
	return ended
}

// Over implements Caller. Only a wait reads on and detects a closed connection.
func (c *Conn) Over() bool { return false }

// watch reads until the deadline.
func (c *Conn) watch() Waited {
	var buffer [512]byte
	for len(c.early) < maxBody {
		n, err := c.socket.Read(buffer[:])
		c.early = append(c.early, buffer[:n]...)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return Elapsed
		case errors.Is(err, net.ErrClosed):
			return Unusable
		default:
			return Gone
		}
	}
	return Unusable
}

// reset closes the connection with a TCP reset.
func (c *Conn) reset() {
	// Without lingering, closing sends RST instead of FIN.
	_ = c.SetLinger(0)
	_ = c.Close()
}

// RemoteAddr implements net.Conn. The address leads back to the connection: servers tell it to the handler of a
// request, with and without TLS.
func (c *Conn) RemoteAddr() net.Addr { return peerAddr{c.socket.RemoteAddr(), c} }

type peerAddr struct {
	net.Addr
	conn *Conn
}

// connOf returns the connection that an address leads back to.
func connOf(addr net.Addr) *Conn { return addr.(peerAddr).conn }

// attributing is the listener of an instance. It attributes connections to the current process of the instance.
type attributing struct {
	net.Listener
	stub     *Stub
	instance int // counted from 0
}

// Accept implements net.Listener.
func (l *attributing) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	l.stub.accepted.Add(1)
	number := l.stub.cfg.First + l.instance
	accepted := NewConn(conn.(socket), int16(number), l.stub.Process(number))
	if l.stub.cfg.TLS == nil {
		accepted.greeting = l.stub.noteTLS
	}
	return accepted, nil
}

// handshakeRecord is the first byte that a client of TLS sends (RFC 8446, 5.1).
const handshakeRecord = 22

// noteTLS counts a connection whose client speaks TLS, which the stub does not.
func (s *Stub) noteTLS(first []byte) {
	if first[0] == handshakeRecord {
		s.secured.Add(1)
	}
}

// Secured returns the number of connections by TLS to a stub without it.
func (s *Stub) Secured() int64 { return s.secured.Load() }

// waiting is the caller of a request, which waits as long as the request lasts.
type waiting struct {
	ctx  context.Context
	stub *Stub
}

// Wait implements Caller.
func (c waiting) Wait(ctx context.Context, limit time.Duration) Waited {
	var over <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-c.ctx.Done():
		if c.stub.closing.Load() {
			return Unusable
		}
		return Gone
	case <-ctx.Done():
	case <-over:
	}
	return Elapsed
}

// Over reports whether the caller has given up: a stub that stood still may read a request only after that.
func (c waiting) Over() bool { return c.ctx.Err() != nil && !c.stub.closing.Load() }

// faulty counts the TLS handshakes that failed because the two sides did not agree, and keeps the first reason. Clients
// that come and go are not among them.
type faulty struct {
	count atomic.Int64
	first atomic.Pointer[string]
}

// Write implements io.Writer for the log of an HTTP server.
func (f *faulty) Write(line []byte) (int, error) {
	if text, is := strings.CutPrefix(string(line), "http: TLS handshake error from "); is {
		_, reason, _ := strings.Cut(text, ": ")
		f.note(strings.TrimSpace(reason))
	}
	return len(line), nil
}

func (f *faulty) note(reason string) {
	if strings.Contains(reason, "tls: ") || strings.Contains(reason, "HTTP request to an HTTPS server") {
		f.add(reason)
	}
}

func (f *faulty) add(reason string) {
	f.count.Add(1)
	f.first.CompareAndSwap(nil, &reason)
}

// told returns how many there were, and the first.
func (f *faulty) told() (count int64, first string) {
	if text := f.first.Load(); text != nil {
		first = *text
	}
	return f.count.Load(), first
}

// Unused returns the number of connections by TLS if nothing came on any of them: some clients close a connection after
// the handshake if they do not trust its certificate. One that sends the preface of HTTP/2 trusts it, also if no call
// follows.
func (s *Stub) Unused() int64 {
	if s.cfg.TLS == nil || s.spoken.Load() {
		return 0
	}
	return s.accepted.Load()
}

// Handshakes returns the number of connections whose TLS handshake failed because client and stub did not agree, and
// the reason of the first.
func (s *Stub) Handshakes() (count int64, first string) { return s.handshakes.told() }
