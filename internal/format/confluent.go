package format

import (
	"encoding/binary"
	"encoding/hex"
	"strings"
)

// confluent is the wire format of Confluent's serializers (docs.confluent.io, "Wire format"): a zero byte, the schema's
// id in four bytes, and for Protobuf the message's place in its file.
func confluent(f *Format, _ string, schema Named) Frame {
	return Frame{Head: append(binary.BigEndian.AppendUint32([]byte{0}, uint32(schema.ID)), f.place...)}
}

// confluentHeaders is what their HeaderSchemaIdSerializer writes: the header __value_schema_id or __key_schema_id, with
// the byte 1, the 16 bytes of the schema's GUID, and for Protobuf the message's place in its file. The value has no
// bytes before it.
func confluentHeaders(f *Format, part string, schema Named) Frame {
	guid, err := hex.DecodeString(strings.ReplaceAll(schema.GUID, "-", ""))
	if err != nil || len(guid) != 16 {
		return Frame{}
	}
	value := append(append([]byte{1}, guid...), f.place...)
	return Frame{Headers: []Header{{Name: "__" + part + "_schema_id", Value: value}}}
}
