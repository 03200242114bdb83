package workload

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/status"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/security"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// spoken is a way to speak HTTP with the stub.
type spoken struct {
	secure, http1 bool // of the stub
	client        func(*http.Protocols)
	want          string
}

func ways() map[string]spoken {
	return map[string]spoken{
		"HTTP/1.1":                {false, false, func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/1.1"},
		"HTTP/2, prior knowledge": {false, false, func(p *http.Protocols) { p.SetUnencryptedHTTP2(true) }, "HTTP/2.0"},
		"TLS, HTTP/1.1":           {true, false, func(p *http.Protocols) { p.SetHTTP1(true) }, "HTTP/1.1"},
		"TLS, HTTP/2": {true, false, func(p *http.Protocols) { p.SetHTTP1(true); p.SetHTTP2(true) },
			"HTTP/2.0"},
		"TLS, HTTP/1.1 by the stub": {true, true, func(p *http.Protocols) { p.SetHTTP1(true); p.SetHTTP2(true) }, "HTTP/1.1"},
	}
}

// newSpoken is newCalls over TLS and HTTP/2. target is the URL of the first instance.
func newSpoken(t *testing.T, p *plan.Plan, way spoken) (b *bed, target string) {
	t.Helper()
	b = &bed{t: t, ids: history.NewIDs("run"), sink: &events{}}
	cfg := StubConfig{Calls: &Calls{Told: true, HTTP1: way.http1}, AttemptsConfig: AttemptsConfig{
		Plan: p, IDs: b.ids, Instances: 2, Ops: &atomic.Int64{}, Clock: history.NewClock(), Sink: b.sink}}
	transport := &http.Transport{Protocols: new(http.Protocols)}
	way.client(transport.Protocols)
	scheme := "http://"
	if way.secure {
		scheme = "https://"
		cfg.TLS, transport.TLSClientConfig = trusted(t)
	}
	b.client = &http.Client{Transport: transport}
	var err error
	if b.Stub, err = NewStub(cfg); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Stub.Close)
	t.Cleanup(b.client.CloseIdleConnections)
	return b, scheme + b.Addr(0)
}

// trusted returns the settings of a server, and of a client that trusts it.
func trusted(t *testing.T) (server, client *tls.Config) {
	t.Helper()
	authority, err := security.NewAuthority("dlqbench test")
	if err != nil {
		t.Fatal(err)
	}
	roots := x509.NewCertPool()
	roots.AppendCertsFromPEM(authority.PEM)
	return authority.Server, &tls.Config{RootCAs: roots, MinVersion: tls.VersionTLS12}
}

// put makes a call for a record and returns the protocol of the answer.
func (b *bed) put(ctx context.Context, target string, record int32) (status int, protocol string, err error) {
	b.t.Helper()
	request, err := http.NewRequestWithContext(ctx, http.MethodPut, target+"/pay/"+b.ids.Token(record),
		strings.NewReader("{}"))
	if err != nil {
		b.t.Fatal(err)
	}
	response, err := b.client.Do(request)
	if err != nil {
		return 0, "", err
	}
	defer response.Body.Close()
	_, err = io.Copy(io.Discard, response.Body)
	return response.StatusCode, response.Proto, err
}

func TestStubSpeaksEveryHTTP(t *testing.T) {
	for name, way := range ways() {
		t.Run(name, func(t *testing.T) {
			b, target := newSpoken(t, &plan.Plan{Records: []plan.Record{
				{Outcome: history.OutcomeTransient, Failures: 1}, {Outcome: history.OutcomeReset, Failures: 1}}}, way)
			b.SetRun(0, 3)
			if b.Unused() != 0 {
				t.Error("a connection is unused before there is one")
			}
			for i, want := range []int{503, 200, 0, 200} {
				status, protocol, err := b.put(t.Context(), target, int32(i/2))
				if status != want || want > 0 && (protocol != way.want || err != nil) || want == 0 && err == nil {
					t.Errorf("call %d: answered %d over %s, %v; want %d", i, status, protocol, err, want)
				}
			}
			if b.Unused() != 0 {
				t.Error("connections with calls are unused")
			}
			ends := b.sink.of(history.KindAttemptEnd)
			if len(ends) != 4 || ends[2].Outcome != history.OutcomeReset || ends[2].Code != 0 || ends[2].Flags != 0 ||
				ends[3].Run != 3 || ends[3].Instance != 0 {
				t.Errorf("noted as %+v", ends)
			}
		})
	}
}

// A reset and an attempt without an answer strike their own stream of HTTP/2: others on its connection get theirs.
func TestStreamsFailAlone(t *testing.T) {
	for name, way := range ways() {
		if way.want != "HTTP/2.0" {
			continue
		}
		t.Run(name, func(t *testing.T) {
			b, target := newSpoken(t, &plan.Plan{Records: []plan.Record{{},
				{Outcome: history.OutcomeReset, Failures: 1}, {Outcome: history.OutcomeTimeout, Failures: 1}}}, way)
			b.put(t.Context(), target, 0)
			b.SetRun(0, 1) // what is attributed to process 0 from now on came on the same connection
			endSlow := b.Slow(never, func() {})
			answered := make(chan int, 1)
			go func() {
				status, _, _ := b.put(t.Context(), target, 0)
				answered <- status
			}()
			wait.Until(t, "the attempt to be open", func() bool { return b.InFlight() == 1 })
			endRules := b.Answer(func(record, _ int32) (history.Outcome, time.Duration) {
				return map[int32]history.Outcome{1: history.OutcomeReset, 2: history.OutcomeTimeout}[record], 0
			})
			defer endRules()
			endSlow()
			if status := <-answered; status != 200 {
				t.Errorf("the first is answered %d", status)
			}
			if status, _, err := b.put(t.Context(), target, 1); err == nil {
				t.Errorf("the reset is answered %d", status)
			}
			ctx, giveUp := context.WithTimeout(t.Context(), 50*time.Millisecond)
			defer giveUp()
			if status, _, err := b.put(ctx, target, 2); err == nil {
				t.Errorf("the attempt without an answer is answered %d", status)
			}
			wait.Until(t, "the attempt to end", func() bool { return b.InFlight() == 0 })
			if status, _, err := b.put(t.Context(), target, 0); status != 200 {
				t.Errorf("the next is answered %d, %v", status, err)
			}
			ends := b.sink.of(history.KindAttemptEnd)
			for _, end := range ends {
				if end.Run != 0 {
					t.Errorf("a call was made on another connection: %+v", end)
				}
			}
			if last := ends[len(ends)-2]; last.Outcome != history.OutcomeTimeout || last.Flags != history.ClientGone {
				t.Errorf("the attempt without an answer is noted as %+v", last)
			}
		})
	}
}

// Clients that do not trust the authority, or do not speak TLS, are told to the user; those that only look are not.
func TestStubTellsOfFailedHandshakes(t *testing.T) {
	for name, one := range map[string]struct {
		scheme string
		config *tls.Config
		want   string
	}{
		"no trust": {"https://", &tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}, "bad certificate"},
		"no TLS":   {"http://", nil, "HTTP request to an HTTPS server"},
	} {
		b, target := newSpoken(t, &plan.Plan{Records: make([]plan.Record, 1)}, ways()["TLS, HTTP/2"])
		if count, _ := b.Handshakes(); count != 0 || b.Unused() != 0 {
			t.Fatalf("%d failed before", count)
		}
		_, address, _ := strings.Cut(target, "//")
		client := &http.Client{Transport: &http.Transport{TLSClientConfig: one.config}}
		if response, err := client.Get(one.scheme + address); err == nil {
			response.Body.Close()
		}
		client.CloseIdleConnections()
		wait.Until(t, "the handshake to fail", func() bool { count, _ := b.Handshakes(); return count == 1 })
		if _, first := b.Handshakes(); !strings.Contains(first, one.want) {
			t.Errorf("%s is told as %q", name, first)
		}
		if b.Unused() != 1 {
			t.Errorf("%s: %d connections are unused", name, b.Unused())
		}
	}
	var unshaken faulty
	fmt.Fprintf(&unshaken, "http: TLS handshake error from 127.0.0.1:1: EOF\n")
	if unshaken.count.Load() != 0 {
		t.Error("a client that left is told")
	}
}

// A client of gRPC that connects and never calls trusts the stub: its application failed before the call. One that does
// not trust it sends nothing after the handshake.
func TestConnectionsWithoutACall(t *testing.T) {
	server, client := trusted(t)
	for name, one := range map[string]struct {
		config *tls.Config
		unused bool
	}{
		"trust":    {client, false},
		"no trust": {&tls.Config{RootCAs: x509.NewCertPool(), MinVersion: tls.VersionTLS12}, true},
	} {
		t.Run(name, func(t *testing.T) {
			ids := history.NewIDs("run")
			stub, err := NewStub(StubConfig{TLS: server, RPC: NewService(ids, ServiceConfig{}), AttemptsConfig: AttemptsConfig{
				Plan: &plan.Plan{Records: make([]plan.Record, 1)}, IDs: ids, Instances: 1, Ops: &atomic.Int64{},
				Clock: history.NewClock(), Sink: &events{}}})
			if err != nil {
				t.Fatal(err)
			}
			defer stub.Close()
			conn, err := grpc.NewClient("passthrough:///"+stub.Addr(0),
				grpc.WithTransportCredentials(credentials.NewTLS(one.config)))
			if err != nil {
				t.Fatal(err)
			}
			defer conn.Close()
			conn.Connect()
			wait.Until(t, "the connection to be judged", func() bool {
				return stub.accepted.Load() > 0 && (stub.Unused() > 0) == one.unused
			})
			if failed, _ := stub.Handshakes(); one.unused {
				wait.Until(t, "the handshake to fail", func() bool { failed, _ = stub.Handshakes(); return failed > 0 })
				if stub.Unused() == 0 {
					t.Error("a client that does not trust the stub has said something")
				}
			}
		})
	}
}

func TestServicesSpeakTLS(t *testing.T) {
	server, client := trusted(t)
	ids, sink := history.NewIDs("run"), &events{}
	stub, err := NewStub(StubConfig{TLS: server, RPC: NewService(ids, ServiceConfig{}), AttemptsConfig: AttemptsConfig{
		Plan: &plan.Plan{Records: make([]plan.Record, 1)}, IDs: ids, Instances: 1, Ops: &atomic.Int64{},
		Clock: history.NewClock(), Sink: sink}})
	if err != nil {
		t.Fatal(err)
	}
	defer stub.Close()
	check := func(creds credentials.TransportCredentials) error {
		conn, err := grpc.NewClient("passthrough:///"+stub.Addr(0), grpc.WithTransportCredentials(creds))
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		_, err = grpc_health_v1.NewHealthClient(conn).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
		if err != nil {
			return err
		}
		request := &grpc_health_v1.HealthCheckRequest{Service: ids.Token(0)}
		return conn.Invoke(t.Context(), "/acme.Payments/Charge", request, &grpc_health_v1.HealthCheckResponse{})
	}
	if err := check(credentials.NewTLS(client)); err != nil {
		t.Error(err)
	}
	if ends := sink.of(history.KindAttemptEnd); len(ends) != 1 || ends[0].Record != 0 {
		t.Errorf("noted as %+v", ends)
	}
	if err := check(insecure.NewCredentials()); status.Code(err) != codes.Unavailable {
		t.Errorf("without TLS: %v", err)
	}
	wait.Until(t, "the handshake to fail", func() bool { count, _ := stub.Handshakes(); return count > 0 })
	if _, first := stub.Handshakes(); !strings.Contains(first, "TLS handshake") {
		t.Errorf("the failed handshake is told as %q", first)
	}
}

// A client that speaks TLS to a stub without it is counted. Its connection only fails otherwise, and nothing is called.
func TestTLSThatIsNotSpoken(t *testing.T) {
	for name, stub := range map[string]*Stub{
		"HTTP": newCalls(t, &plan.Plan{}, history.IDUUID, Calls{}).Stub,
		"gRPC": newService(t, history.NewIDs("run"), ServiceConfig{}).Stub,
	} {
		_, client := trusted(t)
		if conn, err := (&tls.Dialer{Config: client}).DialContext(t.Context(), "tcp", stub.Addr(0)); err == nil {
			t.Errorf("%s: a handshake succeeded with %v", name, conn.RemoteAddr())
		}
		// The gRPC server writes its settings first, so the client may fail on them before the stub has read its hello.
		wait.Until(t, name+" to count a connection by TLS", func() bool { return stub.Secured() == 1 })
	}
}
