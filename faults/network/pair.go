package network

import (
	"context"
	"sync"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// pair is a client's connection together with its connection to the upstream.
type pair struct {
	link *Relay
	// number counts the connections that the link accepted, from 1.
	number uint64
	client socket
	// holed: data of this direction was discarded, so nothing more may be written in it.
	holed  [stream.NumDirections]atomic.Bool
	ctx    context.Context
	cancel context.CancelFunc

	// observer is nil if nobody observes the connection. It is set before the pumps run.
	observer observer

	mu       sync.Mutex
	upstream socket
	halved   bool
	closed   bool
}

func newPair(l *Relay, number uint64, client socket) *pair {
	p := &pair{link: l, number: number, client: client}
	p.ctx, p.cancel = context.WithCancel(l.ctx)
	return p
}

// serve connects to the upstream and forwards until both directions have ended. The client sees an unreachable
// upstream as a reset.
func (p *pair) serve() {
	defer p.link.forget(p)
	defer p.close(nil, false)
	upstream, observer, err := p.link.open(p.ctx)
	if err != nil {
		p.hold(stream.Downstream)
		p.close(nil, true)
		return
	}
	if !p.attach(upstream) {
		return
	}
	p.observer = observer
	up := newPump(p, stream.Upstream, p.client, upstream)
	down := newPump(p, stream.Downstream, upstream, p.client)
	var wg sync.WaitGroup
	wg.Go(up.run)
	down.run()
	wg.Wait()
}

// attach registers the upstream connection. If the pair was closed meanwhile, it closes the connection and returns
// false. A pair that was half-opened meanwhile has no upstream side but is served, because the client's data must be
// read.
func (p *pair) attach(upstream socket) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		reset(upstream)
		return false
	}
	p.upstream = upstream
	if p.halved {
		_ = upstream.Close()
	}
	return true
}

// halve closes the upstream side because of a fault that keeps the client side silent. It is called when that fault
// is in force, so that the pumps know why the upstream is gone.
func (p *pair) halve(because *fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	because.ledger.add("connections half-opened", 0)
	p.halved = true
	for direction := range p.holed {
		p.holed[direction].Store(true)
	}
	if p.upstream != nil {
		_ = p.upstream.Close()
	}
}

// close closes both connections, with a RST if requested. Only the first call has an effect, and it counts for the
// fault that is the reason (nil: no fault), before the client can notice.
func (p *pair) close(because *fault, withReset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.cancel()
	if because != nil {
		because.ledger.add("connections cut", 0)
	}
	for _, conn := range []socket{p.client, p.upstream} {
		switch {
		case conn == nil:
		case withReset:
			reset(conn)
		default:
			_ = conn.Close()
		}
	}
}

// silencer returns a fault in force that keeps a direction silent, or nil.
func (p *pair) silencer(direction stream.Direction) *fault {
	for _, f := range p.link.inForce() {
		if f.silences(p, direction) {
			return f
		}
	}
	return nil
}

// swallow records that data of a silent direction is discarded. It returns false if the direction is no longer to be
// silent. Then the connection has to be cut. See Relay.remove for the order.
func (p *pair) swallow(direction stream.Direction, size int) bool {
	p.holed[direction].Store(true)
	for _, f := range p.link.inForce() {
		if f.silences(p, direction) {
			f.ledger.add("bytes swallowed", int64(size))
		}
	}
	return p.silencer(direction) != nil
}

// lost reports whether data was lost in a direction that is no longer silent.
func (p *pair) lost() bool {
	for direction := range stream.NumDirections {
		if p.holed[direction].Load() && p.silencer(direction) == nil {
			return true
		}
	}
	return false
}

// hold waits while a direction is silent: not even the end of its stream passes. If data was lost, it waits until the
// connection has been cut, which is done by the goroutine that ended the silence.
func (p *pair) hold(direction stream.Direction) {
	for f := p.silencer(direction); f != nil && p.ctx.Err() == nil; f = p.silencer(direction) {
		select {
		case <-f.ctx.Done():
		case <-p.ctx.Done():
		}
	}
	if p.holed[direction].Load() {
		<-p.ctx.Done()
	}
}

// linger waits as long as faults delay a close.
func (p *pair) linger() {
	for _, f := range p.link.inForce() {
		if f.kind == slowClose && f.selects(p.number) && p.ctx.Err() == nil {
			f.ledger.add("closes delayed", 0)
			f.wait(p.ctx, f.spec.SlowClose.D())
		}
	}
}
