package workload

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/types/dynamicpb"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/format"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/samples"
)

const charge = "/acme.v1.Payments/Charge"

// service is a stub of acme.v1.Payments, and its client.
type service struct {
	*Stub
	t      *testing.T
	ids    *history.IDs
	sink   *events
	client *grpc.ClientConn
	cfg    ServiceConfig
}

func newService(t *testing.T, ids *history.IDs, cfg ServiceConfig, records ...plan.Record) *service {
	t.Helper()
	methods, err := format.Methods("testdata/payments.proto")
	if err != nil {
		t.Fatal(err)
	}
	cfg.Methods = methods
	answers := map[history.Outcome]Reply{
		history.OutcomeTransient: {Code: codes.Unavailable}, history.OutcomeRateLimited: {Code: codes.ResourceExhausted},
		history.OutcomePermanent: {Code: codes.InvalidArgument},
	}
	maps.Copy(answers, cfg.Answers)
	cfg.Answers = answers
	s := &service{t: t, ids: ids, sink: &events{}, cfg: cfg}
	s.Stub, err = NewStub(StubConfig{
		AttemptsConfig: AttemptsConfig{Plan: &plan.Plan{Records: records, RetryAfter: 2 * time.Second}, IDs: ids,
			Instances: 1, Ops: &atomic.Int64{}, Clock: history.NewClock(), Sink: s.sink},
		RPC: NewService(ids, cfg),
	})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Stub.Close)
	s.client, err = grpc.NewClient("passthrough:///"+s.Addr(0), grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = s.client.Close() })
	return s
}

// request returns a request of a method from its JSON form.
func (s *service) request(method, text string) *dynamicpb.Message {
	s.t.Helper()
	message := dynamicpb.NewMessage(s.cfg.Methods[method].Input())
	if err := protojson.Unmarshal([]byte(text), message); err != nil {
		s.t.Fatal(err)
	}
	return message
}

// call calls a method and returns the JSON form of the response.
func (s *service) call(ctx context.Context, method, text string, options ...grpc.CallOption) (string, error) {
	s.t.Helper()
	response := dynamicpb.NewMessage(s.cfg.Methods[method].Output())
	if err := s.client.Invoke(ctx, method, s.request(method, text), response, options...); err != nil {
		return "", err
	}
	return strings.NewReplacer(" ", "", "\n", "").Replace(protojson.Format(response)), nil
}

func TestServicesAnswerAsPlanned(t *testing.T) {
	ids := history.NewIDs("run")
	s := newService(t, ids, ServiceConfig{
		Answers: map[history.Outcome]Reply{
			history.OutcomeSuccess:   {Body: `{"payment": "p-{{.ID}}"}`},
			history.OutcomePermanent: {Code: codes.NotFound, Message: "no such customer"},
			history.OutcomeLogical:   {Body: `{"problem": "{{.Error}}"}`},
		},
		Routes: map[string]ServiceRoute{"/acme.v1.Payments/Login": {Reply: Reply{Body: `{"token": "t"}`}}},
	}, plan.Record{Outcome: history.OutcomeSuccess}, plan.Record{Outcome: history.OutcomeTransient, Failures: 1},
		plan.Record{Outcome: history.OutcomePermanent}, plan.Record{Outcome: history.OutcomeLogical},
		plan.Record{Outcome: history.OutcomeRateLimited, Failures: 1})
	for _, test := range []struct {
		record  int32
		code    codes.Code
		text    string
		outcome history.Outcome
	}{
		{0, codes.OK, fmt.Sprintf(`{"payment":"p-%s"}`, ids.Token(0)), history.OutcomeSuccess},
		{1, codes.Unavailable, "the stock service is overloaded", history.OutcomeTransient},
		{2, codes.NotFound, "no such customer", history.OutcomePermanent},
		{3, codes.OK, `{"problem":"theorderwascancelled"}`, history.OutcomeLogical},
		{4, codes.ResourceExhausted, "too many requests", history.OutcomeRateLimited},
	} {
		text, err := s.call(t.Context(), charge, `{"order": "`+ids.Token(test.record)+`"}`,
			grpc.UseCompressor(gzip.Name))
		got := text + status.Convert(err).Message()
		if status.Code(err) != test.code || !strings.Contains(got, test.text) {
			t.Errorf("record %d: got %q and %v", test.record, text, err)
		}
		ends := s.sink.of(history.KindAttemptEnd)
		if last := ends[len(ends)-1]; last.Outcome != test.outcome || last.Record != test.record {
			t.Errorf("record %d: noted %+v", test.record, last)
		}
		if test.outcome == history.OutcomeRateLimited {
			details := status.Convert(err).Details()
			if wait := ends[len(ends)-1].Aux; len(details) != 1 || wait != int64(2*time.Second) ||
				details[0].(*errdetails.RetryInfo).RetryDelay.AsDuration() != 2*time.Second {
				t.Errorf("the wait is told as %v, noted as %v", details, time.Duration(wait))
			}
		}
	}
	if text, err := s.call(t.Context(), "/acme.v1.Payments/Login", "{}"); text != `{"token":"t"}` {
		t.Errorf("the route is answered %q, %v", text, err)
	}
	health, err := grpc_health_v1.NewHealthClient(s.client).Check(t.Context(), &grpc_health_v1.HealthCheckRequest{})
	if err != nil || health.Status != grpc_health_v1.HealthCheckResponse_SERVING {
		t.Errorf("the health is %v, %v", health, err)
	}
	if starts := s.sink.of(history.KindAttemptStart); len(starts) != 5 || starts[0].Text != charge {
		t.Errorf("%d attempts, the first %+v", len(starts), starts[0])
	}
	if _, err := s.call(t.Context(), charge, "{}"); status.Code(err) != codes.NotFound {
		t.Errorf("a call without an id is answered %v", err)
	}
	if count, first := s.Stub.Strays(); count != 1 || first != charge {
		t.Errorf("%d strays, the first %q", count, first)
	}
}

// A number in a message is a varint, which only its schema can tell.
func TestServicesFindIDs(t *testing.T) {
	numbers := history.NewIDsAs("run", history.IDInt64, 2)
	at, err := samples.ParsePlace("$.order")
	if err != nil {
		t.Fatal(err)
	}
	texts := history.NewIDs("run")
	success := plan.Record{Outcome: history.OutcomeSuccess}
	for _, test := range []struct {
		name     string
		ids      *history.IDs
		at       samples.Place
		request  string
		metadata string
		found    bool
		several  int
	}{
		{"a number", numbers, samples.Place{}, `{"number": "` + numbers.Token(1) + `"}`, "", true, 0},
		{"two numbers", numbers, samples.Place{}, `{"number": "` + numbers.Token(1) + `", "note": "` + numbers.Token(0) +
			`"}`,
			"", true, 1},
		{"metadata", texts, samples.Place{}, `{}`, texts.Token(1), true, 0},
		{"its place", texts, at, `{"order": "` + texts.Token(1) + `", "note": "` + texts.Token(0) + `"}`, "", true, 0},
		{"another place", texts, at, `{"note": "` + texts.Token(1) + `"}`, "", false, 0},
	} {
		s := newService(t, test.ids, ServiceConfig{At: test.at}, success, success)
		ctx := t.Context()
		if test.metadata != "" {
			ctx = metadata.AppendToOutgoingContext(ctx, "idempotency-key", test.metadata)
		}
		_, err := s.call(ctx, charge, test.request)
		if (err == nil) != test.found || test.found && s.sink.of(history.KindAttemptEnd)[0].Record > 1 ||
			len(s.sink.of(history.KindUnreadable)) != test.several {
			t.Errorf("%s: answered %v, noted %+v", test.name, err, s.sink.of(history.KindAttemptEnd))
		}
	}
}

// Each message of a stream from the client is an attempt, and a failure ends the stream.
func TestServicesStream(t *testing.T) {
	ids := history.NewIDs("run")
	s := newService(t, ids, ServiceConfig{}, plan.Record{Outcome: history.OutcomeSuccess},
		plan.Record{Outcome: history.OutcomeSuccess}, plan.Record{Outcome: history.OutcomePermanent})
	const many = "/acme.v1.Payments/ChargeMany"
	stream, err := s.client.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, many)
	if err != nil {
		t.Fatal(err)
	}
	for record := range int32(3) {
		response := dynamicpb.NewMessage(s.cfg.Methods[many].Output())
		if err := stream.SendMsg(s.request(many, `{"order": "`+ids.Token(record)+`"}`)); err != nil {
			t.Fatal(err)
		}
		if err := stream.RecvMsg(response); (err == nil) != (record < 2) ||
			record == 2 && status.Code(err) != codes.InvalidArgument {
			t.Errorf("record %d: %v", record, err)
		}
	}
	if ends := s.sink.of(history.KindAttemptEnd); len(ends) != 3 || ends[1].Outcome != history.OutcomeSuccess ||
		ends[2].Record != 2 {
		t.Errorf("noted %+v", ends)
	}
	const watch = "/acme.v1.Payments/Watch"
	if _, err := s.call(t.Context(), watch, `{"order": "`+ids.Token(0)+`"}`); err != nil {
		t.Errorf("a stream from the server: %v", err)
	}
}

// A connection carries the calls of several records: one that is planned to be reset, or to get no answer, takes none
// of the others along.
func TestServicesResetOneCallOnly(t *testing.T) {
	ids := history.NewIDs("run")
	s := newService(t, ids, ServiceConfig{}, plan.Record{Outcome: history.OutcomeSuccess},
		plan.Record{Outcome: history.OutcomeReset, Failures: 1})
	const many = "/acme.v1.Payments/ChargeMany"
	stream, err := s.client.NewStream(t.Context(), &grpc.StreamDesc{ClientStreams: true, ServerStreams: true}, many)
	if err != nil {
		t.Fatal(err)
	}
	exchange := func() error {
		return errors.Join(stream.SendMsg(s.request(many, `{"order": "`+ids.Token(0)+`"}`)),
			stream.RecvMsg(dynamicpb.NewMessage(s.cfg.Methods[many].Output())))
	}
	if err := exchange(); err != nil {
		t.Fatal(err)
	}
	if _, err := s.call(t.Context(), charge, `{"order": "`+ids.Token(1)+`"}`); status.Code(err) != codes.Unavailable {
		t.Errorf("the reset is seen as %v", err)
	}
	if ends := s.sink.of(history.KindAttemptEnd); ends[len(ends)-1].Outcome != history.OutcomeReset {
		t.Errorf("noted %+v", ends)
	}
	if err := exchange(); err != nil {
		t.Errorf("the other call on the connection: %v", err)
	}
}

func TestServicesLimitAttemptsToAMethod(t *testing.T) {
	ids := history.NewIDs("run")
	s := newService(t, ids, ServiceConfig{Method: "/acme.v1.Payments/Watch"}, plan.Record{Outcome: history.OutcomeSuccess})
	if _, err := s.call(t.Context(), charge, `{"order": "`+ids.Token(0)+`"}`); status.Code(err) != codes.Unimplemented {
		t.Errorf("another method is answered %v", err)
	}
	if len(s.sink.of(history.KindAttemptStart)) != 0 {
		t.Error("another method is an attempt")
	}
}
