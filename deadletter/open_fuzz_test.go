package deadletter

import (
	"bytes"
	"runtime/metrics"
	"slices"
	"strings"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
)

// setAside returns the number of bytes allocated so far.
func setAside() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// sizeOf returns the size of a dead letter, with 64 bytes for each header itself.
func sizeOf(letter *kgo.Record) (size uint64) {
	for _, header := range letter.Headers {
		size += uint64(64 + len(header.Key) + len(header.Value))
	}
	return size + uint64(len(letter.Key)+len(letter.Value))
}

// FuzzOpen opens a dead letter with two headers, each present any number of times.
func FuzzOpen(f *testing.F) {
	f.Add([]byte("k"), []byte("v"), HeaderOffset, []byte("1"), HeaderEpoch, []byte("-1"), uint16(1))
	f.Add([]byte(nil), []byte(nil), HeaderReason, []byte("\xff\r\n"), "x-original-offset", []byte(nil), uint16(0))
	f.Add([]byte{}, []byte{0}, HeaderAttempt, []byte("99999999999999999999"), HeaderTopic, []byte(""), uint16(3))
	f.Add([]byte("k"), []byte("v"), strings.Repeat("x-original-", 100)+HeaderOffset, []byte("1"), HeaderReason,
		[]byte("r"), uint16(5000))
	f.Fuzz(func(t *testing.T, key, value []byte, name1 string, value1 []byte, name2 string, value2 []byte, times uint16) {
		pair := []kgo.RecordHeader{{Key: name1, Value: value1}, {Key: name2, Value: value2}}
		letter := &kgo.Record{Key: key, Value: value, Headers: slices.Repeat(pair, 1+int(times))}
		copied := &kgo.Record{Key: bytes.Clone(key), Value: bytes.Clone(value), Headers: slices.Clone(letter.Headers)}
		before := setAside()
		opened, missing := Plain{}.Open(letter)
		restored := Plain{}.Prepare(letter)
		again := Plain{}.Seal(letter, Failure{Reason: string(value2), Topic: "t"})
		if cost := setAside() - before; cost > 4<<20+8*sizeOf(letter) {
			t.Errorf("%d MiB were set aside for a dead letter of %d bytes", cost>>20, sizeOf(letter))
		}
		if len(missing) < 4 {
			t.Errorf("two headers gave all but %v", missing)
		}
		if slices.Contains(missing, HeaderOffset) != (opened.Offset < 0) ||
			slices.Contains(missing, HeaderAttempt) != (opened.Attempts < 1) {
			t.Errorf("%+v, but missing %v", opened, missing)
		}
		taken := 0
		for _, name := range slices.Compact([]string{name1, name2}) {
			if (Plain{}).IsFailureHeader(name) {
				taken++
			}
		}
		if !bytes.Equal(restored.Key, key) || !bytes.Equal(restored.Value, value) ||
			len(restored.Headers) != len(letter.Headers)-taken {
			t.Errorf("restored %.1000s", dump(restored))
		}
		if len(again.Headers) != len(letter.Headers)+6 {
			t.Errorf("%d headers became %d", len(letter.Headers), len(again.Headers))
		}
		if !equalHeaders(Plain{}.Prepare(again), letter) {
			t.Error("what is sealed and restored is another record")
		}
		if !bytes.Equal(letter.Key, copied.Key) || !bytes.Equal(letter.Value, copied.Value) || !equalHeaders(letter, copied) {
			t.Error("opening changed the dead letter")
		}
	})
}

func equalHeaders(a, b *kgo.Record) bool {
	return slices.EqualFunc(a.Headers, b.Headers, func(a, b kgo.RecordHeader) bool {
		return a.Key == b.Key && bytes.Equal(a.Value, b.Value)
	})
}

// FuzzEveryDialect checks that opening, preparing and sealing any dead letter in any dialect neither panics nor
// allocates excessive memory, and that each field is either decoded or reported as missing.
func FuzzEveryDialect(f *testing.F) {
	for _, one := range dialects() {
		for _, failed := range []Failure{told(), hostile(), {}} {
			letter := one.dialect.Seal(event(), failed)
			for i := 1; i < len(letter.Headers); i++ {
				one, next := letter.Headers[i-1], letter.Headers[i]
				f.Add(letter.Key, letter.Value, one.Key, one.Value, next.Key, next.Value, uint16(1))
			}
		}
	}
	f.Add([]byte(nil), []byte(
		`{"originalEvent":{"metadata":{"encoding":"json","headers":[{},{},{}]}},"retryHistory":[[],[],[]]}`),
		"__connect.errors.partition", []byte("-1"), springOffset, []byte{1}, uint16(900))
	f.Fuzz(func(t *testing.T, key, value []byte, name1 string, value1 []byte, name2 string, value2 []byte, times uint16) {
		pair := []kgo.RecordHeader{{Key: name1, Value: value1}, {Key: name2, Value: value2}}
		letter := &kgo.Record{Key: key, Value: value, Headers: slices.Repeat(pair, 1+int(times%4096))}
		before := dump(letter)
		for _, one := range dialects() {
			start := setAside()
			failure, missing := one.dialect.Open(letter)
			prepared := one.dialect.Prepare(letter)
			again := one.dialect.Seal(letter, failure)
			if cost := setAside() - start; cost > 4<<20+64*sizeOf(letter) {
				t.Errorf("%s: %d MiB were set aside for a dead letter of %d bytes", one.name, cost>>20, sizeOf(letter))
			}
			if failure.Partition < -1 || failure.Offset < -1 || failure.Attempts < 0 || failure.MaxAttempts < 0 {
				t.Errorf("%s: %+v", one.name, failure)
			}
			if len(missing) == 0 && failure.Topic == "" {
				t.Errorf("%s: a whole dead letter without a topic: %+v", one.name, failure)
			}
			if prepared == nil || again == nil {
				t.Errorf("%s: nothing came of it", one.name)
			}
		}
		Detect(letter)
		if dump(letter) != before {
			t.Error("opening changed the dead letter")
		}
	})
}
