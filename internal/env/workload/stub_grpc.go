package workload

// The downstream stub over gRPC: the module behind a node of a graph. It answers the plan as over HTTP:
//
//	success     success = true
//	logical     success = false: the step is done, the document has a fault
//	transient   UNAVAILABLE, every second attempt of a document ABORTED
//	429         RESOURCE_EXHAUSTED; gRPC does not state a wait
//	permanent   INVALID_ARGUMENT
//	timeout     nothing, until the caller's deadline is over (DEADLINE_EXCEEDED) or the connection is closed
//	reset       the connection is reset (the caller sees UNAVAILABLE)
//	no id       NOT_FOUND: the harness's own answer
//
// An attempt starts when its request has been read and decoded. It ends before its answer is handed to gRPC, which
// then writes it.

import (
	"context"
	"net"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/peer"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/dlqbench/dlqbench/deadletter/pipestream"
	"github.com/dlqbench/dlqbench/history"
)

// onItsWay wraps a message in a document on its way to a node.
func onItsWay(id, node string, message []byte) []byte {
	stream := &pipestream.PipeStream{
		StreamId: id, CurrentNodeId: node,
		Document: &pipestream.Document{Content: &pipestream.Document_Inline{Inline: message}},
	}
	// it fails only for text that is not UTF-8, and there is none
	value, _ := proto.MarshalOptions{Deterministic: true}.Marshal(stream)
	return value
}

// rpcServer is the downstream stub as a gRPC service.
type rpcServer struct {
	pipestream.UnimplementedPipeStepProcessorServer
	stub *Stub
}

func newRPCServer(s *Stub) *grpc.Server {
	server := grpc.NewServer(grpc.MaxRecvMsgSize(maxBody))
	pipestream.RegisterPipeStepProcessorServer(server, rpcServer{stub: s})
	return server
}

// rpcListener tags connections with the process that they belong to.
type rpcListener struct {
	net.Listener
	stub     *Stub
	instance int
}

// Accept implements net.Listener.
func (l *rpcListener) Accept() (net.Conn, error) {
	conn, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	tagged := &rpcConn{Conn: l.stub.tag(conn, l.instance), stub: l.stub}
	l.stub.track(tagged.Conn)
	return tagged, nil
}

// rpcConn is a connection that can be found from a call: gRPC tells a call its peer's address.
type rpcConn struct {
	*Conn
	stub *Stub
}

// RemoteAddr implements net.Conn.
func (c *rpcConn) RemoteAddr() net.Addr { return rpcPeer{c.Conn.RemoteAddr(), c} }

// Close implements net.Conn.
func (c *rpcConn) Close() error {
	c.stub.forget(c.Conn)
	return c.Conn.Close()
}

type rpcPeer struct {
	net.Addr
	conn *rpcConn
}

// rpcCall is a caller that waits as long as its call lasts.
type rpcCall struct{ ctx context.Context }

// Wait implements Caller.
func (c rpcCall) Wait(ctx context.Context, limit time.Duration) Waited {
	var over <-chan time.Time
	if limit > 0 {
		timer := time.NewTimer(limit)
		defer timer.Stop()
		over = timer.C
	}
	select {
	case <-c.ctx.Done():
		return Gone
	case <-ctx.Done():
	case <-over:
	}
	return Elapsed
}

// Over reports whether the caller has given up: a stub that stood still may read a call only after that.
func (c rpcCall) Over() bool { return c.ctx.Err() != nil }

// ProcessData answers one attempt and records its start and its end.
func (r rpcServer) ProcessData(ctx context.Context,
	request *pipestream.ProcessDataRequest) (*pipestream.ProcessDataResponse, error) {
	s := r.stub
	now := s.cfg.Clock.Now()
	caller, _ := peer.FromContext(ctx)
	from, known := caller.Addr.(rpcPeer)
	if !known {
		return nil, status.Error(codes.Internal, "the downstream stub cannot attribute this connection to an instance")
	}
	event := from.conn.Attempt(now)
	metadata := request.GetMetadata()
	if topic, known := s.topics[metadata.GetTopic()]; known {
		event.Topic, event.Partition, event.Offset = topic, metadata.GetPartition(), metadata.GetOffset()
	}
	seq, found := s.cfg.IDs.Find([]byte(metadata.GetStreamId()))
	if !found {
		seq, found = s.cfg.IDs.Find(request.GetDocument().GetInline())
	}
	s.Begin(&event, seq, found)
	answer, ended := s.conclude(rpcCall{ctx}, &event, false)
	if ended == Gone {
		// The deadline has passed here, too, perhaps a moment before the caller notices. Then the caller gets this
		// status, and not that the module gave up.
		return nil, status.FromContextError(ctx.Err()).Err()
	}
	if answer.status == 0 {
		if event.Outcome == history.OutcomeReset {
			_ = from.conn.SetLinger(0) // without lingering, closing sends RST instead of FIN
		}
		_ = from.conn.Close()
	}
	return rpcAnswer(event.Outcome, event.N, answer.text)
}

// rpcAnswer is the outcome of the nth attempt as a gRPC response.
func rpcAnswer(outcome history.Outcome, nth int32, text string) (*pipestream.ProcessDataResponse, error) {
	switch outcome {
	case history.OutcomeSuccess:
		return &pipestream.ProcessDataResponse{Success: true}, nil
	case history.OutcomeLogical:
		return &pipestream.ProcessDataResponse{Error: text}, nil
	case history.OutcomeTransient:
		if nth%2 == 0 {
			return nil, status.Error(codes.Aborted, text)
		}
		return nil, status.Error(codes.Unavailable, text)
	case history.OutcomeRateLimited:
		return nil, status.Error(codes.ResourceExhausted, text)
	case history.OutcomePermanent:
		return nil, status.Error(codes.InvalidArgument, text)
	case history.OutcomeUnknownID:
		return nil, status.Error(codes.NotFound, text)
	}
	return nil, status.Error(codes.Unavailable, "the module gave no answer") // the caller does not receive this
}
