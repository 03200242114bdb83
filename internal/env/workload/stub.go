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
	"bytes"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"log"
	"net"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/memconn"
	"github.com/dlqbench/dlqbench/internal/kafkaio"
	"github.com/dlqbench/dlqbench/internal/plan"
)

const (
	attemptPath = "/v1/attempt"
	healthPath  = "/healthz"
	// hangLimit bounds an attempt that is planned to hang. A subject that waits longer gets no answer: its connection is
	// closed, or its stream of HTTP/2.
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
	// TLS, if set, has the certificate of the downstream, which is then reached by TLS alone.
	TLS *tls.Config
	// Observe, if set, is told of each call over HTTP. With answered, a call without a record's id is answered 200 with
	// this body.
	Observe func(Called) (body string, answered bool)
	// Topics are the run's topics, as in the history's header. An instance may name them in X-Kafka-Topic.
	Topics []history.Topic
}

// Stub is the downstream stub. It answers attempts as planned. It is safe for concurrent use.
type Stub struct {
	*Attempts
	cfg       StubConfig
	calls     Calls
	answers   map[string]map[history.Outcome]answer // by the kind of their texts
	items     *items
	topics    map[string]int16
	listeners []net.Listener      // of each instance
	near      []*memconn.Listener // of each instance, for connections of this process
	server    stubServer
	bodies    sync.Pool // of *bytes.Buffer
	inflater  kafkaio.Inflater
	closing   atomic.Bool
	accepted  atomic.Int64 // connections
	spoken    atomic.Bool  // a client sent something after its handshake
	secured   atomic.Int64 // connections by TLS to a stub without it
	serving   sync.WaitGroup
	// handling is held for reading by each request that is being answered.
	handling   sync.RWMutex
	handshakes faulty
	forward    *forward
	// unidentified: the plan has records that no call can name.
	unidentified bool
}

// stubServer answers the connections of listeners until it is closed.
type stubServer interface {
	Serve(listener net.Listener) error
	io.Closer
}

// NewStub returns a downstream stub that already answers on one port of 127.0.0.1 per instance. Close ends it.
func NewStub(cfg StubConfig) (*Stub, error) {
	calls := *UsualCalls()
	if cfg.Calls != nil {
		calls = *cfg.Calls
	}
	cfg.Spans = calls.First != nil || cfg.RPC != nil && cfg.RPC.spans()
	calls.Routes = append(slices.Clip(calls.Routes), healthRoute())
	answers := map[string]map[history.Outcome]answer{}
	for _, kind := range append(textKinds(), cfg.Plan.ErrorText) {
		var err error
		if answers[kind], err = newAnswers(calls.Answers, kind, cfg.Plan.RetryAfter); err != nil {
			return nil, err
		}
	}
	s := &Stub{
		Attempts: NewAttempts(cfg.AttemptsConfig), cfg: cfg, calls: calls, answers: answers,
		items: newItems(calls.Items, answers), topics: indexed(cfg.Topics),
		listeners: make([]net.Listener, cfg.Instances), near: make([]*memconn.Listener, cfg.Instances),
		inflater: kafkaio.Inflater{Limit: maxBody}, forward: newForward(),
		unidentified: slices.ContainsFunc(cfg.Plan.Records, plan.Record.Unidentified),
	}
	s.server = newHTTPServer(s)
	if cfg.RPC != nil {
		s.server = newRPCServer(s)
	}
	for i := range s.listeners {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("opening the downstream stub's port for instance %d: %w", i, err)
		}
		s.listeners[i], s.near[i] = listener, memconn.NewListener()
		for _, one := range []net.Listener{listener, s.near[i]} {
			// The only error is that the listener was closed.
			s.serving.Go(func() { _ = s.server.Serve(&attributing{one, s, i}) })
		}
	}
	return s, nil
}

// httpServer is a server of HTTP/1.1 and HTTP/2, over TLS or, with prior knowledge, without.
type httpServer struct {
	*http.Server
	secure bool // TLSConfig is set in any case once it serves
}

func newHTTPServer(s *Stub) httpServer {
	protocols := new(http.Protocols)
	protocols.SetHTTP1(true)
	protocols.SetHTTP2(!s.calls.HTTP1)
	protocols.SetUnencryptedHTTP2(!s.calls.HTTP1)
	return httpServer{secure: s.cfg.TLS != nil, Server: &http.Server{
		Handler: http.HandlerFunc(s.handle), Protocols: protocols, TLSConfig: s.cfg.TLS,
		ErrorLog: log.New(&s.handshakes, "", 0),
		ConnState: func(_ net.Conn, state http.ConnState) {
			if state == http.StateActive { // a byte of a request was read, or the preface of HTTP/2
				s.spoken.Store(true)
			}
		},
		ConnContext: func(ctx context.Context, conn net.Conn) context.Context {
			return context.WithValue(ctx, connKey{}, conn.RemoteAddr())
		},
	}}
}

// Serve implements stubServer.
func (h httpServer) Serve(listener net.Listener) error {
	if h.secure {
		return h.ServeTLS(listener, "", "")
	}
	return h.Server.Serve(listener)
}

// connKey is the key of a request's context for the address that leads to its connection.
type connKey struct{}

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

// Connect returns a connection of this process that counts as one of the instance.
func (s *Stub) Connect(ctx context.Context, instance int) (*memconn.Conn, error) {
	return s.near[instance-s.cfg.First].Connect(ctx)
}

// Close closes the ports and every connection, ends hanging attempts, and waits until all of them have ended.
func (s *Stub) Close() {
	s.closing.Store(true)
	for i, listener := range s.listeners {
		if listener != nil {
			_, _ = listener.Close(), s.near[i].Close()
		}
	}
	_ = s.server.Close()
	s.forward.client.CloseIdleConnections()
	s.serving.Wait()
	s.handling.Lock()
	defer s.handling.Unlock()
}

// handle answers a request over HTTP.
func (s *Stub) handle(w http.ResponseWriter, r *http.Request) {
	s.handling.RLock()
	defer s.handling.RUnlock()
	body, _ := s.bodies.Get().(*bytes.Buffer)
	if body == nil {
		body = new(bytes.Buffer)
	}
	defer s.bodies.Put(body)
	body.Reset()
	switch n, err := body.ReadFrom(io.LimitReader(r.Body, maxBody+1)); {
	case err != nil || s.closing.Load():
		panic(http.ErrAbortHandler) // the client left, or its request is broken
	case n > maxBody:
		refuse(w, http.StatusRequestEntityTooLarge, `{"error":"the body of this request is too long"}`)
		return
	}
	request := newCall(r, body.Bytes(), &s.inflater)
	route := s.calls.route(r.Method, r.URL.Path)
	switch {
	case s.observed(w, request, route):
	case route != nil && !s.calls.planned(route, r.Method, r.URL.Path) &&
		(s.cfg.Other == 0 || s.cfg.Letters || route.Path == healthPath):
		s.fixed(w, request, route)
	case route != nil:
		s.attempt(w, request, route)
	case s.calls.Path != "" && s.calls.Path != r.URL.Path:
		s.Stray(s.told(request, 0, false))
		refuse(w, http.StatusNotFound, `{"error":"the downstream stub serves POST /v1/attempt and GET /healthz"}`)
	case s.calls.Method != "" && s.calls.Method != r.Method:
		s.Stray(s.told(request, 0, false))
		w.Header().Set("Allow", s.calls.Method)
		refuse(w, http.StatusMethodNotAllowed, `{"error":"an attempt is a POST"}`)
	default:
		s.attempt(w, request, nil)
	}
}

// refuse answers requests that are not attempts.
func refuse(w http.ResponseWriter, status int, body string) {
	respond(w, status, nil, []byte(body))
}

// respond writes an answer. Without another word a body is JSON.
func respond(w http.ResponseWriter, status int, headers map[string]string, body []byte) {
	w.Header()["Content-Type"] = []string{"application/json"}
	for name, value := range headers {
		w.Header().Set(name, value)
	}
	if len(body) > 0 {
		w.Header()["Content-Length"] = []string{strconv.Itoa(len(body))}
	}
	w.WriteHeader(status)
	_, _ = w.Write(body) // the client may be gone, or the status has no body
}

// attempt answers one attempt and records its start and its end. At a downstream that does not decide, this is a call,
// whose route says how it is answered well.
func (s *Stub) attempt(w http.ResponseWriter, r *call, route *Route) {
	conn := connOf(r.Context().Value(connKey{}).(net.Addr))
	event := conn.Attempt(s.cfg.Clock.Now())
	s.source(r.Header, &event)
	var seq int32
	var found bool
	if !s.calls.Batch {
		seq, found = s.calls.find(r, s.cfg.IDs)
	} else if b := s.inBatch(s.calls.batch(r)); len(b.records) > 0 {
		if len(b.records) > 1 || b.hidden || s.calls.Items != nil {
			s.together(w, r, route, conn, b)
			return
		}
		seq, found = b.records[0], true
	}
	switch {
	case found:
	case s.passes(route):
		s.passOn(w, r, &event, route == nil)
		return
	case route != nil && s.cfg.Other == 0:
		s.fixed(w, r, route)
		return
	}
	if s.calls.Told {
		event.Text = s.told(r, seq, found)
	}
	s.BeginCall(&event, seq, found, s.calls.role(r.Method, r.URL.Path))
	if s.calls.Told {
		s.tell(&event)
	} else if !found && !s.unidentified {
		s.Stray(s.told(r, 0, false))
	}
	event.Text = ""
	if found && s.calls.several(r, s.cfg.IDs, seq) {
		s.Several(conn.instance, conn.run, func() string { return s.told(r, 0, false) })
	}
	answer, _ := s.conclude(waiting{r.Context(), s}, &event, true, s.well(r, route))
	s.give(w, r, route, conn, &event, &answer)
}

// give gives an attempt its answer.
func (s *Stub) give(w http.ResponseWriter, r *call, route *Route, conn *Conn, event *history.Event, answer *answer) {
	switch {
	case answer.status == 0:
		if event.Outcome == history.OutcomeReset && r.ProtoMajor == 1 {
			conn.reset()
		}
		// Closes the connection without an answer, or resets the stream of HTTP/2: its connection carries other calls.
		panic(http.ErrAbortHandler)
	case answer.forwarded != nil:
		answer.forwarded.write(w)
	case route != nil && event.Outcome == history.OutcomeSuccess:
		s.fixed(w, r, route)
	default:
		if answer.retryAfter != "" {
			w.Header().Set("Retry-After", answer.retryAfter)
		}
		respond(w, answer.status, answer.headers, answer.bodyFor(s.cfg.IDs, event.Record))
	}
}

// success says how a call is answered that succeeds: as usual, with the status of its route, or as the other stub
// answers the call that goes on to it.
type success struct {
	status int
	onward *call
}

// passes reports whether a call goes on to the other stub, if it succeeds or has no record's id.
func (s *Stub) passes(route *Route) bool { return s.forwards() && (route == nil || route.Forward) }

// well says how a call is answered that succeeds.
func (s *Stub) well(r *call, route *Route) (well success) {
	switch {
	case s.passes(route):
		well.onward = r
	case route != nil:
		well.status = route.Response.Status
	}
	return well
}

// conclude waits for the attempt's planned time, records its end, and returns its answer and how the wait ended.
// told says that the answer can state the wait before the next attempt.
func (s *Stub) conclude(caller Caller, event *history.Event, told bool, well success) (answer, Waited) {
	ruling, ended := s.Decide(caller, event)
	answer := s.answerTo(caller, &ruling, &ended, well)
	event.Outcome, event.Code = ruling.Outcome, int16(answer.status)
	if told {
		event.Aux = int64(answer.waits)
	}
	s.End(event, ended == Gone)
	return answer, ended
}

// answerTo returns the answer to a call with this ruling. One that goes on to the other stub has that one's outcome.
func (s *Stub) answerTo(caller Caller, ruling *Ruling, ended *Waited, well success) answer {
	answer := s.response(*ruling)
	switch {
	case ruling.Outcome != history.OutcomeSuccess || *ended != Elapsed:
	case well.status != 0:
		answer.status = well.status
	case well.onward != nil:
		answer.forwarded = s.forward.call(well.onward)
		answer.status = answer.forwarded.status
		ruling.Outcome = answer.forwarded.outcome(s.answers[s.cfg.Plan.ErrorText])
		if caller.Over() { // it did not wait for that answer
			answer.status, ruling.Outcome, *ended = 0, history.OutcomeTimeout, Gone
		}
	}
	return answer
}

// source records the topic and partition from which the subject claims to have the record.
func (s *Stub) source(header http.Header, event *history.Event) {
	if topic, known := s.topics[header.Get("X-Kafka-Topic")]; known {
		event.Topic = topic
	}
	if partition, err := strconv.ParseInt(header.Get("X-Kafka-Partition"), 10, 32); err == nil && partition >= 0 {
		event.Partition = int32(partition)
	}
	if offset, err := strconv.ParseInt(header.Get("X-Kafka-Offset"), 10, 64); err == nil && offset >= 0 {
		event.Offset = offset
	}
}
