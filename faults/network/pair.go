package network

import (
	"context"
	"net"
	"sync"
	"sync/atomic"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// pair is a client's connection and the one to the upstream that belongs to it.
type pair struct {
	link *Link
	// number counts the connections that the link accepted, from 1.
	number uint64
	client *net.TCPConn
	// holed: data of this direction was swallowed, so nothing may be written to it any more.
	holed  [stream.NumDirections]atomic.Bool
	ctx    context.Context
	cancel context.CancelFunc

	mu       sync.Mutex
	upstream *net.TCPConn
	halved   bool
	closed   bool
}

func newPair(l *Link, number uint64, client *net.TCPConn) *pair {
	p := &pair{link: l, number: number, client: client}
	p.ctx, p.cancel = context.WithCancel(l.ctx)
	return p
}

// serve connects to the upstream and forwards until both directions have ended. An upstream that can't be reached shows
// to the client as a reset.
func (p *pair) serve() {
	defer p.link.forget(p)
	defer p.close(nil, false)
	upstream, err := p.link.dial(p.ctx, "tcp", p.link.upstream)
	if err != nil {
		p.hold(stream.Downstream)
		p.close(nil, true)
		return
	}
	if !p.attach(upstream.(*net.TCPConn)) {
		return
	}
	up := newPump(p, stream.Upstream, p.client, upstream.(*net.TCPConn))
	down := newPump(p, stream.Downstream, upstream.(*net.TCPConn), p.client)
	var wg sync.WaitGroup
	wg.Go(up.run)
	down.run()
	wg.Wait()
}

// attach enters the upstream connection; it reports false, and closes it, when the pair was closed meanwhile. One that
// was half-opened meanwhile has no far side, but is served: what the client sends must go somewhere.
func (p *pair) attach(upstream *net.TCPConn) bool {
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

// halve closes the upstream's side because of a fault that keeps the client's side silent. It is called when that fault
// is in force, so that the pumps know why the upstream is gone.
func (p *pair) halve(because *fault) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	because.ledger.add("connections half-opened", 1, 0)
	p.halved = true
	for direction := range p.holed {
		p.holed[direction].Store(true)
	}
	if p.upstream != nil {
		_ = p.upstream.Close()
	}
}

// close closes both connections, with a RST if asked for. Only the first call does, and it counts for the fault that is
// the reason (nil: none is), before the client can notice.
func (p *pair) close(because *fault, withReset bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		return
	}
	p.closed = true
	p.cancel()
	if because != nil {
		because.ledger.add("connections cut", 1, 0)
	}
	for _, conn := range []*net.TCPConn{p.client, p.upstream} {
		switch {
		case conn == nil:
		case withReset:
			reset(conn)
		default:
			_ = conn.Close()
		}
	}
}

// silencer returns a fault in force that keeps a direction silent, nil if there is none.
func (p *pair) silencer(direction stream.Direction) *fault {
	for _, f := range p.link.inForce() {
		if f.silences(p, direction) {
			return f
		}
	}
	return nil
}

// swallow notes that data of a direction that is to be silent is dropped. It reports false when it is not to be silent
// any more: then the connection has to be cut. See Link.remove for the order.
func (p *pair) swallow(direction stream.Direction, size int) bool {
	p.holed[direction].Store(true)
	for _, f := range p.link.inForce() {
		if f.silences(p, direction) {
			f.ledger.add("bytes swallowed", 1, int64(size))
		}
	}
	return p.silencer(direction) != nil
}

// lost reports whether data was lost in a direction that is not silent any more.
func (p *pair) lost() bool {
	for direction := range stream.NumDirections {
		if p.holed[direction].Load() && p.silencer(direction) == nil {
			return true
		}
	}
	return false
}

// hold waits while a direction is silent: not even the end of its stream passes. Where data was lost it waits until the
// connection has been cut, which whoever ended the silence does.
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

// linger waits as long as faults hold a close back.
func (p *pair) linger() {
	for _, f := range p.link.inForce() {
		if f.kind == slowClose && f.selects(p.number) && p.ctx.Err() == nil {
			f.ledger.add("closes delayed", 1, 0)
			f.wait(p.ctx, f.spec.SlowClose.D())
		}
	}
}
