package history

import (
	"bytes"
	"path/filepath"
	"runtime/metrics"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// setAside returns the number of bytes allocated so far.
func setAside() uint64 {
	sample := []metrics.Sample{{Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(sample)
	return sample[0].Value.Uint64()
}

// spare is the maximum number of bytes that reading a segment may allocate, whatever the segment contains: a page of
// every column, and the decoders.
const spare = 64 << 20

// readSegment reads the events of a segment that claims to be of run-a.
func readSegment(data []byte) (events []Event, err error) {
	file, info, err := openSegment(data, "run-a")
	if err != nil {
		return nil, err
	}
	c := newCursor(newVocabulary())
	defer c.close()
	c.info, c.left, c.last = info, info.Events, info.First
	if err := c.openColumns(file); err != nil {
		return nil, err
	}
	for {
		more, err := c.nextPage()
		if err != nil || !more {
			return events, err
		}
		for ; c.at < c.rows; c.at++ {
			events = append(events, *c.event())
		}
	}
}

// reworded returns the segment with a word replaced by another of the same length and the checksum corrected. It
// fails if the word is not there.
func reworded(t testing.TB, whole []byte, old, now string) []byte {
	t.Helper()
	at := bytes.LastIndex(whole, []byte(old))
	if at < 0 || len(old) != len(now) {
		t.Fatalf("%q can't be made %q", old, now)
	}
	data := bytes.Clone(whole)
	copy(data[at:], now)
	copy(data[bytes.LastIndex(data, []byte(sumMark))+len(sumMark):], noSum)
	must.Get(sealSegment(data))(t)
	return data
}

// events25 is how the footer encodes a segment's count of 25 events: as text in its own metadata, after the field and
// length of the value, and as a number before that.
const events25 = metaEvents + "\x18\x0225"

// Undamaged segments with impossible metadata are rejected, and no memory is allocated for what they claim.
func TestSegmentsThatLieAreRefused(t *testing.T) {
	dir, _ := small(t)
	whole := read(t, filepath.Join(dir, segmentFile(1)))
	if got, err := readSegment(reworded(t, whole, events25, events25)); err != nil || len(got) != 25 {
		t.Fatalf("the segment itself: %d events, %v", len(got), err)
	}
	footer := whole[len(whole)-8 : len(whole)-4]
	for name, c := range map[string]struct{ old, now, found string }{
		"more events in words":     {events25, metaEvents + "\x18\x0299", "holds another number"},
		"fewer events in words":    {events25, metaEvents + "\x18\x0201", "holds another number"},
		"no events":                {events25, metaEvents + "\x18\x0200", "holds another number"},
		"no number":                {events25, metaEvents + "\x18\x02e9", "its metadata"},
		"negative":                 {events25, metaEvents + "\x18\x02-1", "holds another number"},
		"a footer of 2 GiB":        {string(footer) + "PAR1", "\xff\xff\xff\x7fPAR1", "its footer has 2147483647 bytes"},
		"a footer of 4 GiB":        {string(footer) + "PAR1", "\xff\xff\xff\xffPAR1", "its footer has 4294967295 bytes"},
		"a metadata text of 8 KiB": {events25, metaEvents + "\x18\xff25", "footer"},
		"another format":           {metaFormat + "\x18\x011", metaFormat + "\x18\x019", "format 9"},
	} {
		data := reworded(t, whole, c.old, c.now)
		before := setAside()
		got, err := readSegment(data)
		if cost := setAside() - before; err == nil || !strings.Contains(err.Error(), c.found) || cost > spare {
			t.Errorf("%s: %d events, %v, %d KiB were set aside", name, len(got), err, cost>>10)
		}
	}
}

// FuzzSegment checks that a modified segment is either rejected before the decoder sees it, or is the segment that
// was written.
func FuzzSegment(f *testing.F) {
	dir, events := small(f)
	whole := read(f, filepath.Join(dir, segmentFile(1)))
	f.Add(whole)
	f.Add([]byte("PAR1" + sumMark + noSum + "PAR1"))
	f.Add([]byte("PAR1xxh64:PAR1"))
	for at := 4; at < len(whole); at += len(whole) / 20 {
		f.Add(append(append([]byte{}, whole[:at]...), whole[at+3:]...))
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		before := setAside()
		got, err := readSegment(data)
		if cost := setAside() - before; cost > spare+uint64(64*len(data)) {
			t.Fatalf("%d MiB were set aside for %d bytes", cost>>20, len(data))
		}
		if err == nil {
			requireEqual(t, got, events[:25])
		}
	})
}
