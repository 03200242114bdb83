package deadletter

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// TestOwnHeaders checks that custom headers are decoded in the forms that client libraries write.
func TestOwnHeaders(t *testing.T) {
	name, err := OwnHeadersName(map[string]string{"topic": "x-topic", "partition": "x-part", "offset": "x-off",
		"attempts": "tries", "time": "at"})
	if err != nil {
		t.Fatal(err)
	}
	dialect, err := Named(name)
	if err != nil {
		t.Fatal(err)
	}
	header := func(key string, value []byte) kgo.RecordHeader { return kgo.RecordHeader{Key: key, Value: value} }
	letter := &kgo.Record{Key: []byte("k"), Value: []byte("v"), Headers: []kgo.RecordHeader{
		header("app", nil), header("x-topic", []byte("orders")), header("x-part", binary.BigEndian.AppendUint32(nil, 3)),
		header("x-off", binary.BigEndian.AppendUint64(nil, 1<<40)), header("tries", []byte("4")),
		header("at", []byte("1700000000123")),
	}}
	failure, missing := dialect.Open(letter)
	if len(missing) != 0 || failure.Topic != "orders" || failure.Partition != 3 ||
		failure.Offset != 1<<40 || failure.Attempts != 4 ||
		!failure.Time.Equal(time.UnixMilli(1700000000123)) {
		t.Errorf("have %+v, missing %v", failure, missing)
	}
	back := dialect.Prepare(letter)
	if back.Topic != "orders" || len(back.Headers) != 1 || back.Headers[0].Key != "app" || back.Headers[0].Value != nil {
		t.Errorf("a replay produces %+v", back)
	}
	tries := &letter.Headers[4]
	for value, absent := range map[string]int{"0": 0, "-1": 1, "": 1} { // 0: it could not be read, so it was not tried
		tries.Value = []byte(value)
		if failure, missing := dialect.Open(letter); failure.Attempts != 0 || len(missing) != absent {
			t.Errorf("attempts %q are read as %d, missing %v", value, failure.Attempts, missing)
		}
	}
	tries.Value = []byte("4")
	letter.Headers[3].Value = []byte("not a number")
	if failure, missing := dialect.Open(letter); failure.Offset != -1 || len(missing) != 1 || missing[0] != "x-off" {
		t.Errorf("have offset %d, missing %v", failure.Offset, missing)
	}
	again, missing := dialect.Open(dialect.Seal(&kgo.Record{}, failure))
	if len(missing) != 0 || again.Offset != failure.Offset || again.Topic != failure.Topic ||
		again.Attempts != failure.Attempts {
		t.Errorf("sealed and opened again: %+v, missing %v", again, missing)
	}
}
