package format

import (
	"encoding/binary"
	"fmt"

	"github.com/bufbuild/protocompile/linker"
	"github.com/twmb/franz-go/pkg/sr"
	"google.golang.org/protobuf/encoding/protojson"
	"google.golang.org/protobuf/proto"
	"google.golang.org/protobuf/reflect/protoreflect"
	"google.golang.org/protobuf/types/dynamicpb"
)

// protobuf reads a .proto file. What it imports is found beside it; Google's well-known types are built in. Values are
// Protobuf's JSON mapping.
func (f *Format) protobuf(file, name string) error {
	compiled, err := compiled(file, f.Schema.Schema)
	if err != nil {
		return err
	}
	message, err := messageOf(compiled, name)
	if err != nil {
		return err
	}
	f.Schema.Type = sr.TypeProtobuf
	f.encode = func(value []byte) ([]byte, error) {
		sample := dynamicpb.NewMessage(message)
		if err := protojson.Unmarshal(value, sample); err != nil {
			return nil, fmt.Errorf("the value does not fit the message %s: %w", message.FullName(), err)
		}
		return proto.MarshalOptions{Deterministic: true}.Marshal(sample)
	}
	f.place, f.message = indexes(message), string(message.Name())
	return nil
}

// messageOf returns the message of a file with that full name; "" stands for the first.
func messageOf(file linker.File, name string) (protoreflect.MessageDescriptor, error) {
	messages := file.Messages()
	if messages.Len() == 0 {
		return nil, fmt.Errorf("the file has no message")
	}
	if name == "" {
		return messages.Get(0), nil
	}
	if found, is := file.FindDescriptorByName(protoreflect.FullName(name)).(protoreflect.MessageDescriptor); is {
		return found, nil
	}
	return nil, fmt.Errorf("the file has no message %q: write its full name, such as %s", name, messages.Get(0).FullName())
}

// indexes returns a message's place in its file, as Confluent's framings have it: the number of indexes and each of
// them, as zigzag varints. The first message of a file is a single zero.
func indexes(message protoreflect.MessageDescriptor) []byte {
	var path []int
	for at := protoreflect.Descriptor(message); ; at = at.Parent() {
		if _, isMessage := at.(protoreflect.MessageDescriptor); !isMessage {
			break
		}
		path = append([]int{at.Index()}, path...)
	}
	if len(path) == 1 && path[0] == 0 {
		return []byte{0}
	}
	written := binary.AppendVarint(nil, int64(len(path)))
	for _, index := range path {
		written = binary.AppendVarint(written, int64(index))
	}
	return written
}
