package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// small returns a sealed history of four segments with 25 events each.
func small(t testing.TB) (dir string, events []Event) {
	t.Helper()
	for i := range 100 {
		e := New(KindSend, time.Duration(i))
		e.Record, e.Text, e.ValueHash = int32(i), fmt.Sprint("text ", i), uint64(i)*1e15
		events = append(events, e)
	}
	dir = t.TempDir()
	record(t, dir, 25, events)
	return dir, events
}

func read(t testing.TB, path string) []byte {
	t.Helper()
	data := must.Get(os.ReadFile(path))(t)
	return data
}

func write(t testing.TB, path string, data []byte) {
	t.Helper()
	must.Do(t, os.WriteFile(path, data, 0o600))
}

// requireDamage requires that exactly the named file is reported and that all other events are still read.
func requireDamage(t testing.TB, dir, file, found string, rest []Event) {
	t.Helper()
	path := filepath.Join(dir, file)
	_, err := Open(dir)
	var segment *SegmentError
	if !errors.As(err, &segment) || segment.Path != path || !strings.Contains(err.Error(), found) {
		t.Fatalf("Open says %v; want %q about %s", err, found, file)
	}
	partial := must.Get(OpenPartial(dir))(t)
	if len(partial.Damaged()) != 1 {
		t.Fatalf("damaged: %v", partial.Damaged())
	}
	requireEqual(t, collect(t, partial), rest)
	whole := 0
	for whole < len(rest) && rest[whole].Record == int32(whole) {
		whole++
	}
	requireEqual(t, collect(t, partial.Prefix()), rest[:whole])
}

func TestSegmentCutAnywhereIsReported(t *testing.T) {
	dir, events := small(t)
	path := filepath.Join(dir, segmentFile(2))
	whole := read(t, path)
	rest := append(append([]Event{}, events[:25]...), events[50:]...)
	for length := 0; length < len(whole); length += 1 + len(whole)/47 {
		write(t, path, whole[:length])
		requireDamage(t, dir, segmentFile(2), "000002.parquet", rest)
	}
	write(t, path, whole)
	requireEqual(t, collect(t, open(t, dir)), events)
}

func TestSegmentChangedAnywhereIsReported(t *testing.T) {
	dir, events := small(t)
	if err := os.Remove(filepath.Join(dir, sealFile)); err != nil {
		t.Fatal(err) // without a seal, the segment's own checksum must reveal it
	}
	path := filepath.Join(dir, segmentFile(4))
	whole := read(t, path)
	for at := 0; at < len(whole); at += 1 + len(whole)/47 {
		changed := append([]byte{}, whole...)
		changed[at] ^= 0x10
		write(t, path, changed)
		requireDamage(t, dir, segmentFile(4), "000004.parquet", events[:75])
	}
}

func TestMissingSegmentIsReported(t *testing.T) {
	for _, sealed := range []bool{true, false} {
		dir, events := small(t)
		if !sealed {
			must.Do(t, os.Remove(filepath.Join(dir, sealFile)))
		}
		must.Do(t, os.Remove(filepath.Join(dir, segmentFile(1))))
		requireDamage(t, dir, segmentFile(1), "missing", events[25:])
	}
}

func TestSegmentOfAnotherSealIsReported(t *testing.T) {
	dir, events := small(t)
	write(t, filepath.Join(dir, segmentFile(3)), read(t, filepath.Join(dir, segmentFile(1))))
	requireDamage(t, dir, segmentFile(3), "not the one that was sealed",
		append(append([]Event{}, events[:50]...), events[75:]...))
}

func TestSegmentThatWasAddedIsReported(t *testing.T) {
	dir, events := small(t)
	write(t, filepath.Join(dir, segmentFile(5)), read(t, filepath.Join(dir, segmentFile(1))))
	requireDamage(t, dir, segmentFile(5), "not part of the sealed history", events)
}

// Without a seal, nothing says how many segments there were. A copy must not count its events twice all the same.
func TestSegmentThatIsThereTwiceIsReported(t *testing.T) {
	dir, events := small(t)
	must.Do(t, os.Remove(filepath.Join(dir, sealFile)))
	write(t, filepath.Join(dir, segmentFile(5)), read(t, filepath.Join(dir, segmentFile(2))))
	requireDamage(t, dir, segmentFile(5), "a copy of 000002.parquet", events)
}

func TestSegmentOfAnotherRunIsReported(t *testing.T) {
	dir, events := small(t)
	other := t.TempDir()
	r := must.Get(NewRecorder(other, Header{RunID: "run-b"}, NewClock()))(t)
	r.Record(New(KindPhase, 1))
	must.Do(t, r.Close())
	must.Do(t, os.Remove(filepath.Join(dir, sealFile)))
	write(t, filepath.Join(dir, segmentFile(4)), read(t, filepath.Join(other, segmentFile(1))))
	requireDamage(t, dir, segmentFile(4), `belongs to the run "run-b"`, events[:75])
}

func TestDamagedSealIsReported(t *testing.T) {
	dir, events := small(t)
	path := filepath.Join(dir, sealFile)
	whole := read(t, path)
	for length := 0; length < len(whole)-2; length += 29 { // the last two bytes are the closing brace and a newline
		write(t, path, whole[:length])
		requireDamage(t, dir, sealFile, "sealed.json", events)
	}
	write(t, path, []byte(strings.Replace(string(whole), `"events": 100`, `"events": 101`, 1)))
	requireDamage(t, dir, sealFile, "does not fit", events)
	partial, err := OpenPartial(dir)
	if err != nil || partial.Sealed() {
		t.Fatalf("a history with a damaged seal passes for sealed (%v)", err)
	}
}

func TestKilledRunKeepsItsSegments(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, 10)
	events := make([]Event, 30)
	for i := range events {
		events[i] = New(KindPhase, time.Duration(i))
		r.Record(events[i])
	}
	if err := r.Close(); err != nil { // leaves the same files as a kill
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, "000004.parquet.part"), []byte("half a segment"))
	reader := open(t, dir)
	if reader.Sealed() {
		t.Error("it passes for sealed")
	}
	requireEqual(t, collect(t, reader), events)
	if err := r.Seal(); err == nil {
		t.Error("Seal after Close says that all is well")
	}
}

func TestHistoryThatCannotBeOpened(t *testing.T) {
	for name, want := range map[string]struct {
		header string
		words  string
		is     error
	}{
		"newer":     {`{"format": 99, "seed": "a text by then"}`, "format 99", ErrFormat},
		"cut":       {`{"format": 1, "run`, "decoding", nil},
		"no header": {"", "it has no header.json", fs.ErrNotExist},
		"no number": {`{}`, "no valid format number", nil},
		"mistyped":  {`{"format": 1, "seed": "x"}`, "decoding", nil},
	} {
		dir := t.TempDir()
		if want.header != "" {
			write(t, filepath.Join(dir, headerFile), []byte(want.header))
		}
		for _, open := range []func(string) (*Reader, error){Open, OpenPartial} {
			_, err := open(dir)
			if err == nil || !strings.Contains(err.Error(), want.words) || want.is != nil && !errors.Is(err, want.is) {
				t.Errorf("%s: %v", name, err)
			}
		}
	}
}

func TestStrayNumberMakesNoLongList(t *testing.T) {
	if got := len(unsealedSegments([]int{1, 2, 900_000_000})); got != 3 {
		t.Errorf("%d segments expected", got)
	}
	if got := len(unsealedSegments([]int{2, 5})); got != 5 {
		t.Errorf("%d segments expected, want 5", got)
	}
}

func TestFileDamagedAfterOpenIsReported(t *testing.T) {
	dir, _ := small(t)
	reader := open(t, dir)
	path := filepath.Join(dir, segmentFile(3))
	write(t, path, read(t, path)[:500])
	seen := 0
	err := reader.Each(func(*Event) error { seen++; return nil })
	var segment *SegmentError
	if !errors.As(err, &segment) || segment.Path != path || seen < 25 || seen > 50 {
		t.Fatalf("%v after %d events", err, seen)
	}
}

func TestFileReplacedAfterOpenIsReported(t *testing.T) {
	dir, _ := small(t)
	reader := open(t, dir)
	write(t, filepath.Join(dir, segmentFile(3)), read(t, filepath.Join(dir, segmentFile(1))))
	if err := reader.Each(func(*Event) error { return nil }); !errors.Is(err, errChanged) {
		t.Fatal(err)
	}
}

func TestSealTellsWhatIsThere(t *testing.T) {
	dir, _ := small(t)
	var s seal
	must.Do(t, json.Unmarshal(read(t, filepath.Join(dir, sealFile)), &s))
	if s.Events != 100 || len(s.Segments) != 4 || s.Segments[1].First != 25 || s.Segments[1].Last != 49 || s.At <= 0 {
		t.Fatalf("%+v", s)
	}
}

func TestSegmentThatIsWholeButNotSortedIsReported(t *testing.T) {
	requireUnreadable(t, "not sorted by time", func(w *segmentWriter) {
		w.order[3], w.order[4] = w.order[4], w.order[3]
	})
}

func TestSegmentWithUnknownWordsIsReported(t *testing.T) {
	requireUnreadable(t, `"nonsense" is no kind`, func(w *segmentWriter) { w.kinds[KindPhase] = "nonsense" })
	requireUnreadable(t, `"nonsense" is no outcome`, func(w *segmentWriter) { w.outcomes[OutcomeNone] = "nonsense" })
	requireUnreadable(t, `"nonsense" is no flag`, func(w *segmentWriter) { w.flags[Warmup] = "warm-up,nonsense" })
}

// requireUnreadable writes a segment with a writer that is tampered with after sorting, so that its checksum is
// right.
func requireUnreadable(t *testing.T, found string, tamper func(*segmentWriter)) {
	t.Helper()
	dir := t.TempDir()
	r := start(t, dir, 10)
	must.Do(t, r.Close())
	events := make([]Event, 10)
	for i := range events {
		events[i] = New(KindPhase, time.Duration(i))
		events[i].Flags = Warmup
	}
	r.encoder.sort(events)
	tamper(r.encoder)
	data, _, err := r.encoder.encodeSorted(events)
	if err != nil {
		t.Fatal(err)
	}
	write(t, filepath.Join(dir, segmentFile(1)), data)
	err = open(t, dir).Each(func(*Event) error { return nil })
	var segment *SegmentError
	if !errors.As(err, &segment) || !strings.Contains(err.Error(), found) {
		t.Errorf("%v; want %s", err, found)
	}
}

func TestPanicOfTheDecoderIsAnError(t *testing.T) {
	decode := func() (err error) {
		defer recovered(&err)
		panic("index out of range")
	}
	if err := decode(); err == nil || !strings.Contains(err.Error(), "index out of range") {
		t.Fatal(err)
	}
}
