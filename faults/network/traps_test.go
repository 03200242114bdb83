package network

// Defects measured in toxiproxy's own proxy. Each is a way to hang or to falsify a run. These tests show that they
// cannot happen here.

import (
	"context"
	"errors"
	"io"
	"net"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/internal/units"
)

// everyFault returns one fault of each kind, each lasting until it is lifted.
func everyFault() map[string]Network {
	return map[string]Network{
		"latency": {Latency: 5 * oneMs, Jitter: oneMs}, "an hour's latency": {Latency: units.Duration(time.Hour)},
		"bandwidth": {Bandwidth: 1 << 20}, "one byte per second": {Bandwidth: 1}, "timeout": {Timeout: true},
		"slow_close": {SlowClose: units.Duration(time.Hour)}, "slicer": {Slicer: &Slicer{Size: 1, Delay: oneMs}},
		"limit_data": {LimitData: 1 << 20}, "half_open": {HalfOpen: true}, "down": {Down: true}, "reset": {Reset: true},
	}
}

// within fails the test if do hangs. The limit is far above the normal duration, which is close to zero; it is not a
// measurement.
func within(t *testing.T, what string, do func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		do()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatalf("%s hangs", what)
	}
}

// Trap 1: toxiproxy deadlocks when a peer does not read. Here three clients do not read and every buffer on the path
// is full. Faults of every kind come and go, alone and combined, new connections are served, and the link closes,
// also in the middle of a fault.
func TestTrapPeerThatDoesNotRead(t *testing.T) {
	for name, spec := range everyFault() {
		t.Run(name, func(t *testing.T) {
			link, _ := stall(t, 3)
			within(t, "injecting and healing", func() {
				for range 3 {
					_, heal := inject(t, spec, link)
					heal()
				}
				_, healFirst := inject(t, spec, link)
				_, healSecond := inject(t, Network{Latency: oneMs}, link)
				healFirst()
				healSecond()
			})
			within(t, "serving a new connection", func() {
				if _, err := io.ReadFull(dial(t, link), make([]byte, 1000)); err != nil {
					t.Errorf("a new connection: %v", err)
				}
			})
			_, heal := inject(t, spec, link)
			within(t, "closing in the middle of a fault", func() {
				if err := link.Close(); err != nil {
					t.Error(err)
				}
			})
			within(t, "healing after closing", heal)
		})
	}
}

// Trap 2: toxiproxy's reset sends FIN on connections that existed before it. Here a client that waits for an answer,
// and one that sends after the fault began, both see ECONNRESET, whether or not they had read everything.
func TestTrapResetIsATrueReset(t *testing.T) {
	for name, spec := range everyFault() {
		if spec.Down || spec.Reset || spec.LimitData > 0 {
			continue // the connection would have ended by itself
		}
		t.Run("existing connection under "+name, func(t *testing.T) {
			link := newTestLink(t, echoServer(t))
			waits, unread := dial(t, link), dial(t, link)
			waits.echo("before")
			unread.echo("before")
			_, heal := inject(t, spec, link)
			unread.send("and not read")
			_, healReset := inject(t, Network{Reset: true}, link)
			waits.reset()
			unread.reset()
			healReset()
			heal()
		})
	}
	t.Run("new connection", func(t *testing.T) {
		link := newTestLink(t, echoServer(t))
		sink, heal := inject(t, Network{Reset: true}, link)
		conn := dial(t, link)
		conn.send("x")
		conn.reset()
		heal()
		sink.expect(t, map[string]int{"connections cut": 1})
	})
	t.Run("stalled connections", func(t *testing.T) {
		link, conns := stall(t, 2)
		_, heal := inject(t, Network{Reset: true}, link)
		for _, conn := range conns {
			conn.reset()
		}
		heal()
	})
}

// Trap 3: toxiproxy dials inside its accept loop. Here an upstream that never answers a connection attempt delays no
// other connection, faults reach the connections that wait for it, and closing does not wait for the dial.
func TestTrapDialsAreNotSerial(t *testing.T) {
	upstream := echoServer(t)
	var dials atomic.Int32
	dialed := make(chan struct{}, 10)
	link, err := newRelay("test", 0, func(ctx context.Context) (socket, observer, error) {
		if dials.Add(1) <= 3 {
			dialed <- struct{}{}
			<-ctx.Done() // never answers
			return nil, nil, ctx.Err()
		}
		return dialTo(upstreamAt(upstream))(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	var stuck []peer
	for range 3 {
		stuck = append(stuck, dial(t, link))
		<-dialed
	}
	within(t, "serving others", func() {
		for range 3 {
			dial(t, link).echo("hello")
		}
	})
	sink, heal := inject(t, Network{HalfOpen: true}, link)
	stuck[0].send("into the void")
	stuck[0].silent()
	heal()
	for _, conn := range stuck {
		conn.reset()
	}
	if got := sink.counts["connections cut"]; got < 3 {
		t.Errorf("reported %v", sink.counts)
	}
	dials.Store(0)
	for range 3 {
		dial(t, link)
		<-dialed
	}
	within(t, "closing", func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
}

// Trap 3, second part: each client sees a dead upstream as a reset, and an upstream that comes back is used at once.
func TestTrapDeadUpstream(t *testing.T) {
	upstream := echoServer(t)
	var dead atomic.Bool
	dead.Store(true)
	link, err := newRelay("test", 0, func(ctx context.Context) (socket, observer, error) {
		if dead.Load() {
			return nil, nil, syscall.ECONNREFUSED
		}
		return dialTo(upstreamAt(upstream))(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = link.Close() }()
	if err := attempt(link); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("ended with %v", err)
	}
	// While the link is silent, the client learns nothing.
	_, heal := inject(t, Network{Timeout: true}, link)
	conn := dial(t, link)
	conn.silent()
	heal()
	conn.reset()
	dead.Store(false)
	dial(t, link).echo("hello")
}

// Trap 4: toxiproxy draws toxicity and jitter from a global source. Here the same seed gives, connection by
// connection, the same choice and the same delays, through a whole link. Another seed gives others.
func TestTrapToxicityAndJitterReplayFromTheSeed(t *testing.T) {
	run := func(seed uint64) (hits []bool, jitters []time.Duration) {
		link := newTestLink(t, echoServer(t))
		spec := Network{Link: "test", Latency: oneMs / 1000, Jitter: 2 * oneMs, Toxicity: 0.5}
		injector := NewInjector(map[string][]Link{"test": {link}})
		sink := &effects{}
		planned := faults.Planned{Fault: &spec, Seed: seed}
		heal, err := injector.Inject(context.Background(), faults.NewActive(planned, sink, clock{time.Now()}))
		if err != nil {
			t.Fatal(err)
		}
		f := link.inForce()[0]
		for number := range uint64(24) {
			f.ledger.report()
			before := sink.total("bytes delayed")
			dial(t, link).echo("x")
			f.ledger.report()
			hits = append(hits, sink.total("bytes delayed") > before)
			d := newDelay(f, f.jitter(&pair{number: number + 1}, 0))
			for range 3 {
				jitters = append(jitters, d.next())
			}
		}
		if err := heal(context.Background()); err != nil {
			t.Error(err)
		}
		return hits, jitters
	}
	hits, jitters := run(1)
	again, jittersAgain := run(1)
	other, jittersOther := run(2)
	if !equal(hits, again) || !equal(jitters, jittersAgain) {
		t.Errorf("the same seed hits %v and then %v", hits, again)
	}
	if equal(hits, other) || equal(jitters, jittersOther) {
		t.Errorf("two seeds hit the same connections (%v) or delay them alike", hits)
	}
}

func equal[T comparable](a, b []T) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

func (e *effects) total(what string) int {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.counts[what]
}

// Trap 5: twenty clients that stalled and were then reset left sixty goroutines. Here none is left, although the link
// lives on.
func TestTrapNoGoroutineIsLeftBehindByStalledClients(t *testing.T) {
	for name, spec := range everyFault() {
		t.Run(name, func(t *testing.T) {
			link := newTestLink(t, serve(t, func(conn net.Conn) {
				for chunk := make([]byte, 64<<10); ; {
					if _, err := conn.Write(chunk); err != nil {
						return
					}
				}
			}))
			before := goleak.IgnoreCurrent()
			_, heal := inject(t, spec, link)
			const clients = 20
			for range clients {
				conn, err := reach(link)
				if err != nil {
					continue // refused, by the fault
				}
				defer func() { _ = conn.Close() }()
				readLittle(conn.(socket))
				_, _ = io.WriteString(conn, "and never reads")
			}
			wait.Until(t, "the link to have seen all clients", func() bool {
				link.mu.Lock()
				defer link.mu.Unlock()
				return link.accepted == clients
			})
			_, healReset := inject(t, Network{Reset: true}, link)
			healReset()
			heal()
			wait.Until(t, "the link to have no connection", func() bool { return served(link) == 0 })
			if err := goleak.Find(before); err != nil {
				t.Error(err)
			}
		})
	}
}
