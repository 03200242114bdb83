package workload

import (
	"bytes"
	"encoding/json"
	"fmt"
	"slices"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/samples"
)

// TestCanonical checks that a value that passed through any JSON library is recognised, that one with another content
// is not, and that what is not JSON stays as it is.
func TestCanonical(t *testing.T) {
	for _, forms := range [][]string{
		{`{"b":[1,2.50],"a":{"x":"é<"}}`, `{ "a": {"x": "\u00e9\u003c"}, "b": [1.0, 25e-1] }`},
		{`{"total":1000,"n":1234567890123456789}`, `{"n":1234567890123456789.0,"total":1e3}`},
		{`null`, " null "}, {`"x"`, `"\u0078"`}, {`1e400`}, {`1.5e-99999`},
	} {
		for _, form := range forms {
			if got, want := Canonical([]byte(form)), Canonical([]byte(forms[0])); !bytes.Equal(got, want) {
				t.Errorf("%s became %s, want %s", form, got, want)
			}
		}
	}
	for _, pair := range [][2]string{{`{"n":1234567890123456789}`, `{"n":1234567890123456800}`}, {`{"a":null}`, `{}`},
		{`{"a":"1"}`, `{"a":1}`}, {`[1,2]`, `[2,1]`}} {
		if bytes.Equal(Canonical([]byte(pair[0])), Canonical([]byte(pair[1]))) {
			t.Errorf("%s is taken for %s", pair[1], pair[0])
		}
	}
	for _, other := range [][]byte{nil, {}, []byte("\"\xff\""), []byte("{} {}"), []byte(`{"a":1`), []byte("id;7")} {
		if got := Canonical(other); !bytes.Equal(got, other) || (got == nil) != (other == nil) {
			t.Errorf("%q became %q", other, got)
		}
	}
}

func TestRecordIsWhatEncodingJSONReads(t *testing.T) {
	ids := history.NewIDs("run")
	rapid.Check(t, func(t *rapid.T) {
		planned := plan.Record{
			Key:       rapid.OneOf(rapid.Just(int32(history.None)), rapid.Int32Range(0, 2_000_000)).Draw(t, "key"),
			Partition: rapid.Int32Range(0, 9).Draw(t, "partition"),
			Size:      rapid.Int32Range(smallestValue, 5000).Draw(t, "size"),
		}
		seq := rapid.Int32Min(0).Draw(t, "seq")
		sent := time.Unix(rapid.Int64Range(0, 4e9).Draw(t, "sec"), rapid.Int64Range(0, 999_999_999).Draw(t, "ns"))
		record := newBuilder(ids, 1, "orders", 2).build(seq, &planned, sent)

		var value struct {
			ID, Pad string
			Seq     int32
			Key     *string
			SentAt  time.Time `json:"sent_at"`
		}
		if err := json.Unmarshal(record.Value, &value); err != nil {
			t.Fatalf("%v in %s", err, record.Value)
		}
		if value.ID != ids.Token(seq) || value.Seq != seq || !value.SentAt.Equal(sent) {
			t.Fatalf("read %+v, want record %d sent at %v", value, seq, sent)
		}
		if len(record.Value) != int(planned.Size) {
			t.Fatalf("the value has %d bytes, planned were %d", len(record.Value), planned.Size)
		}
		wantKey := fmt.Sprintf("key-%06d", planned.Key)
		if planned.Key == history.None {
			if record.Key != nil || value.Key != nil {
				t.Fatalf("a null key became %q, in the value %v", record.Key, value.Key)
			}
		} else if string(record.Key) != wantKey || value.Key == nil || *value.Key != wantKey {
			t.Fatalf("key %q, in the value %v, want %s", record.Key, value.Key, wantKey)
		}
		if record.Topic != "orders" || record.Partition != planned.Partition || len(record.Headers) != 3 {
			t.Fatalf("got topic %s, partition %d, %d headers", record.Topic, record.Partition, len(record.Headers))
		}
		if found, ok := ids.Find(record.Headers[0].Value); !ok || found != seq || record.Headers[0].Key != history.IDHeader {
			t.Fatalf("the id header is %q = %q", record.Headers[0].Key, record.Headers[0].Value)
		}
	})
}

// TestGarbageIsNoMessage checks that garbage contains no id, is not UTF-8, and is the same for the same seed and
// record.
func TestGarbageIsNoMessage(t *testing.T) {
	ids := history.NewIDs("run")
	rapid.Check(t, func(t *rapid.T) {
		planned := plan.Record{Key: 1, Garbage: true, Size: rapid.Int32Range(smallestValue, 3000).Draw(t, "size")}
		seq, seed := rapid.Int32Min(0).Draw(t, "seq"), rapid.Uint64().Draw(t, "seed")
		record := newBuilder(ids, seed, "orders", 1).build(seq, &planned, time.Unix(1, 0))
		if len(record.Value) != int(planned.Size) || utf8.Valid(record.Value) {
			t.Fatalf("%d bytes, planned were %d; UTF-8: %v", len(record.Value), planned.Size, utf8.Valid(record.Value))
		}
		for start := 0; start+garbageGap <= len(record.Value); start++ {
			if !slices.ContainsFunc(record.Value[start:start+garbageGap], func(b byte) bool { return b >= 0xf8 }) {
				t.Fatalf("%d bytes from %d on could be text: %x", garbageGap, start, record.Value)
			}
		}
		if _, found := ids.Find(record.Value); found {
			t.Fatalf("an id is in %x", record.Value)
		}
		if found, ok := ids.Find(record.Headers[0].Value); !ok || found != seq {
			t.Fatalf("the id header is %q", record.Headers[0].Value)
		}
		again := newBuilder(ids, seed, "orders", 1).build(seq, &planned, time.Unix(2, 0))
		next := newBuilder(ids, seed, "orders", 1).build(seq^1, &planned, time.Unix(1, 0))
		other := newBuilder(ids, seed+1, "orders", 1).build(seq, &planned, time.Unix(1, 0))
		if !bytes.Equal(again.Value, record.Value) || bytes.Equal(next.Value, record.Value) ||
			bytes.Equal(other.Value, record.Value) {
			t.Fatal("garbage does not follow from seed and number")
		}
	})
}

// A copy that has lost its headers is recognised by the id in its value or, if it has none, by the value.
func TestValuesWithoutAnIDAreKnown(t *testing.T) {
	for _, form := range []history.IDForm{history.IDText, history.IDUUID, history.IDUUID4, history.IDInt64} {
		ids := history.NewIDsAs("run", form, 1000)
		b := newBuilder(ids, 9, "orders", 0)
		values := map[int32][]byte{}
		for seq := range int32(100) {
			kinds := []plan.Record{{Size: 300}, {Tombstone: true}, {Garbage: true, Size: 300}, {Garbage: true, Size: 20},
				{Malformed: samples.Truncated, Size: 300}, {Malformed: samples.NotJSON, Size: 300},
				{Malformed: samples.WrongType}, {Malformed: samples.MissingField, Size: 300},
				{Malformed: samples.OversizedField, Size: 5000}}
			planned := kinds[int(seq)%len(kinds)]
			planned.Key = history.None
			values[seq] = bytes.Clone(b.build(seq, &planned, time.Unix(1, 0)).Value)
			of, byValue := ids.OfValue(values[seq])
			in, byID := ids.Find(values[seq])
			if byID == planned.Unidentified() || byValue != (planned.Unidentified() && !planned.Tombstone) {
				t.Fatalf("%s: %+v is known by its value: %v, by its id: %v", form, planned, byValue, byID)
			}
			if byValue && of != seq || byID && in != seq {
				t.Fatalf("%s: record %d is taken for %d or %d: %q", form, seq, of, in, values[seq])
			}
		}
		for seq, value := range values { // later records have not taken its place
			if of, known := ids.OfValue(value); known && of != seq {
				t.Errorf("%s: record %d is taken for %d: %q", form, seq, of, value)
			}
		}
	}
}

func TestTombstoneHasNoValue(t *testing.T) {
	ids := history.NewIDs("run")
	record := newBuilder(ids, 1, "orders", 1).build(7, &plan.Record{Key: 3, Tombstone: true}, time.Unix(1, 0))
	if found, ok := ids.Find(record.Headers[0].Value); record.Value != nil ||
		string(record.Key) != "key-000003" || !ok || found != 7 || len(record.Headers) != 2 {
		t.Fatalf("value %q, key %q, headers %v", record.Value, record.Key, record.Headers)
	}
}

// Records keep their bytes until they are answered, whatever is built and answered meanwhile.
func TestRecordsDoNotShareBytes(t *testing.T) {
	b := newBuilder(history.NewIDs("run"), 1, "orders", 3)
	answers := 0
	b.slabs.answered = func(*outgoing, error) { answers++ }
	type copied struct {
		record             *outgoing
		key, value, header string
	}
	var open []copied
	check := func(c copied) {
		r := c.record
		if string(r.Key) != c.key || string(r.Value) != c.value || fmt.Sprint(r.Headers) != c.header {
			t.Fatalf("record %d changed before it was answered: %s", r.seq, r.Value)
		}
	}
	reused, places := 0, map[*outgoing]bool{}
	const count = 20_000
	for seq := range int32(count) {
		size := 130 + seq%300
		if seq%1000 == 0 {
			size = 2 * slabBytes
		}
		r := b.build(seq, &plan.Record{Key: seq, Size: size}, time.Unix(0, int64(seq)))
		if places[r] {
			reused++
		}
		places[r] = true
		open = append(open, copied{r, string(r.Key), string(r.Value), fmt.Sprint(r.Headers)})
		// A caller that appends must not overwrite the neighbouring value.
		_ = append(r.Value, "overwritten"...)
		_ = append(r.Headers, kgo.RecordHeader{Key: "overwritten"})
		if at := int(seq*7919) % 2000; at < len(open) { // most are answered, in any order
			check(open[at])
			open[at].record.answered(nil, nil)
			open = slices.Delete(open, at, at+1)
		}
	}
	for _, c := range open {
		check(c)
		c.record.answered(nil, nil)
	}
	if answers != count || reused == 0 {
		t.Fatalf("%d of %d records were answered, and %d were built in memory used before", answers, count, reused)
	}
}

func TestExtraHeadersAreDeterministicAndDiffer(t *testing.T) {
	ids := history.NewIDs("run")
	seen := map[string]bool{}
	for seq := range int32(100) {
		planned := plan.Record{Size: 128}
		one := newBuilder(ids, 1, "t", 2).build(seq, &planned, time.Unix(1, 0))
		two := newBuilder(ids, 1, "t", 2).build(seq, &planned, time.Unix(2, 0))
		if fmt.Sprint(one.Headers) != fmt.Sprint(two.Headers) {
			t.Fatalf("record %d has headers %v and then %v", seq, one.Headers, two.Headers)
		}
		for _, h := range one.Headers {
			if seen[string(h.Value)] {
				t.Fatalf("header value %q appears twice", h.Value)
			}
			seen[string(h.Value)] = true
		}
	}
}

func TestOriginalHeaders(t *testing.T) {
	keep := OriginalHeaders(2, nil)
	for name, want := range map[string]bool{
		"dlqbench-id": true, "trace-1": true, "trace-2": true, "trace-3": false, "trace-0": false, "trace-01": false,
		"trace-": false, "trace-x": false, "x-error-reason": false, "": false, "Trace-1": false,
	} {
		if got := keep(name); got != want {
			t.Errorf("%q: original = %v, want %v", name, got, want)
		}
	}
}

func TestHashHeaders(t *testing.T) {
	h := func(pairs ...string) (headers []kgo.RecordHeader) {
		for i := 0; i < len(pairs); i += 2 {
			headers = append(headers, kgo.RecordHeader{Key: pairs[i], Value: []byte(pairs[i+1])})
		}
		return headers
	}
	keep := func(name string) bool { return name != "added" }
	original := HashHeaders(h("a", "1", "b", "2", "b", "3"), keep)
	same := map[string][]kgo.RecordHeader{
		"other order of names": h("b", "2", "a", "1", "b", "3"),
		"an added header":      h("added", "x", "a", "1", "b", "2", "b", "3", "added", "y"),
	}
	for what, headers := range same {
		if HashHeaders(headers, keep) != original {
			t.Errorf("%s changes the hash", what)
		}
	}
	other := map[string][]kgo.RecordHeader{
		"a changed value":                h("a", "1", "b", "2", "b", "4"),
		"swapped values":                 h("a", "2", "b", "1", "b", "3"),
		"other order within a name":      h("a", "1", "b", "3", "b", "2"),
		"a lost header":                  h("a", "1", "b", "2"),
		"a doubled header":               h("a", "1", "a", "1", "b", "2", "b", "3"),
		"a changed name":                 h("A", "1", "b", "2", "b", "3"),
		"bytes moved from name to value": h("a", "1", "b", "2", "", "b3"),
		"none":                           nil,
	}
	for what, headers := range other {
		if HashHeaders(headers, keep) == original {
			t.Errorf("%s is not seen", what)
		}
	}
	if got := HashHeaders(nil, keep); got != 0 {
		t.Errorf("no headers hash to %d, want 0", got)
	}
}

func TestHashBytesTellsNullFromEmpty(t *testing.T) {
	if history.HashBytes(nil) != 0 || history.HashBytes([]byte{}) == 0 || history.HashBytes([]byte("a")) == history.HashBytes([]byte("b")) {
		t.Error("null must hash to 0, and nothing else like another")
	}
}

func BenchmarkBuildRecord(b *testing.B) {
	build := newBuilder(history.NewIDs("run"), 1, "t", 1)
	planned, now := plan.Record{Key: 42, Size: 256}, time.Now()
	b.ReportAllocs()
	for i := 0; b.Loop(); i++ {
		build.build(int32(i), &planned, now)
	}
}

// The seconds are kept as text from record to record, so times of the same and of other seconds follow each other.
func TestSentAtIsWrittenAsRFC3339Nano(t *testing.T) {
	var second writtenSecond
	base := time.Date(2026, 2, 28, 23, 59, 59, 0, time.FixedZone("", 3600))
	for _, after := range []time.Duration{0, 1, 120, 999_999_999, time.Second, time.Second + 100*time.Millisecond,
		24 * time.Hour, 5, -time.Hour} {
		at := base.Add(after)
		if got, want := string(second.append(nil, at)), at.UTC().Format(time.RFC3339Nano); got != want {
			t.Errorf("%s is written as %s", want, got)
		}
	}
}
