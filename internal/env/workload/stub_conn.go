package workload

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

// attemptConn is a subject's connection. It is attributed to a process when it is accepted, so a late request of an
// ended process never counts for its successor.
type attemptConn struct {
	*net.TCPConn
	instance int16
	run      uint16
	// early contains the bytes that the client sent while its request was being answered. They are read next.
	early []byte
}

// Read returns the early bytes first, then continues to read.
func (c *attemptConn) Read(into []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(into, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.TCPConn.Read(into)
}

// waited says how a wait on a connection ended.
type waited int

const (
	// elapsed says that the time is over, or the wait was cancelled.
	elapsed waited = iota
	// gone says that the client closed the connection.
	gone
	// unusable says that the connection was closed here, or the client sent more than can be kept.
	unusable
)

// wait waits for limit (0 for no limit), until ctx ends, or until the client closes the connection. Nothing else
// reads the connection while its request is being handled. Bytes that a pipelining client sends meanwhile are kept.
func (c *attemptConn) wait(ctx context.Context, limit time.Duration) waited {
	var until time.Time
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	if c.SetReadDeadline(until) != nil {
		return unusable
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

// over implements patient. Only a wait reads on and detects a closed connection.
func (c *attemptConn) over() bool { return false }

// watch reads until the deadline.
func (c *attemptConn) watch() waited {
	var buffer [512]byte
	for len(c.early) < maxBody {
		n, err := c.TCPConn.Read(buffer[:])
		c.early = append(c.early, buffer[:n]...)
		switch {
		case err == nil:
		case errors.Is(err, os.ErrDeadlineExceeded):
			return elapsed
		case errors.Is(err, net.ErrClosed):
			return unusable
		default:
			return gone
		}
	}
	return unusable
}

// giveUp closes the connection without an answer, with a TCP reset if asked.
func (c *attemptConn) giveUp(ctx *fasthttp.RequestCtx, reset bool) {
	if reset {
		// Without lingering, closing sends RST instead of FIN.
		_ = c.SetLinger(0)
	}
	_ = c.Close()
	// A hijacked request without a response is the server's only way to write nothing.
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {})
}
