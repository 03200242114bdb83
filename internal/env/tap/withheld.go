package tap

import (
	"fmt"
	"net"
	"slices"
	"time"
)

const (
	// backlogLength bounds how many requests of a connection wait to be passed on; clients have a handful in flight.
	backlogLength = 256
	// turnLimit is how long closing a connection waits for the answers that are due on it, once the fault is healed.
	turnLimit = time.Second
)

// held is a request that the broker does not see yet, or one behind such a request.
type held struct {
	frame  []byte
	readAt time.Duration
	action Action
}

// takeDelay takes a delay of the request from the pending entry, which the response side owns from now on.
func (p *pending) takeDelay() Action {
	if p.action.DelayRequest <= 0 {
		return Action{}
	}
	delay := p.action
	p.action = Action{}
	return delay
}

// pass writes the request to the broker, or puts it behind those that are held. Requests are read on meanwhile, so that
// each is stamped when it came, and each that is delayed waits from then.
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
	case c.backlog <- held{slices.Clone(out), p.readAt, delay}: // the frame's buffer is used again
		return nil
	case <-c.stop:
		delay.done()
		return net.ErrClosed
	}
}

// passHeld passes on what is held, each in its time, until the backlog or the connection is closed.
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

// await waits until the request is to be passed on; it reports false when the connection ended meanwhile. A client that
// has gone has sent the request all the same, so the broker gets it.
func (c *conn) await(h *held) bool {
	if h.action.DelayRequest <= 0 {
		return true
	}
	timer := time.NewTimer(h.readAt + h.action.DelayRequest - c.tap.Clock.Now())
	defer timer.Stop()
	ended := false
	select {
	case <-timer.C:
	case <-h.action.Healed:
	case <-c.gone:
	case <-c.stop:
		ended = true
	}
	h.action.took(EffectRequestDelayed, c.tap.Clock.Now()-h.readAt)
	h.action.done()
	return !ended
}

// passRest passes on what is held when the client has closed its side.
func (c *conn) passRest() {
	if c.backlog == nil {
		return
	}
	_ = c.upstream.SetWriteDeadline(time.Now().Add(lingerLimit))
	close(c.backlog)
	<-c.passed
}

// forgetHeld gives back the actions on requests that were never passed on, when all of the connection's goroutines have
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

// lose treats a request that goes nowhere, and reports whether it is one: a lost one, one at which the connection is
// closed, one that follows either. They are noted as requests without an answer, which is what they are.
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

// hangUp lets the connection end: at once, or once the fault is healed when a request is lost. It ends in order, after
// what was asked before is answered:
//
//	client: A, B (hit) ─▶ tap: A to the broker ─▶ A's answer: stamp, write ─▶ B's turn ─▶ end of stream
//
// so that an answer which is stamped is never one that the closing kept from the client.
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

// finish ends the stream to the client, after all that was written; the connection ends when the client closes its
// side, or soon.
func (c *conn) finish() {
	_ = c.client.SetReadDeadline(time.Now().Add(lingerLimit))
	if half, ok := c.client.(interface{ CloseWrite() error }); !ok || half.CloseWrite() != nil {
		c.close()
	}
}
