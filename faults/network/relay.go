package network

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/Shopify/toxiproxy/v2/stream"

	"github.com/dlqbench/dlqbench/internal/env/memconn"
)

// Relay is a Link of this process. It forwards TCP connections from a port of its own to an upstream, and applies the
// faults injected into it.
//
// While the link is down, its port stays open, and connections are reset as soon as they are accepted. If the port
// were closed, another process could take it. The kernel would refuse connection attempts without counting them, so
// the effect of the fault would be unknown.
type Relay struct {
	name     string
	open     openFunc
	listener *net.TCPListener
	ctx      context.Context
	cancel   context.CancelFunc
	wg       sync.WaitGroup

	// faults are the faults in force, nil if there are none. A set is never changed, only replaced, under mu.
	faults atomic.Pointer[[]*fault]

	mu       sync.Mutex
	pairs    map[*pair]struct{}
	accepted uint64
	closed   bool
}

// Limits of waits. They are reached only if something is wrong.
const (
	dialLimit  = 10 * time.Second
	closeLimit = 5 * time.Second
	// acceptPause prevents a busy loop while accept fails.
	acceptPause = 5 * time.Millisecond
)

// NewRelay starts a relay on a port of 127.0.0.1 that the system picks. name is used in errors ("broker 1").
func NewRelay(name string, upstream Upstream) (*Relay, error) {
	return newRelay(name, 0, dialTo(upstream))
}

// openFunc connects to an upstream for one connection of a client, and may name an observer of it. It returns when ctx
// ends.
type openFunc func(ctx context.Context) (socket, observer, error)

// observer is told what a connection carries.
type observer interface {
	// passed is called with data that was read and is passed on next.
	passed(direction stream.Direction, size int)
	// ended is called when reading from or writing to a peer shows that it is gone, before the other peer is told. It
	// reports whether that one is to see a reset.
	ended(atUpstream bool, err error) (asReset bool)
}

// dialTo returns the openFunc of a relay that nobody observes.
func dialTo(upstream Upstream) openFunc {
	return func(ctx context.Context) (socket, observer, error) {
		conn, err := upstream.dial(ctx)
		return conn, nil, err
	}
}

// socket is a connection of a link: over TCP, or within this process.
type socket interface {
	net.Conn
	CloseWrite() error
	SetLinger(seconds int) error
}

func (u Upstream) dial(ctx context.Context) (socket, error) {
	if u.Inside == nil {
		return dialTCP(ctx, u.Address)
	}
	conn, err := u.Inside(ctx)
	if err != nil {
		return nil, err
	}
	return conn, nil
}

func dialTCP(ctx context.Context, address string) (socket, error) {
	conn, err := (&net.Dialer{Timeout: dialLimit}).DialContext(ctx, "tcp", address)
	if err != nil {
		return nil, err
	}
	return conn.(*net.TCPConn), nil
}

func newRelay(name string, port int, open openFunc) (*Relay, error) {
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port)))
	if err != nil {
		return nil, fmt.Errorf("opening link %s: %w", name, err)
	}
	l := &Relay{name: name, open: open, listener: listener.(*net.TCPListener), pairs: map[*pair]struct{}{}}
	l.ctx, l.cancel = context.WithCancel(context.Background())
	l.wg.Go(l.accept)
	return l, nil
}

// Address returns the host and port to connect to.
func (l *Relay) Address() string { return l.listener.Addr().String() }

// Connect implements Link.
func (l *Relay) Connect(context.Context) (net.Conn, error) {
	near, far := memconn.Pair()
	l.admit(far)
	return near, nil
}

// Connections returns the current number of connections.
func (l *Relay) Connections() int {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.pairs)
}

// Close ends the link and all its connections. It does not wait for peers that neither read nor write. An error means
// that something of the link was still running after 5 s.
func (l *Relay) Close() error {
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

func (l *Relay) accept() {
	for {
		conn, err := l.listener.AcceptTCP()
		switch {
		case err == nil:
			l.admit(conn)
		case errors.Is(err, net.ErrClosed):
			return
		default:
			// The peer was gone before its connection was accepted, or there are no file descriptors left.
			select {
			case <-l.ctx.Done():
			case <-time.After(acceptPause):
			}
		}
	}
}

// admit serves a connection, or resets it while the link is down. It holds the lock, so that each connection is
// either cut when a fault comes into force, or finds the fault here.
func (l *Relay) admit(conn socket) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		_ = conn.Close()
		return
	}
	l.accepted++
	for _, f := range l.inForce() {
		if f.kind == down && f.selects(l.accepted) {
			// Count before the client can notice the reset.
			f.ledger.add("connections refused", 0)
			reset(conn)
			return
		}
	}
	pair := newPair(l, l.accepted, conn)
	l.pairs[pair] = struct{}{}
	l.meet(pair)
	l.wg.Go(pair.serve)
}

func (l *Relay) forget(p *pair) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.pairs, p)
}

func (l *Relay) inForce() []*fault { return members(l.faults.Load()) }

func members(set *[]*fault) []*fault {
	if set == nil {
		return nil
	}
	return *set
}

// snapshot returns the connections that match (nil: all). The caller holds the lock, and closes the connections
// without it.
func (l *Relay) snapshot(match func(*pair) bool) []*pair {
	var pairs []*pair
	for pair := range l.pairs {
		if match == nil || match(pair) {
			pairs = append(pairs, pair)
		}
	}
	return pairs
}

// inject implements Link.
func (l *Relay) inject(_ context.Context, f *fault) error { l.add(f); return nil }

// lift implements Link. The port stayed open all the time, so there is nothing to confirm: connections accepted from
// now on are served.
func (l *Relay) lift(_ context.Context, f *fault) error { l.remove(f); return nil }

// add puts a fault in force. It acts on existing connections after the fault is in force, so that none slips through.
func (l *Relay) add(f *fault) {
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

// meet applies faults that hit existing connections, and have found none yet, to this connection. Otherwise a fault
// that starts before a slow process has connected would never have an effect. The caller holds the lock, so that a
// fault that is removed meanwhile finds the connection.
func (l *Relay) meet(p *pair) {
	for _, f := range l.inForce() {
		if f.missed && f.selects(p.number) {
			f.missed = false
			f.existing.Store(p.number)
			p.halve(f)
		}
	}
}

// closeAll closes connections because of a fault (nil: no fault).
func closeAll(pairs []*pair, because *fault, withReset bool) {
	for _, pair := range pairs {
		pair.close(because, withReset)
	}
}

// remove ends a fault. Connections that lost data to it are reset. If another fault keeps such a connection silent,
// it is reset when that fault ends. All other connections continue.
//
// A pump that discards data first marks its connection and then checks whether it is still to be silent. remove first
// removes the fault from the set and then looks for marked connections. So one of the two finds the connection, and
// none survives with a hole in its stream.
func (l *Relay) remove(f *fault) {
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

// reset closes a connection with a RST. Its peer reads ECONNRESET, and unsent data is dropped.
func reset(conn socket) {
	_ = conn.SetLinger(0)
	_ = conn.Close()
}
