package workload

// The downstream stub over gRPC. What is called, and what the messages mean, is an RPC's business: the module behind a
// node of a graph, or a service of the user's own. The outcomes that are no answers are the same in both:
//
//	timeout     nothing, until the caller's deadline is over (DEADLINE_EXCEEDED) or the connection is closed
//	reset       UNAVAILABLE, which clients report when a connection is reset
//	no id       NOT_FOUND: the harness's own answer
//
// An attempt starts when its request has been read and decoded. It ends before its answer is handed to gRPC, which
// then writes it.

import (
	"context"
	"errors"
	"io"
	"net"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/mem"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"

	"github.com/dlqbench/dlqbench/history"
)

// RPC is what is called over gRPC, in any method. Messages are in the wire format.
type RPC interface {
	rpcMethods
	rpcAttempts
	rpcMessages
	// tells reports whether an answer states the time to wait, and whether the history tells the method of a call.
	tells() bool
}

// rpcMethods are the methods of an RPC.
type rpcMethods interface {
	// fixed returns the answer to the calls of a method whatever their messages are; has says whether there is one.
	fixed(method string) (has bool, response []byte, err error)
	// streamed reports whether the client of a method may send a message after the answer to one.
	streamed(method string) bool
}

// rpcAttempts say which calls belong to attempts.
type rpcAttempts interface {
	// planned reports whether the plan decides the answer to the calls of a method that has a fixed one. Then that is
	// the answer to those that succeed.
	planned(method string) bool
	// spans reports whether attempts have several calls, in which those of a method have the role.
	spans() bool
	role(method string) CallRole
}

// rpcMessages are the messages of an RPC.
type rpcMessages interface {
	// read returns the record that a message is for, and adds to the event where the message says it was read.
	read(ctx context.Context, method string, message []byte, event *history.Event) (record int32, found bool)
	// several reports whether the message is for other records, too.
	several(method string, message []byte, record int32) bool
	// legible returns the JSON form of a message; one that can't be decoded stays as it is.
	legible(method string, message []byte) []byte
	// answer returns the response to an attempt that ended with the outcome: the nth, with the text of the error, and
	// with the time to wait before the next attempt, if it states one.
	answer(method string, event *history.Event, one *answer) ([]byte, error)
}

// rpcServer is a server of gRPC.
type rpcServer struct{ *grpc.Server }

func newRPCServer(s *Stub) rpcServer {
	options := []grpc.ServerOption{grpc.MaxRecvMsgSize(maxBody), grpc.ForceServerCodecV2(wireFormat{}),
		grpc.WaitForHandlers(true),
		grpc.UnknownServiceHandler(func(_ any, stream grpc.ServerStream) error { return s.serveCall(stream) })}
	if s.cfg.TLS != nil {
		options = append(options, grpc.Creds(observed{credentials.NewTLS(s.cfg.TLS), s}))
	}
	return rpcServer{grpc.NewServer(options...)}
}

// Close implements stubServer.
func (s rpcServer) Close() error {
	s.Stop()
	return nil
}

// observed notes handshakes that fail, and that a client sends something after one.
type observed struct {
	credentials.TransportCredentials
	stub *Stub
}

// ServerHandshake implements credentials.TransportCredentials.
func (o observed) ServerHandshake(conn net.Conn) (net.Conn, credentials.AuthInfo, error) {
	secured, info, err := o.TransportCredentials.ServerHandshake(conn)
	if err != nil {
		o.stub.handshakes.note(err.Error())
		return secured, info, err //nolint:wrapcheck // gRPC distinguishes errors by their types
	}
	return heard{secured, o.stub}, info, nil
}

// heard is a connection that notes that something came.
type heard struct {
	net.Conn
	stub *Stub
}

// Read implements net.Conn.
func (h heard) Read(p []byte) (int, error) {
	n, err := h.Conn.Read(p)
	if n > 0 {
		h.stub.spoken.Store(true)
	}
	return n, err //nolint:wrapcheck // gRPC distinguishes errors by their types
}

// wireFormat hands messages on as they are.
type wireFormat struct{}

// Name implements encoding.CodecV2.
func (wireFormat) Name() string { return "proto" }

// Marshal implements encoding.CodecV2.
func (wireFormat) Marshal(message any) (mem.BufferSlice, error) {
	return mem.BufferSlice{mem.SliceBuffer(message.([]byte))}, nil
}

// Unmarshal implements encoding.CodecV2.
func (wireFormat) Unmarshal(data mem.BufferSlice, message any) error {
	*message.(*[]byte) = data.Materialize()
	return nil
}

// serveCall answers a call. Each message of a stream from the client is an attempt of its own.
func (s *Stub) serveCall(stream grpc.ServerStream) error {
	method, _ := grpc.MethodFromServerStream(stream)
	fixed, response, failure := s.cfg.RPC.fixed(method)
	for {
		var message []byte
		if err := stream.RecvMsg(&message); errors.Is(err, io.EOF) {
			return nil
		} else if err != nil {
			return err //nolint:wrapcheck // gRPC's own status
		}
		if !fixed || s.cfg.RPC.planned(method) {
			response, failure = s.serveAttempt(stream.Context(), method, message)
		}
		if failure != nil {
			return failure
		}
		if err := stream.SendMsg(response); err != nil || !s.cfg.RPC.streamed(method) {
			return err //nolint:wrapcheck // gRPC's own status
		}
	}
}

// serveAttempt answers one attempt and records its start and its end.
func (s *Stub) serveAttempt(ctx context.Context, method string, message []byte) ([]byte, error) {
	caller, _ := peer.FromContext(ctx)
	rpc := s.cfg.RPC
	event := connOf(caller.Addr).Attempt(0)
	seq, found := rpc.read(ctx, method, message, &event)
	if fixed, response, err := rpc.fixed(method); fixed && !found {
		return response, err
	}
	if s.observedRPC(method, message, seq, found) {
		return nil, nil
	}
	event.Time = s.cfg.Clock.Now()
	if rpc.tells() {
		event.Text = method
	}
	s.BeginCall(&event, seq, found, rpc.role(method))
	if rpc.tells() {
		s.tell(&event)
	}
	event.Text = ""
	if found && rpc.several(method, message, seq) {
		s.Several(event.Instance, event.Run, func() string { return method })
	}
	answer, ended := s.conclude(waiting{ctx, s}, &event, rpc.tells(), success{})
	if ended == Gone {
		// The deadline has passed here, too, perhaps a moment before the caller notices. Then the caller gets this
		// status, and not that the module gave up.
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if answer.status == 0 {
		// The connection carries other calls, whose answers would be lost with it, so it stays open.
		return nil, status.Error(codes.Unavailable, "connection reset by peer")
	}
	if event.Outcome == history.OutcomeUnknownID {
		return nil, status.Error(codes.NotFound, answer.text)
	}
	if fixed, response, err := rpc.fixed(method); fixed && event.Outcome == history.OutcomeSuccess {
		return response, err
	}
	return rpc.answer(method, &event, &answer)
}
