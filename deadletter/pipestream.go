package deadletter

import (
	"strings"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"

	"github.com/dlqbench/dlqbench/deadletter/pipestream"
)

// PipestreamName is the name of the dialect Pipestream.
const PipestreamName = "pipestream"

// streamField is the number of DlqMessage.stream.
const streamField protowire.Number = 1

// Pipestream is the dialect of "Pipestream's DLQ Handling". The dead letter's value is a DlqMessage, which holds the
// failed PipeStream byte for byte as it was consumed, so that fields unknown to this program are kept too. Key and
// headers are kept. Of a Failure, Class is the error_type, Instance the node, and Attempts the retry_count.
//
// A replay republishes the PipeStream to the topic from which the node consumed it, with the reprocess count
// incremented by one. A value that was not a PipeStream is replayed unchanged.
type Pipestream struct{}

// Traits implements Dialect.
func (Pipestream) Traits() Traits {
	return Traits{
		Fields: []string{
			"stream", "error_type", "error_message", "failed_at", "retry_count", "failed_node_id", "original_topic",
			"original_partition", "original_offset",
		}, Partition: true, Offset: true, Attempts: true, Headers: true,
	}
}

// Seal implements Sealer.
func (Pipestream) Seal(record *kgo.Record, failure Failure) *kgo.Record {
	message := &pipestream.DlqMessage{
		ErrorType: proto.String(validUTF8(failure.Class)), ErrorMessage: proto.String(validUTF8(failure.Reason)),
		FailedAt:   timestamppb.New(failure.Time),
		RetryCount: proto.Int32(failure.Attempts), FailedNodeId: proto.String(validUTF8(failure.Instance)),
		OriginalTopic:     proto.String(validUTF8(failure.Topic)),
		OriginalPartition: proto.Int32(failure.Partition), OriginalOffset: proto.Int64(failure.Offset),
	}
	var value []byte
	if record.Value != nil {
		value = protowire.AppendBytes(protowire.AppendTag(nil, streamField, protowire.BytesType), record.Value)
	}
	// Only text that is not UTF-8 cannot be marshalled, and there is none.
	value, _ = proto.MarshalOptions{Deterministic: true}.MarshalAppend(value, message)
	return &kgo.Record{Key: record.Key, Value: value, Headers: record.Headers, Partition: failure.Partition,
		Timestamp: failure.Time}
}

// Open implements Opener.
func (Pipestream) Open(letter *kgo.Record) (Failure, []string) {
	failure := unknownFailure(letter)
	stream, rest, valid := splitStream(letter.Value)
	message := &pipestream.DlqMessage{}
	if !valid || proto.Unmarshal(rest, message) != nil {
		message, stream = &pipestream.DlqMessage{}, nil
	}
	var found fields
	for field, there := range [...]bool{
		stream != nil, message.ErrorType != nil, message.ErrorMessage != nil, message.GetFailedAt().IsValid(),
		message.GetRetryCount() >= 1,
		message.GetFailedNodeId() != "", message.GetOriginalTopic() != "", message.OriginalPartition != nil &&
			message.GetOriginalPartition() >= 0,
		message.OriginalOffset != nil && message.GetOriginalOffset() >= 0,
	} {
		found.note(field, there)
	}
	failure.Class, failure.Reason = message.GetErrorType(), message.GetErrorMessage()
	failure.Instance, failure.Topic = message.GetFailedNodeId(), message.GetOriginalTopic()
	failure.Attempts = max(message.GetRetryCount(), 0)
	if message.GetFailedAt().IsValid() {
		failure.Time = message.GetFailedAt().AsTime()
	}
	if message.OriginalPartition != nil {
		failure.Partition = max(message.GetOriginalPartition(), -1)
	}
	if message.OriginalOffset != nil {
		failure.Offset = max(message.GetOriginalOffset(), -1)
	}
	return failure, found.missing(Pipestream{}.Traits().Fields)
}

// Prepare implements Opener. Key and headers are the dead letter's.
func (Pipestream) Prepare(letter *kgo.Record) *kgo.Record {
	failure, _ := Pipestream{}.Open(letter)
	return &kgo.Record{
		Key: letter.Key, Value: reprocessed(Pipestream{}.Payload(letter)), Headers: letter.Headers, Topic: failure.Topic,
		Partition: failure.Partition,
	}
}

// Payload returns the stream as it was consumed, nil if the dead letter has none.
func (Pipestream) Payload(letter *kgo.Record) []byte {
	stream, _, _ := splitStream(letter.Value)
	return stream
}

// IsFailureHeader implements Opener. It is false, because a dead letter has all its information in the value.
func (Pipestream) IsFailureHeader(string) bool { return false }

// reprocessed increments the stream's reprocess count.
func reprocessed(value []byte) []byte {
	stream := &pipestream.PipeStream{}
	if proto.Unmarshal(value, stream) != nil {
		return value
	}
	stream.ReprocessCount++
	raised, err := proto.MarshalOptions{Deterministic: true}.Marshal(stream)
	if err != nil {
		return value
	}
	return raised
}

// splitStream extracts the stream from a DlqMessage. rest is the message without it. Of several streams the last
// counts, as in protobuf for fields that are not merged. valid reports whether the message's fields could be parsed.
func splitStream(value []byte) (stream, rest []byte, valid bool) {
	for left := value; len(left) > 0; {
		number, kind, length := protowire.ConsumeTag(left)
		if length < 0 {
			return nil, nil, false
		}
		size := protowire.ConsumeFieldValue(number, kind, left[length:])
		if size < 0 {
			return nil, nil, false
		}
		if number == streamField && kind == protowire.BytesType {
			stream, _ = protowire.ConsumeBytes(left[length:])
			if stream == nil {
				stream = []byte{}
			}
		} else {
			rest = append(rest, left[:length+size]...)
		}
		left = left[length+size:]
	}
	return stream, rest, true
}

// validUTF8 returns the text with U+FFFD in place of invalid UTF-8, because protobuf strings must be UTF-8.
func validUTF8(text string) string {
	if utf8.ValidString(text) {
		return text
	}
	return strings.ToValidUTF8(text, "\uFFFD")
}
