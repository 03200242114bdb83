package deadletter

import (
	"bytes"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"google.golang.org/protobuf/encoding/protowire"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/types/known/timestamppb"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/deadletter/pipestream"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// aStream returns a document that has passed a node, as a record's value.
func aStream(t must.Test, reprocessed int32) []byte {
	value := must.Get(proto.MarshalOptions{Deterministic: true}.Marshal(&pipestream.PipeStream{
		StreamId: "DLQB-1", Document: &pipestream.Document{Content: &pipestream.Document_Inline{Inline: []byte(`{"id":1}`)}},
		CurrentNodeId: "chunk", HopNumber: 1, ReprocessCount: reprocessed,
		History: []*pipestream.HistoryEntry{{NodeId: "parse", Success: true, Attempts: 1,
			ProcessedAt: timestamppb.New(sealedAt)}},
	}))(t)
	return value
}

func TestPipestreamLettersAreTheseBytes(t *testing.T) {
	failed := Failure{
		Reason: "calling the module: TIMEOUT: no answer", Class: "TIMEOUT", Attempts: 3, Topic: "input.chunk", Partition: 2,
		Offset: 41, Epoch: 7, Instance: "chunk", Time: sealedAt,
	}
	extreme := Failure{Reason: "é\r\n\x00\xff", Class: "\xfe", Attempts: math.MaxInt32, Topic: "t",
		Partition: math.MaxInt32, Offset: math.MaxInt64, Instance: "n", Time: sealedAt}
	var out strings.Builder
	for _, c := range []struct {
		name   string
		record *kgo.Record
		failed Failure
	}{
		{"a stream", &kgo.Record{Key: []byte("k"), Value: aStream(t, 0), Headers: []kgo.RecordHeader{header("trace", "t1")}},
			failed},
		{"a stream that was replayed twice", &kgo.Record{Value: aStream(t, 2)}, failed},
		{"no stream at all", &kgo.Record{Value: []byte("\xff\xff")}, extreme},
		{"null", &kgo.Record{}, failed},
	} {
		letter := Pipestream{}.Seal(c.record, c.failed)
		opened, missing := Pipestream{}.Open(letter)
		fmt.Fprintf(&out, "# %s\n%sopened %+v\nmissing %v\nprepared %s\n", c.name, dump(letter), opened, missing,
			dump(Pipestream{}.Prepare(letter)))
	}
	checkGolden(t, PipestreamName, out.String())
}

// TestAPipestreamLetterIsADlqMessage reads a dead letter with only the generated code, as any other program would.
func TestAPipestreamLetterIsADlqMessage(t *testing.T) {
	letter := Pipestream{}.Seal(&kgo.Record{Value: aStream(t, 1)}, Failure{
		Reason: "refused", Class: "UNAVAILABLE", Attempts: 3, Topic: "input.chunk", Partition: 2, Offset: 41,
		Instance: "chunk", Time: sealedAt,
	})
	message := &pipestream.DlqMessage{}
	must.Do(t, proto.Unmarshal(letter.Value, message))
	want := &pipestream.DlqMessage{
		Stream: message.GetStream(), ErrorType: proto.String("UNAVAILABLE"), ErrorMessage: proto.String("refused"),
		FailedAt:   timestamppb.New(sealedAt),
		RetryCount: proto.Int32(3), FailedNodeId: proto.String("chunk"), OriginalTopic: proto.String("input.chunk"),
		OriginalPartition: proto.Int32(2), OriginalOffset: proto.Int64(41),
	}
	if !proto.Equal(message, want) || message.GetStream().GetReprocessCount() != 1 ||
		len(message.GetStream().GetHistory()) != 1 {
		t.Errorf("the dead letter reads %v", message)
	}
}

// TestPipestreamKeepsWhatItDoesNotKnow: fields of a later version of the stream survive a dead letter and a replay.
func TestPipestreamKeepsWhatItDoesNotKnow(t *testing.T) {
	value := protowire.AppendString(protowire.AppendTag(aStream(t, 0), 99, protowire.BytesType), "of a later version")
	letter := Pipestream{}.Seal(&kgo.Record{Value: value}, Failure{Attempts: 1, Topic: "t", Instance: "n", Time: sealedAt})
	if payload := (Pipestream{}).Payload(letter); !bytes.Equal(payload, value) {
		t.Errorf("the payload is %q", payload)
	}
	stream := &pipestream.PipeStream{}
	must.Do(t, proto.Unmarshal(Pipestream{}.Prepare(letter).Value, stream))
	if stream.GetReprocessCount() != 1 ||
		!bytes.Contains(stream.ProtoReflect().GetUnknown(), []byte("of a later version")) {
		t.Errorf("prepared %v", stream)
	}
}

func TestPipestreamLettersTellWhatWasSealed(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		record, said := records().Draw(t, "record"), anyFailure().Draw(t, "failure")
		times := rapid.Int32Range(0, 1<<20).Draw(t, "replayed")
		if isStream := rapid.Bool().Draw(t, "a stream"); isStream {
			record.Value = aStream(t, times)
		}
		before := dump(record)
		letter := Pipestream{}.Seal(record, said)
		if dump(record) != before {
			t.Fatal("sealing changed the record")
		}
		opened, missing := Pipestream{}.Open(letter)
		want := Failure{
			Reason: strings.ToValidUTF8(said.Reason, "\uFFFD"), Class: strings.ToValidUTF8(said.Class, "\uFFFD"),
			Attempts: said.Attempts, Topic: said.Topic,
			Partition: said.Partition, Offset: said.Offset, Epoch: -1, Time: said.Time, Instance: said.Instance,
		}
		if record.Value == nil != slices.Equal(missing, []string{"stream"}) ||
			record.Value != nil && len(missing) > 0 || opened != want {
			t.Fatalf("opened\n%+v, missing %v, want\n%+v", opened, missing, want)
		}
		if payload := (Pipestream{}).Payload(letter); !bytes.Equal(payload, record.Value) {
			t.Fatalf("the payload is %q", payload)
		}
		back := Pipestream{}.Prepare(letter)
		if !bytes.Equal(back.Key, record.Key) || !equalHeaders(back, record) || back.Topic != said.Topic ||
			back.Partition != said.Partition {
			t.Fatalf("prepared %s", dump(back))
		}
		stream := &pipestream.PipeStream{}
		if proto.Unmarshal(record.Value, stream) == nil {
			stream.ReprocessCount++
			raised := &pipestream.PipeStream{}
			if err := proto.Unmarshal(back.Value, raised); err != nil || !proto.Equal(raised, stream) {
				t.Fatalf("prepared %v, %v", raised, err)
			}
		} else if !bytes.Equal(back.Value, record.Value) {
			t.Fatalf("what is no stream went back as %q", back.Value)
		}
	})
}

// FuzzPipestreamOpen: any value can be opened and prepared, and a value extracted from it and sealed again is
// unchanged.
func FuzzPipestreamOpen(f *testing.F) {
	letter := Pipestream{}.Seal(&kgo.Record{Value: aStream(f, 1)}, Failure{Reason: "r", Class: "c", Attempts: 1,
		Topic: "t", Offset: 1, Instance: "n", Time: sealedAt})
	f.Add(letter.Value)
	f.Add(letter.Value[:len(letter.Value)-3])
	f.Add([]byte{0x0a, 0xff, 0xff, 0xff, 0xff, 0x0f})
	f.Add([]byte(`{"json": true}`))
	f.Fuzz(func(t *testing.T, value []byte) {
		letter := &kgo.Record{Value: bytes.Clone(value)}
		opened, missing := Pipestream{}.Open(letter)
		prepared := Pipestream{}.Prepare(letter)
		if !bytes.Equal(letter.Value, value) {
			t.Error("opening changed the dead letter")
		}
		if slices.Contains(missing, "original_offset") != (opened.Offset < 0) ||
			slices.Contains(missing, "retry_count") != (opened.Attempts < 1) {
			t.Errorf("%+v, but missing %v", opened, missing)
		}
		if opened.Partition < -1 || opened.Offset < -1 || prepared.Topic != opened.Topic {
			t.Errorf("%+v, prepared for %q", opened, prepared.Topic)
		}
		payload := Pipestream{}.Payload(letter)
		if again := (Pipestream{}).Payload(Pipestream{}.Seal(&kgo.Record{Value: payload}, opened)); !bytes.Equal(again,
			payload) {
			t.Errorf("the payload %q became %q", payload, again)
		}
	})
}

// TestPipestreamNamesWhatIsMissing removes each field of a dead letter in turn.
func TestPipestreamNamesWhatIsMissing(t *testing.T) {
	whole := Pipestream{}.Seal(&kgo.Record{Value: aStream(t, 0)}, Failure{Reason: "r", Class: "c", Attempts: 2, Topic: "t",
		Instance: "n", Time: sealedAt})
	for number, name := range map[protowire.Number]string{
		1: "stream", 2: "error_type", 3: "error_message", 4: "failed_at", 5: "retry_count", 6: "failed_node_id",
		7: "original_topic", 8: "original_partition", 9: "original_offset",
	} {
		var without []byte
		for left := whole.Value; len(left) > 0; {
			field, kind, length := protowire.ConsumeTag(left)
			length += protowire.ConsumeFieldValue(field, kind, left[length:])
			if field != number {
				without = append(without, left[:length]...)
			}
			left = left[length:]
		}
		if _, missing := (Pipestream{}).Open(&kgo.Record{Value: without}); !slices.Equal(missing, []string{name}) {
			t.Errorf("without field %d (%s) there are missing %v", number, name, missing)
		}
	}
	if _, missing := (Pipestream{}).Open(&kgo.Record{Value: []byte("no message")}); len(missing) != len(
		Pipestream{}.Traits().Fields) {
		t.Errorf("what is no message lacks only %v", missing)
	}
	if name, _ := Detect(whole); name != PipestreamName {
		t.Errorf("a dead letter is taken for one of %s", name)
	}
}
