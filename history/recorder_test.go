package history

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

func TestRecordFromManyGoroutines(t *testing.T) {
	const goroutines, each = 8, 5000
	dir := t.TempDir()
	r := start(t, dir, segmentEvents)
	var group sync.WaitGroup
	for g := range goroutines {
		group.Go(func() {
			for i := range each {
				e := New(KindAttemptStart, time.Duration(i))
				e.Instance, e.N, e.Op = int16(g), int32(i), r.NextOp()
				r.Record(e)
			}
		})
	}
	group.Wait()
	must.Do(t, r.Seal())
	ops, next := map[int64]bool{}, [goroutines]int32{}
	for _, e := range collect(t, open(t, dir)) {
		if e.N != next[e.Instance] || e.Op < 1 || ops[e.Op] {
			t.Fatalf("instance %d: event %d with op %d, expected event %d and a new op", e.Instance, e.N, e.Op, next[e.Instance])
		}
		ops[e.Op] = true
		next[e.Instance]++
	}
	if len(ops) != goroutines*each {
		t.Fatalf("%d events of %d", len(ops), goroutines*each)
	}
}

func TestSealWhileRecording(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, 64)
	stop := make(chan struct{})
	var group sync.WaitGroup
	for range 4 {
		group.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
					if r.backlog() < maxWaiting/2 {
						r.Record(New(KindSample, 0))
					}
				}
			}
		})
	}
	var errs [3]error
	var sealers sync.WaitGroup
	for i := range errs {
		sealers.Go(func() { errs[i] = r.Seal() })
	}
	sealers.Wait()
	close(stop)
	group.Wait()
	must.Do(t, errors.Join(errs[:]...))
	if reader := open(t, dir); !reader.Sealed() {
		t.Fatal("not sealed")
	}
}

func TestEventsAfterTheSealAreIgnored(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, 10)
	r.Record(New(KindPhase, 1))
	must.Do(t, r.Seal())
	r.Record(New(KindPhase, 2))
	must.Do(t, errors.Join(r.Seal(), r.Close(), r.Close(), r.Err()))
	if events := collect(t, open(t, dir)); len(events) != 1 || r.ignored != 1 {
		t.Fatalf("%d events, %d ignored", len(events), r.ignored)
	}
}

func TestSecondHistoryInADirectoryIsRefused(t *testing.T) {
	dir := t.TempDir()
	start(t, dir, 10)
	if _, err := NewRecorder(dir, Header{}, NewClock()); err == nil || !strings.Contains(err.Error(), "there is one "+
		"already") {
		t.Fatal(err)
	}
}

func TestEventsAreWrittenWithinASecond(t *testing.T) {
	dir := t.TempDir()
	synctest.Test(t, func(t *testing.T) {
		r := must.Get(NewRecorder(dir, Header{RunID: "run-a"}, NewClock()))(t)
		r.Record(New(KindPhase, 1))
		time.Sleep(segmentAge)
		synctest.Wait()
		if _, err := os.Stat(filepath.Join(dir, segmentFile(1))); err != nil {
			t.Error(err)
		}
		time.Sleep(10 * segmentAge)
		if err := r.Seal(); err != nil {
			t.Error(err)
		}
		if len(r.segments) != 1 {
			t.Errorf("%d segments: empty ones were written", len(r.segments))
		}
	})
}

func TestLongTextsCloseASegmentEarly(t *testing.T) {
	dir := t.TempDir()
	r := start(t, dir, segmentEvents)
	long := New(KindSubjectError, 1)
	long.Text = strings.Repeat("x", segmentText/2)
	want := []Event{long, long, long}
	for _, e := range want {
		r.Record(e)
	}
	must.Do(t, r.Seal())
	if len(r.segments) != 2 {
		t.Errorf("%d segments, want 2", len(r.segments))
	}
	requireEqual(t, collect(t, open(t, dir)), want)
}

// TestFullDisk has a disk with room for the header and one segment.
func TestFullDisk(t *testing.T) {
	dir, files := t.TempDir(), 0
	r := must.Get(newRecorder(dir, Header{RunID: "run-a"}, NewClock(), func(path string, data []byte) error {
		if files++; files > 2 {
			return &os.PathError{Op: "write", Path: path, Err: syscall.ENOSPC}
		}
		return writeWhole(path, data)
	}))(t)
	r.limit = 10
	for range 10 {
		r.Record(New(KindPhase, 1))
	}
	for range 10 {
		r.Record(New(KindPhase, 2))
	}
	<-r.Failed()
	r.Record(New(KindPhase, 3))
	for _, err := range []error{r.Err(), r.Seal(), r.Seal(), r.Close()} {
		if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), segmentFile(2)) ||
			!strings.Contains(err.Error(), "free space") {
			t.Errorf("the error says %v", err)
		}
	}
	if r.Dropped() != 11 {
		t.Errorf("%d dropped, want 11", r.Dropped())
	}
	reader := open(t, dir)
	if events := collect(t, reader); len(events) != 10 || reader.Sealed() {
		t.Errorf("%d events are there, sealed: %v", len(events), reader.Sealed())
	}
}

func TestHeaderOnAFullDisk(t *testing.T) {
	_, err := newRecorder(t.TempDir(), Header{}, NewClock(), func(string, []byte) error { return syscall.ENOSPC })
	if !errors.Is(err, syscall.ENOSPC) || !strings.Contains(err.Error(), headerFile) {
		t.Fatal(err)
	}
}

func TestSealOnAFullDisk(t *testing.T) {
	dir := t.TempDir()
	r := must.Get(newRecorder(dir, Header{RunID: "run-a"}, NewClock(), func(path string, data []byte) error {
		if filepath.Base(path) == sealFile {
			return syscall.ENOSPC
		}
		return writeWhole(path, data)
	}))(t)
	if err := r.Seal(); !errors.Is(err, syscall.ENOSPC) {
		t.Fatal(err)
	}
	if open(t, dir).Sealed() {
		t.Fatal("it passes for sealed")
	}
}

// TestDiskThatHangs has a disk that does not answer: Record must neither wait for it nor fill the memory.
func TestDiskThatHangs(t *testing.T) {
	dir, answer := t.TempDir(), make(chan struct{})
	r := must.Get(newRecorder(dir, Header{RunID: "run-a"}, NewClock(), func(path string, data []byte) error {
		if filepath.Ext(path) == ".parquet" {
			<-answer
		}
		return writeWhole(path, data)
	}))(t)
	r.limit = 10
	const recorded = 10 * (maxWaiting + 5)
	for i := range recorded {
		r.Record(New(KindPhase, time.Duration(i)))
	}
	<-r.Failed()
	if !errors.Is(r.Err(), ErrOverflow) {
		t.Error(r.Err())
	}
	if backlog := r.Backlog(); backlog != 10*maxWaiting {
		t.Errorf("%d events are said to wait, not %d", backlog, 10*maxWaiting)
	}
	close(answer)
	for r.backlog() > 0 {
		time.Sleep(time.Millisecond)
	}
	r.Record(New(KindPhase, recorded)) // would follow a hole
	if err := r.Seal(); !errors.Is(err, ErrOverflow) {
		t.Error(err)
	}
	reader := open(t, dir)
	if kept := len(collect(t, reader)); kept != 10*maxWaiting || int64(recorded+1-kept) != r.Dropped() || reader.Sealed() {
		t.Errorf("%d of %d kept, %d dropped, sealed: %v", kept, recorded, r.Dropped(), reader.Sealed())
	}
}

func TestClockNeverGoesBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		clock := NewClock()
		if clock.Now() != 0 {
			t.Error("it does not begin at 0")
		}
		time.Sleep(time.Minute)
		if clock.Now() != time.Minute {
			t.Errorf("%v after a minute", clock.Now())
		}
	})
}
