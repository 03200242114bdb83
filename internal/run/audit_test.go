package run

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/dlqbench/dlqbench/deadletter"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/workload"
)

// TestWhatADeadLetterHoldsIsItsRecord checks, in every dialect, that the audit compares the original with the record
// that the dead letter holds, not with the dialect's form of it, and that it detects a change.
func TestWhatADeadLetterHoldsIsItsRecord(t *testing.T) {
	value := []byte(`{"id":"DLQB","seq":1,"key":null,"sent_at":"2026-01-01T00:00:00Z","pad":"the quick"}`)
	record := &kgo.Record{Key: []byte("k"), Value: value,
		Headers: []kgo.RecordHeader{{Key: "trace-1", Value: []byte("span")}}}
	said := deadletter.Failure{Reason: "r", Class: "c", Attempts: 2, Topic: "in", Partition: 1, Offset: 5, Service: "s",
		Instance: "n", Group: "g", Handler: "h", Time: time.Unix(1, 0)}
	r := &run{header: history.Header{Consumers: make([]history.Consumer, 1),
		Topics: []history.Topic{{Name: "dlq"}, {Name: "in"}}}}
	for _, name := range deadletter.Names() {
		dialect, err := deadletter.Named(name)
		if err != nil {
			t.Fatal(err)
		}
		letter := dialect.Seal(record, said)
		held := heldIn(dialect, letter)
		if !bytes.Equal(held.Key, record.Key) || !bytes.Equal(held.Value, value) {
			t.Errorf("%s: held is %q = %q", name, held.Key, held.Value)
		}
		if dialect.Traits().Headers && name != deadletter.HexkitName &&
			(len(held.Headers) != 1 || held.Headers[0].Key != "trace-1") {
			t.Errorf("%s: held are the headers %q", name, held.Headers)
		}
		letter.Value = bytes.Replace(letter.Value, []byte("quick"), []byte("quack"), 1)
		if held := heldIn(dialect, letter); bytes.Equal(held.Value, value) {
			t.Errorf("%s: a changed value is not seen", name)
		}
		claim, traits := r.claim(dialect, letter, 7), dialect.Traits()
		want := history.Claim{Topic: 1, Partition: history.None, Offset: history.None, Attempts: history.None}
		if traits.Partition {
			want.Partition = 1
		}
		if traits.Offset {
			want.Offset = 5
		}
		if traits.Attempts {
			want.Attempts = 2
		}
		if claim != want {
			t.Errorf("%s claims %+v, want %+v", name, claim, want)
		}
	}
	own, err := deadletter.Named("headers:topic=t,attempts=a")
	if err != nil {
		t.Fatal(err)
	}
	nowhere, err := deadletter.Named("headers:reason=$.error,value=$.original")
	if err != nil {
		t.Fatal(err)
	}
	wrapped := &kgo.Record{Value: []byte(`{"error":"x","original":{"id":1}}`)}
	for inputs, topics := range map[string][2]int16{"in": {1, 1}, "dlq,in": {1, history.None}} {
		r.values.InputTopics = inputs
		for i, number := range []int32{7, history.None} {
			if claim := r.claim(nowhere, wrapped, number); claim.Topic != topics[i] || claim.Missing != "" {
				t.Errorf("without a topic: record %d of %s claims %+v", number, inputs, claim)
			}
		}
	}
	for tried, want := range map[string]int32{"0": 0, "3": 3, "x": history.None} {
		letter := &kgo.Record{Headers: []kgo.RecordHeader{{Key: "t", Value: []byte("in")}, {Key: "a", Value: []byte(tried)}}}
		if claim := r.claim(own, letter, 7); claim.Attempts != want {
			t.Errorf("%s attempts are claimed as %d", tried, claim.Attempts)
		}
	}
	spaced := deadletter.Hexkit{}.Seal(&kgo.Record{Value: []byte(strings.ReplaceAll(string(value), ":", ": "))}, said)
	spaced.Value = bytes.ReplaceAll(spaced.Value, []byte("00: 00: 00"), []byte("00:00:00"))
	for what, got := range map[string][]byte{
		"a dead letter":    heldIn(deadletter.Hexkit{}, spaced).Value,
		"a replayed event": deadletter.Hexkit{}.Prepare(spaced).Value,
	} {
		same := workload.HashValue(got, encodesAgain(deadletter.Hexkit{})) == workload.HashValue(value, true)
		if bytes.Equal(got, value) || !same {
			t.Errorf("%s, encoded again by hexkit, is %q", what, got)
		}
	}
	if encodesAgain(deadletter.Spring{}) || encodesAgain(nil) {
		t.Error("encoded again by a dialect that keeps bytes, the change is not seen")
	}
}

// A dead letter is that of the record that the header made for it names, then its value or key, then any header. One
// without the record's headers names no id where the value can't be read.
func TestRecordsAreFound(t *testing.T) {
	ids := history.NewIDs("run")
	header := func(name string, seq int32) kgo.RecordHeader {
		return kgo.RecordHeader{Key: name, Value: []byte("of " + ids.Token(seq))}
	}
	own, cause := header(history.IDHeader, 6), header("cause", 8)
	ids.KnowValue([]byte("garbage"), 3)
	for _, one := range []struct {
		record kgo.Record
		want   int32
		found  bool
	}{
		{kgo.Record{Value: []byte("garbage")}, 3, true},
		{kgo.Record{Value: []byte("garbage"), Key: []byte(ids.Token(5))}, 5, true},
		{kgo.Record{Value: []byte("garbage"), Headers: []kgo.RecordHeader{cause}}, 8, true},
		{kgo.Record{Value: []byte(ids.Token(4)), Key: []byte(ids.Token(5)), Headers: []kgo.RecordHeader{cause, own}}, 6, true},
		{kgo.Record{Value: []byte(ids.Token(4)), Key: []byte(ids.Token(5)), Headers: []kgo.RecordHeader{cause}}, 4, true},
		{kgo.Record{Key: []byte(ids.Token(5)), Headers: []kgo.RecordHeader{cause}}, 5, true},
		{kgo.Record{Value: []byte("other")}, 0, false},
		{kgo.Record{}, 0, false},
	} {
		if seq, found := findRecord(ids, &one.record); seq != one.want || found != one.found {
			t.Errorf("%q is of record %d, %v", one.record.Value, seq, found)
		}
	}
}
