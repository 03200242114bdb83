package network

import (
	"context"
	"errors"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	toxiproxy "github.com/Shopify/toxiproxy/v2/client"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// freePort returns a port that nothing listens on now.
func freePort() (int, error) {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return 0, err
	}
	return listener.Addr().(*net.TCPAddr).Port, listener.Close()
}

// toxiproxyServer starts a server and returns its address.
func toxiproxyServer(t *testing.T) string {
	t.Helper()
	s, err := startServer()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = s.api.Collection.Clear()
		if err := s.close(); err != nil {
			t.Error(err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return s.address
}

func openToxiproxy(t *testing.T, address string) *Toxiproxy {
	t.Helper()
	links, err := OpenToxiproxy(t.Context(), ToxiproxySettings{Server: address, Prefix: "run-1.", Port: freePort})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := links.Close(); err != nil {
			t.Error(err)
		}
		http.DefaultTransport.(*http.Transport).CloseIdleConnections()
	})
	return links
}

func openToxicLink(t *testing.T, links *Toxiproxy, upstream string) *toxicLink {
	t.Helper()
	link, err := links.Open("broker 1", upstreamAt(upstream), 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := link.Close(); err != nil {
			t.Error(err)
		}
	})
	return link.(*toxicLink)
}

// ownToxicLink is a link through a server of its own.
func ownToxicLink(t *testing.T, upstream string) *toxicLink {
	t.Helper()
	return openToxicLink(t, openToxiproxy(t, ToxiproxyStart), upstream)
}

func proxiesOf(t *testing.T, address string) map[string]*toxiproxy.Proxy {
	t.Helper()
	found, err := toxiproxy.NewClient(address).Proxies()
	if err != nil {
		t.Fatal(err)
	}
	return found
}

func TestToxiproxyWithoutFaultsIsTransparent(t *testing.T) {
	link := ownToxicLink(t, echoServer(t))
	for range 20 {
		conn := dial(t, link)
		conn.echo(strings.Repeat("through", 10_000))
		if link.Connections() == 0 {
			t.Error("the connection is not counted")
		}
		_ = conn.CloseWrite()
		if err := conn.ends(); !errors.Is(err, io.EOF) {
			t.Errorf("the connection ended with %v", err)
		}
	}
}

// The effects on one echoed connection are what the link saw before and after the server.
func TestToxiproxyEffectsAreMeasured(t *testing.T) {
	for name, test := range map[string]struct {
		spec Network
		want string
		does func(peer)
	}{
		"latency": {Network{Latency: 20 * oneMs, Jitter: 4 * oneMs}, "bytes delayed", func(conn peer) {
			began := time.Now()
			conn.echo("1234")
			if took := time.Since(began); took < 40*time.Millisecond {
				conn.t.Errorf("there and back took %v", took)
			}
		}},
		"bandwidth": {Network{Bandwidth: 20_000}, "bytes throttled", func(conn peer) {
			conn.echo(strings.Repeat("1", 4000))
		}},
		"slicer": {Network{Slicer: &Slicer{Size: 10, Delay: 2 * oneMs}}, "bytes sliced", func(conn peer) {
			conn.echo("one two three")
		}},
		"limit_data": {Network{LimitData: 6}, "connections cut", func(conn peer) { conn.send("1234567"); _ = conn.ends() }},
		"reset":      {Network{Reset: true}, "connections cut", func(conn peer) { conn.send("1"); conn.reset() }},
		"down": {Network{Down: true}, "connections cut", func(conn peer) {
			if err := conn.ends(); !errors.Is(err, io.EOF) && !errors.Is(err, syscall.ECONNRESET) {
				conn.t.Errorf("the connection ended with %v", err)
			}
		}},
		"timeout": {Network{Timeout: true}, "bytes swallowed", func(conn peer) { conn.send("1234"); conn.silent() }},
	} {
		t.Run(name, func(t *testing.T) {
			link := ownToxicLink(t, echoServer(t))
			before := dial(t, link)
			before.echo("before")
			sink, heal := inject(t, test.spec, link)
			test.does(before)
			wait.Until(t, "an effect", func() bool {
				sink.mu.Lock()
				defer sink.mu.Unlock()
				return sink.counts[test.want] > 0
			})
			heal()
			dial(t, link).echo("after")
			dial(t, link).echo("and again")
			sink.mu.Lock()
			defer sink.mu.Unlock()
			for what := range sink.counts {
				if what != test.want && (name != "timeout" || what != "connections cut") {
					t.Errorf("reported %v", sink.counts)
				}
			}
		})
	}
}

// A toxic without anything to act on has no effect, and none is claimed.
func TestToxiproxyNothingHappenedNothingReported(t *testing.T) {
	for _, spec := range []Network{
		{Latency: oneMs}, {Bandwidth: 1000}, {Timeout: true}, {SlowClose: oneMs}, {Down: true}, {Reset: true},
		{Slicer: &Slicer{Size: 100}}, {LimitData: 100},
	} {
		sink, heal := inject(t, spec, ownToxicLink(t, echoServer(t)))
		heal()
		sink.expect(t, map[string]int{})
	}
	t.Run("too small for the slicer, and below the limit", func(t *testing.T) {
		link := ownToxicLink(t, echoServer(t))
		conn := dial(t, link)
		sink, heal := inject(t, Network{Slicer: &Slicer{Size: 100}}, link)
		_, healToo := inject(t, Network{LimitData: 100}, link)
		conn.echo("small")
		healToo()
		heal()
		_ = conn.Close()
		sink.expect(t, map[string]int{})
	})
}

// The server's answer that a toxic is there is not taken for its effect.
func TestToxiproxyToxicsThatDoNothingHaveNoEffect(t *testing.T) {
	for _, spec := range []Network{
		{Latency: 50 * oneMs}, {Bandwidth: 1000}, {Timeout: true}, {SlowClose: 50 * oneMs}, {Down: true}, {Reset: true},
		{Slicer: &Slicer{Size: 10}}, {LimitData: 10},
	} {
		link := ownToxicLink(t, echoServer(t))
		conn := dial(t, link)
		conn.echo("before")
		sink := &effects{}
		ledger := newLedger(faults.NewActive(faults.Planned{}, sink, clock{time.Now()}))
		f := newFault(spec, 1, ledger)
		link.put(f) // and the server knows nothing of it
		conn.echo("longer than the limit and than a piece")
		link.current(func(p *passage) bool { return p.sweep(f, gone) })
		link.take(f)
		_ = conn.Close()
		sink.expect(t, map[string]int{})
	}
}

func TestToxiproxyDownRefuses(t *testing.T) {
	link := ownToxicLink(t, echoServer(t))
	dial(t, link).echo("before")
	first, healFirst := inject(t, Network{Down: true}, link)
	second, healSecond := inject(t, Network{Down: true}, link)
	for range 3 {
		if err := attempt(link); !errors.Is(err, syscall.ECONNRESET) {
			t.Errorf("ended with %v", err)
		}
	}
	healFirst()
	if err := attempt(link); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("after the first is lifted, the second keeps the link down; a connection ended with %v", err)
	}
	healSecond()
	dial(t, link).echo("after")
	first.expect(t, map[string]int{"connections cut": 1, "connections refused": 3})
	second.expect(t, map[string]int{"connections refused": 1})
}

func TestToxiproxySlowClose(t *testing.T) {
	link := ownToxicLink(t, echoServer(t))
	conn := dial(t, link)
	conn.echo("before")
	sink, heal := inject(t, Network{SlowClose: 30 * oneMs}, link)
	began := time.Now()
	_ = conn.CloseWrite()
	_ = conn.ends()
	if took := time.Since(began); took < 30*time.Millisecond {
		t.Errorf("the close took %v", took)
	}
	heal()
	sink.expect(t, map[string]int{"closes delayed": 1})
}

// No connection that lost data survives the end of the silence, whatever the server does with it.
func TestToxiproxyNoConnectionOutlivesAHole(t *testing.T) {
	address, received := recorder(t)
	link := ownToxicLink(t, address)
	conn := dial(t, link)
	sink, heal := inject(t, Network{Timeout: true, Direction: "requests"}, link)
	conn.send("lost")
	wait.Until(t, "the loss", func() bool {
		sink.mu.Lock()
		defer sink.mu.Unlock()
		return sink.counts["bytes swallowed"] > 0
	})
	heal()
	if err := conn.ends(); err == nil {
		t.Error("the connection goes on")
	}
	dial(t, link).send("arrives")
	wait.Until(t, "the rest", func() bool { return received() == "arrives" })
	sink.expect(t, map[string]int{"bytes swallowed": 1, "connections cut": 1})
}

// A reset by the far side is handed on as one, although toxiproxy makes a regular end of it.
func TestToxiproxyHandsResetsOn(t *testing.T) {
	upstream := serve(t, func(conn net.Conn) {
		_, _ = conn.Read(make([]byte, 1))
		reset(conn.(socket))
	})
	conn := dial(t, ownToxicLink(t, upstream))
	conn.send("1")
	conn.reset()
	if err := attempt(ownToxicLink(t, "127.0.0.1:1")); !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("with a dead upstream, a connection ended with %v", err)
	}
}

func TestToxiproxyProxiesCarryTheRunsName(t *testing.T) {
	address := toxiproxyServer(t)
	links := openToxiproxy(t, address)
	link := openToxicLink(t, links, echoServer(t))
	if found := proxiesOf(t, address); len(found) != 1 || found["run-1.broker-1"] == nil {
		t.Errorf("the proxies are %v", found)
	}
	if err := link.Close(); err != nil {
		t.Error(err)
	}
	if found := proxiesOf(t, address); len(found) != 0 {
		t.Errorf("after the end there are %v", found)
	}
}

func TestRemoveProxies(t *testing.T) {
	address := toxiproxyServer(t)
	client := toxiproxy.NewClient(address)
	for _, name := range []string{"run-1.broker-1", "run-1.downstream", "run-10.broker-1", "mine"} {
		if _, err := client.CreateProxy(name, "127.0.0.1:0", "127.0.0.1:1"); err != nil {
			t.Fatal(err)
		}
	}
	removed, err := RemoveProxies(t.Context(), address, "run-1.")
	if err != nil || !slices.Equal(removed, []string{"run-1.broker-1", "run-1.downstream"}) {
		t.Errorf("removed %v, %v", removed, err)
	}
	if found := proxiesOf(t, address); len(found) != 2 {
		t.Errorf("left %v", found)
	}
	if removed, err := RemoveProxies(t.Context(), "http://127.0.0.1:1", "run-1."); err != nil || removed != nil {
		t.Errorf("without a server: removed %v, %v", removed, err)
	}
}

// What somebody else does to a proxy ends the run, as its history would not explain what the consumer does then.
func TestToxiproxyWatchesItsProxies(t *testing.T) {
	for name, test := range map[string]struct {
		does func(*toxiproxy.Proxy) error
		says string
	}{
		"deleted":  {(*toxiproxy.Proxy).Delete, "run-1.broker-1 is gone"},
		"disabled": {(*toxiproxy.Proxy).Disable, "run-1.broker-1 was enabled or disabled by somebody else"},
		"a toxic added": {func(p *toxiproxy.Proxy) error {
			_, err := p.AddToxic("mine", "latency", "upstream", 1, toxiproxy.Attributes{"latency": 1})
			return err
		}, "somebody else added the toxic mine"},
		"a toxic removed": {func(p *toxiproxy.Proxy) error {
			return p.RemoveToxic("dlqbench-1-upstream")
		}, "somebody else removed toxics"},
	} {
		t.Run(name, func(t *testing.T) {
			address := toxiproxyServer(t)
			links := openToxiproxy(t, address)
			link := openToxicLink(t, links, echoServer(t))
			f := testFault(Network{Latency: oneMs}, 1)
			if err := link.inject(t.Context(), f); err != nil {
				t.Fatal(err)
			}
			if err := links.compare(t.Context()); err != nil {
				t.Fatalf("before: %v", err)
			}
			if err := test.does(proxiesOf(t, address)["run-1.broker-1"]); err != nil {
				t.Fatal(err)
			}
			select {
			case err := <-links.Failed():
				if !strings.Contains(err.Error(), test.says) {
					t.Errorf("it says %v", err)
				}
			case <-time.After(patience):
				t.Error("nobody noticed")
			}
			_ = link.lift(t.Context(), f)
		})
	}
}

func TestToxiproxyServersThatAreRefused(t *testing.T) {
	answer := func(status int, text string) string {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(status)
			_, _ = io.WriteString(w, text)
		}))
		t.Cleanup(s.Close)
		return s.URL
	}
	for name, test := range map[string]struct{ address, says string }{
		"nobody there":   {"http://127.0.0.1:1", "connection refused; start it"},
		"something else": {answer(http.StatusNotFound, "404 page not found"), "what answers there is not toxiproxy 2"},
		"no version":     {answer(http.StatusOK, "{}"), "what answers there is not toxiproxy 2"},
		"version 1":      {answer(http.StatusOK, "1.2.1"), "what answers there is not toxiproxy 2"},
		"version 3":      {answer(http.StatusOK, `{"version": "3.0.0"}`), "it has version 3.0.0"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := OpenToxiproxy(context.Background(), ToxiproxySettings{Server: test.address})
			if err == nil || !strings.Contains(err.Error(), test.says) {
				t.Errorf("it says %v", err)
			}
		})
	}
	http.DefaultTransport.(*http.Transport).CloseIdleConnections()
}

func TestCheckToxiproxy(t *testing.T) {
	for address, says := range map[string]string{
		"start": "", "http://127.0.0.1:8474": "", "http://localhost:8474/": "", "http://[::1]:8474": "",
		"https://127.0.0.1:8474": "write the address", "127.0.0.1:8474": "write the address", "": "write the address",
		"http://127.0.0.1:8474/proxies": "write the address", "http://me:secret@127.0.0.1:8474": "write the address",
		"http://toxiproxy.example:8474": "toxiproxy.example is not this machine",
		"http://10.0.0.1:8474":          "not this machine",
	} {
		err := CheckToxiproxy(address)
		if (err == nil) != (says == "") || err != nil && !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v", address, err)
		}
		if err != nil && strings.Contains(err.Error(), "secret") {
			t.Errorf("%v shows the password", err)
		}
	}
}

func TestFaultsThatToxiproxyRefuses(t *testing.T) {
	for _, test := range []struct {
		spec Network
		says string
	}{
		{Network{HalfOpen: true}, "cannot do half_open"},
		{Network{Down: true, Toxicity: 0.5}, "cannot do down with a toxicity"},
		{Network{Bandwidth: 49152}, "such as 49000B"}, {Network{Latency: 1500}, "whole milliseconds"},
		{Network{Latency: 10 * oneMs, Jitter: 3 * oneMs}, "even number"}, {Network{SlowClose: 1500}, "whole milliseconds"},
		{Network{Slicer: &Slicer{Size: 1, Delay: 1500}}, "whole microseconds"},
		{Network{Bandwidth: 50_000}, ""}, {Network{Latency: 10 * oneMs, Jitter: 4 * oneMs}, ""}, {Network{Down: true}, ""},
		{Network{Timeout: true, Toxicity: 0.5}, ""}, {Network{Reset: true}, ""}, {Network{LimitData: 1}, ""},
		{Network{SlowClose: oneMs}, ""}, {Network{Slicer: &Slicer{Size: 1, Delay: oneMs}}, ""},
	} {
		err := test.spec.OnToxiproxy()
		if (err == nil) != (test.says == "") || err != nil && !strings.Contains(err.Error(), test.says) {
			t.Errorf("%+v: %v", test.spec, err)
		}
	}
	_, err := NewInjector(map[string][]Link{"test": {ownToxicLink(t, echoServer(t))}}).Inject(t.Context(),
		faults.NewActive(faults.Planned{Fault: &Network{Link: "test", HalfOpen: true}}, &effects{}, clock{}))
	if err == nil || !strings.Contains(err.Error(), "cannot do half_open") {
		t.Errorf("injected: %v", err)
	}
}

// A proxy whose port another program holds cannot be enabled again, and the error says so.
func TestToxiproxyPortTakenMeanwhile(t *testing.T) {
	link := ownToxicLink(t, echoServer(t))
	f := testFault(Network{Down: true}, 1)
	if err := link.inject(t.Context(), f); err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp4", link.proxy.Listen)
	if err != nil {
		t.Fatal(err)
	}
	if err := link.lift(t.Context(), f); err == nil || !strings.Contains(err.Error(), "another program took the port") {
		t.Errorf("it says %v", err)
	}
	_ = listener.Close()
}

// A server that does not answer is given up.
func TestToxiproxyServerThatHangs(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		over := make(chan struct{})
		err := call(t.Context(), func() error { <-over; return nil })
		if err == nil || !strings.Contains(err.Error(), "did not answer within 5s") {
			t.Errorf("it says %v", err)
		}
		close(over)
	})
}

// A connection that lost data and that the server does not end is cut.
func TestToxiproxyConnectionThatTheServerKeeps(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		l := &toxicLink{}
		kept, over, cuts := newPassage(l), newPassage(l), 0
		kept.cut = func() { cuts++ }
		over.cut = kept.cut
		over.serverEnded()
		began := time.Now()
		l.awaitEnds(t.Context(), []*passage{kept, over})
		if took := time.Since(began); cuts != 1 || took != cutLimit {
			t.Errorf("%d connections were cut after %v", cuts, took)
		}
	})
}
