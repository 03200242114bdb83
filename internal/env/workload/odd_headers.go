package workload

// Headers that Kafka accepts and careless code damages. Every client can carry them as bytes, but a map of strings
// cannot.

import (
	"encoding/binary"
	"slices"
	"strconv"

	"github.com/twmb/franz-go/pkg/kgo"
)

// The names of odd headers.
const (
	oddBytes = "x-bytes"
	oddNull  = "x-null"
	oddEmpty = "x-empty"
	oddTwice = "x-twice"
)

// oddHeaders returns the odd headers of record seq, and one header of each further name.
func oddHeaders(seq int32, names []string) []kgo.RecordHeader {
	number := strconv.AppendInt(nil, int64(seq), 10)
	headers := []kgo.RecordHeader{
		{Key: oddBytes, Value: binary.BigEndian.AppendUint32([]byte{0xff, 0xfe, 0x00, 0x80}, uint32(seq))},
		{Key: oddNull},
		{Key: oddEmpty, Value: []byte{}},
		{Key: oddTwice, Value: append([]byte("first-"), number...)},
		{Key: oddTwice, Value: append([]byte("second-"), number...)},
	}
	for _, name := range names {
		headers = append(headers, kgo.RecordHeader{Key: name, Value: append([]byte("the application's own "), number...)})
	}
	return headers
}

// OddHeaders extends kept by the names of odd headers. further names those that the dead letters' envelope uses too.
func OddHeaders(kept func(name string) bool, further []string) func(name string) bool {
	names := append([]string{oddBytes, oddNull, oddEmpty, oddTwice}, further...)
	return func(name string) bool { return slices.Contains(names, name) || kept(name) }
}
