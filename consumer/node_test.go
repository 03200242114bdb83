package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/deadletter/pipestream"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

const (
	nextTopic       = "orders.next"
	quarantineTopic = "orders.dlq.quarantine"
)

func testNode() Node {
	return Node{
		Name: "parse", Edges: []NodeEdge{{To: "chunk", Topic: nextTopic, Weight: 1}}, Sink: "orders.sink",
		Quarantine: quarantineTopic, MaxReprocess: 2,
	}
}

func streamValue(t testing.TB, id string, reprocessed int32) []byte {
	t.Helper()
	value := must.Get(proto.Marshal(&pipestream.PipeStream{
		StreamId: id, Document: &pipestream.Document{Content: &pipestream.Document_Inline{Inline: []byte("text of " + id)}},
		CurrentNodeId: "parse", ReprocessCount: reprocessed,
	}))(t)
	return value
}

func streamOf(t testing.TB, value []byte) *pipestream.PipeStream {
	t.Helper()
	stream := &pipestream.PipeStream{}
	must.Do(t, proto.Unmarshal(value, stream))
	return stream
}

func TestAProcessedStreamGoesOnWithItsHistory(t *testing.T) {
	t.Parallel()
	router := GraphRouter{Node: testNode()}
	record := &kgo.Record{Key: []byte("k"), Value: streamValue(t, "a", 1),
		Headers: []kgo.RecordHeader{{Key: "trace", Value: []byte("t")}}, Partition: 3}
	before := string(record.Value)
	for _, c := range []struct {
		name string
		step Step
	}{
		{"a success", Step{Attempts: 1, At: time.Unix(9, 0)}},
		{"a logical failure", Step{Err: errors.New("invalid PDF format"), Attempts: 2, At: time.Unix(9, 0)}},
		{"a failure whose text is no UTF-8", Step{Err: errors.New("\xff"), Attempts: 2, At: time.Unix(9, 0)}},
	} {
		next := router.Forward(record, c.step)
		stream := streamOf(t, next.Value)
		if next.Topic != nextTopic || next.Partition != 3 || string(next.Key) != "k" ||
			len(next.Headers) != 1 || string(record.Value) != before {
			t.Errorf("%s goes on as %+v", c.name, next)
		}
		if len(stream.GetHistory()) != 1 || stream.GetHopNumber() != 1 ||
			stream.GetCurrentNodeId() != "chunk" || stream.GetReprocessCount() != 1 {
			t.Fatalf("%s: %v", c.name, stream)
		}
		entry := stream.GetHistory()[0]
		if entry.GetNodeId() != "parse" || entry.GetSuccess() != (c.step.Err == nil) ||
			(entry.GetErrorMessage() == "") != (c.step.Err == nil) ||
			int(entry.GetAttempts()) != c.step.Attempts || entry.GetProcessedAt().AsTime().Unix() != 9 {
			t.Errorf("%s is noted as %v", c.name, entry)
		}
	}
	last := GraphRouter{Node: Node{Name: "embed", Sink: "orders.sink"}}.Forward(record, Step{})
	if last.Topic != "orders.sink" || streamOf(t, last.Value).GetCurrentNodeId() != "" {
		t.Errorf("from the last node it goes to %s", last.Topic)
	}
}

func TestWhatWasReplayedTooOftenIsQuarantined(t *testing.T) {
	t.Parallel()
	router := GraphRouter{Node: testNode()}
	for times, want := range map[int32]string{0: "", 1: "", 2: quarantineTopic, 3: quarantineTopic} {
		if topic := router.DeadLetterTopic(&kgo.Record{Value: streamValue(t, "a", times)}); topic != want {
			t.Errorf("replayed %d times: %q, want %q", times, topic, want)
		}
	}
	if topic := router.DeadLetterTopic(&kgo.Record{Value: []byte("\xff")}); topic != "" {
		t.Errorf("what is no stream goes to %q", topic)
	}
}

// TestADocumentAlwaysTakesTheSameEdge also checks that all edges get their share.
func TestADocumentAlwaysTakesTheSameEdge(t *testing.T) {
	t.Parallel()
	router := GraphRouter{Node: Node{Name: "n", Edges: []NodeEdge{{"a", "a", 3}, {"b", "b", 1}}}}
	counts := map[string]int{}
	for i := range 4000 {
		id := fmt.Sprint("document-", i)
		edge := router.next(id)
		counts[edge.To]++
		if again := router.next(id); again != edge {
			t.Fatalf("%s takes %v, then %v", id, edge, again)
		}
	}
	if counts["a"] < 2800 || counts["b"] < 800 {
		t.Errorf("of 4000 documents the edges got %v: 3000 and 1000 are their shares", counts)
	}
}

// topicContent reads a topic with one partition that is written without transactions.
func (b *bench) topicContent(topic string) []*kgo.Record {
	b.Helper()
	ends := must.Get(b.admin.ListEndOffsets(b.Context(), topic))(b)
	end, _ := ends.Lookup(topic, 0)
	reader := must.Get(kgo.NewClient(kgo.SeedBrokers(b.cluster.ListenAddrs()...),
		kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{topic: {0: kgo.NewOffset().AtStart()}})))(b)
	defer reader.Close()
	ctx, cancel := context.WithTimeout(b.Context(), testDeadline)
	defer cancel()
	var records []*kgo.Record
	for int64(len(records)) < end.Offset && ctx.Err() == nil {
		records = append(records, reader.PollFetches(ctx).Records()...)
	}
	return records
}

func (b *bench) nodeConfig(handler Handler) Config {
	node := testNode()
	config := b.config(testSettings(), handler)
	config.Node = &node
	return config
}

func newNodeBench(t *testing.T) *bench {
	t.Helper()
	return newBenchWith(t, 1, []string{inputTopic, dlqTopic, nextTopic, quarantineTopic})
}

func (b *bench) produceStreams(values ...[]byte) {
	b.Helper()
	var records []*kgo.Record
	for i, value := range values {
		records = append(records, &kgo.Record{Topic: inputTopic, Key: fmt.Append(nil, i), Value: value})
	}
	must.Do(b, b.client.ProduceSync(b.Context(), records...).FirstErr())
}

func TestANodePassesOnAndDeadLetters(t *testing.T) {
	t.Parallel()
	b := newNodeBench(t)
	b.produceStreams(streamValue(t, "good", 0), streamValue(t, "refused", 0), streamValue(t, "down", 0),
		streamValue(t, "down again", 2), []byte("\xff"))
	calls := &calls{}
	config := b.nodeConfig(func(_ context.Context, record *kgo.Record) error {
		calls.add(record)
		stream := &pipestream.PipeStream{}
		switch err := proto.Unmarshal(record.Value, stream); {
		case err != nil:
			return &Error{Class: Permanent, Err: err}
		case stream.GetStreamId() == "refused":
			return &Error{Class: Logical, Err: errors.New("invalid PDF format")}
		case strings.HasPrefix(stream.GetStreamId(), "down"):
			return &Error{Name: "UNAVAILABLE", Err: errors.New("down")}
		}
		return nil
	})
	b.start(config, PartsFor(config))
	b.eventually("everything is committed", func() bool { return b.committed(0) == 5 })
	var on []string
	for _, record := range b.topicContent(nextTopic) {
		on = append(on, streamOf(t, record.Value).GetStreamId())
	}
	if slices.Sort(on); !slices.Equal(on, []string{"good", "refused"}) {
		t.Errorf("passed on: %q", on)
	}
	letters, quarantined := b.letters(), b.topicContent(quarantineTopic)
	if len(letters) != 2 || len(quarantined) != 1 {
		t.Fatalf("%d dead letters and %d in quarantine", len(letters), len(quarantined))
	}
	failure, missing := deadletter.Pipestream{}.Open(quarantined[0])
	if len(missing) > 0 || failure.Instance != "parse" || failure.Class != "UNAVAILABLE" ||
		failure.Attempts != 3 || failure.Topic != inputTopic || failure.Offset != 3 {
		t.Errorf("the quarantined one says %+v, missing %v", failure, missing)
	}
	if good, down := calls.of(string(streamValue(t, "good", 0))),
		calls.of(string(streamValue(t, "down", 0))); good != 1 || down != 3 {
		t.Errorf("attempts: %d of the good one, %d of the one that is down", good, down)
	}
}

// TestANodeCommitsNothingThatTheNextTopicHasNot: writes to the next topic are rejected for a while.
func TestANodeCommitsNothingThatTheNextTopicHasNot(t *testing.T) {
	t.Parallel()
	b := newNodeBench(t)
	b.produceStreams(streamValue(t, "a", 0), streamValue(t, "b", 0))
	fault := b.cluster.Fault(kfake.Fault{Keys: []kmsg.Key{kmsg.Produce}, Topic: nextTopic, Err: kerr.NotEnoughReplicas,
		Count: -1})
	calls := &calls{}
	config := b.nodeConfig(func(_ context.Context, record *kgo.Record) error { calls.add(record); return nil })
	run := b.start(config, PartsFor(config))
	b.eventually("the trouble is known", func() bool { return run.Health().Halted() })
	if at := b.committed(0); at > 0 {
		t.Errorf("committed %d, and the next topic has nothing", at)
	}
	if to := run.Health().Trouble[0].To; to != nextTopic {
		t.Errorf("the trouble is said to be with %s", to)
	}
	fault.Remove()
	b.eventually("everything is committed", func() bool { return b.committed(0) == 2 })
	if records := b.topicContent(nextTopic); len(records) != 2 || calls.total() != 2 {
		t.Errorf("%d passed on after %d attempts: a refused write is written again, the module is not called again",
			len(records), calls.total())
	}
}

// scriptedModule answers with the results of answer.
type scriptedModule struct {
	pipestream.UnimplementedPipeStepProcessorServer
	answer func(*pipestream.ProcessDataRequest) (*pipestream.ProcessDataResponse, error)
	calls  atomic.Int64
}

func (s *scriptedModule) ProcessData(_ context.Context,
	request *pipestream.ProcessDataRequest) (*pipestream.ProcessDataResponse, error) {
	s.calls.Add(1)
	return s.answer(request)
}

func startModule(t *testing.T,
	answer func(*pipestream.ProcessDataRequest) (*pipestream.ProcessDataResponse, error)) (*scriptedModule, Handler) {
	t.Helper()
	listener := mustListen(t)
	module, server := &scriptedModule{answer: answer}, grpc.NewServer()
	pipestream.RegisterPipeStepProcessorServer(server, module)
	ended := make(chan error, 1)
	go func() { ended <- server.Serve(listener) }()
	handler, closeIdle := GRPCHandler("grpc://"+listener.Addr().String(), "parse")
	t.Cleanup(func() {
		closeIdle()
		server.Stop()
		if err := <-ended; err != nil && !errors.Is(err, net.ErrClosed) {
			t.Error(err)
		}
	})
	return module, handler
}

func TestGRPCCodesHaveTheirClasses(t *testing.T) {
	t.Parallel()
	var code atomic.Uint32
	module, handler := startModule(t, func(*pipestream.ProcessDataRequest) (*pipestream.ProcessDataResponse, error) {
		return nil, status.Error(codes.Code(code.Load()), "no")
	})
	for answered, want := range map[codes.Code]struct {
		class Class
		name  string
	}{
		codes.Unavailable: {Retryable, "UNAVAILABLE"}, codes.DeadlineExceeded: {Retryable, "TIMEOUT"},
		codes.ResourceExhausted: {Retryable, "RESOURCE_EXHAUSTED"},
		codes.Aborted:           {Retryable, "ABORTED"}, codes.InvalidArgument: {Permanent, "INVALID_ARGUMENT"},
		codes.Unimplemented: {Permanent, "UNIMPLEMENTED"},
		codes.Internal:      {Permanent, "INTERNAL"}, codes.NotFound: {Permanent, "NOT_FOUND"},
	} {
		code.Store(uint32(answered))
		before := module.calls.Load()
		err := handler(t.Context(), &kgo.Record{Value: streamValue(t, "a", 0)})
		var classed *Error
		if !errors.As(err, &classed) || classed.Class != want.class || classed.Name != want.name ||
			module.calls.Load() != before+1 {
			t.Errorf("%s: %#v after %d calls, want %+v after one", answered, err, module.calls.Load()-before, want)
		}
	}
	if err := handler(t.Context(), &kgo.Record{Value: []byte("\xff")}); ClassOf(err) != Permanent {
		t.Errorf("what is no stream: %v", err)
	}
}

func TestAModuleSeesTheStreamAndItsPlace(t *testing.T) {
	t.Parallel()
	var seen *pipestream.ProcessDataRequest
	output := &pipestream.Document{Content: &pipestream.Document_DocumentRef{DocumentRef: "repo/1"}}
	_, handler := startModule(t, func(request *pipestream.ProcessDataRequest) (*pipestream.ProcessDataResponse, error) {
		seen = request
		return &pipestream.ProcessDataResponse{Success: true, Output: output}, nil
	})
	record := &kgo.Record{Topic: inputTopic, Partition: 2, Offset: 7, Value: streamValue(t, "a", 0)}
	must.Do(t, handler(t.Context(), record))
	at := seen.GetMetadata()
	if at.GetStreamId() != "a" || at.GetNodeId() != "parse" || at.GetTopic() != inputTopic ||
		at.GetPartition() != 2 || at.GetOffset() != 7 || string(seen.GetDocument().GetInline()) != "text of a" {
		t.Errorf("the module was asked %v", seen)
	}
	if next := streamOf(t, GraphRouter{Node: testNode()}.Forward(record, Step{}).Value); !proto.Equal(next.GetDocument(),
		output) {
		t.Errorf("the module's document does not go on: %v", next)
	}
}

// TestAModuleThatIsNotThereTakesTheWholeAttempt also covers a module that hangs.
func TestAModuleThatIsNotThereTakesTheWholeAttempt(t *testing.T) {
	t.Parallel()
	hold := make(chan struct{})
	_, hangs := startModule(t, func(*pipestream.ProcessDataRequest) (*pipestream.ProcessDataResponse, error) {
		<-hold
		return &pipestream.ProcessDataResponse{Success: true}, nil
	})
	t.Cleanup(func() { close(hold) })
	listener := mustListen(t)
	gone, closeIdle := GRPCHandler(listener.Addr().String(), "parse")
	listener.Close()
	defer closeIdle()
	for name, handler := range map[string]Handler{"hangs": hangs, "is gone": gone} {
		ctx, cancel := context.WithTimeout(t.Context(), 100*time.Millisecond)
		err := handler(ctx, &kgo.Record{Value: streamValue(t, "a", 0)})
		cancel()
		var classed *Error
		if !errors.As(err, &classed) || classed.Class != Retryable || classed.Name != "TIMEOUT" {
			t.Errorf("a module that %s: %v", name, err)
		}
	}
}

func TestANodeFromTheEnvironment(t *testing.T) {
	t.Parallel()
	environment := map[string]string{
		"DLQBENCH_BOOTSTRAP_SERVERS": "127.0.0.1:9092", "DLQBENCH_INPUT_TOPIC": "in", "DLQBENCH_GROUP_ID": "g",
		"DLQBENCH_ORACLE_URL": "grpc://127.0.0.1:1",
		"DLQBENCH_NODE": `{"name": "parse", "sink": "s", "quarantine": "q", "max_reprocess": 3, "edges": [{"to": "chunk", "topic": "c", ` +
			`"weight": 2}]}`,
	}
	lookup := func(name string) (string, bool) { value, set := environment[name]; return value, set }
	config, err := FromEnvironment(lookup)
	if err != nil || config.Node == nil || config.Node.Edges[0] != (NodeEdge{"chunk", "c", 2}) || config.Handler == nil {
		t.Fatalf("%+v, %v", config.Node, err)
	}
	if _, router := PartsFor(config).Router.(GraphRouter); !router {
		t.Error("a node passes nothing on")
	}
	config.Settings.Retry = RetryTopics
	if _, err := New(config, PartsFor(config)); err == nil || !strings.Contains(err.Error(), "a node of a graph retries "+
		"in place") {
		t.Errorf("a node with retry topics: %v", err)
	}
	environment["DLQBENCH_NODE"] = `{"name": "parse", "edges": [{"to": "chunk"}]}`
	if _, err := FromEnvironment(lookup); err == nil || !strings.Contains(err.Error(), "sink") ||
		!strings.Contains(err.Error(), "chunk") {
		t.Errorf("a node without topics: %v", err)
	}
}
