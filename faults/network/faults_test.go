package network

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/wait"
	"github.com/dlqbench/dlqbench/internal/units"
)

// send writes text without expecting an answer.
func (p peer) send(text string) {
	p.t.Helper()
	if _, err := io.WriteString(p, text); err != nil {
		p.t.Fatalf("sending: %v", err)
	}
}

// reset asserts that the connection ends with a true RST.
func (p peer) reset() {
	p.t.Helper()
	if err := p.ends(); !errors.Is(err, syscall.ECONNRESET) {
		p.t.Errorf("the connection ended with %v, want a reset", err)
	}
}

// recorder is an upstream that keeps the data it receives and sends hello when it receives something.
func recorder(t *testing.T) (address string, received func() string) {
	t.Helper()
	var mu sync.Mutex
	var all []byte
	address = serve(t, func(conn net.Conn) {
		for buffer := make([]byte, 1000); ; {
			n, err := conn.Read(buffer)
			mu.Lock()
			all = append(all, buffer[:n]...)
			mu.Unlock()
			if err != nil {
				return
			}
			_, _ = io.WriteString(conn, "hello")
		}
	})
	return address, func() string {
		mu.Lock()
		defer mu.Unlock()
		return string(all)
	}
}

func TestDirection(t *testing.T) {
	for _, direction := range []string{"requests", "responses"} {
		t.Run("latency of "+direction, func(t *testing.T) {
			link := newTestLink(t, echoServer(t))
			conn := dial(t, link)
			sink, heal := inject(t, Network{Latency: 20 * oneMs, Direction: direction}, link)
			conn.echo("1234")
			heal()
			sink.expect(t, map[string]int{"bytes delayed": 1})
		})
		t.Run("bandwidth of "+direction, func(t *testing.T) {
			link := newTestLink(t, echoServer(t))
			conn := dial(t, link)
			sink, heal := inject(t, Network{Bandwidth: 1 << 20, Direction: direction}, link)
			conn.echo("1234")
			heal()
			sink.expect(t, map[string]int{"bytes throttled": 1})
		})
		t.Run("slicer of "+direction, func(t *testing.T) {
			link := newTestLink(t, echoServer(t))
			conn := dial(t, link)
			sink, heal := inject(t, Network{Slicer: &Slicer{Size: 100}, Direction: direction}, link)
			// The data comes back in as many pieces as it was sent in, unless only the direction to the upstream
			// slices it.
			conn.echo(strings.Repeat("x", 101))
			heal()
			if sink.counts["bytes sliced"] != 1 || sink.aux["bytes sliced"] != 101 {
				t.Errorf("reported %v, %v bytes", sink.counts, sink.aux)
			}
		})
	}
	t.Run("timeout of requests", func(t *testing.T) {
		address, received := recorder(t)
		link := newTestLink(t, address)
		conn, quiet := dial(t, link), dial(t, link)
		conn.send("before")
		conn.expect("hello")
		sink, heal := inject(t, Network{Timeout: true, Direction: "requests"}, link)
		conn.send("lost")
		conn.silent()
		heal()
		conn.reset()
		quiet.send("after")
		quiet.expect("hello")
		if got := received(); got != "beforeafter" {
			t.Errorf("the upstream received %q", got)
		}
		sink.expect(t, map[string]int{"bytes swallowed": 1, "connections cut": 1})
	})
	t.Run("timeout of responses", func(t *testing.T) {
		address, received := recorder(t)
		link := newTestLink(t, address)
		conn := dial(t, link)
		sink, heal := inject(t, Network{Timeout: true, Direction: "responses"}, link)
		for i := range 3 { // requests continue although answers are lost
			conn.send("x")
			wait.Until(t, "the request to arrive", func() bool { return len(received()) == i+1 })
		}
		conn.silent()
		heal()
		conn.reset()
		// Three answers, in any number of pieces.
		if sink.aux["bytes swallowed"] != 15 || sink.counts["connections cut"] != 1 || len(sink.counts) != 2 {
			t.Errorf("reported %v, %v", sink.counts, sink.aux)
		}
	})
	t.Run("no traffic in the direction, no effect", func(t *testing.T) {
		for _, spec := range []Network{{Latency: oneMs}, {Bandwidth: 1}, {Timeout: true},
			{Slicer: &Slicer{Size: 1}}, {LimitData: 1}} {
			address := serve(t, func(conn net.Conn) { _, _ = io.Copy(io.Discard, conn) })
			link := newTestLink(t, address)
			spec.Direction = "responses"
			sink, heal := inject(t, spec, link)
			dial(t, link).send("never answered")
			heal()
			if sink.events != 0 {
				t.Errorf("%+v reported %v", spec, sink.counts)
			}
		}
	})
}

func TestSlicerSendsAllInPiecesApart(t *testing.T) {
	sizes := make(chan int, 100)
	link := newTestLink(t, serve(t, func(conn net.Conn) {
		defer close(sizes)
		for buffer := make([]byte, 1000); ; {
			n, err := conn.Read(buffer)
			if err != nil {
				return
			}
			sizes <- n
		}
	}))
	conn := dial(t, link)
	sink, heal := inject(t, Network{Slicer: &Slicer{Size: 30, Delay: 20 * oneMs}}, link)
	start := time.Now()
	conn.send(strings.Repeat("x", 120))
	_ = conn.CloseWrite()
	total, pieces := 0, 0
	for n := range sizes {
		total, pieces = total+n, pieces+1
	}
	if took := time.Since(start); took < 60*time.Millisecond {
		t.Errorf("four pieces 20 ms apart took %v", took)
	}
	if total != 120 || pieces < 2 {
		t.Errorf("%d bytes in %d pieces", total, pieces)
	}
	heal()
	sink.expect(t, map[string]int{"bytes sliced": 1})
}

func TestSlicerOfWhatIsSmallDoesNothing(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	sink, heal := inject(t, Network{Slicer: &Slicer{Size: 100}}, link)
	dial(t, link).echo("small")
	heal()
	sink.expect(t, nil)
}

func TestLimitDataCutsInTheMiddleOfAMessage(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	old := dial(t, link)
	old.echo(strings.Repeat("x", 1000)) // does not count: it was sent before the fault
	sink, heal := inject(t, Network{LimitData: 10, Direction: "responses"}, link)
	fresh := dial(t, link)
	for _, conn := range []peer{old, fresh} {
		conn.echo("123")
		conn.echo("4")
		conn.send("567890123456")
		conn.expect("567890")
		if more, err := io.Copy(io.Discard, conn); more > 0 || err != nil && !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("received %d bytes more, ended with %v", more, err)
		}
	}
	heal()
	dial(t, link).echo("more than the limit")
	sink.expect(t, map[string]int{"connections cut": 2})
}

func TestLimitDataOfRequestsGivesTheUpstreamTheFirstPart(t *testing.T) {
	address, received := recorder(t)
	link := newTestLink(t, address)
	sink, heal := inject(t, Network{LimitData: 5, Direction: "requests"}, link)
	conn := dial(t, link)
	conn.send("123456789")
	_ = conn.ends()
	heal()
	wait.Until(t, "the first part to arrive", func() bool { return received() == "12345" })
	sink.expect(t, map[string]int{"connections cut": 1})
}

func TestLimitDataNotReached(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	conn := dial(t, link)
	sink, heal := inject(t, Network{LimitData: 100}, link)
	conn.echo("short")
	heal()
	conn.echo(strings.Repeat("x", 200))
	sink.expect(t, nil)
}

func TestSlowCloseHoldsTheNewsOfACloseBack(t *testing.T) {
	type end struct {
		at  time.Time
		err error
	}
	ends := make(chan end, 10)
	address := serve(t, func(conn net.Conn) {
		_, err := io.Copy(io.Discard, conn)
		ends <- end{time.Now(), err}
	})
	link := newTestLink(t, address)
	const held = 40 * time.Millisecond
	sink, heal := inject(t, Network{SlowClose: units.Duration(held)}, link)
	for _, abrupt := range []bool{false, true} {
		conn := dial(t, link)
		conn.send("x")
		wait.Until(t, "the link to serve the connection", func() bool { return served(link) == 1 })
		at := time.Now()
		if abrupt {
			reset(conn.socket)
		} else {
			_ = conn.Close()
		}
		got := <-ends
		if took := got.at.Sub(at); took < held {
			t.Errorf("abrupt: %v: the upstream learned of it after %v, want %v", abrupt, took, held)
		}
		if abrupt != errors.Is(got.err, syscall.ECONNRESET) {
			t.Errorf("abrupt: %v: the upstream saw %v", abrupt, got.err)
		}
		wait.Until(t, "the connection to end", func() bool { return served(link) == 0 })
	}
	heal()
	if sink.counts["closes delayed"] < 2 || len(sink.counts) != 1 {
		t.Errorf("reported %v", sink.counts)
	}
}

// served returns how many connections the link serves now.
func served(link *Relay) int {
	link.mu.Lock()
	defer link.mu.Unlock()
	return len(link.pairs)
}

func TestSlowCloseIsOverWhenHealed(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	conn, quiet := dial(t, link), dial(t, link)
	quiet.echo("before")
	sink, heal := inject(t, Network{SlowClose: units.Duration(time.Hour)}, link)
	conn.echo("before")
	_ = conn.CloseWrite()
	conn.silent() // the upstream does not know of it, so it does not close either
	heal()
	if err := conn.ends(); !errors.Is(err, io.EOF) {
		t.Errorf("ended with %v", err)
	}
	quiet.echo("after")
	sink.expect(t, map[string]int{"closes delayed": 1})
}

func TestHalfOpen(t *testing.T) {
	upstreamEnds := make(chan error, 10)
	link := newTestLink(t, serve(t, func(conn net.Conn) {
		_, err := io.Copy(conn, conn)
		upstreamEnds <- err
	}))
	talks, waits, leaves := dial(t, link), dial(t, link), dial(t, link)
	for _, conn := range []peer{talks, waits, leaves} {
		conn.echo("before")
	}
	sink, heal := inject(t, Network{HalfOpen: true}, link)
	for range 3 {
		<-upstreamEnds // the upstream side is gone
	}
	for range 3 {
		talks.send("lost")
		talks.silent()
	}
	waits.silent()
	_ = leaves.CloseWrite()
	leaves.silent()
	fresh := dial(t, link)
	fresh.echo("new connections work")
	heal()
	for _, conn := range []peer{talks, waits, leaves} {
		conn.reset()
	}
	fresh.echo("after")
	if sink.counts["connections half-opened"] != 3 || sink.counts["connections cut"] != 3 ||
		sink.aux["bytes swallowed"] != 12 || len(sink.counts) != 3 {
		t.Errorf("reported %v, %v", sink.counts, sink.aux)
	}
}

// A process that connects only after the fault came into force is also hit, on its first connection.
func TestHalfOpenWaitsForAConnection(t *testing.T) {
	link := newTestLink(t, serve(t, func(conn net.Conn) { _, _ = io.Copy(conn, conn) }))
	gone := dial(t, link)
	gone.echo("before")
	_ = gone.Close()
	wait.Until(t, "the connection to be forgotten", func() bool { return link.Connections() == 0 })
	sink, heal := inject(t, Network{HalfOpen: true}, link)
	late := dial(t, link)
	late.send("lost")
	late.silent()
	dial(t, link).echo("the second one works")
	heal()
	late.reset()
	if sink.counts["connections half-opened"] != 1 || sink.counts["connections cut"] != 1 {
		t.Errorf("reported %v", sink.counts)
	}
}

// The link accepts far more data from the client than all buffers can hold. Otherwise the client would notice the
// fault by its writes.
func TestHalfOpenGoesOnSwallowing(t *testing.T) {
	over := make(chan struct{})
	link := newTestLink(t, serve(t, func(net.Conn) { <-over })) // never reads
	defer close(over)
	conn := dial(t, link)
	wrote := make(chan error, 1)
	go func() {
		_, err := conn.Write(make([]byte, 32<<20))
		wrote <- err
	}()
	// Wait until nothing moves any more, so that the fault comes in the middle of a write to the upstream.
	select {
	case err := <-wrote:
		t.Fatalf("the client could send all, with %v", err)
	case <-time.After(50 * time.Millisecond):
	}
	_, heal := inject(t, Network{HalfOpen: true}, link)
	if err := <-wrote; err != nil {
		t.Errorf("sending: %v", err)
	}
	heal()
	conn.reset()
}

// The connection to the upstream is established only after the fault is in force. Its upstream side is gone all the
// same.
func TestHalfOpenWhileDialing(t *testing.T) {
	ended, proceed := make(chan struct{}), make(chan struct{})
	upstream := serve(t, func(conn net.Conn) {
		_, _ = io.Copy(io.Discard, conn)
		close(ended)
	})
	link, err := newRelay("test", 0, func(ctx context.Context) (socket, observer, error) {
		<-proceed
		return dialTo(upstreamAt(upstream))(ctx)
	})
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = link.Close() }()
	conn := dial(t, link)
	wait.Until(t, "the connection to be accepted", func() bool { return served(link) == 1 })
	_, heal := inject(t, Network{HalfOpen: true}, link)
	close(proceed)
	select {
	case <-ended:
	case <-time.After(patience):
		t.Error("the upstream's side is still open")
	}
	conn.send("lost")
	conn.silent()
	heal()
	conn.reset()
}

func TestToxicityHitsAShareOfTheConnections(t *testing.T) {
	hit := func(seed uint64) (numbers []int) {
		f := testFault(Network{Down: true, Toxicity: 0.3}, seed)
		for n := range 10000 {
			if f.selects(uint64(n + 1)) {
				numbers = append(numbers, n+1)
			}
		}
		return numbers
	}
	first := hit(1)
	if share := float64(len(first)) / 10000; share < 0.28 || share > 0.32 {
		t.Errorf("%.3f of the connections are hit, want 0.3", share)
	}
	if !slices.Equal(first, hit(1)) {
		t.Error("the same seed hits other connections")
	}
	if slices.Equal(first, hit(2)) {
		t.Error("another seed hits the same connections")
	}
	if f := testFault(Network{Down: true}, 1); !f.selects(1) || !f.selects(2) || f.share != 1 {
		t.Error("a toxicity of 0 in Go is not taken for 1")
	}
}

// Each fault hits exactly the connections that the seed selects, by their number, and reports exactly those.
func TestToxicityOfEachFault(t *testing.T) {
	const conns = 12
	for name, test := range map[string]struct {
		spec Network
		what string
	}{
		"latency":    {Network{Latency: oneMs, Direction: "requests"}, "bytes delayed"},
		"bandwidth":  {Network{Bandwidth: 1 << 20, Direction: "requests"}, "bytes throttled"},
		"slicer":     {Network{Slicer: &Slicer{Size: 1}, Direction: "requests"}, "bytes sliced"},
		"limit_data": {Network{LimitData: 1}, "connections cut"},
		"timeout":    {Network{Timeout: true}, "bytes swallowed"},
		"half_open":  {Network{HalfOpen: true}, "connections half-opened"},
		"down":       {Network{Down: true}, "connections cut"},
		"reset":      {Network{Reset: true}, "connections cut"},
	} {
		t.Run(name, func(t *testing.T) {
			link := newTestLink(t, echoServer(t))
			var peers []peer
			for range conns { // one after the other, so that each number is known
				conn := dial(t, link)
				conn.echo("before")
				peers = append(peers, conn)
			}
			test.spec.Toxicity = 0.5
			f := testFault(test.spec, 7) // the seed that inject uses
			sink, heal := inject(t, test.spec, link)
			want := 0
			for i, conn := range peers {
				hit := f.selects(uint64(i + 1))
				if hit {
					want++
					_, _ = io.WriteString(conn, "hit")
				}
				if !hit || name == "latency" || name == "bandwidth" || name == "slicer" {
					if !hit {
						_, _ = io.WriteString(conn, "hit")
					}
					conn.expect("hit")
				}
			}
			if want == 0 || want == conns {
				t.Fatalf("the seed selects %d of %d connections, so this shows nothing", want, conns)
			}
			wait.Until(t, "the effects", func() bool {
				for _, f := range link.inForce() {
					f.ledger.report()
				}
				sink.mu.Lock()
				defer sink.mu.Unlock()
				return sink.counts[test.what] >= want
			})
			heal()
			for i, conn := range peers {
				if !f.selects(uint64(i + 1)) {
					conn.echo("after")
				}
			}
			if got := sink.counts[test.what]; got != want {
				t.Errorf("%d are hit, reported %v", want, sink.counts)
			}
		})
	}
}

func TestToxicityThatSelectsNobodyReportsNothing(t *testing.T) {
	for _, spec := range []Network{
		{Latency: oneMs}, {Bandwidth: 1}, {Timeout: true}, {Down: true}, {Reset: true}, {HalfOpen: true}, {LimitData: 1},
		{SlowClose: units.Duration(time.Hour)}, {Slicer: &Slicer{Size: 1}},
	} {
		link := newTestLink(t, echoServer(t))
		spec.Toxicity = 1e-12
		before := dial(t, link)
		before.echo("before")
		sink, heal := inject(t, spec, link)
		before.echo("during")
		after := dial(t, link)
		after.echo("during")
		_ = after.CloseWrite()
		_ = after.ends()
		heal()
		if sink.events != 0 {
			t.Errorf("%+v reported %v", spec, sink.counts)
		}
	}
}

// Lifting one latency keeps data waiting for the other.
func TestHealOfOneLatencyKeepsTheOther(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	conn := dial(t, link)
	_, healLong := inject(t, Network{Latency: units.Duration(time.Hour)}, link)
	_, healShort := inject(t, Network{Latency: oneMs}, link)
	conn.send("waits")
	conn.silent()
	healShort()
	conn.silent()
	healLong()
	conn.expect("waits")
}

// Data on its way when the link falls silent is lost like the data after it.
func TestTimeoutDuringLatency(t *testing.T) {
	address, received := recorder(t)
	link := newTestLink(t, address)
	conn := dial(t, link)
	_, healLatency := inject(t, Network{Latency: units.Duration(time.Hour)}, link)
	conn.send("on its way")
	conn.silent()
	sink, healTimeout := inject(t, Network{Timeout: true, Direction: "requests"}, link)
	healLatency() // releases the data, but now the link is silent
	conn.silent()
	healTimeout()
	conn.reset()
	if got := received(); got != "" {
		t.Errorf("the upstream received %q", got)
	}
	sink.expect(t, map[string]int{"bytes swallowed": 1, "connections cut": 1})
}

func TestLatencyWithBandwidth(t *testing.T) {
	link := newTestLink(t, echoServer(t))
	conn := dial(t, link)
	slow, healSlow := inject(t, Network{Latency: 30 * oneMs, Direction: "requests"}, link)
	narrow, healNarrow := inject(t, Network{Bandwidth: 10 << 10, Direction: "requests"}, link)
	start := time.Now()
	conn.echo(strings.Repeat("x", 512))
	if took := time.Since(start); took < 80*time.Millisecond {
		t.Errorf("took %v, want 30 ms and 512 bytes at 10 KiB/s (50 ms) or more", took)
	}
	healSlow()
	start = time.Now()
	conn.echo(strings.Repeat("x", 512))
	if took := time.Since(start); took < 50*time.Millisecond {
		t.Errorf("took %v, want 512 bytes at 10 KiB/s (50 ms) or more", took)
	}
	healNarrow()
	slow.expect(t, map[string]int{"bytes delayed": 1})
	narrow.expect(t, map[string]int{"bytes throttled": 2})
}

// Two silences on one link: a connection stays silent until the last of them is lifted.
func TestSilenceLastsAsLongAsOneFaultKeepsIt(t *testing.T) {
	for name, specs := range map[string][2]Network{
		"two timeouts":          {{Timeout: true}, {Timeout: true}},
		"timeout and half_open": {{Timeout: true}, {HalfOpen: true}},
		"half_open and timeout": {{HalfOpen: true}, {Timeout: true}},
		"two half_opens":        {{HalfOpen: true}, {HalfOpen: true}},
	} {
		t.Run(name, func(t *testing.T) {
			link := newTestLink(t, echoServer(t))
			conn := dial(t, link)
			conn.echo("before")
			first, healFirst := inject(t, specs[0], link)
			second, healSecond := inject(t, specs[1], link)
			conn.send("lost")
			conn.silent()
			healFirst()
			conn.silent()
			conn.send("lost too")
			conn.silent()
			healSecond()
			conn.reset()
			if first.counts["connections cut"] != 0 || second.counts["connections cut"] != 1 {
				t.Errorf("reported %v and %v", first.counts, second.counts)
			}
			dial(t, link).echo("after")
		})
	}
}

func TestWhatBreaksComesBeforeEverythingElse(t *testing.T) {
	others := map[string]Network{
		"latency": {Latency: units.Duration(time.Hour)}, "bandwidth": {Bandwidth: 1}, "timeout": {Timeout: true},
		"half_open":  {HalfOpen: true},
		"slow_close": {SlowClose: units.Duration(time.Hour)},
		"slicer":     {Slicer: &Slicer{Size: 1, Delay: units.Duration(time.Hour)}},
		"limit_data": {LimitData: 100},
	}
	for name, other := range others {
		for _, breaks := range []Network{{Down: true}, {Reset: true}} {
			t.Run(fmt.Sprintf("%s, reset: %v", name, breaks.Reset), func(t *testing.T) {
				link := newTestLink(t, echoServer(t))
				conn := dial(t, link)
				conn.echo("before")
				_, healOther := inject(t, other, link)
				conn.send("under way")
				sink, heal := inject(t, breaks, link)
				if err := conn.ends(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
					t.Errorf("ended with %v", err)
				}
				sink.expect(t, map[string]int{"connections cut": 1})
				healOther()
				if breaks.Down {
					if err := attempt(link); !errors.Is(err, syscall.ECONNRESET) {
						t.Errorf("the heal of the other fault ended the outage: %v", err)
					}
				}
				heal()
				dial(t, link).echo("after")
			})
		}
	}
}

// A limit counts the data that arrives. Data discarded by a silent link does not count, and data still carried by a
// slow link is delivered before the cut.
func TestLimitDataWithOthers(t *testing.T) {
	address, received := recorder(t)
	link := newTestLink(t, address)
	_, healLatency := inject(t, Network{Latency: 20 * oneMs, Direction: "requests"}, link)
	sink, healLimit := inject(t, Network{LimitData: 8, Direction: "requests"}, link)
	conn := dial(t, link)
	conn.send("1234")
	conn.expect("hello")
	conn.send("567890")
	_ = conn.ends()
	healLimit()
	healLatency()
	wait.Until(t, "what is within the limit to arrive", func() bool { return received() == "12345678" })
	sink.expect(t, map[string]int{"connections cut": 1})
}
