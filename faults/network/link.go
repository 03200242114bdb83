package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// Link forwards TCP connections from a port of its own to an upstream, and breaks them when told to.
//
// The port stays open while the link is down, and connections are reset as soon as they are accepted: closing it could
// let another process take it, and attempts that the kernel refuses can't be counted, so nobody could tell whether the
// fault was ever felt.
type Link struct {
	name, upstream string
	dial           dialFunc
	listener       *net.TCPListener
	ctx            context.Context
	cancel         context.CancelFunc
	wg             sync.WaitGroup

	// faults in force, nil for none. A set is never changed, only replaced, under mu.
	faults atomic.Pointer[[]*fault]

	mu       sync.Mutex
	pairs    map[*pair]struct{}
	accepted uint64
	closed   bool
}

// Bounds of waits. None is reached unless something is wrong.
const (
	dialLimit  = 10 * time.Second
	closeLimit = 5 * time.Second
	// acceptPause keeps a failing accept from spinning.
	acceptPause = 5 * time.Millisecond
)

// NewLink starts a link on a port of 127.0.0.1 that the system picks. upstream is a host and port; it need not be there
// yet. name is for errors ("broker 1").
func NewLink(name, upstream string) (*Link, error) {
	return newLink(name, upstream, (&net.Dialer{Timeout: dialLimit}).DialContext)
}

// dialFunc connects to an upstream; it returns when ctx ends.
type dialFunc func(ctx context.Context, network, address string) (net.Conn, error)

func newLink(name, upstream string, dial dialFunc) (*Link, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("opening link %s: %w", name, err)
	}
	l := &Link{name: name, upstream: upstream, dial: dial, listener: listener.(*net.TCPListener),
		pairs: map[*pair]struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.accept)
	return l, nil
}

// Address is the host and port to connect to.
func (l *Link) Address() string { return l.listener.Addr().String() }

// Connections is how many connections go through it now.
func (l *Link) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pairs)
}

// Close ends the link and all its connections. It waits for nobody who does not read or write; an error means that
// something of the link was still running after 5 s.
func (l *Link) Close() error {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return nil
	}
	l.closed = true
	pairs := l.snapshot(nil)
	l.mu.Unlock()
	l.cancel()
	_ = l.listener.Close()
	closeAll(pairs, nil, false)
	ended := make(chan struct{})
	go func() {
		l.wg.Wait()
		close(ended)
	}()
	select {
	case <-ended:
		return nil
	case <-time.After(closeLimit):
		return fmt.Errorf("closing link %s: its connections had not ended after %v", l.name, closeLimit)
	}
}

func (l *Link) accept() {
	for {
		conn, err := l.listener.AcceptTCP()
		switch {
		case err == nil:
			l.admit(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			// The peer was gone before it was accepted, or there are no file descriptors left.
			select {
			case <-l.ctx.Done():
			case <-time.After(acceptPause):
			}
		}
	}
}

// admit serves a connection, or resets it while the link is down. Under the lock, so that each connection either is cut
// when a fault comes into force, or sees it here.
func (l *Link) admit(conn *net.TCPConn) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return
	}
	l.accepted++
	for _, f := range l.inForce() {
		if f.kind == down && f.selects(l.accepted) {
			// Counted before the client can notice.
			f.ledger.add("connections refused", 1, 0)
			reset(conn)
			return
		}
	}
	pair := newPair(l, l.accepted, conn)
	l.pairs[pair] = struct{}{}
	l.meet(pair)
	l.wg.Go(pair.serve)
}

func (l *Link) forget(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pairs, p)
}

func (l *Link) inForce() []*fault { return members(l.faults.Load()) }

func members(set *[]*fault) []*fault {
	if set == nil {
		return nil
	}
	return *set
}

// snapshot returns the connections that match (nil: all). It is called under the lock; closing them is not.
func (l *Link) snapshot(match func(*pair) bool) []*pair {
	var pairs []*pair
	for pair := range l.pairs {
		if match == nil || match(pair) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// add brings a fault into force. What it does to existing connections is done after it holds, so that none slips
// through.
func (l *Link) add(f *fault) {
	l.mu.Lock()
	f.existing.Store(l.accepted)
	set := append(slices.Clone(l.inForce()), f)
	l.faults.Store(&set)
	var hit []*pair
	if f.kind == down || f.kind == resets || f.kind == halfOpen {
		hit = l.snapshot(func(p *pair) bool { return f.selects(p.number) })
	}
	f.missed = f.kind == halfOpen && len(hit) == 0
	l.mu.Unlock()
	if f.kind != halfOpen {
		closeAll(hit, f, f.kind == resets)
		return
	}
	for _, pair := range hit {
		pair.halve(f)
	}
}

// meet lets faults hit the connection that hit those that exist, and have found none yet: one that comes before a slow
// process has connected would have no effect, however long it lasts. Under the lock, so that a fault that is removed
// meanwhile finds the connection.
func (l *Link) meet(p *pair) {
	for _, f := range l.inForce() {
		if f.missed && f.selects(p.number) {
			f.missed = false
			f.existing.Store(p.number)
			p.halve(f)
		}
	}
}

// closeAll closes connections because of a fault (nil: of none).
func closeAll(pairs []*pair, because *fault, withReset bool) {
	for _, pair := range pairs {
		pair.close(because, withReset)
	}
}

// remove ends a fault. Connections that lost data to it are reset, unless another fault keeps them silent: then they
// are when that one ends. All others go on as if the fault had not been.
//
// A pump that swallows first marks its connection, then looks whether it is still to be silent; here the fault first
// leaves the set, then marked connections are sought. So one of the two finds it: no connection lives on with a hole in
// its stream.
func (l *Link) remove(f *fault) {
	l.mu.Lock()
	set := slices.DeleteFunc(slices.Clone(l.inForce()), func(other *fault) bool { return other == f })
	if len(set) == 0 {
		l.faults.Store(nil)
	} else {
		l.faults.Store(&set)
	}
	f.end()
	var lost []*pair
	if f.kind == silence || f.kind == halfOpen {
		lost = l.snapshot((*pair).lost)
	}
	l.mu.Unlock()
	closeAll(lost, f, true)
}

// reset closes a connection with a RST: its peer reads ECONNRESET, and what was not sent yet is dropped.
func reset(conn *net.TCPConn) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
