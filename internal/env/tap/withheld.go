package tap

import (
	"fmt"
	"net"
	"slices"
	"time"
)

const (
	// backlogLength is the maximum number of a connection's requests that wait to be passed on. Clients have a handful
	// in flight.
	backlogLength = 256
	// turnLimit is how long closing a connection waits for outstanding answers on it once the fault is healed.
	turnLimit = time.Second
)

// held is a request that is kept from the broker, or one behind such a request.
type held struct {
	frame  []byte
	readAt time.Duration
	action Action
}

// takeDelay takes a delay of the request from the pending entry, which the response side owns from then on.
func (p *pending) takeDelay() Action {
	if p.action.DelayRequest <= 0 {
		return Action{}
	}
	delay := p.action
	p.action = Action{}
	return delay
}

// pass writes the request to the broker, or puts it behind the held ones. The tap continues to read requests
// meanwhile, so that each is stamped on arrival and each delay counts from there.
func (c *conn) pass(p *pending, out []byte, delay Action) error {
	if c.backlog == nil && delay.DelayRequest <= 0 {
		if _, err := c.upstream.Write(out); err != nil {
			return fmt.Errorf("passing on a %s request: %w", apiName(p.key), err)
		}
		return nil
	}
	if c.backlog == nil {
		c.backlog, c.passed = make(chan held, backlogLength), make(chan struct{})
		backlog := c.backlog
		c.helpers.Go(func() { c.passHeld(backlog) })
	}
	select {
	case c.backlog <- held{slices.Clone(out), p.readAt, delay}: // the frame's buffer is reused
		return nil
	case <-c.stop:
		delay.done()
		return net.ErrClosed
	}
}

// passHeld passes on the held requests, each at its time, until the backlog or the connection is closed.
func (c *conn) passHeld(backlog <-chan held) {
	defer close(c.passed)
	for {
		select {
		case h, open := <-backlog:
			if !open || !c.await(&h) {
				return
			}
			if _, err := c.upstream.Write(h.frame); err != nil {
				c.complain(fmt.Errorf("passing on a request that was held: %w", err), "a connection of the subject was closed")
				c.close()
				return
			}
		case <-c.stop:
			return
		}
	}
}

// await waits until the request is to be passed on. It returns false if the connection ended meanwhile. The broker
// still gets the requests of a client that has left, because the client did send them.
func (c *conn) await(h *held) bool {
	if h.action.DelayRequest <= 0 {
		return true
	}
	ended := false
	select {
	case <-time.After(h.readAt + h.action.DelayRequest - c.tap.Clock.Now()):
	case <-h.action.Healed:
	case <-c.gone:
	case <-c.stop:
		ended = true
	}
	h.action.took(EffectRequestDelayed, c.tap.Clock.Now()-h.readAt)
	h.action.done()
	return !ended
}

// passRest passes on the held requests when the client has closed its side.
func (c *conn) passRest() {
	if c.backlog == nil {
		return
	}
	_ = c.upstream.SetWriteDeadline(time.Now().Add(lingerLimit))
	close(c.backlog)
	<-c.passed
}

// forgetHeld ends the actions on requests that were never passed on, once all of the connection's goroutines have
// ended.
func (c *conn) forgetHeld() {
	for {
		select {
		case h, open := <-c.backlog:
			if !open {
				return
			}
			h.action.done()
		default:
			return
		}
	}
}

// lose handles a request that is not forwarded, and reports whether it is one: a lost request, one at which the
// connection is closed, or one that follows either. They are noted as requests without an answer.
func (c *conn) lose(p *pending, answered bool) (lost bool, err error) {
	follows := c.deaf
	switch {
	case follows, p.action.DropRequest && !answered:
		if p.action.DropRequest {
			p.action.took(EffectRequestDropped, 0)
		}
		p.action.done()
		return true, nil
	case p.action.DropRequest, p.action.Close:
		return true, c.hangUp(p)
	}
	return false, nil
}

// hangUp ends the connection: at once, or once the fault is healed if a request is lost. It ends in order, after
// earlier requests are answered:
//
//	client: A, B (hit) ─▶ tap: A to the broker ─▶ A's answer: stamp, write ─▶ B's turn ─▶ end of stream
//
// Thus closing never keeps a stamped answer from the client.
func (c *conn) hangUp(p *pending) error {
	action, turn := p.action, make(chan struct{})
	p.action, p.local, p.turn = Action{}, true, turn
	c.deaf = true
	first := turn
	if action.DropRequest {
		action.took(EffectRequestDropped, 0)
		first = nil
	}
	c.helpers.Go(func() {
		defer action.done()
		select {
		case <-first:
		case <-action.Healed:
		case <-c.gone: // the client gave up by itself
			return
		case <-c.stop:
			return
		}
		limit := time.NewTimer(turnLimit)
		defer limit.Stop()
		select {
		case <-turn:
		case <-limit.C:
		case <-c.stop:
			return
		}
		select {
		case <-c.gone:
		default:
			action.took(EffectClosed, 0)
			c.finish()
		}
	})
	return c.enqueue(p)
}

// finish ends the stream to the client, after everything that was written. The connection ends when the client
// closes its side, or after a short time.
func (c *conn) finish() {
	_ = c.client.SetReadDeadline(time.Now().Add(lingerLimit))
	if half, ok := c.client.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		c.close()
	}
}
