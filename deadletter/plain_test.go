package deadletter

import (
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/twmb/franz-go/pkg/kgo"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/golden"
)

var sealedAt = time.Date(2026, 3, 1, 12, 0, 0, 0, time.UTC)

func failure(reason string) Failure {
	return Failure{Reason: reason, Attempts: 3, Topic: "orders", Partition: 2, Offset: 41, Epoch: 7, Time: sealedAt}
}

func header(key, value string) kgo.RecordHeader {
	return kgo.RecordHeader{Key: key, Value: []byte(value)}
}

// dump formats a record so that every byte is visible.
func dump(record *kgo.Record) string {
	text := fmt.Sprintf("topic %q partition %d time %s\nkey %s\nvalue %s\n", record.Topic, record.Partition,
		record.Timestamp.UTC().Format(time.RFC3339), bytesText(record.Key), bytesText(record.Value))
	for _, h := range record.Headers {
		text += fmt.Sprintf("header %q = %s\n", h.Key, bytesText(h.Value))
	}
	return text
}

func bytesText(data []byte) string {
	if data == nil {
		return "null"
	}
	return fmt.Sprintf("%q", data)
}

func TestPlainLettersAreTheseBytes(t *testing.T) {
	var out strings.Builder
	for _, c := range []struct {
		name   string
		record *kgo.Record
		reason string
	}{
		{"an ordinary record", &kgo.Record{Key: []byte("k"), Value: []byte(`{"id":1}`),
			Headers: []kgo.RecordHeader{header("trace", "t1"), header("trace", "t2")}}, "connection refused"},
		{"null key and value", &kgo.Record{}, "tombstone refused"},
		{"empty key and value, null header value",
			&kgo.Record{Key: []byte{}, Value: []byte{}, Headers: []kgo.RecordHeader{{Key: "h"}}}, ""},
		{"hostile error text", &kgo.Record{Key: []byte{0xff}, Value: []byte{0}}, "a\r\nX-Admin: 1\x00\xff\xfe\u2028\"<b>é"},
		{"its own headers have the names",
			&kgo.Record{Value: []byte("v"), Headers: []kgo.RecordHeader{header("offset", "north"), header("partition", "wall"),
				header("x-original-offset", "o")}}, "r"},
		{"put back without being restored", &kgo.Record{Value: []byte("v"), Headers: []kgo.RecordHeader{
			header("trace", "t"), header("x-error-reason", "old"), header("x-retry-attempt", "9"), header("source-topic", "old"),
			header("partition", "9"), header("offset", "9"), header("epoch", "-1"), header("x-original-offset", "north"),
		}}, "new"},
	} {
		fmt.Fprintf(&out, "# %s\n%s\n", c.name, dump(Plain{}.Seal(c.record, failure(c.reason))))
	}
	checkGolden(t, PlainName, out.String())
}

// checkGolden compares dead letters with those in the dialect's golden file.
func checkGolden(t *testing.T, dialect, letters string) {
	t.Helper()
	golden.Check(t, filepath.Join("testdata", dialect+".golden"), letters)
}

func TestReasonsAreCutBetweenCharacters(t *testing.T) {
	for _, c := range []struct {
		reason string
		want   int
	}{
		{strings.Repeat("a", MaxReason), MaxReason},
		{strings.Repeat("a", MaxReason+1), MaxReason},
		{"a" + strings.Repeat("é", MaxReason), MaxReason - 1},
		{strings.Repeat("\U0001F600", MaxReason), MaxReason},
		{"ab" + strings.Repeat("\U0001F600", MaxReason), MaxReason - 2},
		{strings.Repeat("\xff", MaxReason), MaxReason - 1}, // U+FFFD takes three bytes
	} {
		if got := reasonText(c.reason); len(got) != c.want || !utf8.Valid(got) {
			t.Errorf("%.20q…: %d bytes, want %d; valid UTF-8: %v", c.reason, len(got), c.want, utf8.Valid(got))
		}
	}
}

// headerNames draws header names and prefers those of the dialect.
func headerNames() *rapid.Generator[string] {
	return rapid.OneOf(rapid.String(), rapid.SampledFrom([]string{
		HeaderReason, HeaderAttempt, HeaderTopic, HeaderPartition, HeaderOffset, HeaderEpoch, "x-original-offset",
		"x-original-x-original-epoch", "x-original-", "trace",
	}))
}

func records() *rapid.Generator[*kgo.Record] {
	return rapid.Custom(func(t *rapid.T) *kgo.Record {
		data := rapid.Custom(func(t *rapid.T) []byte {
			if rapid.IntRange(0, 4).Draw(t, "null") == 0 {
				return nil
			}
			return rapid.SliceOf(rapid.Byte()).Draw(t, "data")
		})
		record := &kgo.Record{Key: data.Draw(t, "key"), Value: data.Draw(t, "value")}
		for range rapid.IntRange(0, 8).Draw(t, "headers") {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: headerNames().Draw(t, "name"),
				Value: rapid.OneOf(data, rapid.Just([]byte("7"))).Draw(t, "value")})
		}
		return record
	})
}

func failures() *rapid.Generator[Failure] {
	return rapid.Custom(func(t *rapid.T) Failure {
		return Failure{
			Reason: rapid.OneOf(rapid.String(), rapid.Just("\r\n\x00\xff"), rapid.Just(strings.Repeat("é", 700))).Draw(t,
				"reason"),
			Topic: rapid.StringMatching(`[a-z][a-z.]{0,20}`).Draw(t, "topic"), Attempts: rapid.Int32Range(1, 1<<31-1).Draw(t,
				"attempts"),
			Partition: rapid.Int32Range(0, 1<<31-1).Draw(t, "partition"), Offset: rapid.Int64Range(0, 1<<63-1).Draw(t, "offset"),
			Epoch: rapid.Int32Range(-1, 1<<31-1).Draw(t, "epoch"), Time: sealedAt,
		}
	})
}

func TestRestoreUndoesSealAndOpenTellsTheTruth(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		record, said := records().Draw(t, "record"), failures().Draw(t, "failure")
		before := dump(record)
		putBack := countEnvelopes(record.Headers, Plain{}.Traits().Fields) > 0
		letter := Plain{}.Seal(record, said)
		if dump(record) != before {
			t.Fatal("sealing changed the record")
		}
		for _, name := range []string{HeaderReason, HeaderAttempt, HeaderTopic, HeaderPartition, HeaderOffset, HeaderEpoch} {
			if n, own := countHeader(letter, name), countHeader(record, name); n != own+1 && !putBack {
				t.Fatalf("%d headers named %s, %d of the record's own", n, name, own)
			}
		}
		opened, missing := Plain{}.Open(letter)
		said.Reason = string(reasonText(said.Reason))
		if len(missing) > 0 || opened != said {
			t.Fatalf("opened %+v (missing %v), want %+v", opened, missing, said)
		}
		if strings.ContainsFunc(opened.Reason, unicode.IsControl) || len(opened.Reason) > MaxReason ||
			!utf8.ValidString(opened.Reason) {
			t.Fatalf("reason %q", opened.Reason)
		}
		restored := Plain{}.Prepare(letter)
		want := &kgo.Record{Key: record.Key, Value: record.Value, Headers: record.Headers, Topic: said.Topic,
			Partition: said.Partition}
		if putBack {
			want.Headers = Plain{}.Prepare(record).Headers
		}
		if dump(restored) != dump(want) {
			t.Fatalf("restored\n%swant\n%s", dump(restored), dump(want))
		}
	})
}

func countHeader(record *kgo.Record, name string) int {
	n := 0
	for _, h := range record.Headers {
		if h.Key == name {
			n++
		}
	}
	return n
}

func TestALetterDoesNotGrowWhenItFailsAgain(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		letter := Plain{}.Seal(records().Draw(t, "record"), failure("first"))
		again := Plain{}.Seal(letter, failure("again"))
		third := Plain{}.Seal(again, failure("third"))
		if len(letter.Headers) != len(again.Headers) || len(again.Headers) != len(third.Headers) {
			t.Fatalf("%d headers, then %d, then %d", len(letter.Headers), len(again.Headers), len(third.Headers))
		}
		if dump(Plain{}.Prepare(letter)) != dump(Plain{}.Prepare(third)) {
			t.Fatal("the original was changed on the way")
		}
	})
}

func TestOpenListsWhatIsMissing(t *testing.T) {
	whole := Plain{}.Seal(&kgo.Record{}, failure("r")).Headers
	change := func(name, value string) []kgo.RecordHeader {
		headers := slices.Clone(whole)
		for i := range headers {
			if headers[i].Key == name {
				headers[i].Value = []byte(value)
			}
		}
		return headers
	}
	all := []string{HeaderReason, HeaderAttempt, HeaderTopic, HeaderPartition, HeaderOffset, HeaderEpoch}
	for _, c := range []struct {
		headers []kgo.RecordHeader
		missing []string
	}{
		{whole, nil},
		{nil, all},
		{change(HeaderReason, ""), nil},
		{change(HeaderReason, "\xff"), []string{HeaderReason}},
		{change(HeaderAttempt, "0"), []string{HeaderAttempt}},
		{change(HeaderAttempt, "2147483647"), nil},
		{change(HeaderAttempt, "2147483648"), []string{HeaderAttempt}},
		{change(HeaderAttempt, "03"), []string{HeaderAttempt}},
		{change(HeaderAttempt, "three"), []string{HeaderAttempt}},
		{change(HeaderTopic, ""), []string{HeaderTopic}},
		{change(HeaderPartition, "-1"), []string{HeaderPartition}},
		{change(HeaderPartition, "0"), nil},
		{change(HeaderOffset, "9223372036854775807"), nil},
		{change(HeaderOffset, "9223372036854775808"), []string{HeaderOffset}},
		{change(HeaderOffset, "+1"), []string{HeaderOffset}},
		{change(HeaderOffset, " 1"), []string{HeaderOffset}},
		{change(HeaderOffset, "\x00\x00\x00\x00\x00\x00\x00\x01"), []string{HeaderOffset}},
		{change(HeaderEpoch, "-1"), nil},
		{change(HeaderEpoch, "-2"), []string{HeaderEpoch}},
		{append(change(HeaderOffset, "x"), header(HeaderOffset, "5")), nil}, // the last counts
	} {
		if _, missing := (Plain{}).Open(&kgo.Record{Headers: c.headers}); !slices.Equal(missing, c.missing) {
			t.Errorf("%q: missing %v, want %v", c.headers, missing, c.missing)
		}
	}
}

func TestNamed(t *testing.T) {
	dialect, err := Named("plain")
	if err != nil || dialect != (Plain{}) {
		t.Errorf("plain: %v, %v", dialect, err)
	}
	if !dialect.IsFailureHeader("offset") || dialect.IsFailureHeader("Offset") ||
		dialect.IsFailureHeader("x-original-offset") {
		t.Error("the failure headers are not told from others")
	}
	if _, err := Named("sping"); err == nil || !strings.Contains(err.Error(), "known are plain") {
		t.Errorf("an unknown name gave %v", err)
	}
}

var errTest = errors.New("refused")
