package deadletter

import (
	"encoding/binary"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// TestOwnHeaders checks that custom headers are decoded in the forms that client libraries write.
func TestOwnHeaders(t *testing.T) {
	name := must.Get(OwnHeadersName(map[string]string{"topic": "x-topic", "partition": "x-part", "offset": "x-off",
		"attempts": "tries", "time": "at"}))(t)
	dialect := must.Get(Named(name))(t)
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

// TestOwnPlacesInTheValue checks that metadata and the record's value are found in a dead letter whose value is JSON.
func TestOwnPlacesInTheValue(t *testing.T) {
	places := map[string]string{"topic": "$.source.topic", "partition": "$.source.partition", "offset": "$.source.offset",
		"attempts": "$.retries", "reason": "$.error", "class": "x-class", "time": "$.at", "value": "$.original"}
	dialect := ownOf(t, places)
	letter := &kgo.Record{Key: []byte("k"), Headers: []kgo.RecordHeader{{Key: "app"}, {Key: "x-class", Value: []byte("E")}},
		Value: []byte(`{"error":"no \u00e9","retries":3,"at":"2026-02-03T10:00:00Z","source":{"topic":"orders","partition":"2",
			"offset":70}, "original": {"id": "o-1"} }`)}
	failure, missing := dialect.Open(letter)
	if len(missing) != 0 || failure.Topic != "orders" || failure.Partition != 2 || failure.Offset != 70 ||
		failure.Attempts != 3 || failure.Reason != "no é" || failure.Class != "E" || failure.Time.Hour() != 10 {
		t.Errorf("have %+v, missing %v", failure, missing)
	}
	back := dialect.Prepare(letter)
	if string(back.Value) != `{"id": "o-1"}` || back.Topic != "orders" || len(back.Headers) != 1 || string(back.Key) != "k" {
		t.Errorf("a replay produces %+v", back)
	}
	for damaged, lacks := range map[string]int{ // of eight, one of them in a header
		"": 7, "{": 7, "[]": 7, "7": 7, `{"source":7,"original":null}`: 6,
	} {
		letter.Value = []byte(damaged)
		if _, missing := dialect.Open(letter); len(missing) != lacks {
			t.Errorf("%q lacks %v", damaged, missing)
		}
	}
}

// TestOwnValues checks that the record's value survives as JSON, as text and in base64, as far as the form can hold it.
func TestOwnValues(t *testing.T) {
	failure := Failure{Topic: "orders", Reason: "no", Attempts: 3}
	for place, values := range map[string][]string{
		"value":        {`{"id":"o-1"}`, "id;7", ""},
		"value_base64": {`{"id":"o-1"}`, "id;7", "\xff\xfe"},
	} {
		dialect := ownOf(t, map[string]string{place: "$.original", "reason": "$.error.text", "attempts": "$.error.tries"})
		if traits := dialect.Traits(); !traits.NoTopic || !traits.JSON || !traits.Attempts {
			t.Errorf("traits: %+v", traits)
		}
		for _, value := range values {
			letter := dialect.Seal(&kgo.Record{Value: []byte(value)}, failure)
			opened, missing := dialect.Open(letter)
			if len(missing) > 0 || opened.Reason != "no" || opened.Attempts != 3 || len(letter.Headers) > 0 {
				t.Errorf("%s: %+v, missing %v", letter.Value, opened, missing)
			}
			if back := dialect.Prepare(letter).Value; string(back) != value {
				t.Errorf("%s holds %q, want %q", letter.Value, back, value)
			}
		}
		if back := dialect.Prepare(dialect.Seal(&kgo.Record{}, failure)).Value; back != nil {
			t.Errorf("null became %q", back)
		}
	}
}

func ownOf(t *testing.T, places map[string]string) Dialect {
	t.Helper()
	name := must.Get(OwnHeadersName(places))(t)
	dialect := must.Get(Named(name))(t)
	return dialect
}
