package workload

import (
	"context"
	"errors"
	"net"
	"os"
	"time"

	"github.com/valyala/fasthttp"

	"github.com/dlqbench/dlqbench/history"
)

// Conn is a subject's connection to a downstream. It is attributed to a process when it is accepted, so a late
// request of an ended process never counts for its successor.
type Conn struct {
	*net.TCPConn
	instance int16
	run      uint16
	// early contains the bytes that the client sent while its request was being answered. They are read next.
	early []byte
}

// NewConn returns the connection of an instance's process.
func NewConn(conn *net.TCPConn, instance int16, run uint16) *Conn {
	return &Conn{TCPConn: conn, instance: instance, run: run}
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
	return c.TCPConn.Read(into)
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
		n, err := c.TCPConn.Read(buffer[:])
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

// giveUp closes the connection without an answer, with a TCP reset if asked.
func (c *Conn) giveUp(ctx *fasthttp.RequestCtx, reset bool) {
	if reset {
		// Without lingering, closing sends RST instead of FIN.
		_ = c.SetLinger(0)
	}
	_ = c.Close()
	// A hijacked request without a response is the server's only way to write nothing.
	ctx.HijackSetNoResponse(true)
	ctx.Hijack(func(net.Conn) {})
}
