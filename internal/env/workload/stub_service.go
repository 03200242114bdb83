package workload

// A gRPC service of the user's own as the downstream: any methods, unary or streams.

import (
	"context"
	"strings"

	"google.golang.org/genproto/googleapis/rpc/errdetails"
	"google.golang.org/grpc/codes"
	_ "google.golang.org/grpc/encoding/gzip" // reads what clients compress
	"google.golang.org/grpc/health/grpc_health_v1"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
	"google.golang.org/protobuf/types/known/durationpb"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/format"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// ServiceConfig describes a gRPC service.
type ServiceConfig struct {
	// Methods are the known methods by full name, such as /acme.v1.Payments/Charge. Messages of other methods are
	// searched for ids as text and bytes, and are answered with an empty message.
	Methods map[string]protoreflect.MethodDescriptor
	// Method, if set, is the only one whose calls are attempts.
	Method string
	// At limits the id to a place in the request's JSON form; the zero value stands for the whole message and the call's
	// metadata.
	At samples.Place
	// Answers are the answers to the outcomes success, transient, rate-limited, permanent and logical. Routes are
	// methods with a fixed answer.
	Answers map[history.Outcome]Reply
	Routes  map[string]ServiceRoute
	// First and Last are the methods whose calls begin and end an attempt of several calls; "" where each call is an
	// attempt.
	First, Last string
}

// ServiceRoute is the fixed answer to the calls of a method. With Attempt they belong to attempts, and those that
// succeed have this answer.
type ServiceRoute struct {
	Reply
	Attempt bool
}

// Reply is the end of a call. Body is the JSON form of the response to an OK; it may hold BodyID and BodyError. Message
// is the text of a failure; "" stands for the usual one.
type Reply struct {
	Code    codes.Code
	Message string
	Body    string
}

// Service is the RPC of a service of the user's own.
type Service struct {
	cfg ServiceConfig
	ids *history.IDs
}

// NewService returns the RPC of a service in a run with these ids.
func NewService(ids *history.IDs, cfg ServiceConfig) *Service { return &Service{cfg, ids} }

func (s *Service) fixed(method string) (bool, []byte, error) {
	if route, found := s.cfg.Routes[method]; found {
		response, err := s.reply(method, route.Reply, route.Message, history.None)
		return true, response, err
	}
	switch {
	case method == grpc_health_v1.Health_Check_FullMethodName:
		response, err := proto.Marshal(&grpc_health_v1.HealthCheckResponse{
			Status: grpc_health_v1.HealthCheckResponse_SERVING})
		return true, response, err
	case s.cfg.Method != "" && s.cfg.Method != method:
		return true, nil, status.Error(codes.Unimplemented, "the downstream stub does not know "+method)
	}
	return false, nil, nil
}

func (s *Service) planned(method string) bool {
	return s.cfg.Routes[method].Attempt || s.role(method) != CallAmong
}

func (s *Service) spans() bool { return s.cfg.First != "" }

func (s *Service) role(method string) CallRole {
	switch method {
	case s.cfg.First:
		return CallFirst
	case s.cfg.Last:
		return CallLast
	}
	return CallAmong
}

func (s *Service) streamed(method string) bool {
	known := s.cfg.Methods[method]
	return known != nil && known.IsStreamingClient()
}

func (*Service) tells() bool { return true }

func (s *Service) read(ctx context.Context, method string, message []byte, _ *history.Event) (int32, bool) {
	text := s.legible(method, message)
	if !s.cfg.At.IsZero() {
		spot, err := s.cfg.At.Find(text)
		if err != nil {
			return 0, false // what stands there is not an id, whatever it is
		}
		return s.ids.Find([]byte(spot.Text))
	}
	if record, found := s.ids.Find(text); found {
		return record, true
	}
	values, _ := metadata.FromIncomingContext(ctx)
	for _, list := range values {
		for _, value := range list {
			if record, found := s.ids.Find([]byte(value)); found {
				return record, true
			}
		}
	}
	return 0, false
}

// legible returns the JSON form of a request: in the wire format, numbers have forms that only the schema tells. A
// request that can't be decoded, or of a method that is not known, stays as it is.
func (s *Service) legible(method string, message []byte) []byte {
	known := s.cfg.Methods[method]
	if known == nil {
		return message
	}
	request := dynamicpb.NewMessage(known.Input())
	if proto.Unmarshal(message, request) != nil {
		return message
	}
	text, err := protojson.Marshal(request)
	if err != nil {
		return message
	}
	return text
}

func (s *Service) several(method string, message []byte, record int32) bool {
	return s.cfg.At.IsZero() && s.ids.HasOther(s.legible(method, message), record)
}

func (s *Service) answer(method string, event *history.Event, one *answer) ([]byte, error) {
	reply := s.cfg.Answers[event.Outcome]
	response, err := s.reply(method, reply, one.text, event.Record)
	if failure, is := status.FromError(err); is && err != nil && one.waits > 0 {
		if told, err := failure.WithDetails(&errdetails.RetryInfo{RetryDelay: durationpb.New(one.waits)}); err == nil {
			return nil, told.Err()
		}
	}
	return response, err
}

// reply returns the end of a call about a record, history.None for none. text is that of the error.
func (s *Service) reply(method string, reply Reply, text string, record int32) ([]byte, error) {
	if reply.Code != codes.OK {
		if reply.Message != "" {
			text = reply.Message
		}
		return nil, status.Error(reply.Code, text)
	}
	id := ""
	if record != history.None {
		id = s.ids.Token(record)
	}
	body := strings.NewReplacer(BodyID, id, BodyError, escaped(text)).Replace(reply.Body)
	known := s.cfg.Methods[method]
	if body == "" || known == nil {
		return nil, nil
	}
	response, err := format.Response(known, body)
	if err != nil {
		return nil, status.Error(codes.Internal, err.Error()) // it was checked with the subject file
	}
	return response, nil
}
