package embedded

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/dlqbench/dlqbench/internal/env/cluster"
)

// gate is the listener that kfake sees for one broker. It outlives stops of the broker. While it is shut, the port
// refuses connections and Accept waits, so that kfake never learns of the stop.
type gate struct {
	port    *reservation
	address *net.TCPAddr
	editor  editor
	parked  *parkedRequests
	// inside is our end of a connection that bypasses the port. kfake gets the other end with its first Accept.
	inside net.Conn
	// standing is set while the broker is paused.
	standing atomic.Pointer[standstill]

	mu       sync.Mutex
	listener net.Listener // nil while shut
	opened   chan struct{}
	closed   bool
	far      net.Conn // kfake's end of inside, nil once it has it
	conns    map[*brokerConn]struct{}
}

// newGate returns an open gate on a port of 127.0.0.1 that the system chooses.
func newGate(editor editor, parked *parkedRequests) (*gate, error) {
	port, err := reservePort()
	if err != nil {
		return nil, err
	}
	g := &gate{port: port, editor: editor, parked: parked, opened: make(chan struct{}), conns: map[*brokerConn]struct{}{}}
	g.inside, g.far = net.Pipe()
	listener, err := net.Listen("tcp4", net.JoinHostPort("127.0.0.1", strconv.Itoa(port.port)))
	if err != nil {
		port.release()
		return nil, fmt.Errorf("listening for a broker: %w", err)
	}
	g.listener, g.address = listener, listener.Addr().(*net.TCPAddr)
	close(g.opened)
	return g, nil
}

// Addr is the broker's address, open or shut.
func (g *gate) Addr() net.Addr { return g.address }

// Accept returns the next connection. While the gate is shut, it waits.
func (g *gate) Accept() (net.Conn, error) {
	for {
		g.mu.Lock()
		listener, opened, closed, far := g.listener, g.opened, g.closed, g.far
		g.far = nil
		g.mu.Unlock()
		if closed {
			return nil, net.ErrClosed
		}
		if far != nil {
			return far, nil
		}
		if listener == nil {
			<-opened
			continue
		}
		conn, err := listener.Accept()
		if err == nil {
			if admitted := g.admit(conn); admitted != nil {
				return admitted, nil
			}
			continue
		}
		if !errors.Is(err, net.ErrClosed) {
			// Either no file descriptors are left, or the peer closed the connection before it was accepted. On an
			// error, kfake would give up the broker permanently.
			time.Sleep(acceptPause)
		}
	}
}

// acceptPause keeps a failing Accept from spinning.
const acceptPause = 5 * time.Millisecond

// admit registers a connection, or closes it if the gate was shut since it was accepted.
func (g *gate) admit(conn net.Conn) net.Conn {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.listener == nil {
		_ = conn.Close()
		return nil
	}
	admitted := newBrokerConn(conn, g)
	g.conns[admitted] = struct{}{}
	return admitted
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
		g.listener, g.opened = nil, make(chan struct{})
	}
}

// drop closes all clients' connections, with a reset if asked, and returns their number.
func (g *gate) drop(reset bool) int {
	g.mu.Lock()
	conns := make([]*brokerConn, 0, len(g.conns))
	for conn := range g.conns {
		conns = append(conns, conn)
	}
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
			g.mu.Lock()
			defer g.mu.Unlock()
			g.listener = listener
			close(g.opened)
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
	g.shut()
	g.mu.Lock()
	if g.closed {
		g.mu.Unlock()
		return nil
	}
	g.closed = true
	close(g.opened) // Accept wakes up and sees that the gate is closed.
	g.mu.Unlock()
	g.drop(false)
	_ = g.inside.Close()
	g.port.release()
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
