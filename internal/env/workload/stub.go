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
	"github.com/dlqbench/dlqbench/internal/plan"
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
	Plan *plan.Plan
	IDs  *history.IDs
	// Instances is the number of subject instances that get a listener. First is the number of the first of them.
	Instances, First int
	// Calls describe the downstream over HTTP; nil for the usual one.
	Calls *Calls
	// GRPC makes attempts calls of PipeStepProcessor.ProcessData instead of HTTP requests.
	GRPC bool
	// Topics are the run's topics, as in the history's header. An instance may name them in X-Kafka-Topic.
	Topics []history.Topic
	// Ops is the run's counter of operations, shared with every other observer that numbers them.
	Ops   *atomic.Int64
	Clock history.Clock
	Sink  history.Sink
}

// Stub is the downstream stub. It answers attempts as planned. It is safe for concurrent use.
type Stub struct {
	cfg       StubConfig
	calls     Calls
	answers   map[history.Outcome]answer
	topics    map[string]int16
	records   []recordState
	instances []instanceState
	server    *fasthttp.Server
	rpc       *grpc.Server // with GRPC, instead of server
	closing   atomic.Bool
	serving   sync.WaitGroup
	// changes are the changes that faults make to answers, nil for none; replaced under mu.
	changes atomic.Pointer[[]*change]

	attempts, successes, failures, retries, open atomic.Int64
	// strays is the number of calls without an id, stray the first of them, if calls are told.
	strays atomic.Int64
	stray  atomic.Pointer[string]

	mu    sync.Mutex
	conns map[*attemptConn]struct{}
}

// recordState is the stub's state of a record: the number of all its attempts, of those that the plan counts, and
// whether it was replayed.
type recordState struct {
	all, planned atomic.Int32
	replayed     atomic.Bool
}

// instanceState is the stub's state of an instance: its listener, its current process, and the number of the first
// process, from 1, from which no call with several ids was recorded.
type instanceState struct {
	listener net.Listener
	run      atomic.Uint32
	batches  atomic.Uint32
}

// StubCounts are live figures. Retries are attempts of a record after its first. Open are the attempts being
// answered.
type StubCounts struct {
	Attempts, Successes, Failures, Retries, Open int64
}

// NewStub returns a downstream stub that already answers on one port of 127.0.0.1 per instance. Close ends it.
func NewStub(cfg StubConfig) (*Stub, error) {
	calls := *UsualCalls()
	if cfg.Calls != nil {
		calls = *cfg.Calls
	}
	calls.Routes = append(calls.Routes[:len(calls.Routes):len(calls.Routes)], healthRoute())
	answers, err := newAnswers(calls.Answers, cfg.Plan.ErrorText, cfg.Plan.RetryAfter)
	if err != nil {
		return nil, err
	}
	s := &Stub{
		cfg: cfg, calls: calls, answers: answers, topics: map[string]int16{}, conns: map[*attemptConn]struct{}{},
		records: make([]recordState, len(cfg.Plan.Records)), instances: make([]instanceState, cfg.Instances),
	}
	for i, topic := range cfg.Topics {
		s.topics[topic.Name] = int16(i)
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
	if cfg.GRPC {
		s.rpc = newRPCServer(s)
	}
	for i := range s.instances {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			s.Close()
			return nil, fmt.Errorf("opening the downstream stub's port for instance %d: %w", i, err)
		}
		s.instances[i].listener = listener
		if cfg.GRPC {
			// The only error is that the listener was closed.
			s.serving.Go(func() { _ = s.rpc.Serve(&rpcListener{Listener: listener, stub: s, instance: i}) })
			continue
		}
		s.serving.Go(func() { s.accept(i, listener) })
	}
	return s, nil
}

// Addr returns the host:port to which an instance must send its attempts.
func (s *Stub) Addr(instance int) string {
	return s.instances[instance-s.cfg.First].listener.Addr().String()
}

// SetRun sets the process of an instance that is about to start. Connections accepted from then on belong to it.
func (s *Stub) SetRun(instance int, run uint16) {
	s.instances[instance-s.cfg.First].run.Store(uint32(run))
}

// SetReplayed says that a record's dead letter is about to be replayed. From then on the record succeeds if it is
// planned as healed.
func (s *Stub) SetReplayed(record int32) {
	if record >= 0 && int(record) < len(s.records) {
		s.records[record].replayed.Store(true)
	}
}

// InFlight returns the number of attempts being answered.
func (s *Stub) InFlight() int64 { return s.open.Load() }

// Counts returns the live figures.
func (s *Stub) Counts() StubCounts {
	return StubCounts{
		Attempts: s.attempts.Load(), Successes: s.successes.Load(), Failures: s.failures.Load(),
		Retries: s.retries.Load(), Open: s.open.Load(),
	}
}

// Strays returns the number of calls that were neither attempts of a known record nor those of a route, and the first
// of them. They are counted only if the subject declares its calls.
func (s *Stub) Strays() (count int64, first string) {
	if text := s.stray.Load(); text != nil {
		first = *text
	}
	return s.strays.Load(), first
}

func (s *Stub) noteStray(event *history.Event) {
	if event.Record == history.None {
		s.strays.Add(1)
		text := event.Text
		s.stray.CompareAndSwap(nil, &text)
	}
}

// noteBatch records that a process makes calls for several records at once.
func (s *Stub) noteBatch(ctx *fasthttp.RequestCtx, conn *attemptConn) {
	told, process := &s.instances[int(conn.instance)-s.cfg.First].batches, uint32(conn.run)
	if before := told.Load(); before > process || !told.CompareAndSwap(before, process+1) {
		return
	}
	event := history.New(history.KindUnreadable, s.cfg.Clock.Now())
	event.Instance, event.Run, event.Code = conn.instance, conn.run, history.None
	event.Text = s.told(ctx, history.None)
	s.cfg.Sink.Record(event)
}

// Close closes the ports and every connection, ends hanging attempts, and waits until all of them have ended.
func (s *Stub) Close() {
	s.closing.Store(true)
	for i := range s.instances {
		if listener := s.instances[i].listener; listener != nil {
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
func (s *Stub) tag(conn net.Conn, instance int) *attemptConn {
	return &attemptConn{TCPConn: conn.(*net.TCPConn), instance: int16(s.cfg.First + instance),
		run: uint16(s.instances[instance].run.Load())}
}

// track notes an open connection. If the stub is closing, it closes the connection and returns false.
func (s *Stub) track(conn *attemptConn) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		_ = conn.Close()
		return false
	}
	s.conns[conn] = struct{}{}
	return true
}

func (s *Stub) serve(conn *attemptConn) {
	// The error says that the peer left or sent something other than HTTP; nothing waits for it.
	_ = s.server.ServeConn(conn)
	s.forget(conn)
}

func (s *Stub) forget(conn *attemptConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.conns, conn)
}

func (s *Stub) handle(ctx *fasthttp.RequestCtx) {
	method, path := string(ctx.Method()), string(ctx.Path())
	route := s.calls.route(method, path)
	switch {
	case route != nil:
		route.write(ctx)
	case s.calls.Path != "" && s.calls.Path != path:
		refuse(ctx, fasthttp.StatusNotFound, `{"error":"the downstream stub serves POST /v1/attempt and GET /healthz"}`)
	case s.calls.Method != "" && s.calls.Method != method:
		ctx.Response.Header.Set(fasthttp.HeaderAllow, s.calls.Method)
		refuse(ctx, fasthttp.StatusMethodNotAllowed, `{"error":"an attempt is a POST"}`)
	default:
		s.attempt(ctx, ctx.Conn().(*attemptConn))
	}
}

// refuse answers requests that are not attempts. (The server's own way would reset the response, and with it the
// choice against the Date header.)
func refuse(ctx *fasthttp.RequestCtx, status int, body string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBodyString(body)
}

// attempt answers one attempt and records its start and its end.
func (s *Stub) attempt(ctx *fasthttp.RequestCtx, conn *attemptConn) {
	event := history.New(history.KindAttemptStart, s.cfg.Clock.Now())
	s.open.Add(1)
	defer s.open.Add(-1)
	event.Op, event.Instance, event.Run = s.cfg.Ops.Add(1), conn.instance, conn.run
	s.source(ctx, &event)
	seq, found := s.calls.find(ctx, s.cfg.IDs)
	s.number(seq, found, &event)
	if s.calls.Told {
		event.Text = s.told(ctx, event.Record)
		s.noteStray(&event)
	}
	s.cfg.Sink.Record(event)
	event.Text = ""
	if found && s.calls.several(ctx, s.cfg.IDs, seq) {
		s.noteBatch(ctx, conn)
	}
	answer, _ := s.conclude(conn, &event, true)
	if answer.status == 0 {
		conn.giveUp(ctx, event.Outcome == history.OutcomeReset)
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
func (s *Stub) conclude(client patient, event *history.Event, told bool) (answer, waited) {
	event.Kind = history.KindAttemptEnd
	outcome, ended := s.outcome(client, event)
	answer := s.response(outcome)
	if ended == elapsed && client.over() {
		ended = gone
	}
	event.Outcome, event.Code = outcome.outcome, int16(answer.status)
	if told {
		event.Aux = int64(answer.waits)
	}
	if ended == gone {
		event.Flags |= history.ClientGone
	}
	event.Time = s.cfg.Clock.Now()
	s.cfg.Sink.Record(*event)
	s.count(event.Outcome, event.N)
	return answer, ended
}

// patient is a client that waits for its answer. wait waits for limit (0 for no limit), until ctx ends, or until the
// client leaves. over reports whether the client is known to have left.
type patient interface {
	wait(ctx context.Context, limit time.Duration) waited
	over() bool
}

// number numbers the attempt, if its record is one of the plan.
func (s *Stub) number(seq int32, found bool, event *history.Event) {
	if found && int(seq) < len(s.records) {
		event.Record, event.N = seq, s.records[seq].all.Add(1)
	}
}

// outcome waits for the attempt's planned time, and returns its answer and how the wait ended. A client that leaves
// before its answer gets none, and neither does one whose connection was closed here. Both have OutcomeTimeout,
// whatever the outcome would have been.
func (s *Stub) outcome(client patient, event *history.Event) (ruling, waited) {
	if event.Record == history.None {
		return ruling{outcome: history.OutcomeUnknownID}, elapsed
	}
	if ended := s.delay(client); ended != elapsed {
		return ruling{outcome: history.OutcomeTimeout}, ended
	}
	ruling := s.rule(event.Record, event.N)
	if ruling.outcome != history.OutcomeTimeout {
		return ruling, elapsed
	}
	return ruling, client.wait(ruling.ctx, ruling.hang)
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

func (s *Stub) count(outcome history.Outcome, nth int32) {
	if outcome == history.OutcomeUnknownID {
		return
	}
	s.attempts.Add(1)
	if nth > 1 {
		s.retries.Add(1)
	}
	if outcome == history.OutcomeSuccess {
		s.successes.Add(1)
	} else {
		s.failures.Add(1)
	}
}
