package embedded

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"net"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
	"github.com/dlqbench/dlqbench/internal/env/memconn"
)

// gate is the listener that kfake sees for one broker. It outlives stops of the broker. While it is shut, the port
// refuses connections and Accept waits, so that kfake never learns of the stop.
type gate struct {
	port    *reservation
	address *net.TCPAddr
	editor  editor
	parked  *parkedRequests
	// inside is our end of a connection that is not a client's. kfake gets the other end with its first Accept.
	inside net.Conn
	// standing is set while the broker is paused.
	standing atomic.Pointer[standstill]
	// accepted are the connections for Accept. ended is closed with the gate.
	accepted chan net.Conn
	ended    chan struct{}
	once     sync.Once

	mu       sync.Mutex
	listener net.Listener // nil while shut
	conns    map[*brokerConn]struct{}
}

// newGate returns an open gate on a port of 127.0.0.1 that the system chooses.
func newGate(editor editor, parked *parkedRequests) (*gate, error) {
	port, err := reservePort()
	if err != nil {
		return nil, err
	}
	near, far := memconn.Pair()
	g := &gate{port: port, editor: editor, parked: parked, inside: near, accepted: make(chan net.Conn, 1),
		ended: make(chan struct{}), conns: map[*brokerConn]struct{}{}}
	g.accepted <- far
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port.port)))
	if err != nil {
		port.release()
		return nil, fmt.Errorf("listening for a broker: %w", err)
	}
	g.address = listener.Addr().(*net.TCPAddr)
	g.serve(listener)
	return g, nil
}

// Addr is the broker's address, open or shut.
func (g *gate) Addr() net.Addr { return g.address }

// Accept returns the next connection. While the gate is shut, it waits.
func (g *gate) Accept() (net.Conn, error) {
	select {
	case conn := <-g.accepted:
		return conn, nil
	case <-g.ended:
		return nil, net.ErrClosed
	}
}

// connect connects a client of this process.
func (g *gate) connect() (*memconn.Conn, error) {
	near, far := memconn.Pair()
	if !g.admit(far) {
		return nil, fmt.Errorf("connecting to the broker at %s, which is stopped: %w", g.address, syscall.ECONNREFUSED)
	}
	return near, nil
}

// serve opens the gate: it admits the listener's connections until that is closed.
func (g *gate) serve(listener net.Listener) {
	g.mu.Lock()
	defer g.mu.Unlock()
	g.listener = listener
	go func() {
		for {
			conn, err := listener.Accept()
			switch {
			case err == nil:
				g.admit(conn)
			case errors.Is(err, net.ErrClosed):
				return
			default:
				// Either no file descriptors are left, or the peer closed the connection before it was accepted.
				time.Sleep(acceptPause)
			}
		}
	}()
}

// acceptPause keeps a failing Accept from spinning.
const acceptPause = 5 * time.Millisecond

// admit passes a connection on to kfake. It closes it and returns false if the gate is shut.
func (g *gate) admit(conn net.Conn) bool {
	g.mu.Lock()
	open, admitted := g.listener != nil, newBrokerConn(conn, g)
	if open {
		g.conns[admitted] = struct{}{}
	}
	g.mu.Unlock()
	if !open {
		_ = conn.Close()
		return false
	}
	select {
	case g.accepted <- admitted:
	case <-g.ended:
		_ = admitted.Close()
	}
	return true
}

func (g *gate) forget(conn *brokerConn) {
	g.mu.Lock()
	defer g.mu.Unlock()
	delete(g.conns, conn)
}

// shut refuses connections from now on. Existing connections stay until drop.
func (g *gate) shut() {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener != nil {
		_ = g.listener.Close()
		g.listener = nil
	}
}

// drop closes all clients' connections, with a reset if asked, and returns their number.
func (g *gate) drop(reset bool) int {
	g.mu.Lock()
	conns := slices.Collect(maps.Keys(g.conns))
	g.mu.Unlock()
	dropped := 0
	for _, conn := range conns {
		if reset {
			conn.unlinger()
		}
		if conn.hangUp() {
			dropped++
		}
	}
	return dropped
}

// standstill is a period in which nothing passes a gate in either direction.
type standstill struct {
	over              chan struct{}
	requests, answers atomic.Int64
}

func heldRequests(s *standstill) *atomic.Int64 { return &s.requests }
func heldAnswers(s *standstill) *atomic.Int64  { return &s.answers }

// pause lets nothing pass from now on. It returns false if the gate is paused already.
func (g *gate) pause() bool {
	return g.standing.CompareAndSwap(nil, &standstill{over: make(chan struct{})})
}

// resume lets everything pass, and returns the numbers of held requests and answers.
func (g *gate) resume() (requests, answers int) {
	standing := g.standing.Swap(nil)
	if standing == nil {
		return 0, 0
	}
	close(standing.over)
	return int(standing.requests.Load()), int(standing.answers.Load())
}

// hold blocks requests or answers of a connection while the broker is paused. It returns false if the connection was
// closed before the pause ended.
func (g *gate) hold(counter func(*standstill) *atomic.Int64, gone <-chan struct{}) bool {
	standing := g.standing.Load()
	if standing == nil {
		return true
	}
	counter(standing).Add(1)
	select {
	case <-standing.over:
		return true
	case <-gone:
		return false
	}
}

// open accepts connections again, on the same port. If another process has taken the port, it waits until ctx ends.
func (g *gate) open(ctx context.Context) error {
	for {
		listener, err := net.Listen("tcp4", g.address.String())
		if err == nil {
			g.serve(listener)
			return nil
		}
		if !errors.Is(err, syscall.EADDRINUSE) {
			return fmt.Errorf("listening again: %w", err)
		}
		if cluster.Sleep(ctx, acceptPause) != nil {
			return fmt.Errorf("waiting for port %d, which another process has taken: %w", g.address.Port, err)
		}
	}
}

// Close ends Accept and closes all clients' connections.
func (g *gate) Close() error {
	g.once.Do(func() {
		g.shut()
		close(g.ended)
		g.drop(false)
		_ = g.inside.Close()
		g.port.release()
	})
	return nil
}

// confirmLimit bounds dialling a port of the loopback, which answers at once, and the wait until the port refuses
// connections.
const confirmLimit = 5 * time.Second

// refuses dials the port and reports whether the connection is refused.
func (g *gate) refuses() (bool, error) {
	conn, err := net.DialTimeout("tcp4", g.address.String(), confirmLimit)
	switch {
	case err == nil:
		_ = conn.Close()
		return false, nil
	case errors.Is(err, syscall.ECONNREFUSED):
		return true, nil
	}
	return false, err
}

// becomesShut waits until connections are refused. A process that is being started also holds this process's
// listeners between its fork and its exec, so that for a moment the port may still accept connections that no
// process will serve.
func (g *gate) becomesShut(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, confirmLimit)
	defer cancel()
	for {
		refused, err := g.refuses()
		if refused {
			return nil
		}
		if cluster.Sleep(ctx, acceptPause) != nil {
			return errors.Join(errors.New("its port still accepts connections"), err)
		}
	}
}
