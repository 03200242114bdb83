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

// OracleConfig configures a downstream stub.
type OracleConfig struct {
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

// Oracle is the downstream stub. It answers attempts as planned. It is safe for concurrent use.
type Oracle struct {
	cfg       OracleConfig
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

// OracleCounts are live figures. Retries are attempts of a record after its first. Open are the attempts being
// answered.
type OracleCounts struct {
	Attempts, Successes, Failures, Retries, Open int64
}

// NewOracle returns a downstream stub that already answers on one port of 127.0.0.1 per instance. Close ends it.
func NewOracle(cfg OracleConfig) (*Oracle, error) {
	calls := *UsualCalls()
	if cfg.Calls != nil {
		calls = *cfg.Calls
	}
	calls.Routes = append(calls.Routes[:len(calls.Routes):len(calls.Routes)], healthRoute())
	answers, err := newAnswers(calls.Answers, cfg.Plan.ErrorText, cfg.Plan.RetryAfter)
	if err != nil {
		return nil, err
	}
	o := &Oracle{
		cfg: cfg, calls: calls, answers: answers, topics: map[string]int16{}, conns: map[*attemptConn]struct{}{},
		records: make([]recordState, len(cfg.Plan.Records)), instances: make([]instanceState, cfg.Instances),
	}
	for i, topic := range cfg.Topics {
		o.topics[topic.Name] = int16(i)
	}
	o.server = &fasthttp.Server{
		Handler: o.handle, Name: "dlqbench-oracle", MaxRequestBodySize: maxBody, ReadBufferSize: 16 << 10,
		// fasthttp runs a clock goroutine for the Date header forever.
		NoDefaultDate: true, DisablePreParseMultipartForm: true,
		// Not 400, which would be a planned answer.
		ErrorHandler: func(ctx *fasthttp.RequestCtx, _ error) {
			refuse(ctx, fasthttp.StatusRequestHeaderFieldsTooLarge, `{"error":"this request can't be read"}`)
		},
	}
	if cfg.GRPC {
		o.rpc = newRPCServer(o)
	}
	for i := range o.instances {
		listener, err := (&net.ListenConfig{}).Listen(context.Background(), "tcp", "127.0.0.1:0")
		if err != nil {
			o.Close()
			return nil, fmt.Errorf("opening the downstream stub's port for instance %d: %w", i, err)
		}
		o.instances[i].listener = listener
		if cfg.GRPC {
			// The only error is that the listener was closed.
			o.serving.Go(func() { _ = o.rpc.Serve(&rpcListener{Listener: listener, oracle: o, instance: i}) })
			continue
		}
		o.serving.Go(func() { o.accept(i, listener) })
	}
	return o, nil
}

// Addr returns the host:port to which an instance must send its attempts.
func (o *Oracle) Addr(instance int) string {
	return o.instances[instance-o.cfg.First].listener.Addr().String()
}

// SetRun sets the process of an instance that is about to start. Connections accepted from then on belong to it.
func (o *Oracle) SetRun(instance int, run uint16) {
	o.instances[instance-o.cfg.First].run.Store(uint32(run))
}

// SetReplayed says that a record's dead letter is about to be replayed. From then on the record succeeds if it is
// planned as healed.
func (o *Oracle) SetReplayed(record int32) {
	if record >= 0 && int(record) < len(o.records) {
		o.records[record].replayed.Store(true)
	}
}

// InFlight returns the number of attempts being answered.
func (o *Oracle) InFlight() int64 { return o.open.Load() }

// Counts returns the live figures.
func (o *Oracle) Counts() OracleCounts {
	return OracleCounts{
		Attempts: o.attempts.Load(), Successes: o.successes.Load(), Failures: o.failures.Load(),
		Retries: o.retries.Load(), Open: o.open.Load(),
	}
}

// Strays returns the number of calls that were neither attempts of a known record nor those of a route, and the first
// of them. They are counted only if the subject declares its calls.
func (o *Oracle) Strays() (count int64, first string) {
	if text := o.stray.Load(); text != nil {
		first = *text
	}
	return o.strays.Load(), first
}

func (o *Oracle) noteStray(event *history.Event) {
	if event.Record == history.None {
		o.strays.Add(1)
		text := event.Text
		o.stray.CompareAndSwap(nil, &text)
	}
}

// noteBatch records that a process makes calls for several records at once.
func (o *Oracle) noteBatch(ctx *fasthttp.RequestCtx, conn *attemptConn) {
	told, process := &o.instances[int(conn.instance)-o.cfg.First].batches, uint32(conn.run)
	if before := told.Load(); before > process || !told.CompareAndSwap(before, process+1) {
		return
	}
	event := history.New(history.KindUnreadable, o.cfg.Clock.Now())
	event.Instance, event.Run, event.Code = conn.instance, conn.run, history.None
	event.Text = o.told(ctx, history.None)
	o.cfg.Sink.Record(event)
}

// Close closes the ports and every connection, ends hanging attempts, and waits until all of them have ended.
func (o *Oracle) Close() {
	o.closing.Store(true)
	for i := range o.instances {
		if listener := o.instances[i].listener; listener != nil {
			listener.Close()
		}
	}
	o.mu.Lock()
	for conn := range o.conns {
		_ = conn.Close()
	}
	o.mu.Unlock()
	if o.rpc != nil {
		o.rpc.Stop()
	}
	o.serving.Wait()
}

func (o *Oracle) accept(instance int, listener net.Listener) {
	for {
		conn, err := listener.Accept()
		switch {
		case o.closing.Load():
			if err == nil {
				_ = conn.Close()
			}
			return
		case err != nil:
			// Most likely there are no file descriptors left. The subject's next connection may get one.
			time.Sleep(10 * time.Millisecond)
			continue
		}
		tagged := o.tag(conn, instance)
		if o.track(tagged) {
			o.serving.Go(func() { o.serve(tagged) })
		}
	}
}

// tag attributes a connection to the current process of the instance, counted from 0.
func (o *Oracle) tag(conn net.Conn, instance int) *attemptConn {
	return &attemptConn{TCPConn: conn.(*net.TCPConn), instance: int16(o.cfg.First + instance),
		run: uint16(o.instances[instance].run.Load())}
}

// track notes an open connection. If the stub is closing, it closes the connection and returns false.
func (o *Oracle) track(conn *attemptConn) bool {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.closing.Load() {
		_ = conn.Close()
		return false
	}
	o.conns[conn] = struct{}{}
	return true
}

func (o *Oracle) serve(conn *attemptConn) {
	// The error says that the peer left or sent something other than HTTP; nothing waits for it.
	_ = o.server.ServeConn(conn)
	o.forget(conn)
}

func (o *Oracle) forget(conn *attemptConn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, conn)
}

func (o *Oracle) handle(ctx *fasthttp.RequestCtx) {
	method, path := string(ctx.Method()), string(ctx.Path())
	route := o.calls.route(method, path)
	switch {
	case route != nil:
		route.write(ctx)
	case o.calls.Path != "" && o.calls.Path != path:
		refuse(ctx, fasthttp.StatusNotFound, `{"error":"the downstream stub serves POST /v1/attempt and GET /healthz"}`)
	case o.calls.Method != "" && o.calls.Method != method:
		ctx.Response.Header.Set(fasthttp.HeaderAllow, o.calls.Method)
		refuse(ctx, fasthttp.StatusMethodNotAllowed, `{"error":"an attempt is a POST"}`)
	default:
		o.attempt(ctx, ctx.Conn().(*attemptConn))
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
func (o *Oracle) attempt(ctx *fasthttp.RequestCtx, conn *attemptConn) {
	event := history.New(history.KindAttemptStart, o.cfg.Clock.Now())
	o.open.Add(1)
	defer o.open.Add(-1)
	event.Op, event.Instance, event.Run = o.cfg.Ops.Add(1), conn.instance, conn.run
	o.source(ctx, &event)
	seq, found := o.calls.find(ctx, o.cfg.IDs)
	o.number(seq, found, &event)
	if o.calls.Told {
		event.Text = o.told(ctx, event.Record)
		o.noteStray(&event)
	}
	o.cfg.Sink.Record(event)
	event.Text = ""
	if found && o.calls.several(ctx, o.cfg.IDs, seq) {
		o.noteBatch(ctx, conn)
	}
	answer, _ := o.conclude(conn, &event, true)
	if answer.status == 0 {
		conn.giveUp(ctx, event.Outcome == history.OutcomeReset)
		return
	}
	writeHeaders(ctx, answer.headers)
	if answer.retryAfter != "" {
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, answer.retryAfter)
	}
	ctx.SetStatusCode(answer.status)
	ctx.Response.SetBodyRaw(answer.bodyFor(o.cfg.IDs, event.Record))
}

// conclude waits for the attempt's planned time, records its end, and returns its answer and how the wait ended.
// told says that the answer can state the wait before the next attempt.
func (o *Oracle) conclude(client patient, event *history.Event, told bool) (answer, waited) {
	event.Kind = history.KindAttemptEnd
	outcome, ended := o.outcome(client, event)
	answer := o.response(outcome)
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
	event.Time = o.cfg.Clock.Now()
	o.cfg.Sink.Record(*event)
	o.count(event.Outcome, event.N)
	return answer, ended
}

// patient is a client that waits for its answer. wait waits for limit (0 for no limit), until ctx ends, or until the
// client leaves. over reports whether the client is known to have left.
type patient interface {
	wait(ctx context.Context, limit time.Duration) waited
	over() bool
}

// number numbers the attempt, if its record is one of the plan.
func (o *Oracle) number(seq int32, found bool, event *history.Event) {
	if found && int(seq) < len(o.records) {
		event.Record, event.N = seq, o.records[seq].all.Add(1)
	}
}

// outcome waits for the attempt's planned time, and returns its answer and how the wait ended. A client that leaves
// before its answer gets none, and neither does one whose connection was closed here. Both have OutcomeTimeout,
// whatever the outcome would have been.
func (o *Oracle) outcome(client patient, event *history.Event) (ruling, waited) {
	if event.Record == history.None {
		return ruling{outcome: history.OutcomeUnknownID}, elapsed
	}
	if ended := o.delay(client); ended != elapsed {
		return ruling{outcome: history.OutcomeTimeout}, ended
	}
	ruling := o.rule(event.Record, event.N)
	if ruling.outcome != history.OutcomeTimeout {
		return ruling, elapsed
	}
	return ruling, client.wait(ruling.ctx, ruling.hang)
}

// source records the topic and partition from which the subject claims to have the record.
func (o *Oracle) source(ctx *fasthttp.RequestCtx, event *history.Event) {
	header := &ctx.Request.Header
	if topic, known := o.topics[string(header.Peek("X-Kafka-Topic"))]; known {
		event.Topic = topic
	}
	if partition, err := strconv.ParseInt(string(header.Peek("X-Kafka-Partition")), 10, 32); err == nil && partition >= 0 {
		event.Partition = int32(partition)
	}
	if offset, err := strconv.ParseInt(string(header.Peek("X-Kafka-Offset")), 10, 64); err == nil && offset >= 0 {
		event.Offset = offset
	}
}

func (o *Oracle) count(outcome history.Outcome, nth int32) {
	if outcome == history.OutcomeUnknownID {
		return
	}
	o.attempts.Add(1)
	if nth > 1 {
		o.retries.Add(1)
	}
	if outcome == history.OutcomeSuccess {
		o.successes.Add(1)
	} else {
		o.failures.Add(1)
	}
}
