package format

import (
	"encoding/binary"

	"google.golang.org/protobuf/encoding/protowire"
)

// apicurio is the wire format of Apicurio's serializers with ids of eight bytes (Legacy8ByteIdHandler, the default up
// to version 2): a zero byte, the id, and for Protobuf the name of the message. With ids of four bytes, the default
// since version 3, it is Confluent's for Avro and JSON schema.
func apicurio(f *Format, _ string, schema Named) Frame {
	return Frame{Head: append(binary.BigEndian.AppendUint64([]byte{0}, uint64(schema.ID)), f.messageRef()...)}
}

// apicurioHeaders is what they write with apicurio.registry.headers.enabled: the id in eight bytes in a header, as
// contentId (the default since version 3) and as globalId (until version 2), and for Avro the encoding.
func apicurioHeaders(f *Format, part string, schema Named) Frame {
	id := binary.BigEndian.AppendUint64(nil, uint64(schema.ID))
	prefix := "apicurio." + part + "."
	frame := Frame{Head: f.messageRef(), Headers: []Header{
		{Name: prefix + "globalId", Value: id}, {Name: prefix + "contentId", Value: id},
	}}
	if f.kind == Avro {
		frame.Headers = append(frame.Headers, Header{Name: prefix + "encoding", Value: []byte("BINARY")})
	}
	return frame
}

// messageRef is Apicurio's message Ref, whose field 1 is the simple name of the Protobuf message, with its length
// before it; nil for other formats.
func (f *Format) messageRef() []byte {
	if f.message == "" {
		return nil
	}
	ref := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), f.message)
	return protowire.AppendBytes(nil, ref)
}
