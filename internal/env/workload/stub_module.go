package workload

import (
	"context"

	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"
	"google.golang.org/protobuf/proto"

	"github.com/dlqbench/dlqbench/deadletter/pipestream"
	"github.com/dlqbench/dlqbench/history"
)

// Module is the RPC of the module behind a node of a graph, PipeStepProcessor.ProcessData:
//
//	success     success = true
//	logical     success = false: the step is done, the document has a fault
//	transient   UNAVAILABLE, every second attempt of a document ABORTED
//	429         RESOURCE_EXHAUSTED; the module does not state a wait
//	permanent   INVALID_ARGUMENT
type Module struct {
	ids    *history.IDs
	topics map[string]int16 // a message says where its document was read
}

// NewModule returns the RPC of a module in a run with these ids, and the topics of the history's header.
func NewModule(ids *history.IDs, topics []history.Topic) *Module {
	return &Module{ids, indexed(topics)}
}

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

func (*Module) fixed(method string) (bool, []byte, error) {
	if method == pipestream.PipeStepProcessor_ProcessData_FullMethodName {
		return false, nil, nil
	}
	return true, nil, status.Error(codes.Unimplemented, "the module has no method "+method)
}

func (*Module) planned(string) bool { return false }

func (*Module) spans() bool { return false }

func (*Module) role(string) CallRole { return CallAmong }

func (*Module) streamed(string) bool { return false }

func (*Module) several(string, []byte, int32) bool { return false }

func (*Module) legible(_ string, message []byte) []byte { return message }

func (*Module) tells() bool { return false }

func (m *Module) read(_ context.Context, _ string, message []byte, event *history.Event) (seq int32, found bool) {
	var request pipestream.ProcessDataRequest
	if proto.Unmarshal(message, &request) != nil {
		return 0, false
	}
	metadata := request.GetMetadata()
	if topic, known := m.topics[metadata.GetTopic()]; known {
		event.Topic, event.Partition, event.Offset = topic, metadata.GetPartition(), metadata.GetOffset()
	}
	if seq, found = m.ids.Find([]byte(metadata.GetStreamId())); found {
		return seq, true
	}
	return m.ids.Find(request.GetDocument().GetInline())
}

func (*Module) answer(_ string, event *history.Event, one *answer) ([]byte, error) {
	switch event.Outcome {
	case history.OutcomeSuccess:
		return proto.Marshal(&pipestream.ProcessDataResponse{Success: true})
	case history.OutcomeLogical:
		return proto.Marshal(&pipestream.ProcessDataResponse{Error: one.text})
	case history.OutcomeTransient:
		if event.N%2 == 0 {
			return nil, status.Error(codes.Aborted, one.text)
		}
		return nil, status.Error(codes.Unavailable, one.text)
	case history.OutcomeRateLimited:
		return nil, status.Error(codes.ResourceExhausted, one.text)
	}
	return nil, status.Error(codes.InvalidArgument, one.text)
}
