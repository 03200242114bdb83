package workload

import (
	"encoding/json"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/samples"
)

func sampleBuilder(t testing.TB, form history.IDForm, lines string) *builder {
	t.Helper()
	place, err := samples.ParsePlace("$.id")
	if err != nil {
		t.Fatal(err)
	}
	set, problems := samples.Read(strings.NewReader(lines),
		samples.Options{Lines: samples.LinesEnvelope, ID: place, As: form})
	if problems != nil {
		t.Fatal(problems)
	}
	b := newBuilder(history.NewIDsAs("run", form, 1000), 1, "orders", 1)
	b.samples = set
	return b
}

const envelopes = `{"key":"customer-1","headers":{"type":"order","ref":"o-1"},"value":{"id":"o-1","n":1.50}}
{"value":{"id":"o-2"},"key":"o-2"}
`

func TestRecordsAreMadeFromSamples(t *testing.T) {
	for _, form := range []history.IDForm{history.IDText, history.IDUUID, history.IDInt64} {
		lines := envelopes
		if form == history.IDInt64 {
			lines = strings.ReplaceAll(lines, "o-", "170")
		}
		b := sampleBuilder(t, form, lines)
		id, later := b.ids.Token(4), b.ids.Token(5)
		first := b.build(4, &plan.Record{Key: history.SampleKey, Size: 256}, time.Now())
		if string(first.Value) != `{"id":"`+id+`","n":1.50}` || string(first.Key) != "customer-1" {
			t.Errorf("%s: made %s with the key %s", form, first.Value, first.Key)
		}
		if got := fmt.Sprintf("%s", first.Headers); got != "[{dlqbench-id "+id+"} {trace-1 span-1-"+
			string(first.Headers[1].Value[len("span-1-"):])+"} {type order} {ref "+id+"}]" {
			t.Errorf("%s: headers %s", form, got)
		}
		second := b.build(5, &plan.Record{Key: history.KeyIsID, Sample: 1, Size: 4000, Large: true}, time.Now())
		if string(second.Key) != later || len(second.Value) != 4000 || !json.Valid(second.Value) ||
			!strings.HasPrefix(string(second.Value), `{"id":"`+later+`"}`) {
			t.Errorf("%s: made %.80s with the key %s", form, second.Value, second.Key)
		}
		for what, one := range map[string]plan.Record{
			"a tombstone":  {Key: history.SampleKey, Tombstone: true},
			"garbage":      {Key: history.None, Garbage: true, Size: 256},
			"a binary key": {Key: history.BinaryKey + 3, Sample: 1},
		} {
			record := b.build(6, &one, time.Now())
			if (record.Value == nil) != one.Tombstone || one.Garbage && (len(record.Value) != 256 || json.Valid(record.Value)) ||
				(record.Key == nil) != (one.Key == history.None) {
				t.Errorf("%s: made %q with the key %q", what, record.Value, record.Key)
			}
			if record.Headers[0].Key != history.IDHeader {
				t.Errorf("%s can't be followed: %s", what, record.Headers)
			}
		}
	}
}

func TestNumbersStayNumbersInRecords(t *testing.T) {
	b := sampleBuilder(t, history.IDInt64, `{"key":"17","headers":{"ref":"17"},"value":{"n":17,"id":17}}`)
	id := b.ids.Token(4)
	record := b.build(4, &plan.Record{Key: history.KeyIsID}, time.Now())
	if string(record.Value) != `{"n":17,"id":`+id+`}` || string(record.Key) != id {
		t.Errorf("made %s with the key %s", record.Value, record.Key)
	}
	if last := record.Headers[len(record.Headers)-1]; last.Key != "ref" || string(last.Value) != id {
		t.Errorf("headers %s", record.Headers)
	}
	garbage := b.build(5, &plan.Record{Key: history.None, Garbage: true, Size: 100_000}, time.Now())
	if seq, found := b.ids.Find(garbage.Value); found {
		t.Errorf("garbage has the id of record %d", seq)
	}
}

// Samples that are malformed in the same way are the same, so that their values tell nothing.
func TestMalformedSamplesAreNotKnownByTheirValues(t *testing.T) {
	b := sampleBuilder(t, history.IDText, envelopes)
	for seq, planned := range []plan.Record{{Malformed: samples.Truncated}, {Malformed: samples.NotJSON},
		{Malformed: samples.WrongType}, {Malformed: samples.MissingField}, {Garbage: true}} {
		planned.Key = history.SampleKey
		value := b.build(int32(seq), &planned, time.Now()).Value
		if _, found := b.ids.OfValue(value); found != planned.Garbage {
			t.Errorf("%q is known by its value: %v", value, found)
		}
		if again := b.build(int32(seq)+100, &planned, time.Now()).Value; (string(again) != string(value)) != planned.Garbage {
			t.Errorf("%q and %q", value, again)
		}
	}
}

func TestKeysHaveNumbersOfTheirOwn(t *testing.T) {
	for index, want := range map[int32]int32{
		history.None: history.None, 7: 7, history.SampleKey + 2: history.SampleKey + 2, history.KeyIsID: history.IDKey + 9,
	} {
		if got := keyNumber(9, index); got != want {
			t.Errorf("key %d has the number %d, want %d", index, got, want)
		}
	}
	header := history.Header{RunID: "run", IDForm: history.IDUUID, Keys: []string{"a", "b"}}
	for number, want := range map[int32]string{
		7: "key-000007", history.SampleKey + 1: "b", history.SampleKey + 2: "", history.IDKey + 9: header.IDs().Token(9),
		history.BinaryKey + 1: "key-000001\xff\xfe\x80",
	} {
		if got := header.Key(number); got != want {
			t.Errorf("key number %d is %q, want %q", number, got, want)
		}
	}
}

// BenchmarkBuild compares records from samples with the workload's own. Each is answered at once.
func BenchmarkBuild(b *testing.B) {
	own := newBuilder(history.NewIDs("run"), 1, "orders", 1)
	number := sampleBuilder(b, history.IDInt64, `{"value":{"id":7,"pad":"`+strings.Repeat("a", 200)+`"}}`)
	line := `{"value":{"id":"x","pad":"` + strings.Repeat("a", 200) + `"}}`
	framed := sampleBuilder(b, history.IDUUID, `{"key":"x",`+line[1:])
	headers := []samples.Header{{Name: "ce_id", IsID: true}, {Name: "ce_type", Value: []byte("order")}}
	framed.samples = framed.samples.Framed(samples.Frames{Value: samples.Frame{Head: make([]byte, 5), Headers: headers}})
	for name, one := range map[string]*builder{
		"own": own, "framed": framed, "text": sampleBuilder(b, history.IDText, line),
		"uuid":  sampleBuilder(b, history.IDUUID, line),
		"int64": number,
	} {
		b.Run(name, func(b *testing.B) {
			planned, now := &plan.Record{Key: 3, Size: 256}, time.Now()
			one.slabs.answered = func(*outgoing, error) {}
			b.ReportAllocs()
			for i := 0; b.Loop(); i++ {
				one.build(int32(i), planned, now).answered(nil, nil)
			}
		})
	}
}
