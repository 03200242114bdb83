package consumer

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"time"
	"unicode"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/grpc"
	"google.golang.org/grpc/backoff"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/dlqbench/dlqbench/deadletter/pipestream"
)

// grpcScheme is the prefix of the address of a module that is called by gRPC.
const grpcScheme = "grpc://"

// GRPCHandler returns a handler that processes a PipeStream by one call of PipeStepProcessor.ProcessData at address
// (host:port, optionally with the prefix grpc://). One attempt is one call: the client never repeats a call that the
// module has seen.
//
// success = false is a logical failure. UNAVAILABLE, DEADLINE_EXCEEDED, RESOURCE_EXHAUSTED and ABORTED are
// infrastructure failures, which are retryable. Any other code (INVALID_ARGUMENT, UNIMPLEMENTED …) is permanent:
// another call would not help, and the document has not been processed, so it is dead-lettered after this one
// attempt. A value that is not a PipeStream is also permanent.
//
// A connection carries one call at a time, as in HTTP/1.1, so a broken connection affects no other call. closeIdle
// closes the connections that are not in use.
func GRPCHandler(address, node string) (handler Handler, closeIdle func()) {
	pool := &rpcPool{target: "passthrough:///" + strings.TrimPrefix(address, grpcScheme)}
	return func(ctx context.Context, record *kgo.Record) error { return pool.process(ctx, record, node) }, pool.close
}

// rpcPool keeps idle connections to a module, the most recently used last.
type rpcPool struct {
	target string
	mu     sync.Mutex
	idle   []*grpc.ClientConn
}

func (p *rpcPool) take() (*grpc.ClientConn, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if last := len(p.idle) - 1; last >= 0 {
		conn := p.idle[last]
		p.idle = p.idle[:last]
		return conn, nil
	}
	conn, err := grpc.NewClient(p.target, grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDisableRetry(), grpc.WithDisableServiceConfig(),
		grpc.WithNoProxy(), grpc.WithIdleTimeout(0), grpc.WithConnectParams(grpc.ConnectParams{
			Backoff: backoff.Config{BaseDelay: 20 * time.Millisecond, Multiplier: 1.6,
				MaxDelay: 200 * time.Millisecond},
			MinConnectTimeout: time.Second,
		}))
	if err != nil {
		return nil, fmt.Errorf("calling the module at %s: %w", p.target, err)
	}
	return conn, nil
}

// give returns a connection to the pool, or closes it if the call on it got no response.
func (p *rpcPool) give(conn *grpc.ClientConn, code codes.Code) {
	if code == codes.DeadlineExceeded || code == codes.Canceled || code == codes.Unavailable {
		_ = conn.Close() // the connection is discarded, so the error does not matter
		return
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	p.idle = append(p.idle, conn)
}

func (p *rpcPool) close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, conn := range p.idle {
		_ = conn.Close()
	}
	p.idle = nil
}

func (p *rpcPool) process(ctx context.Context, record *kgo.Record, node string) error {
	stream := &pipestream.PipeStream{}
	if err := proto.Unmarshal(record.Value, stream); err != nil {
		return &Error{Class: Permanent, Name: "INVALID_STREAM", Err: fmt.Errorf("decoding the PipeStream: %w", err)}
	}
	conn, err := p.take()
	if err != nil {
		return err
	}
	// The call waits for its connection until ctx ends. An unreachable module takes the attempt's whole time, like
	// one that does not answer.
	response, err := pipestream.NewPipeStepProcessorClient(conn).ProcessData(ctx, &pipestream.ProcessDataRequest{
		Document: stream.GetDocument(), Metadata: &pipestream.StreamMetadata{
			StreamId: stream.GetStreamId(), NodeId: node, HopNumber: stream.GetHopNumber(), Topic: record.Topic,
			Partition: record.Partition, Offset: record.Offset,
		},
	}, grpc.WaitForReady(true), grpc.MaxCallRecvMsgSize(maxLetter))
	p.give(conn, status.Code(err))
	switch {
	case err != nil:
		return rpcError(err)
	case !response.GetSuccess():
		return &Error{Class: Logical, Name: "LOGICAL", Err: fmt.Errorf("the module refused the document: %s",
			response.GetError())}
	case response.GetOutput() != nil:
		record.Context = context.WithValue(recordContext(record), outputKey{}, response.GetOutput())
	}
	return nil
}

// rpcError classifies the error of a failed call.
func rpcError(err error) error {
	failed := status.Convert(err)
	classed := &Error{Class: Permanent, Name: codeName(failed.Code()), Err: fmt.Errorf("calling the module: %s: %s",
		codeName(failed.Code()), failed.Message())}
	switch failed.Code() {
	// canceled by the consumer's own stop
	case codes.Unavailable, codes.DeadlineExceeded, codes.ResourceExhausted, codes.Aborted, codes.Canceled:
		classed.Class = Retryable
	}
	return classed
}

// codeName returns gRPC's name of a code ("UNAVAILABLE"), but TIMEOUT for DEADLINE_EXCEEDED, as in Pipestream's dead
// letters.
func codeName(code codes.Code) string {
	if code == codes.DeadlineExceeded {
		return "TIMEOUT"
	}
	var name strings.Builder
	for i, char := range code.String() {
		if i > 0 && unicode.IsUpper(char) {
			name.WriteByte('_')
		}
		name.WriteRune(unicode.ToUpper(char))
	}
	return name.String()
}
