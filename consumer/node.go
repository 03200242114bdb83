package consumer

// This file makes a consumer the engine of one node of a graph. It reads PipeStreams from the node's input topic,
// calls the node's module by gRPC, records the result in the document's history, and passes the document on to the
// next node. The forwarded document is published like a dead letter: the record's offset counts as done once the
// broker has acknowledged the write. A crash in between causes a duplicate, but no loss.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"slices"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/deadletter/pipestream"
)

// Node says where a node's documents go.
type Node struct {
	// Name is the node's id in histories and dead letters.
	Name string `json:"name"`
	// Edges are where documents go on; none: they leave the graph.
	Edges []NodeEdge `json:"edges,omitempty"`
	// Sink is the topic of documents that leave the graph, Quarantine that of documents that fail although they were
	// replayed MaxReprocess times.
	Sink         string `json:"sink"`
	Quarantine   string `json:"quarantine"`
	MaxReprocess int    `json:"max_reprocess"`
}

// NodeEdge leads to another node.
type NodeEdge struct {
	To     string `json:"to"`
	Topic  string `json:"topic"`
	Weight int    `json:"weight"`
}

// Router decides where finished records go.
type Router interface {
	// Forward returns the record to publish in place of a processed one. step is the result of the processing. The
	// input record is not changed.
	Forward(record *kgo.Record, step Step) *kgo.Record
	// DeadLetterTopic returns the topic of a failed record's dead letter.
	DeadLetterTopic(record *kgo.Record) string
}

// Step is the result of a record: processed if Err is nil, otherwise failed logically.
type Step struct {
	Err      error
	Attempts int
	At       time.Time
}

// PartsFor returns the parts that keep the promises of the configuration.
func PartsFor(config Config) Parts {
	parts := DefaultParts(config.Settings)
	if config.Node != nil {
		parts.Router, parts.Sealer = GraphRouter{Node: *config.Node}, nodeSealer{deadletter.Pipestream{}, config.Node.Name}
	}
	return parts
}

// nodeSealer records in each dead letter the node at which the document failed.
type nodeSealer struct {
	deadletter.Sealer
	node string
}

// Seal implements deadletter.Sealer.
func (s nodeSealer) Seal(record *kgo.Record, failure deadletter.Failure) *kgo.Record {
	failure.Instance = s.node
	return s.Sealer.Seal(record, failure)
}

// GraphRouter is the Router of a node.
type GraphRouter struct{ Node Node }

// Forward implements Router. Key and headers are kept, and the stream has one more entry in its history. A logical
// failure is recorded there and forwarded like a success.
func (r GraphRouter) Forward(record *kgo.Record, step Step) *kgo.Record {
	stream := &pipestream.PipeStream{}
	if err := proto.Unmarshal(record.Value, stream); err != nil {
		// The module is not called with a value that is not a stream, so such a value is forwarded unchanged.
		return &kgo.Record{Topic: r.Node.Sink, Key: record.Key, Value: record.Value, Headers: record.Headers,
			Partition: record.Partition}
	}
	entry := &pipestream.HistoryEntry{
		NodeId: r.Node.Name, HopNumber: stream.GetHopNumber(), Success: step.Err == nil,
		ProcessedAt: timestamppb.New(step.At), Attempts: int32(step.Attempts),
	}
	if step.Err != nil {
		entry.ErrorMessage = step.Err.Error()
	}
	if output, ok := recordContext(record).Value(outputKey{}).(*pipestream.Document); ok {
		stream.Document = output
	}
	next := r.next(stream.GetStreamId())
	stream.History = append(stream.History, entry)
	stream.HopNumber++
	stream.CurrentNodeId = next.To
	value, err := proto.MarshalOptions{Deterministic: true}.Marshal(stream)
	if err != nil { // the error's text is not UTF-8: the stream itself was decoded before
		entry.ErrorMessage = fmt.Sprintf("%q", entry.GetErrorMessage())
		value, _ = proto.MarshalOptions{Deterministic: true}.Marshal(stream)
	}
	return &kgo.Record{Topic: next.Topic, Key: record.Key, Value: value, Headers: record.Headers,
		Partition: record.Partition}
}

// next returns the edge that a document takes: FNV-1a (64 bits) of its id, "/" and the node's name, modulo the sum of
// the weights, falls into the weight of one edge.
func (r GraphRouter) next(id string) NodeEdge {
	total := 0
	for _, edge := range r.Node.Edges {
		total += edge.Weight
	}
	if total <= 0 {
		return NodeEdge{Topic: r.Node.Sink}
	}
	digest := fnv.New64a()
	_, _ = digest.Write([]byte(id + "/" + r.Node.Name)) // a digest never fails
	draw := int(digest.Sum64() % uint64(total))
	at := slices.IndexFunc(r.Node.Edges, func(edge NodeEdge) bool {
		draw -= edge.Weight
		return draw < 0
	})
	return r.Node.Edges[at]
}

// DeadLetterTopic implements Router. A document that was replayed too often goes to quarantine. "" is the consumer's
// own dead-letter topic.
func (r GraphRouter) DeadLetterTopic(record *kgo.Record) string {
	stream := &pipestream.PipeStream{}
	if proto.Unmarshal(record.Value, stream) == nil && int(stream.GetReprocessCount()) >= r.Node.MaxReprocess {
		return r.Node.Quarantine
	}
	return ""
}

// outputKey is the context key for the document that the module returned for a record.
type outputKey struct{}

func recordContext(record *kgo.Record) context.Context {
	if record.Context == nil {
		return context.Background()
	}
	return record.Context
}

// forward publishes the result of a processed record if there is a Router. Without one, the record is finished when
// it is processed.
func (l *loop) forward(t *task, result outcome) {
	if l.parts.Router == nil {
		l.finish(t)
		return
	}
	t.letter = l.parts.Router.Forward(t.record, Step{Err: result.err, Attempts: t.attempts, At: result.at})
	l.publish(t)
}

// deadLetterTopic returns the topic of the task's dead letter.
func (l *loop) deadLetterTopic(t *task) string {
	if l.parts.Router != nil {
		if topic := l.parts.Router.DeadLetterTopic(t.record); topic != "" {
			return topic
		}
	}
	return l.config.DLQTopic
}

// decodeNode decodes a node from DLQBENCH_NODE.
func decodeNode(text string) (*Node, error) {
	node := &Node{}
	if err := json.Unmarshal([]byte(text), node); err != nil {
		return nil, fmt.Errorf("reading DLQBENCH_NODE: %w", err)
	}
	return node, node.validate()
}

func (n *Node) validate() error {
	var errs []error
	if n.Name == "" || n.Sink == "" || n.Quarantine == "" {
		errs = append(errs, errors.New("a node needs a name, a sink and a quarantine topic"))
	}
	for _, edge := range n.Edges {
		if edge.To == "" || edge.Topic == "" || edge.Weight < 1 {
			errs = append(errs, fmt.Errorf("the edge to %q of node %q needs a node, a topic and a weight of 1 or more", edge.To,
				n.Name))
		}
	}
	return errors.Join(errs...)
}

// checkNode checks that a node retries in place and commits offsets.
func (c Config) checkNode() error {
	settings := c.Settings
	if c.Node == nil {
		return nil
	}
	if settings.Retry != RetryInPlace || settings.GroupProtocol == ProtocolShare || settings.Transactions ||
		!settings.DLQEnabled {
		return errors.New("a node of a graph retries in place, commits offsets without transactions, and dead-letters")
	}
	return c.Node.validate()
}
