package workload

// The downstream stub that the subject calls once per attempt. It has one listener per subject instance, so that an
// attempt is attributed by the address it arrived at, never by the subject's own claims.
//
// The stamps err in the subject's favour. An attempt starts when its request has been read completely and ends
// before its answer is written, so the measured gap between two attempts is never shorter than the subject's actual
// wait:
//
//	subject:  ── send k ───────────── read answer ── wait ── send k+1 ─────────
//	stub:            ── start k ── end k ── write ───────────────── start k+1 ──

import (
	"context"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"
	"google.golang.org/grpc"

	"github.com/dlqbench/dlqbench/history"
)

const (
	attemptPath = "/v1/attempt"
	healthPath  = "/healthz"
	// hangLimit bounds an attempt that is planned to hang. The connection of a subject that waits longer is closed.
	hangLimit = 30 * time.Second
	// maxBody bounds a request's body. It is larger than any record that a broker accepts by default.
	maxBody = 16 << 20
)

// StubConfig configures a downstream stub.
type StubConfig struct {
	AttemptsConfig
	// Calls describe the downstream over HTTP; nil for the usual one.
	Calls *Calls
	// RPC, if set, makes attempts calls over gRPC instead of HTTP requests.
	RPC RPC
	// Topics are the run's topics, as in the history's header. An instance may name them in X-Kafka-Topic.
	Topics []history.Topic
}

// Stub is the downstream stub. It answers attempts as planned. It is safe for concurrent use.
type Stub struct {
	*Attempts
	cfg       StubConfig
	calls     Calls
	answers   map[string]map[history.Outcome]answer // by the kind of their texts
	topics    map[string]int16
	listeners []net.Listener // of each instance
	server    *fasthttp.Server
	rpc       *grpc.Server // with an RPC, instead of server
	closing   atomic.Bool
	serving   sync.WaitGroup

	mu    sync.Mutex
	conns map[*Conn]struct{}
}

// NewStub returns a downstream stub that already answers on one port of 127.0.0.1 per instance. Close ends it.
func NewStub(cfg StubConfig) (*Stub, error) {
	calls := *UsualCalls()
	if cfg.Calls != nil {
		calls = *cfg.Calls
	}
	calls.Routes = append(calls.Routes[:len(calls.Routes):len(calls.Routes)], healthRoute())
	answers := map[string]map[history.Outcome]answer{}
	for _, kind := range append(textKinds(), cfg.Plan.ErrorText) {
		var err error
		if answers[kind], err = newAnswers(calls.Answers, kind, cfg.Plan.RetryAfter); err != nil {
			return nil, err
		}
	}
	s := &Stub{
		Attempts: NewAttempts(cfg.AttemptsConfig), cfg: cfg, calls: calls, answers: answers, topics: indexed(cfg.Topics),
		conns: map[*Conn]struct{}{}, listeners: make([]net.Listener, cfg.Instances),
	}
	s.server = &fasthttp.Server{
		Handler: s.handle, Name: "dlqbench-stub", MaxRequestBodySize: maxBody, ReadBufferSize: 16 << 10,
		// fasthttp runs a clock goroutine for the Date header forever.
		NoDefaultDate: true, DisablePreParseMultipartForm: true,
		// Not 400, which would be a planned answer.
		ErrorHandler: func(ctx *fasthttp.RequestCtx, _ error) {
			refuse(ctx, fasthttp.StatusRequestHeaderFieldsTooLarge, `{"error":"this request can't be read"}`)
		},
	}
	if cfg.RPC != nil {
		s.rpc = newRPCServer(s)
	}
	for i := range s.listeners {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("opening the downstream stub's port for instance %d: %w", i, err)
		}
		s.listeners[i] = listener
		if cfg.RPC != nil {
			// The only error is that the listener was closed.
			s.serving.Go(func() { _ = s.rpc.Serve(&rpcListener{Listener: listener, stub: s, instance: i}) })
			continue
		}
		s.serving.Go(func() { s.accept(i, listener) })
	}
	return s, nil
}

// indexed returns the numbers of topics by name.
func indexed(topics []history.Topic) map[string]int16 {
	numbers := map[string]int16{}
	for i, topic := range topics {
		numbers[topic.Name] = int16(i)
	}
	return numbers
}

// Addr returns the host:port to which an instance must send its attempts.
func (s *Stub) Addr(instance int) string {
	return s.listeners[instance-s.cfg.First].Addr().String()
}

// Close closes the ports and every connection, ends hanging attempts, and waits until all of them have ended.
func (s *Stub) Close() {
	s.closing.Store(true)
	for _, listener := range s.listeners {
		if listener != nil {
			listener.Close()
		}
	}
	s.mu.Lock()
	for conn := range s.conns {
		_ = conn.Close()
	}
	s.mu.Unlock()
	if s.rpc != nil {
		s.rpc.Stop()
	}
	s.serving.Wait()
}

func (s *Stub) accept(instance int, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		switch {
		case s.closing.Load():
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			// Most likely there are no file descriptors left. The subject's next connection may get one.
			time.Sleep(10 * time.Millisecond)
			continue
		}
		tagged := s.tag(conn, instance)
		if s.track(tagged) {
			s.serving.Go(func() { s.serve(tagged) })
		}
	}
}

// tag attributes a connection to the current process of the instance, counted from 0.
func (s *Stub) tag(conn net.Conn, instance int) *Conn {
	number := s.cfg.First + instance
	return NewConn(conn.(*net.TCPConn), int16(number), s.Process(number))
}

// track notes an open connection. If the stub is closing, it closes the connection and returns false.
func (s *Stub) track(conn *Conn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *Stub) serve(conn *Conn) {
	// The error says that the peer left or sent something other than HTTP; nothing waits for it.
	_ = s.server.ServeConn(conn)
	s.forget(conn)
}

func (s *Stub) forget(conn *Conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

func (s *Stub) handle(ctx *fasthttp.RequestCtx) {
	method, path := string(ctx.Method()), string(ctx.Path())
	route := s.calls.route(method, path)
	switch {
	case route != nil && (s.cfg.Other == 0 || route.Path == healthPath):
		route.write(ctx)
	case route != nil:
		s.attempt(ctx, ctx.Conn().(*Conn), route)
	case s.calls.Path != "" && s.calls.Path != path:
		refuse(ctx, fasthttp.StatusNotFound, `{"error":"the downstream stub serves POST /v1/attempt and GET /healthz"}`)
	case s.calls.Method != "" && s.calls.Method != method:
		ctx.Response.Header.Set(fasthttp.HeaderAllow, s.calls.Method)
		refuse(ctx, fasthttp.StatusMethodNotAllowed, `{"error":"an attempt is a POST"}`)
	default:
		s.attempt(ctx, ctx.Conn().(*Conn), nil)
	}
}

// refuse answers requests that are not attempts. (The server's own way would reset the response, and with it the
// choice against the Date header.)
func refuse(ctx *fasthttp.RequestCtx, status int, body string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBodyString(body)
}

// attempt answers one attempt and records its start and its end. At a downstream that does not decide, this is a call,
// whose route says how it is answered well.
func (s *Stub) attempt(ctx *fasthttp.RequestCtx, conn *Conn, route *Route) {
	event := conn.Attempt(s.cfg.Clock.Now())
	s.source(ctx, &event)
	seq, found := s.calls.find(ctx, s.cfg.IDs)
	if s.calls.Told {
		event.Text = s.told(ctx, seq, found)
	}
	s.Begin(&event, seq, found)
	if s.calls.Told && s.unnamed(&event) {
		s.Stray(event.Text)
	}
	event.Text = ""
	if found && s.calls.several(ctx, s.cfg.IDs, seq) {
		s.Several(conn.instance, conn.run, func() string { return s.told(ctx, 0, false) })
	}
	answer, _ := s.conclude(conn, &event, true)
	if answer.status == 0 {
		conn.giveUp(ctx, event.Outcome == history.OutcomeReset)
		return
	}
	if route != nil && event.Outcome == history.OutcomeSuccess {
		route.write(ctx)
		return
	}
	writeHeaders(ctx, answer.headers)
	if answer.retryAfter != "" {
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, answer.retryAfter)
	}
	ctx.SetStatusCode(answer.status)
	ctx.Response.SetBodyRaw(answer.bodyFor(s.cfg.IDs, event.Record))
}

// conclude waits for the attempt's planned time, records its end, and returns its answer and how the wait ended.
// told says that the answer can state the wait before the next attempt.
func (s *Stub) conclude(caller Caller, event *history.Event, told bool) (answer, Waited) {
	ruling, ended := s.Decide(caller, event)
	answer := s.response(ruling)
	event.Outcome, event.Code = ruling.Outcome, int16(answer.status)
	if told {
		event.Aux = int64(answer.waits)
	}
	s.End(event, ended == Gone)
	return answer, ended
}

// source records the topic and partition from which the subject claims to have the record.
func (s *Stub) source(ctx *fasthttp.RequestCtx, event *history.Event) {
	header := &ctx.Request.Header
	if topic, known := s.topics[string(header.Peek("X-Kafka-Topic"))]; known {
		event.Topic = topic
	}
	if partition, err := strconv.ParseInt(string(header.Peek("X-Kafka-Partition")), 10, 32); err == nil && partition >= 0 {
		event.Partition = int32(partition)
	}
	if offset, err := strconv.ParseInt(string(header.Peek("X-Kafka-Offset")), 10, 64); err == nil && offset >= 0 {
		event.Offset = offset
	}
}
