package history

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func start(t testing.TB, dir string, limit int) *Recorder {
	t.Helper()
	r := must.Get(NewRecorder(dir, Header{RunID: "run-a"}, NewClock()))(t)
	r.limit = limit
	t.Cleanup(func() { _ = r.Close() })
	return r
}

// record writes a sealed history whose segments have limit events each.
func record(t testing.TB, dir string, limit int, events []Event) {
	t.Helper()
	r := start(t, dir, limit)
	for i, e := range events {
		for len(events) > maxWaiting*limit && i%limit == 0 && r.backlog() > maxWaiting/2 {
			time.Sleep(time.Millisecond)
		}
		r.Record(e)
	}
	must.Do(t, r.Seal())
}

// recordWith is record without the recorder's goroutine and with an encoder that already has its buffers, for
// properties that are tried many times.
func recordWith(t must.Test, encoder *segmentWriter, dir string, limit int, events []Event) {
	must.Do(t, writeHeader(dir, Header{RunID: encoder.run}, writeWhole))
	r := &Recorder{dir: dir, run: encoder.run, clock: NewClock(), write: writeWhole, encoder: encoder}
	for segment := range slices.Chunk(events, limit) {
		must.Do(t, r.writeSegment(segment))
	}
	must.Do(t, r.writeSeal())
}

// backlog returns the number of segments that wait to be written.
func (r *Recorder) backlog() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.waiting)
}

func collect(t testing.TB, source Source) []Event {
	t.Helper()
	var events []Event
	must.Do(t, source.Each(func(e *Event) error { events = append(events, *e); return nil }))
	return events
}

func open(t testing.TB, dir string) *Reader {
	t.Helper()
	r := must.Get(Open(dir))(t)
	return r
}

func requireEqual(t interface{ Fatalf(string, ...any) }, got, want []Event) {
	if len(got) != len(want) {
		t.Fatalf("read %d events, recorded %d", len(got), len(want))
	}
	for i := range want {
		if !reflect.DeepEqual(got[i], want[i]) {
			t.Fatalf("event %d:\nread     %+v\nrecorded %+v", i, got[i], want[i])
		}
	}
}

func sortedByTime(events []Event) []Event {
	sorted := slices.Clone(events)
	slices.SortStableFunc(sorted, func(a, b Event) int { return compareTimes(a.Time, b.Time) })
	return sorted
}

func anyText() *rapid.Generator[string] {
	return rapid.OneOf(
		rapid.String(),
		rapid.Map(rapid.SliceOfN(rapid.Byte(), 0, 20), func(b []byte) string { return string(b) }),
		rapid.SampledFrom([]string{
			"", "\x00", "a\x00b", "\xff\xfe", bytesMark, bytesMark + "x", "bytes:", "\ufffd", strings.Repeat("long ", 10000),
			"xxh64:0000000000000000",
		}),
	)
}

func any64() *rapid.Generator[int64] {
	return rapid.OneOf(rapid.Int64(), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, None, 0, 1}))
}

func any32() *rapid.Generator[int32] {
	return rapid.OneOf(rapid.Int32(), rapid.SampledFrom([]int32{math.MinInt32, math.MaxInt32, None, 0, 1}))
}

func any16() *rapid.Generator[int16] {
	return rapid.OneOf(rapid.Int16(), rapid.SampledFrom([]int16{math.MinInt16, math.MaxInt16, None, 0, 1}))
}

// anyEvent draws every field freely. It uses few distinct times, so that many events share one.
func anyEvent() *rapid.Generator[Event] {
	return rapid.Custom(func(t *rapid.T) Event {
		return Event{
			Time:    time.Duration(rapid.OneOf(rapid.Int64Range(0, 20), any64()).Draw(t, "time")),
			Kind:    Kind(rapid.Byte().Draw(t, "kind")),
			Outcome: Outcome(rapid.Byte().Draw(t, "outcome")),
			Flags:   Flags(rapid.Uint32().Draw(t, "flags")),
			Run:     rapid.Uint16().Draw(t, "run"), Instance: any16().Draw(t, "instance"), Topic: any16().Draw(t, "topic"),
			Code: any16().Draw(t, "code"), Partition: any32().Draw(t, "partition"), Record: any32().Draw(t, "record"),
			N: any32().Draw(t, "n"), Offset: any64().Draw(t, "offset"), Op: any64().Draw(t, "op"), Aux: any64().Draw(t, "aux"),
			KeyHash: rapid.Uint64().Draw(t, "key"), ValueHash: rapid.Uint64().Draw(t, "value"),
			HeadersHash: rapid.Uint64().Draw(t, "headers"),
			HeaderCount: any32().Draw(t, "count"), HeaderBytes: any32().Draw(t, "bytes"), ProducerID: any64().Draw(t, "pid"),
			ProducerEpoch: any16().Draw(t, "epoch"), Sequence: any32().Draw(t, "seq"), Text: anyText().Draw(t, "text"),
			Claim: anyClaim().Draw(t, "claim"),
		}
	})
}

func anyClaim() *rapid.Generator[*Claim] {
	return rapid.Ptr(rapid.Custom(func(t *rapid.T) Claim {
		return Claim{Topic: any16().Draw(t, "topic"), Partition: any32().Draw(t, "partition"),
			Offset: any64().Draw(t, "offset"), Attempts: any32().Draw(t, "attempts"), Missing: anyText().Draw(t, "missing"),
			More: anyText().Draw(t, "more")}
	}), true)
}

func TestEveryFieldIsReadBackInOrder(t *testing.T) {
	encoder := newSegmentWriter("run-a")
	rapid.Check(t, func(rt *rapid.T) {
		events := rapid.SliceOfN(anyEvent(), 0, 60).Draw(rt, "events")
		dir := must.Get(os.MkdirTemp(t.TempDir(), ""))(rt)
		recordWith(rt, encoder, dir, rapid.IntRange(1, 30).Draw(rt, "limit"), events)
		reader := open(t, dir)
		want := sortedByTime(events)
		requireEqual(rt, collect(t, reader), want)
		requireEqual(rt, collect(t, reader), want)
		requireEqual(rt, collect(t, FromEvents(Header{}, events)), want)
		if !reader.Sealed() || len(reader.Damaged()) > 0 || reader.Header().RunID != "run-a" ||
			reader.Header().Format != FormatVersion {
			rt.Fatalf("sealed %v, damaged %v, header %+v", reader.Sealed(), reader.Damaged(), reader.Header())
		}
	})
}

// TestOverlappingSegmentsOfManyPages has segments of several pages whose times overlap, as they do when observers are
// slow.
func TestOverlappingSegmentsOfManyPages(t *testing.T) {
	events := benchRun(12_000)
	for i := range events {
		events[i].Text = fmt.Sprint(i % 7)
	}
	dir := t.TempDir()
	record(t, dir, 20_000, events)
	requireEqual(t, collect(t, open(t, dir)), sortedByTime(events))
}

func TestReadingHoldsOnlySegmentsThatOverlap(t *testing.T) {
	var events []Event
	for i := range 400 {
		events = append(events, New(KindSample, time.Duration(i)*10))
		if i%10 == 9 {
			events[i].Time -= 15 // earlier than the last event of the preceding segment
		}
	}
	dir := t.TempDir()
	record(t, dir, 11, events)
	reader := open(t, dir)
	if len(reader.segments) < 30 {
		t.Fatalf("%d segments", len(reader.segments))
	}
	m, most := &merge{reader: reader, words: newVocabulary()}, 0
	must.Do(t, m.each(func(*Event) error { most = max(most, len(m.open)+len(m.spare)); return nil }))
	if most > 3 || len(m.open) != 0 {
		t.Fatalf("held up to %d segments, %d at the end", most, len(m.open))
	}
}

// TestTiesKeepTheOrderOfRecording has many events with the same time in many tiny segments.
func TestTiesKeepTheOrderOfRecording(t *testing.T) {
	encoder := newSegmentWriter("run-a")
	check := func(rt interface {
		must.Test
		Fatalf(string, ...any)
	}, times []int) {
		events := make([]Event, len(times))
		for i, at := range times {
			events[i] = New(KindSample, time.Duration(at))
			events[i].N = int32(i)
		}
		dir := must.Get(os.MkdirTemp(t.TempDir(), ""))(rt)
		recordWith(rt, encoder, dir, 3, events)
		requireEqual(rt, collect(t, open(t, dir)), sortedByTime(events))
	}
	// The first segment starts last, when both others are open and the second could run on to the tie.
	check(t, []int{3, 3, 3, 0, 1, 3, 0, 3, 3})
	rapid.Check(t, func(rt *rapid.T) { check(rt, rapid.SliceOfN(rapid.IntRange(0, 3), 0, 24).Draw(rt, "times")) })
}

func TestTextsForOtherReaders(t *testing.T) {
	for text, want := range map[string]string{
		"plain \\ \"text\" é\n": "plain \\ \"text\" é\n", "a\x00b": `bytes:"a\x00b"`, "\xff": `bytes:"\xff"`,
		`bytes:"`: `bytes:"bytes:\""`,
	} {
		got := encodeText(text)
		back, err := decodeText(got)
		if got != want || back != text || err != nil {
			t.Errorf("%q: %s, back %q (%v), want %s", text, got, back, err, want)
		}
	}
	if _, err := decodeText(bytesMark + "no end"); err == nil {
		t.Error("a broken text is read")
	}
}

func TestAnErrorEndsTheWalk(t *testing.T) {
	dir, stop := t.TempDir(), errors.New("enough")
	record(t, dir, 4, []Event{New(KindPhase, 3), New(KindPhase, 2), New(KindPhase, 1)})
	for _, reader := range []*Reader{open(t, dir), FromEvents(Header{}, make([]Event, 3))} {
		seen := 0
		err := reader.Each(func(*Event) error { seen++; return stop })
		if !errors.Is(err, stop) || seen != 1 {
			t.Fatalf("%v after %d events", err, seen)
		}
	}
}

func TestEveryKindHasAWordOfItsOwn(t *testing.T) {
	seen := map[string]Kind{}
	for i := range 256 {
		kind := Kind(i)
		word := kind.String()
		if other, taken := seen[word]; taken {
			t.Errorf("kinds %d and %d are both %q", other, kind, word)
		}
		if kind <= KindCallEnd == strings.HasPrefix(word, "kind(") {
			t.Errorf("kind %d is %q", kind, word)
		}
		seen[word] = kind
	}
}

func TestFlagsInWords(t *testing.T) {
	for flags, want := range map[Flags]string{
		0: "", Tombstone: "tombstone", Withheld | Forged: "withheld,forged", FailureHeaders: "failure-headers",
		Polled: "polled", Repeated: "repeated", Refusable: "refusable", OtherGroup: "other-group",
		NotLibrdkafka: "not-librdkafka", Marker: "marker", Unreplicated: "unreplicated", Unanswered: "unanswered",
		1 << 31: "bit 31",
	} {
		if got := flags.String(); got != want {
			t.Errorf("%b: %q, want %q", flags, got, want)
		}
	}
	if flagName(17) != "" || Unanswered != 1<<16 {
		t.Error("a flag was added without its word")
	}
}

func TestFilesOfAHistory(t *testing.T) {
	dir := t.TempDir()
	record(t, dir, 2, make([]Event, 5))
	names := must.Get(filepath.Glob(filepath.Join(dir, "*")))(t)
	for i := range names {
		names[i] = filepath.Base(names[i])
	}
	want := []string{"000001.parquet", "000002.parquet", "000003.parquet", "header.json", "sealed.json"}
	if !slices.Equal(names, want) {
		t.Fatalf("files %v, want %v", names, want)
	}
}

// The header can be completed during the run, but not replaced by that of another run.
func TestAmendedHeader(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "history")
	header := Header{RunID: "one", Environment: map[string]string{"kafka": "process"}}
	recorder := must.Get(NewRecorder(dir, header, NewClock()))(t)
	header.Environment["kafka"] = "process, Apache Kafka 4.1.0, 3 brokers"
	must.Do(t, recorder.Amend(header))
	if err := recorder.Amend(Header{RunID: "another"}); err == nil {
		t.Error("the header became that of another run")
	}
	must.Do(t, recorder.Fail("the broker is gone", false))
	must.Do(t, recorder.Seal())
	reader := must.Get(Open(dir))(t)
	if got := reader.Header(); got.RunID != "one" || got.Environment["kafka"] != header.Environment["kafka"] ||
		got.Failure != "the broker is gone" {
		t.Errorf("the header is %+v", got)
	}
}
