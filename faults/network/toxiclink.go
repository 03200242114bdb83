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

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"github.com/Shopify/toxiproxy/v2/stream"
)

// toxicLink is a Link through a proxy of a toxiproxy server:
//
//	client ──▶ entry ──▶ the server's proxy, with its toxics ──▶ exit ──▶ upstream
//
// The server reports nothing about what its toxics do. So entry and exit, two relays of this process without faults,
// see each connection before and after the server; see passage.
type toxicLink struct {
	name        string
	entry, exit *Relay
	// faults are the faults in force, as in Relay. mu guards changes of the set, and passages.
	faults   atomic.Pointer[[]*fault]
	mu       sync.Mutex
	passages map[*passage]struct{}
	// dialing makes connections to the server one after another, so that the next one at the exit belongs to the one
	// in expected. toxiproxy dials in the order in which it accepts.
	dialing  sync.Mutex
	expected chan *passage

	// changing serialises changes of the proxy. changes is odd while one is under way.
	changing sync.Mutex
	changes  atomic.Int64
	proxy    *toxiproxy.Proxy
	toxics   []string // the names of the toxics that should be on the proxy
	downs    int      // the number of faults that disable the proxy
	serial   int      // the number of the last fault, for the names of its toxics
	closed   bool

	wg sync.WaitGroup
}

// Limits of waits for the server. They are reached only if something is wrong.
const (
	arriveLimit = 5 * time.Second
	cutLimit    = 2 * time.Second
)

// Address implements Link.
func (l *toxicLink) Address() string { return l.entry.Address() }

// Connect implements Link.
func (l *toxicLink) Connect(ctx context.Context) (net.Conn, error) { return l.entry.Connect(ctx) }

// Connections implements Link.
func (l *toxicLink) Connections() int { return l.entry.Connections() }

// Close implements Link.
func (l *toxicLink) Close() error {
	l.changing.Lock()
	defer l.changing.Unlock()
	if l.closed {
		return nil
	}
	l.closed = true
	l.changes.Add(1) // for good: the proxy is no longer compared with what it should be
	err := errors.Join(l.entry.Close(), l.exit.Close(), remove(context.Background(), l.proxy))
	l.wg.Wait()
	return err
}

// enter connects a client to the server, and waits until the server has connected to the exit.
func (l *toxicLink) enter(ctx context.Context) (socket, observer, error) {
	l.dialing.Lock()
	defer l.dialing.Unlock()
	p := newPassage(l)
	l.expected <- p
	defer func() {
		select {
		case <-l.expected:
		default: // it is at the exit
		}
	}()
	conn, err := dialTCP(ctx, l.proxy.Listen)
	if err != nil {
		l.refused()
		return nil, nil, err
	}
	limit := time.NewTimer(arriveLimit)
	defer limit.Stop()
	select {
	case <-p.arrived:
	case <-ctx.Done():
		err = ctx.Err()
	case <-limit.C:
		err = errors.New("the server did not connect to the upstream")
	}
	if err != nil {
		reset(conn)
		return nil, nil, err
	}
	p.mu.Lock()
	p.cut = func() { reset(conn) }
	p.mu.Unlock()
	l.keep(ctx, p)
	return conn, view{p, stream.Upstream}, nil
}

// refused counts a connection that the server did not accept because its proxy is disabled.
func (l *toxicLink) refused() {
	for _, f := range members(l.faults.Load()) {
		if f.kind == down {
			f.ledger.add("connections refused", 0)
			return
		}
	}
}

// keep lists a passage as long as the connection exists, of which ctx is.
func (l *toxicLink) keep(ctx context.Context, p *passage) {
	l.mu.Lock()
	l.passages[p] = struct{}{}
	l.mu.Unlock()
	context.AfterFunc(ctx, func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		delete(l.passages, p)
	})
}

// leave connects the server to the upstream. A connection that nobody expects does not come from the entry.
func (l *toxicLink) leave(upstream Upstream) openFunc {
	return func(ctx context.Context) (socket, observer, error) {
		var p *passage
		select {
		case p = <-l.expected:
			close(p.arrived)
		default:
		}
		conn, err := upstream.dial(ctx)
		switch {
		case p == nil:
			return conn, nil, err
		case err != nil:
			p.farEnded(err)
		}
		return conn, view{p, stream.Downstream}, err
	}
}

// inject implements Link. A fault that ends connections is in force when the connections of before are over.
func (l *toxicLink) inject(ctx context.Context, f *fault) error {
	if err := f.spec.OnToxiproxy(); err != nil {
		return err
	}
	before := l.current(func(*passage) bool { return f.kind == down })
	l.put(f)
	err := l.change(ctx, func(proxy *toxiproxy.Proxy) func() error {
		if f.kind == down {
			l.downs++
			return proxy.Disable
		}
		l.serial++
		f.toxics = toxicsOf(f, fmt.Sprintf("dlqbench-%d", l.serial))
		for _, one := range f.toxics {
			l.toxics = append(l.toxics, one.Name)
		}
		return func() error { return addToxics(proxy, f.toxics) }
	})
	if err != nil {
		return errors.Join(fmt.Errorf("injecting a fault into link %s: %w", l.name, err), l.lift(ctx, f))
	}
	if f.kind == silence {
		l.wg.Go(func() { l.sweep(f) })
	}
	l.awaitEnds(ctx, before)
	return nil
}

func addToxics(proxy *toxiproxy.Proxy, toxics []toxiproxy.Toxic) error {
	for _, one := range toxics {
		if _, err := proxy.AddToxic(one.Name, one.Type, one.Stream, one.Toxicity, one.Attributes); err != nil {
			return err
		}
	}
	return nil
}

// sweep counts what a silent server discards, until the fault is lifted.
func (l *toxicLink) sweep(f *fault) {
	tick := time.NewTicker(gone)
	defer tick.Stop()
	for {
		select {
		case <-tick.C:
			l.current(func(p *passage) bool { return p.sweep(f, gone) })
		case <-f.ctx.Done():
			return
		}
	}
}

// lift implements Link. The server closes connections when its timeout toxic is removed. None that lost data survives.
func (l *toxicLink) lift(ctx context.Context, f *fault) error {
	older := gone
	if f.share >= 1 {
		older = 0
	}
	lost := l.current(func(p *passage) bool { return f.kind == silence && p.sweep(f, older) })
	err := l.change(ctx, func(proxy *toxiproxy.Proxy) func() error {
		if f.kind != down {
			l.toxics = slices.DeleteFunc(l.toxics, f.made)
			return func() error { return removeToxics(proxy, f.toxics) }
		}
		if l.downs--; l.downs > 0 {
			return func() error { return nil } // another fault keeps it disabled
		}
		return func() error { return enable(ctx, proxy) }
	})
	if err != nil {
		err = fmt.Errorf("lifting a fault of link %s: %w", l.name, err)
	}
	l.awaitEnds(ctx, lost)
	l.take(f)
	f.end()
	return err
}

// made reports whether a toxic is part of the fault.
func (f *fault) made(toxic string) bool {
	return slices.ContainsFunc(f.toxics, func(own toxiproxy.Toxic) bool { return own.Name == toxic })
}

func removeToxics(proxy *toxiproxy.Proxy, toxics []toxiproxy.Toxic) error {
	var errs []error
	for _, one := range toxics {
		errs = append(errs, proxy.RemoveToxic(one.Name))
	}
	return errors.Join(errs...)
}

// awaitEnds returns when the server has ended these connections, which it does after its answer. It cuts those that the
// server has not ended in time.
func (l *toxicLink) awaitEnds(ctx context.Context, passages []*passage) {
	limit := time.NewTimer(cutLimit)
	defer limit.Stop()
	for _, p := range passages {
		select {
		case <-p.over:
		case <-ctx.Done():
		case <-limit.C:
			limit.Reset(0)
		}
		p.cutUnlessOver()
	}
}

// current returns the connections that match.
func (l *toxicLink) current(match func(*passage) bool) []*passage {
	l.mu.Lock()
	defer l.mu.Unlock()
	var all []*passage
	for p := range l.passages {
		if match(p) {
			all = append(all, p)
		}
	}
	return all
}

// put adds a fault to those in force, before the server has its toxics, so that the first effect is counted.
func (l *toxicLink) put(f *fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set := append(slices.Clone(members(l.faults.Load())), f)
	l.faults.Store(&set)
}

// take removes a fault from those in force.
func (l *toxicLink) take(f *fault) {
	l.mu.Lock()
	defer l.mu.Unlock()
	set := slices.DeleteFunc(slices.Clone(members(l.faults.Load())), func(other *fault) bool { return other == f })
	if l.faults.Store(&set); len(set) == 0 {
		l.faults.Store(nil)
	}
}

// change changes the proxy on the server. prepare notes what it is to be, and returns the requests, which may still be
// under way when change has given up on the server. So they have a proxy of their own.
func (l *toxicLink) change(ctx context.Context, prepare func(*toxiproxy.Proxy) (requests func() error)) error {
	l.changing.Lock()
	defer l.changing.Unlock()
	l.changes.Add(1)
	defer l.changes.Add(1)
	proxy := *l.proxy
	return call(ctx, prepare(&proxy))
}

// compare returns how the proxy is not as this link left it, unless the link has changed it since changes.
func (l *toxicLink) compare(found map[string]*toxiproxy.Proxy, since int64) error {
	if !l.changing.TryLock() {
		return nil
	}
	defer l.changing.Unlock()
	if since%2 != 0 || l.changes.Load() != since {
		return nil
	}
	return l.differs(found[l.proxy.Name])
}

// differs returns how the proxy on the server is not as this link left it, or nil.
func (l *toxicLink) differs(found *toxiproxy.Proxy) error {
	switch {
	case found == nil:
		return fmt.Errorf("proxy %s is gone: somebody deleted it, or the server was restarted", l.proxy.Name)
	case found.Enabled != (l.downs == 0):
		return fmt.Errorf("proxy %s was enabled or disabled by somebody else", l.proxy.Name)
	}
	for _, toxic := range found.ActiveToxics {
		if !slices.Contains(l.toxics, toxic.Name) {
			return fmt.Errorf("somebody else added the toxic %s to proxy %s", toxic.Name, l.proxy.Name)
		}
	}
	if len(found.ActiveToxics) != len(l.toxics) {
		return fmt.Errorf("somebody else removed toxics of proxy %s", l.proxy.Name)
	}
	return nil
}
