package worker

import (
	"bytes"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/store"
)

// Any dead letter becomes an entry that has its bytes, its own place and a strategy.
func FuzzNewEntry(f *testing.F) {
	f.Add([]byte("k"), []byte(`{"eventId":"1","pattern":"payment.created","metadata":{"priority":1,"tags":["a",2]}}`),
		"priority", []byte("7"))
	f.Add([]byte(nil), []byte(`{"source":[],"metadata":"x","id":{"a":1}}`), "offset", []byte("99999999999999999999"))
	f.Add([]byte{0xff}, []byte{0, 0xff}, "type", []byte{0xff})
	f.Fuzz(func(t *testing.T, key, value []byte, header string, content []byte) {
		letter := &kgo.Record{Topic: "dlq", Partition: 1, Offset: 7, Key: key, Value: value,
			Headers: []kgo.RecordHeader{{Key: header, Value: content}}}
		name, opener := deadletter.Detect(letter)
		entry := newEntry(letter, name, opener)
		plan(&entry, DefaultStrategies(), instant(t, "2026-02-11T12:00:00Z"))
		if entry.Letter != (store.Place{Topic: "dlq", Partition: 1, Offset: 7}) || entry.Strategy == "" ||
			entry.NextRetryAt.IsZero() {
			t.Errorf("%+v", entry)
		}
		if name == deadletter.RawName && (!bytes.Equal(entry.Value, value) || !bytes.Equal(entry.Key, key) ||
			len(entry.Headers) != 1 || entry.Source != entry.Letter) {
			t.Errorf("%+v", entry)
		}
	})
}
