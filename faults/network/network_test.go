package network

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"os"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"github.com/rs/zerolog/log"
	"go.uber.org/goleak"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/memconn"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/internal/units"
)

func TestMain(m *testing.M) {
	log.Logger = zerolog.Nop() // toxiproxy's toxics log there
	goleak.VerifyTestMain(everyWay{m})
}

// everyWay runs all tests with connections over TCP, and again with those within this process: clients and upstreams
// can't tell a link by them.
type everyWay struct{ *testing.M }

func (w everyWay) Run() int {
	for _, inside = range []bool{false, true} {
		if code := w.M.Run(); code != 0 {
			fmt.Printf("with connections within the process: %v\n", inside)
			return code
		}
	}
	return 0
}

// inside says that connections stay within this process. near are the upstreams' listeners there, by their addresses.
var (
	inside bool
	near   sync.Map
)

// upstreamAt is the upstream that serve started.
func upstreamAt(address string) Upstream {
	upstream := Upstream{Address: address}
	if listener, known := near.Load(address); known && inside {
		upstream.Inside = listener.(*memconn.Listener).Connect
	}
	return upstream
}

// patience is the limit of every wait in these tests. It is never an expected duration.
const patience = 30 * time.Second

// echoServer sends back the data it receives.
func echoServer(t testing.TB) string {
	t.Helper()
	return serve(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) })
}

// serve handles each connection with handle, and waits for all of them at the end of the test.
func serve(t testing.TB, handle func(net.Conn)) string {
	t.Helper()
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	var mu sync.Mutex
	conns := map[net.Conn]bool{}
	quick := memconn.NewListener()
	near.Store(listener.Addr().String(), quick)
	for _, from := range []net.Listener{listener, quick} {
		wg.Go(func() {
			for {
				conn, err := from.Accept()
				if err != nil {
					return
				}
				mu.Lock()
				conns[conn] = true
				mu.Unlock()
				wg.Go(func() {
					handle(conn)
					_ = conn.Close()
				})
			}
		})
	}
	t.Cleanup(func() {
		near.Delete(listener.Addr().String())
		_, _ = listener.Close(), quick.Close()
		mu.Lock()
		for conn := range conns {
			_ = conn.Close()
		}
		mu.Unlock()
		wg.Wait()
	})
	return listener.Addr().String()
}

func newTestLink(t testing.TB, upstream string) *Relay {
	t.Helper()
	link, err := NewRelay("test", upstreamAt(upstream))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	return link
}

// peer is a client's connection with the patience of the test.
type peer struct {
	socket
	t testing.TB
}

func dial(t testing.TB, link Link) peer {
	t.Helper()
	conn, err := reach(link)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	_ = conn.SetDeadline(time.Now().Add(patience))
	return peer{conn.(socket), t}
}

func reach(link Link) (net.Conn, error) {
	if inside {
		return link.Connect(context.Background())
	}
	return net.Dial("tcp4", link.Address())
}

// attempt connects and returns the result. A reset may already show while connecting.
func attempt(link Link) error {
	conn, err := reach(link)
	if err != nil {
		return err
	}
	defer func() { _ = conn.Close() }()
	_ = conn.SetDeadline(time.Now().Add(patience))
	return peer{socket: conn.(socket)}.ends()
}

// echo sends text and expects it back.
func (p peer) echo(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		p.t.Fatalf("sending: %v", err)
	}
	p.expect(text)
}

func (p peer) expect(text string) {
	p.t.Helper()
	got := make([]byte, len(text))
	if n, err := io.ReadFull(p, got); err != nil || string(got) != text {
		p.t.Fatalf("received %q, %v; want %q", got[:n], err, text)
	}
}

// silent asserts that nothing arrives for a short while and that the connection stays open. A shorter wait makes the
// test weaker, but never wrong.
func (p peer) silent() {
	p.t.Helper()
	_ = p.SetReadDeadline(time.Now().Add(50 * time.Millisecond))
	defer func() { _ = p.SetReadDeadline(time.Now().Add(patience)) }()
	got := make([]byte, 100)
	if n, err := p.Read(got); !errors.Is(err, os.ErrDeadlineExceeded) {
		p.t.Fatalf("received %q, %v; want silence", got[:n], err)
	}
}

// ends reads the remaining data and returns how the connection ended for the client.
func (p peer) ends() error {
	_, err := io.Copy(io.Discard, p)
	if err == nil {
		err = io.EOF
	}
	return err
}

// effects is a sink for the effects that faults report.
type effects struct {
	mu     sync.Mutex
	counts map[string]int
	aux    map[string]int64
	events int
}

func (e *effects) Record(event history.Event) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.counts == nil {
		e.counts, e.aux = map[string]int{}, map[string]int64{}
	}
	count, aux := int64(event.N), event.Aux
	if strings.HasPrefix(event.Text, "bytes ") {
		count, aux = aux, count // effects on bytes count bytes in events; the tests count chunks
	}
	e.counts[event.Text] += int(count)
	e.aux[event.Text] += aux
	e.events++
}

func (e *effects) expect(t testing.TB, want map[string]int) {
	t.Helper()
	e.mu.Lock()
	defer e.mu.Unlock()
	if fmt.Sprint(e.counts) != fmt.Sprint(want) {
		t.Errorf("reported %v, want %v", e.counts, want)
	}
}

type clock struct{ base time.Time }

func (c clock) Now() time.Duration { return time.Since(c.base) }

// inject injects the fault into the links. It returns the reported effects and the function that lifts the fault,
// which fails the test if lifting fails or if it is not called in time.
func inject(t testing.TB, spec Network, links ...Link) (*effects, func()) {
	t.Helper()
	spec.Link = "test"
	sink := &effects{}
	planned := faults.Planned{Fault: &spec, Seed: 7}
	injector := NewInjector(map[string][]Link{"test": links})
	heal, err := injector.Inject(context.Background(), faults.NewActive(planned, sink, clock{time.Now()}))
	if err != nil {
		t.Fatal(err)
	}
	healed := sync.OnceFunc(func() {
		ctx, cancel := context.WithTimeout(context.Background(), patience)
		defer cancel()
		if err := heal(ctx); err != nil {
			t.Error(err)
		}
	})
	t.Cleanup(healed)
	return sink, healed
}

const oneMs = units.Duration(time.Millisecond)

func TestIdleLinkIsTransparent(t *testing.T) {
	t.Run("bytes", func(t *testing.T) {
		conn := dial(t, newTestLink(t, echoServer(t)))
		sent := make([]byte, 5<<20)
		for i := range sent {
			sent[i] = byte(rand.Uint32())
		}
		var wg sync.WaitGroup
		wg.Go(func() {
			_, _ = conn.Write(sent)
			_ = conn.CloseWrite() // half-close: the answer still comes
		})
		got, err := io.ReadAll(conn)
		wg.Wait()
		if err != nil || !bytes.Equal(got, sent) {
			t.Errorf("sent %d bytes, got %d back, equal: %v, error %v", len(sent), len(got), bytes.Equal(got, sent), err)
		}
	})
	t.Run("a reset by the upstream arrives as one", func(t *testing.T) {
		conn := dial(t, newTestLink(t, serve(t, func(conn net.Conn) {
			_, _ = conn.Read(make([]byte, 1))
			reset(conn.(socket))
		})))
		_, _ = conn.Write([]byte("x"))
		if err := conn.ends(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the connection ended with %v", err)
		}
	})
	t.Run("an upstream that is not there resets", func(t *testing.T) {
		listener, err := net.Listen("tcp4", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		_ = listener.Close()
		if err := attempt(newTestLink(t, listener.Addr().String())); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("the connection ended with %v", err)
		}
	})
}

func TestLatency(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	before := dial(t, link)
	before.echo("before")
	sink, heal := inject(t, Network{Latency: 30 * oneMs, Jitter: 10 * oneMs}, link)
	for _, conn := range []peer{before, dial(t, link)} {
		for range 3 {
			start := time.Now()
			conn.echo("slow")
			if took := time.Since(start); took < 60*time.Millisecond {
				t.Errorf("there and back took %v, want 2 × 30 ms or more", took)
			}
		}
	}
	heal()
	sink.expect(t, map[string]int{"bytes delayed": 12})
	if got := sink.aux["bytes delayed"]; got != 12*4 {
		t.Errorf("reported %d bytes, want %d", got, 12*4)
	}
	before.echo("after")
	sink.expect(t, map[string]int{"bytes delayed": 12})
}

// Data that is waiting when the fault is lifted continues at once and in order, and no change of the path loses data.
func TestStreamSurvivesFaultsThatComeAndGo(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	conn := dial(t, link)
	const total = 12 << 20
	var wg sync.WaitGroup
	wg.Go(func() {
		source := rand.New(rand.NewPCG(1, 2))
		for sent := 0; sent < total; {
			chunk := make([]byte, min(1+source.IntN(20000), total-sent))
			for i := range chunk {
				chunk[i] = byte((sent + i) % 251)
			}
			if _, err := conn.Write(chunk); err != nil {
				t.Errorf("sending: %v", err)
				return
			}
			sent += len(chunk)
		}
	})
	done := make(chan struct{})
	var weather sync.WaitGroup
	for _, spec := range []Network{
		{Latency: 3 * oneMs, Jitter: 5 * oneMs}, {Latency: 700 * units.Duration(time.Microsecond), Direction: "requests"},
		{Bandwidth: 64 << 20},
		{Slicer: &Slicer{Size: 3000}}, {Slicer: &Slicer{Size: 9000}, Direction: "responses"},
		{Timeout: true, Toxicity: 1e-12},
	} {
		weather.Go(func() {
			for {
				_, heal := inject(t, spec, link)
				time.Sleep(3 * time.Millisecond)
				heal()
				select {
				case <-done:
					return
				default:
				}
			}
		})
	}
	got := make([]byte, 64<<10)
	for received := 0; received < total; {
		n, err := conn.Read(got)
		if err != nil {
			t.Fatalf("after %d bytes: %v", received, err)
		}
		for i := range n {
			if want := byte((received + i) % 251); got[i] != want {
				t.Fatalf("byte %d is %d, want %d", received+i, got[i], want)
			}
		}
		received += n
	}
	close(done)
	weather.Wait()
	wg.Wait()
}

func TestHealFlushesWhatWaits(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	conn := dial(t, link)
	_, heal := inject(t, Network{Latency: units.Duration(time.Hour)}, link)
	for i := range 5 {
		if _, err := fmt.Fprintf(conn, "%d", i); err != nil {
			t.Fatal(err)
		}
	}
	conn.silent()
	heal()
	conn.expect("01234")
}

func TestCloseInTheMiddleOfAnHoursLatency(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	conn := dial(t, link)
	_, heal := inject(t, Network{Latency: units.Duration(time.Hour)}, link)
	if _, err := io.WriteString(conn, "waits"); err != nil {
		t.Fatal(err)
	}
	conn.silent()
	if err := link.Close(); err != nil {
		t.Error(err)
	}
	heal()
}

func TestBandwidthIsSharedByTheLinksConnections(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	const rate = 256 << 10
	sink, heal := inject(t, Network{Bandwidth: rate}, link)
	const conns, each = 4, rate / 20
	start := time.Now()
	var wg sync.WaitGroup
	for range conns {
		conn := dial(t, link)
		wg.Go(func() { conn.echo(strings.Repeat("x", each)) })
	}
	wg.Wait()
	if took, least := time.Since(start), time.Second*conns*each/rate; took < least {
		t.Errorf("%d bytes took %v, at %d bytes/s that is %v at least", conns*each, took, rate, least)
	}
	heal()
	if got := sink.aux["bytes throttled"]; got != 2*conns*each {
		t.Errorf("reported %v bytes throttled, want %d", sink.aux, 2*conns*each)
	}
}

func TestTimeoutSwallowsAndCutsOnlyWhatItHoled(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	talks, quiet, leaves := dial(t, link), dial(t, link), dial(t, link)
	for _, conn := range []peer{talks, quiet, leaves} {
		conn.echo("before")
	}
	sink, heal := inject(t, Network{Timeout: true}, link)
	fresh := dial(t, link)
	for _, conn := range []peer{talks, fresh} {
		if _, err := io.WriteString(conn, "lost"); err != nil {
			t.Fatal(err)
		}
		conn.silent()
	}
	_ = leaves.CloseWrite()
	leaves.silent() // the end of the stream does not pass either
	heal()
	for _, conn := range []peer{talks, fresh} {
		if err := conn.ends(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection that lost data ended with %v, want a reset", err)
		}
	}
	if err := leaves.ends(); !errors.Is(err, io.EOF) {
		t.Errorf("a connection that was ended meanwhile ended with %v, want an orderly end", err)
	}
	quiet.echo("after")
	sink.expect(t, map[string]int{"bytes swallowed": 2, "connections cut": 2})
	if got := sink.aux["bytes swallowed"]; got != 8 {
		t.Errorf("reported %d bytes swallowed, want 8", got)
	}
}

// Clients write counters all the time while faults that lose data come and go, two at a time, with faults that hold
// data back. The data that a server receives on one connection must have no hole: 1, 2, 3, … up to its end.
func TestNoConnectionOutlivesAHole(t *testing.T) {
	var mu sync.Mutex
	received, holes := 0, 0
	link := newTestLink(t, serve(t, func(conn net.Conn) {
		var last byte
		buffer := make([]byte, 4096)
		for {
			n, err := conn.Read(buffer)
			mu.Lock()
			for _, b := range buffer[:n] {
				if b != last+1 {
					holes++
				}
				last = b
				received++
			}
			mu.Unlock()
			if err != nil {
				return
			}
		}
	}))
	done := make(chan struct{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for {
				conn, err := reach(link)
				if err != nil { // it was cut before the client knew that it was connected
					continue
				}
				for n := byte(1); ; n++ {
					if _, err := conn.Write([]byte{n}); err != nil {
						break
					}
					select {
					case <-done:
						_ = conn.Close()
						return
					default:
					}
				}
				_ = conn.Close()
			}
		})
	}
	lossy := []Network{{Timeout: true}, {Timeout: true, Direction: "requests"}, {HalfOpen: true}, {LimitData: 5000},
		{Timeout: true, Toxicity: 0.5}}
	slow := []Network{{Latency: oneMs / 2}, {Slicer: &Slicer{Size: 7}}, {Bandwidth: 8 << 20}}
	var weather sync.WaitGroup
	for range 2 {
		weather.Go(func() {
			for i := range 50 {
				_, heal := inject(t, lossy[rand.IntN(len(lossy))], link)
				_, healSlow := inject(t, slow[i%len(slow)], link)
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
				heal()
				time.Sleep(time.Duration(rand.IntN(1000)) * time.Microsecond)
				healSlow()
			}
		})
	}
	weather.Wait()
	close(done)
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	if holes > 0 || received == 0 {
		t.Errorf("%d holes in %d bytes received", holes, received)
	}
}

func TestDown(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	conns := []peer{dial(t, link), dial(t, link)}
	for _, conn := range conns {
		conn.echo("before")
	}
	sink, heal := inject(t, Network{Down: true}, link)
	for _, conn := range conns {
		if err := conn.ends(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a connection through a link that went down: %v", err)
		}
	}
	sink.expect(t, map[string]int{"connections cut": 2})
	for range 3 {
		if err := attempt(link); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("a new connection while the link is down: %v", err)
		}
	}
	heal()
	sink.expect(t, map[string]int{"connections cut": 2, "connections refused": 3})
	dial(t, link).echo("after")
}

func TestReset(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	old := dial(t, link)
	old.echo("before")
	sink, heal := inject(t, Network{Reset: true}, link)
	if err := old.ends(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a connection of before ended with %v, want a reset", err)
	}
	sends, waits := dial(t, link), dial(t, link)
	waits.silent()
	if _, err := io.WriteString(sends, "x"); err != nil {
		t.Fatal(err)
	}
	if err := sends.ends(); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("a new connection that sent ended with %v, want a reset", err)
	}
	heal()
	waits.echo("it never sent while the fault lasted")
	sink.expect(t, map[string]int{"connections cut": 2})
}

func TestNothingHappenedNothingReported(t *testing.T) {
	for _, spec := range []Network{
		{Latency: oneMs}, {Bandwidth: 1}, {Timeout: true}, {Down: true}, {Reset: true}, {HalfOpen: true}, {LimitData: 1},
		{SlowClose: oneMs}, {Slicer: &Slicer{Size: 1}},
	} {
		link := newTestLink(t, echoServer(t))
		sink, heal := inject(t, spec, link)
		heal()
		if sink.events != 0 {
			t.Errorf("%+v on a link without connections reported %v", spec, sink.counts)
		}
	}
}

func TestFaultsOnSeveralLinks(t *testing.T) {
	first, second := newTestLink(t, echoServer(t)), newTestLink(t, echoServer(t))
	conns := []peer{dial(t, first), dial(t, second), dial(t, second)}
	for _, conn := range conns {
		conn.echo("before")
	}
	sink, heal := inject(t, Network{Reset: true}, first, second)
	for _, conn := range conns {
		if err := conn.ends(); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("ended with %v", err)
		}
	}
	heal()
	sink.expect(t, map[string]int{"connections cut": 3})
}

// One fault is lifted while another on the same link lasts.
func TestOverlap(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	_, healDown := inject(t, Network{Down: true}, link)
	sink, healSecond := inject(t, Network{Down: true}, link)
	healDown()
	sink.expect(t, nil) // confirming that one is lifted is not evidence for the other
	if err := attempt(link); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the link is still down, but the connection ended with %v", err)
	}
	healSecond()
	sink.expect(t, map[string]int{"connections refused": 1})
	_, healLatency := inject(t, Network{Latency: 10 * oneMs}, link)
	_, healMore := inject(t, Network{Latency: 15*oneMs + oneMs/2, Jitter: oneMs}, link)
	conn := dial(t, link)
	start := time.Now()
	conn.echo("both")
	if took := time.Since(start); took < 51*time.Millisecond {
		t.Errorf("there and back took %v, want 2 × (10 + 15.5) ms or more", took)
	}
	healLatency()
	start = time.Now()
	conn.echo("one")
	if took := time.Since(start); took < 31*time.Millisecond {
		t.Errorf("there and back took %v, want 2 × 15.5 ms or more", took)
	}
	healMore()
}

func TestWrongSpecsAreRefused(t *testing.T) {
	injector := NewInjector(map[string][]Link{"broker 1": nil, "dlq": {nil}})
	for _, wrong := range []struct {
		says string
		spec *Network
	}{
		{"of another kind", nil},
		{"this fault does nothing", &Network{Link: "dlq"}},
		{"exclude each other", &Network{Link: "dlq", Down: true, Reset: true}},
		{"broker 1, dlq", &Network{Link: "broker 7", Down: true}},
		{`link "broker 1"`, &Network{Link: "broker 1", Down: true}},
	} {
		_, err := injector.Inject(context.Background(),
			faults.NewActive(faults.Planned{Fault: wrong.spec}, &effects{}, clock{}))
		if err == nil || !strings.Contains(err.Error(), wrong.says) {
			t.Errorf("got %v, want an error that says %q", err, wrong.says)
		}
	}
}

// stall makes connections whose client never reads while the server sends without end, until every buffer on the path
// is full.
func stall(t *testing.T, count int) (*Relay, []peer) {
	t.Helper()
	full := make(chan struct{}, count)
	link := newTestLink(t, serve(t, func(conn net.Conn) {
		chunk := make([]byte, 256<<10)
		for told := false; ; {
			_ = conn.SetWriteDeadline(time.Now().Add(100 * time.Millisecond))
			_, err := conn.Write(chunk)
			switch {
			case errors.Is(err, os.ErrDeadlineExceeded) && !told:
				told = true
				full <- struct{}{}
			case err != nil && !errors.Is(err, os.ErrDeadlineExceeded):
				return
			}
		}
	}))
	conns := make([]peer, count)
	for i := range conns {
		conns[i] = dial(t, link)
		readLittle(conns[i].socket)
	}
	for range conns {
		select {
		case <-full:
		case <-time.After(patience):
			t.Fatal("the server could go on sending to a client that does not read")
		}
	}
	return link, conns
}

// readLittle keeps the kernel from reading ahead for a client. Connections within the process have little room anyway.
func readLittle(conn socket) {
	if tcp, is := conn.(*net.TCPConn); is {
		_ = tcp.SetReadBuffer(4096)
	}
}

// Stalled while the fault is in force: the toxics hold data that is never read.
func TestStalledInsideTheFault(t *testing.T) {
	for name, spec := range map[string]Network{"latency": {Latency: oneMs}, "bandwidth": {Bandwidth: 1 << 30}} {
		t.Run(name, func(t *testing.T) {
			link := newTestLink(t, serve(t, func(conn net.Conn) {
				for chunk := make([]byte, 256<<10); ; {
					if _, err := conn.Write(chunk); err != nil {
						return
					}
				}
			}))
			sink, heal := inject(t, spec, link)
			conn := dial(t, link)
			// Wait until nothing moves any more: every buffer and every toxic is full.
			for last := int64(-1); ; time.Sleep(20 * time.Millisecond) {
				moved := int64(0)
				for _, f := range link.inForce() {
					f.ledger.report()
				}
				sink.mu.Lock()
				for _, n := range sink.aux {
					moved += n
				}
				sink.mu.Unlock()
				if moved == last && moved >= 256<<10 {
					break
				}
				last = moved
			}
			heal()
			if _, err := io.ReadFull(conn, make([]byte, 32<<20)); err != nil {
				t.Errorf("reading again after the heal: %v", err)
			}
			if err := link.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestManyConnections(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		_, _ = io.Copy(w, r.Body)
	}))
	defer server.Close()
	link := newTestLink(t, server.Listener.Addr().String())
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 50, IdleConnTimeout: patience},
		Timeout: patience}
	defer client.CloseIdleConnections()
	post := func() error {
		response, err := client.Post("http://"+link.Address(), "text/plain", strings.NewReader("hello"))
		if err != nil {
			return err
		}
		defer func() { _ = response.Body.Close() }()
		body, err := io.ReadAll(response.Body)
		if err == nil && string(body) != "hello" {
			err = fmt.Errorf("answered %q", body)
		}
		return err
	}
	for _, spec := range []Network{{Latency: oneMs, Jitter: oneMs}, {Bandwidth: 8 << 20}, {Down: true},
		{Reset: true}} {
		done := make(chan struct{})
		var wg sync.WaitGroup
		for range 50 {
			wg.Go(func() {
				for {
					if err := post(); err != nil && !spec.Down && !spec.Reset {
						t.Errorf("%+v: %v", spec, err)
					}
					select {
					case <-done:
						return
					default:
					}
				}
			})
		}
		sink, heal := inject(t, spec, link)
		wait.Until(t, "the load to feel it", func() bool {
			for _, f := range link.inForce() {
				f.ledger.report()
			}
			sink.mu.Lock()
			defer sink.mu.Unlock()
			return sink.events >= 5
		})
		heal()
		close(done)
		wg.Wait()
		if err := post(); err != nil {
			t.Errorf("after %+v: %v", spec, err)
		}
	}
}

func TestCloseRefusesFromThenOn(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	conn := dial(t, link)
	conn.echo("before")
	for range 2 {
		if err := link.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if err := conn.ends(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("ended with %v", err)
	}
	if _, err := net.Dial("tcp4", link.Address()); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("dialling a closed link: %v", err)
	}
}
