package deadletter

import (
	"bytes"
	"slices"
	"testing"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"
)

// hostileHeaders draws a record's own headers: duplicate names, null and empty values, the dialect's own names, and
// names and values that are not UTF-8.
func hostileHeaders(dialect Dialect) *rapid.Generator[[]kgo.RecordHeader] {
	names := append([]string{"", "trace", "X-Trace", "x-original-offset", "dlqbench-id"}, dialect.Traits().Fields...)
	if dialect != (Management{}) { // JSON cannot hold such texts
		names = append(names, "\xff\xfe")
	}
	for _, header := range dialect.Seal(event(), told()).Headers {
		names = append(names, header.Key)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return slices.Contains(dialect.Traits().Reserved, name) })
	return rapid.Custom(func(t *rapid.T) []kgo.RecordHeader {
		var headers []kgo.RecordHeader
		for range rapid.IntRange(0, 9).Draw(t, "count") {
			value := rapid.SampledFrom([][]byte{nil, {}, []byte("7"), []byte("north"), {0xff, 0xfe}, {0, 0, 0, 1}}).Draw(t,
				"value")
			headers = append(headers, kgo.RecordHeader{Key: rapid.SampledFrom(names).Draw(t, "name"), Value: value})
		}
		return headers
	})
}

// In every dialect that keeps headers, a record that was sealed and prepared has its original headers, including
// those with the dialect's names that are not reserved.
func TestOwnHeadersSurviveSealAndReplay(t *testing.T) {
	for _, one := range dialects() {
		traits := one.dialect.Traits()
		if !traits.Headers || len(traits.OnlyHeaders) > 0 {
			continue // the system that defines the dialect drops headers itself
		}
		t.Run(one.name, func(t *testing.T) {
			rapid.Check(t, func(t *rapid.T) {
				headers := hostileHeaders(one.dialect).Draw(t, "headers")
				if one.dialect.IsFailureHeader(traits.Fields[0]) && countEnvelopes(headers, traits.Fields) > 0 {
					t.Skip("a dead letter that was put back as it was")
				}
				record := &kgo.Record{Key: []byte("k"), Value: []byte("{}"), Headers: headers}
				letter := one.dialect.Seal(record, told())
				if opened, missing := one.dialect.Open(letter); len(missing) > 0 || opened.Topic != told().Topic {
					t.Fatalf("opened %+v, missing %v", opened, missing)
				}
				back := one.dialect.Prepare(letter)
				if !slices.EqualFunc(back.Headers, headers, sameHeader) || back.Topic != told().Topic {
					t.Fatalf("prepared for %s %q, want %q", back.Topic, back.Headers, headers)
				}
			})
		})
	}
}

func sameHeader(a, b kgo.RecordHeader) bool {
	return a.Key == b.Key && bytes.Equal(a.Value, b.Value) && (a.Value == nil) == (b.Value == nil)
}

// Other consumers append, prepend and overwrite headers, and put dead letters back unchanged. A replay removes the
// headers that they added.
func TestReplayTakesOffWhatTheEnvelopePutOn(t *testing.T) {
	block := func(offset string) []kgo.RecordHeader {
		return []kgo.RecordHeader{
			header(HeaderReason, "r"), header(HeaderAttempt, "1"), header(HeaderTopic, "orders"), header(HeaderPartition, "0"),
			header(HeaderOffset, offset), header(HeaderEpoch, "0"),
		}
	}
	own := []kgo.RecordHeader{header("offset", "north"), header("trace", "1"), header("offset", "south"),
		header("x-original-offset", "o"), header("trace", "2")}
	for name, c := range map[string]struct{ letter, want []kgo.RecordHeader }{
		"appended":                 {slices.Concat(own, block("5")), own},
		"two envelopes, two trips": {slices.Concat(own, block("5"), block("6")), own},
		"overwritten": {slices.Concat([]kgo.RecordHeader{header("trace", "1")}, block("5")),
			[]kgo.RecordHeader{header("trace", "1")}},
		"an envelope with two holes": {slices.Concat(own, block("5")[2:]), own},
		"none":                       {[]kgo.RecordHeader{header("trace", "1")}, []kgo.RecordHeader{header("trace", "1")}},
	} {
		if got := (Plain{}).Prepare(&kgo.Record{Headers: c.letter}).Headers; !slices.EqualFunc(got, c.want, sameHeader) {
			t.Errorf("%s: %q, want %q", name, got, c.want)
		}
	}
}
