package cost

// This file measures writing, reading and judging a history, and the memory that judging needs.

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
)

// BenchmarkHistory writes, reads and judges a history of 200,000 records on one core, with all invariants and all
// measurements.
func BenchmarkHistory(b *testing.B) {
	const records = 200_000
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	header, events := synthetic{records: records, attempts: 1}.Header(), synthetic{records: records, attempts: 1}.events()
	count := len(events)
	dir := filepath.Join(b.TempDir(), "history")
	writeHistory(b, &meter{}, dir, header, events)
	for _, way := range []struct {
		name string
		do   func(b *testing.B, m *meter)
	}{
		{"write", func(b *testing.B, m *meter) {
			size := writeHistory(b, m, filepath.Join(b.TempDir(), "history"), header, events)
			b.ReportMetric(float64(size)/float64(len(events)), "bytes/event")
		}},
		{"judge", func(b *testing.B, m *meter) {
			m.take(b, count, func() error { return judge(history.FromEvents(header, events)) })
		}},
		{"read", func(b *testing.B, m *meter) {
			events = nil // the collector would scan them, and whoever reads a history does not hold it
			reader := must(history.Open(dir))(b)
			found := 0
			m.take(b, count, func() error {
				return reader.Each(func(*history.Event) error { found++; return nil })
			})
			wholly(b, int64(found), count)
		}},
		{"read-and-judge", func(b *testing.B, m *meter) {
			events = nil
			m.take(b, count, func() error { return judge(must(history.Open(dir))(b)) })
		}},
	} {
		b.Run("do="+way.name, func(b *testing.B) {
			var m meter
			for b.Loop() {
				way.do(b, &m)
			}
			m.reportPerCore(b, "event")
		})
	}
}

// writeHistory records all events, seals the history and returns its size. It hands over events no faster than they are
// written, because the recorder drops the excess.
func writeHistory(b *testing.B, m *meter, dir string, header history.Header, events []history.Event) (size int64) {
	recorder := must(history.NewRecorder(dir, header, history.NewClock()))(b)
	m.take(b, len(events), func() error {
		for i := range events {
			recorder.Record(events[i])
			if i%(1<<14) == 0 {
				runtime.Gosched()
			}
		}
		return recorder.Seal()
	})
	for _, file := range must(filepath.Glob(filepath.Join(dir, "*")))(b) {
		size += must(os.Stat(file))(b).Size()
	}
	return size
}

// judge judges a history that must be correct.
func judge(source history.Source) error {
	verdict, _, err := assertions.Judge(source)
	if err == nil && verdict.Verdict != assertions.Pass {
		err = fmt.Errorf("the history is one of a correct run, yet judged %s: %v", verdict.Verdict, verdict.Reasons)
	}
	return err
}

// BenchmarkJudge judges histories of increasing length, which are generated during judging; the time for generating
// them is subtracted. The memory is that after the last event, while all data gathered by judging is still in use.
func BenchmarkJudge(b *testing.B) {
	for _, s := range []synthetic{
		{records: 20_000, attempts: 1}, {records: 20_000, attempts: 23}, {records: 200_000, attempts: 1},
		{records: 1_000_000, attempts: 1}, {records: 10_000_000, attempts: 1},
	} {
		b.Run(fmt.Sprintf("records=%d/attempts=%d", s.records, s.attempts), func(b *testing.B) {
			var making, judging meter
			var heap uint64
			for b.Loop() {
				making.take(b, 1, func() error { return s.Each(func(*history.Event) error { return nil }) })
				before := heapInUse()
				watched := &watched{synthetic: s}
				judging.take(b, 1, func() error { return judge(watched) })
				judging.cpu -= watched.spent
				judging.items += watched.count - 1
				heap = watched.heap - before
			}
			judging.cpu -= making.cpu
			judging.reportPerCore(b, "event")
			b.ReportMetric(float64(heap)/1e6, "heap-MB")
			b.ReportMetric(float64(heap)/float64(s.records), "heap-B/record")
		})
	}
}

// watched counts the events, and measures the memory after the last one.
type watched struct {
	synthetic
	count int
	heap  uint64
	spent time.Duration // processor time for measuring the memory
}

// Each implements history.Source.
func (w *watched) Each(see func(*history.Event) error) error {
	err := w.synthetic.Each(func(e *history.Event) error { w.count++; return see(e) })
	began := processorTime(syscall.RUSAGE_SELF)
	w.heap = heapInUse()
	w.spent = processorTime(syscall.RUSAGE_SELF) - began
	return err
}

func heapInUse() uint64 {
	runtime.GC()
	runtime.GC() // frees the memory of finalizers and pools
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
