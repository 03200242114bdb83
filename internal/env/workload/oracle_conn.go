package workload

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"
)

// attemptConn is a subject's connection: whose it is was settled when it was accepted, so a late request of a process
// that has ended is never counted for its successor.
type attemptConn struct {
	*net.TCPConn
	instance int16
	run      uint16
	// early is what the client sent while its request was being answered; it is read next.
	early []byte
}

// Read returns what came early, then reads on.
func (c *attemptConn) Read(into []byte) (int, error) {
	if len(c.early) > 0 {
		n := copy(into, c.early)
		c.early = c.early[n:]
		return n, nil
	}
	return c.TCPConn.Read(into)
}

// waited is how a wait on a connection ended.
type waited int

const (
	// elapsed: the time is over, or the wait was called off.
	elapsed waited = iota
	// gone: the client closed the connection.
	gone
	// unusable: the connection was closed here, or the client sent more than can be kept.
	unusable
)

// wait waits for limit (0: as long as it takes), until ctx ends, or until the client closes the connection. Nothing
// else reads the connection while its request is being handled; what a pipelining client sends meanwhile is kept.
func (c *attemptConn) wait(ctx context.Context, limit time.Duration) waited {
	var until time.Time
	if limit > 0 {
		until = time.Now().Add(limit)
	}
	if c.SetReadDeadline(until) != nil {
		return unusable
	}
	// Calling the wait off is a deadline in the past. It must have been set before the deadline is taken back, or the
	// next request would run into it.
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

// over implements patient: only a wait reads on, and finds out.
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
