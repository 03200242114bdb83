package workload

// The oracle: the downstream that the subject calls once per attempt. One listener per subject instance, so that an
// attempt is attributed by the address it came to, never by what the subject says of itself.
//
// The stamps err towards the subject. An attempt starts when its request has been read completely and ends before its
// answer is written, so the gap between two attempts as measured here is never shorter than the wait the subject really
// made:
//
//	subject:  ── send k ───────────── read answer ── wait ── send k+1 ─────────
//	oracle:          ── start k ── end k ── write ───────────────── start k+1 ──

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
	// hangLimit bounds an attempt that is planned to hang; a subject that waits longer sees its connection closed.
	hangLimit = 30 * time.Second
	// maxBody bounds a request's body; it is larger than any record a broker takes by default.
	maxBody = 16 << 20
)

// OracleConfig is what an oracle needs.
type OracleConfig struct {
	Plan *plan.Plan
	IDs  *history.IDs
	// Instances is how many subject instances get a listener, First the number of the first of them.
	Instances, First int
	// GRPC: attempts are calls of PipeStepProcessor.ProcessData, not of HTTP.
	GRPC bool
	// Topics are the run's, as in the history's header; an instance may name them in X-Kafka-Topic.
	Topics []history.Topic
	// Ops is the run's counter of operations, shared with every other observer that numbers them.
	Ops   *atomic.Int64
	Clock history.Clock
	Sink  history.Sink
}

// Oracle answers attempts as planned. It is safe for concurrent use.
type Oracle struct {
	cfg       OracleConfig
	answers   map[history.Outcome]answer
	topics    map[string]int16
	records   []recordState
	instances []instanceState
	server    *fasthttp.Server
	rpc       *grpc.Server // with GRPC, in the place of server
	closing   atomic.Bool
	serving   sync.WaitGroup
	// changes are what faults have changed, nil for nothing; replaced under mu.
	changes atomic.Pointer[[]*change]

	attempts, successes, failures, retries, open atomic.Int64

	mu    sync.Mutex
	conns map[*attemptConn]struct{}
}

// recordState is what the oracle knows of a record: all its attempts, those that the plan counts, and whether it was
// replayed.
type recordState struct {
	all, planned atomic.Int32
	replayed     atomic.Bool
}

type instanceState struct {
	listener net.Listener
	run      atomic.Uint32
}

// OracleCounts are live figures. Retries are attempts of a record after its first; Open are attempts being answered.
type OracleCounts struct {
	Attempts, Successes, Failures, Retries, Open int64
}

// NewOracle returns an oracle that is answering on one port of 127.0.0.1 per instance. Close ends it.
func NewOracle(cfg OracleConfig) (*Oracle, error) {
	answers, err := newAnswers(cfg.Plan.ErrorText, cfg.Plan.RetryAfter)
	if err != nil {
		return nil, err
	}
	o := &Oracle{
		cfg: cfg, answers: answers, topics: map[string]int16{}, conns: map[*attemptConn]struct{}{},
		records: make([]recordState, len(cfg.Plan.Records)), instances: make([]instanceState, cfg.Instances),
	}
	for i, topic := range cfg.Topics {
		o.topics[topic.Name] = int16(i)
	}
	o.server = &fasthttp.Server{
		Handler: o.handle, Name: "dlqbench-oracle", MaxRequestBodySize: maxBody, ReadBufferSize: 16 << 10,
		// fasthttp keeps a clock goroutine for the Date header for ever.
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
			// The error is that the listener was closed.
			o.serving.Go(func() { _ = o.rpc.Serve(&rpcListener{Listener: listener, oracle: o, instance: i}) })
			continue
		}
		o.serving.Go(func() { o.accept(i, listener) })
	}
	return o, nil
}

// Addr returns the host:port that an instance's attempts must come to.
func (o *Oracle) Addr(instance int) string {
	return o.instances[instance-o.cfg.First].listener.Addr().String()
}

// SetRun says which process of an instance is about to be started; connections accepted from now on are its.
func (o *Oracle) SetRun(instance int, run uint16) {
	o.instances[instance-o.cfg.First].run.Store(uint32(run))
}

// SetReplayed says that a record's dead letter is about to be replayed: from now on it succeeds if it is planned as
// healed.
func (o *Oracle) SetReplayed(record int32) {
	if record >= 0 && int(record) < len(o.records) {
		o.records[record].replayed.Store(true)
	}
}

// InFlight returns how many attempts are being answered.
func (o *Oracle) InFlight() int64 { return o.open.Load() }

// Counts returns the live figures.
func (o *Oracle) Counts() OracleCounts {
	return OracleCounts{
		Attempts: o.attempts.Load(), Successes: o.successes.Load(), Failures: o.failures.Load(),
		Retries: o.retries.Load(), Open: o.open.Load(),
	}
}

// Close closes the ports and every connection, ends the attempts that hang, and waits for all of it.
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
			// Out of file descriptors, most likely: the subject's next connection may find one.
			time.Sleep(10 * time.Millisecond)
			continue
		}
		tagged := o.tag(conn, instance)
		if o.track(tagged) {
			o.serving.Go(func() { o.serve(tagged) })
		}
	}
}

// tag says whose connection it is: the process that the instance, counted from 0, has now.
func (o *Oracle) tag(conn net.Conn, instance int) *attemptConn {
	return &attemptConn{TCPConn: conn.(*net.TCPConn), instance: int16(o.cfg.First + instance),
		run: uint16(o.instances[instance].run.Load())}
}

// track notes an open connection, unless the oracle is being closed: then it closes the connection and reports false.
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
	// The error is that the peer went away or sent no HTTP: nothing that anyone waits for.
	_ = o.server.ServeConn(conn)
	o.forget(conn)
}

func (o *Oracle) forget(conn *attemptConn) {
	o.mu.Lock()
	defer o.mu.Unlock()
	delete(o.conns, conn)
}

func (o *Oracle) handle(ctx *fasthttp.RequestCtx) {
	switch path := ctx.Path(); {
	case string(path) == healthPath:
		ctx.SetStatusCode(fasthttp.StatusOK)
	case string(path) != attemptPath:
		refuse(ctx, fasthttp.StatusNotFound, `{"error":"the downstream stub serves POST /v1/attempt and GET /healthz"}`)
	case !ctx.IsPost():
		ctx.Response.Header.Set(fasthttp.HeaderAllow, fasthttp.MethodPost)
		refuse(ctx, fasthttp.StatusMethodNotAllowed, `{"error":"an attempt is a POST"}`)
	default:
		o.attempt(ctx, ctx.Conn().(*attemptConn))
	}
}

// refuse answers what is no attempt. (The server's own way would reset the response, and with it the choice against the
// Date header.)
func refuse(ctx *fasthttp.RequestCtx, status int, body string) {
	ctx.SetStatusCode(status)
	ctx.SetContentType("application/json")
	ctx.SetBodyString(body)
}

// attempt answers one attempt and notes its start and its end.
func (o *Oracle) attempt(ctx *fasthttp.RequestCtx, conn *attemptConn) {
	event := history.New(history.KindAttemptStart, o.cfg.Clock.Now())
	o.open.Add(1)
	defer o.open.Add(-1)
	event.Op, event.Instance, event.Run = o.cfg.Ops.Add(1), conn.instance, conn.run
	o.source(ctx, &event)
	o.identify(ctx.PostBody(), &event)
	o.cfg.Sink.Record(event)
	answer, _ := o.conclude(conn, &event, true)
	if answer.status == 0 {
		conn.giveUp(ctx, event.Outcome == history.OutcomeReset)
		return
	}
	ctx.Response.Header.SetContentType("application/json")
	if answer.retryAfter != "" {
		ctx.Response.Header.Set(fasthttp.HeaderRetryAfter, answer.retryAfter)
	}
	ctx.SetStatusCode(answer.status)
	ctx.Response.SetBodyRaw(answer.body)
}

// conclude waits as long as the attempt is to wait, notes its end, and returns what it is answered and how the wait
// ended. told: the answer can tell how long to wait before the next attempt.
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

// patient is a client that waits for its answer. wait waits for limit (0: as long as it takes), until ctx ends, or
// until the client goes away; over reports whether it is known to have gone.
type patient interface {
	wait(ctx context.Context, limit time.Duration) waited
	over() bool
}

// identify finds the record in the body and numbers the attempt.
func (o *Oracle) identify(body []byte, event *history.Event) {
	if seq, found := o.cfg.IDs.Find(body); found && int(seq) < len(o.records) {
		event.Record, event.N = seq, o.records[seq].all.Add(1)
	}
}

// outcome waits as long as the attempt is to wait, and returns what it is answered and how the wait ended. A client
// that goes away before its answer gets none, and neither does one whose connection was closed here: that is
// OutcomeTimeout, whatever it would have been.
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

// source notes where the subject says it has the record from.
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
