package workload

import (
	"context"
	"net"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/dlqbench/dlqbench/deadletter/pipestream"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/testkit/wait"
)

// module is a downstream stub over gRPC whose first instance is number 3.
type module struct {
	*Stub
	t    *testing.T
	ids  *history.IDs
	sink *events
}

func newModule(t *testing.T, records ...plan.Record) *module {
	t.Helper()
	m := &module{t: t, ids: history.NewIDs("run"), sink: &events{}}
	stub, err := NewStub(StubConfig{
		AttemptsConfig: AttemptsConfig{
			Plan: &plan.Plan{Records: records}, IDs: m.ids, Instances: 2, First: 3, Ops: &atomic.Int64{},
			Clock: history.NewClock(), Sink: m.sink,
		},
		RPC: NewModule(m.ids, []history.Topic{{Name: "input.parse"}}),
	})
	if err != nil {
		t.Fatal(err)
	}
	m.Stub = stub
	t.Cleanup(stub.Close)
	return m
}

// call processes the record once, on a separate connection.
func (m *module) call(ctx context.Context, instance int, record int32) (*pipestream.ProcessDataResponse, error) {
	m.t.Helper()
	conn, err := grpc.NewClient("passthrough:///"+m.Addr(instance),
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	return pipestream.NewPipeStepProcessorClient(conn).ProcessData(ctx, &pipestream.ProcessDataRequest{
		Document: &pipestream.Document{}, Metadata: &pipestream.StreamMetadata{StreamId: m.ids.Token(record),
			Topic: "input.parse", Partition: 2, Offset: 7},
	})
}

func TestModulesAnswerAsPlanned(t *testing.T) {
	m := newModule(t, plan.Record{Outcome: history.OutcomeSuccess}, plan.Record{Outcome: history.OutcomeLogical},
		plan.Record{Outcome: history.OutcomePermanent},
		plan.Record{Outcome: history.OutcomeRateLimited, Failures: 1}, plan.Record{Outcome: history.OutcomeTransient,
			Failures: 2}, plan.Record{Outcome: history.OutcomeReset, Failures: 1})
	for _, c := range []struct {
		record  int32
		code    codes.Code
		success bool
		outcome history.Outcome
	}{
		{0, codes.OK, true, history.OutcomeSuccess}, {1, codes.OK, false, history.OutcomeLogical},
		{2, codes.InvalidArgument, false, history.OutcomePermanent},
		{3, codes.ResourceExhausted, false, history.OutcomeRateLimited}, {3, codes.OK, true, history.OutcomeSuccess},
		{4, codes.Unavailable, false, history.OutcomeTransient}, {4, codes.Aborted, false, history.OutcomeTransient},
		{4, codes.OK, true, history.OutcomeSuccess},
		{5, codes.Unavailable, false, history.OutcomeReset}, {5, codes.OK, true, history.OutcomeSuccess},
	} {
		response, err := m.call(t.Context(), 4, c.record)
		if status.Code(err) != c.code || response.GetSuccess() != c.success {
			t.Errorf("record %d: %v, %v; want %s, success %t", c.record, response, err, c.code, c.success)
		}
		if c.outcome == history.OutcomeLogical && response.GetError() == "" {
			t.Error("a logical failure says nothing")
		}
		ends := m.sink.of(history.KindAttemptEnd)
		last := ends[len(ends)-1]
		if last.Outcome != c.outcome || last.Record != c.record || last.Instance != 4 || last.Topic != 0 ||
			last.Partition != 2 || last.Offset != 7 || last.Aux != 0 {
			t.Errorf("record %d: noted %+v", c.record, last)
		}
	}
	starts, ends := m.sink.of(history.KindAttemptStart), m.sink.of(history.KindAttemptEnd)
	if len(starts) != 10 || len(ends) != 10 {
		t.Fatalf("%d starts and %d ends of 10 attempts", len(starts), len(ends))
	}
	for i := range starts {
		if starts[i].Op != ends[i].Op || starts[i].Time > ends[i].Time || starts[i].N != ends[i].N {
			t.Errorf("%+v ends as %+v", starts[i], ends[i])
		}
	}
	if unknown := m.unknown(); status.Code(unknown) != codes.NotFound {
		t.Errorf("a call without an id is answered %v", unknown)
	}
}

func (m *module) unknown() error {
	conn, err := grpc.NewClient("passthrough:///"+m.Addr(3), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		m.t.Fatal(err)
	}
	defer conn.Close()
	_, err = pipestream.NewPipeStepProcessorClient(conn).ProcessData(m.t.Context(), &pipestream.ProcessDataRequest{})
	return err
}

// TestAModuleThatHangsAnswersNothing checks that the caller's deadline ends the attempt, which is recorded as one
// whose client had left.
func TestAModuleThatHangsAnswersNothing(t *testing.T) {
	m := newModule(t, plan.Record{Outcome: history.OutcomeTimeout, Failures: 1})
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if _, err := m.call(ctx, 3, 0); status.Code(err) != codes.DeadlineExceeded {
		t.Errorf("a hanging call ended with %v", err)
	}
	wait.Until(t, "the end of the attempt", func() bool { return len(m.sink.of(history.KindAttemptEnd)) == 1 })
	if end := m.sink.of(history.KindAttemptEnd)[0]; end.Outcome != history.OutcomeTimeout ||
		!end.Flags.Has(history.ClientGone) || end.Code != 0 {
		t.Errorf("noted %+v", end)
	}
	if _, err := m.call(t.Context(), 3, 0); err != nil {
		t.Errorf("the second attempt is not answered as planned: %v", err)
	}
}

// TestFaultsChangeAModulesAnswers checks that an outage answers in the plan's place, and that attempts held by a
// hang are released without an answer when the hang ends.
func TestFaultsChangeAModulesAnswers(t *testing.T) {
	m := newModule(t, plan.Record{Outcome: history.OutcomeSuccess})
	end := m.Answer(func(int32, int32) (history.Outcome, time.Duration) { return history.OutcomeTransient, 0 })
	if _, err := m.call(t.Context(), 3, 0); status.Code(err) != codes.Unavailable {
		t.Errorf("in an outage a call ended with %v", err)
	}
	end()
	end = m.Answer(func(int32, int32) (history.Outcome, time.Duration) { return history.OutcomeTimeout, 0 })
	held := make(chan error, 1)
	go func() {
		_, err := m.call(t.Context(), 3, 0)
		held <- err
	}()
	wait.Until(t, "the attempt that is held", func() bool { return m.InFlight() == 1 })
	end()
	if err := <-held; status.Code(err) != codes.Unavailable || strings.Contains(err.Error(), "gave no answer") {
		t.Errorf("what the hang held ended with %v: it is to see its connection closed, not an answer", err)
	}
	if _, err := m.call(t.Context(), 3, 0); err != nil {
		t.Errorf("after the faults a call ended with %v", err)
	}
}

// TestACallIsThatOfTheProcessThatConnected checks that a call is attributed to the process that opened the
// connection, however late it arrives.
func TestACallIsThatOfTheProcessThatConnected(t *testing.T) {
	m := newModule(t, plan.Record{Outcome: history.OutcomeSuccess})
	dialed := make(chan struct{}, 1)
	conn, err := grpc.NewClient("passthrough:///"+m.Addr(3), grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithContextDialer(func(ctx context.Context, address string) (net.Conn, error) {
			made, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			dialed <- struct{}{}
			return made, err
		}))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	client := pipestream.NewPipeStepProcessorClient(conn)
	request := &pipestream.ProcessDataRequest{Metadata: &pipestream.StreamMetadata{StreamId: m.ids.Token(0)}}
	for _, run := range []uint16{0, 1} {
		m.SetRun(3, run)
		if _, err := client.ProcessData(t.Context(), request); err != nil {
			t.Fatal(err)
		}
	}
	if ends := m.sink.of(history.KindAttemptEnd); len(dialed) != 1 || ends[0].Run != 0 || ends[1].Run != 0 {
		t.Errorf("%d connections, runs %d and %d", len(dialed), ends[0].Run, ends[1].Run)
	}
}

func TestADocumentOnItsWayCarriesItsID(t *testing.T) {
	ids := history.NewIDs("run")
	value := onItsWay(ids.Token(7), "parse", []byte(`{"seq":7}`))
	stream := &pipestream.PipeStream{}
	if err := proto.Unmarshal(value, stream); err != nil {
		t.Fatal(err)
	}
	if seq, found := ids.Find(value); !found || seq != 7 || stream.GetCurrentNodeId() != "parse" ||
		string(stream.GetDocument().GetInline()) != `{"seq":7}` {
		t.Errorf("id %d (%t) in %v", seq, found, stream)
	}
}
