package assertions

import (
	"fmt"
	"runtime"
	"syscall"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
)

// synthetic is a correct run of many records that generates its events during the walk, so that the memory of judging
// can be measured.
type synthetic struct {
	header  history.Header
	records int
	rounds  int // of attempts per record, at least one
}

func newSynthetic(records, rounds int) *synthetic {
	h := newBuilder().h
	h.Records = records
	h.Contract().MaxAttempts = rounds + 1
	h.Contract().Backoff = history.Backoff{}
	return &synthetic{header: h, records: records, rounds: rounds}
}

func (s *synthetic) Header() history.Header { return s.header }

// Each generates, for batches of records over four partitions: sends, acknowledgements, a fetch, attempts (one in fifty
// records fails for good and is dead-lettered), a commit; at the end the audit.
func (s *synthetic) Each(fn func(*history.Event) error) error {
	e := history.Event{}
	now, op := time.Duration(0), int64(0)
	put := func(kind history.Kind, set func(*history.Event)) {
		now += 100
		e = history.New(kind, now)
		set(&e)
		_ = fn(&e)
	}
	phase := func(name string) { put(history.KindPhase, func(e *history.Event) { e.Text = name }) }
	put(history.KindInstanceStarting, func(e *history.Event) { e.Instance = 0 })
	for p := range int32(4) {
		put(history.KindAssigned, func(e *history.Event) { e.Instance, e.Topic, e.Partition = 0, input, p })
	}
	phase(history.PhaseSteady)
	const batch = 64
	next := [4]int64{}
	for first := 0; first < s.records; first += batch {
		p := int32(first/batch) % 4
		from := next[p]
		last := min(first+batch, s.records)
		for i := first; i < last; i++ {
			n := int32(i)
			put(history.KindSend, func(e *history.Event) {
				e.Record, e.Topic, e.Partition, e.N, e.Aux = n, input, p, n%1000, int64(now)
				e.KeyHash, e.ValueHash, e.HeadersHash, e.Outcome = uint64(n%1000), uint64(n)+1, 7, history.OutcomeSuccess
			})
		}
		for i := first; i < last; i++ {
			put(history.KindAcked, func(e *history.Event) {
				e.Record, e.Topic, e.Partition, e.Offset = int32(i), input, p, next[p]
			})
			next[p]++
		}
		put(history.KindFetched, func(e *history.Event) {
			e.Instance, e.Topic, e.Partition, e.Offset, e.Aux = 0, input, p, from, next[p]-1
		})
		for i := first; i < last; i++ {
			op = s.process(int32(i), op, put)
		}
		op++
		for _, kind := range []history.Kind{history.KindCommitRequest, history.KindCommitResponse} {
			put(kind, func(e *history.Event) { e.Instance, e.Op, e.Topic, e.Partition, e.Offset = 0, op, input, p, next[p] })
		}
	}
	s.finish(next, put, phase)
	return nil
}

func (s *synthetic) process(n int32, op int64, put func(history.Kind, func(*history.Event))) int64 {
	for k := 1; k <= s.rounds+1; k++ {
		outcome := history.OutcomeTransient
		if k > s.rounds || s.rounds == 1 {
			outcome = history.OutcomeSuccess
		}
		if n%50 == 0 {
			outcome = history.OutcomePermanent
		}
		op++
		put(history.KindAttemptStart, func(e *history.Event) { e.Instance, e.Op, e.Record, e.N = 0, op, n, int32(k) })
		put(history.KindAttemptEnd, func(e *history.Event) {
			e.Instance, e.Op, e.Record, e.N, e.Outcome = 0, op, n, int32(k), outcome
		})
		if outcome != history.OutcomeTransient {
			break
		}
	}
	if n%50 == 0 {
		op++
		for _, kind := range []history.Kind{history.KindProduceRequest, history.KindProduceResponse} {
			put(kind, func(e *history.Event) {
				e.Instance, e.Op, e.Topic, e.Partition, e.Record, e.ProducerID, e.Sequence = 0, op, dlq, 0, n, 1, n
				e.Offset = int64(n / 50)
			})
		}
	}
	return op
}

func (s *synthetic) finish(next [4]int64, put func(history.Kind, func(*history.Event)), phase func(string)) {
	phase(history.PhaseHeal)
	phase(history.PhaseDrain)
	phase(history.PhaseAudit)
	put(history.KindInstanceExited, func(e *history.Event) { e.Instance, e.Flags = 0, history.Expected })
	put(history.KindAuditStart, func(e *history.Event) { e.Topic = input })
	offsets := [4]int64{}
	for i := range s.records {
		p := int32(i/64) % 4
		put(history.KindAuditRecord, func(e *history.Event) {
			e.Topic, e.Partition, e.Offset, e.Record = input, p, offsets[p], int32(i)
			e.KeyHash, e.ValueHash, e.HeadersHash = uint64(i%1000), uint64(i)+1, 7
		})
		offsets[p]++
	}
	put(history.KindAuditStart, func(e *history.Event) { e.Topic = dlq })
	for i := 0; i < s.records; i += 50 {
		put(history.KindAuditRecord, func(e *history.Event) {
			e.Topic, e.Partition, e.Offset, e.Record = dlq, 0, int64(i/50), int32(i)
			e.KeyHash, e.ValueHash, e.HeadersHash = uint64(i%1000), uint64(i)+1, 7
		})
	}
	for topic := range int16(3) {
		for p := range int32(4) {
			put(history.KindAuditOffsets, func(e *history.Event) {
				e.Topic, e.Partition, e.Offset, e.Aux = topic, p, int64(s.records), history.None
				if topic == input {
					e.Offset, e.Aux = next[p], next[p]
				}
			})
		}
	}
	phase(history.PhaseSeal)
}

// BenchmarkJudge judges a million records. The cost of generating the events and of measuring them is reported
// separately, because the first is not part of judging and the second is not part of this package.
func BenchmarkJudge(b *testing.B) {
	source := newSynthetic(1_000_000, 1)
	events := 0
	made := timed(func() { _ = source.Each(func(*history.Event) error { events++; return nil }) })
	measurer := measure.New(source.Header())
	measured := timed(func() { _ = source.Each(func(e *history.Event) error { measurer.Observe(e); return nil }) }) - made
	b.ReportAllocs()
	for b.Loop() {
		var v *Verdict
		total := timed(func() { v, _, _ = Judge(source) })
		if v.Verdict != Pass {
			b.Fatal(v.Reasons)
		}
		b.ReportMetric(float64(events)/(total-made).Seconds()/1e6, "Mevents/s")
		b.ReportMetric(float64(events)/(total-made-measured).Seconds()/1e6, "Mevents/s-without-measuring")
	}
}

// BenchmarkJudgeInMemory judges a history that is in memory, so that what is allocated is what judging allocates.
func BenchmarkJudgeInMemory(b *testing.B) {
	source, events := newSynthetic(100_000, 1), []history.Event(nil)
	_ = source.Each(func(e *history.Event) error { events = append(events, *e); return nil })
	held := history.FromEvents(source.Header(), events)
	b.ReportAllocs()
	for b.Loop() {
		if v, _, _ := Judge(held); v.Verdict != Pass {
			b.Fatal(v.Reasons)
		}
	}
}

// BenchmarkJudgeCurve judges histories of a hundred thousand to ten million records: the time grows linearly. The
// memory reported is the peak of the process, so it is meaningful for the largest history only.
func BenchmarkJudgeCurve(b *testing.B) {
	for _, records := range []int{100_000, 1_000_000, 10_000_000} {
		b.Run(fmt.Sprint(records), func(b *testing.B) {
			source := newSynthetic(records, 1)
			events := 0
			made := timed(func() { _ = source.Each(func(*history.Event) error { events++; return nil }) })
			for b.Loop() {
				total := timed(func() {
					if v, _, _ := Judge(source); v.Verdict != Pass {
						b.Fatal(v.Reasons)
					}
				})
				b.ReportMetric(float64(events)/(total-made).Seconds()/1e6, "Mevents/s")
				b.ReportMetric((total - made).Seconds(), "cpu-s")
			}
			var usage syscall.Rusage
			if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) == nil {
				b.ReportMetric(float64(usage.Maxrss)/1e6, "max-rss")
			}
		})
	}
}

// timed returns the processor time that do takes, because wall-clock time is unreliable on a busy machine.
func timed(do func()) time.Duration {
	start := processorTime()
	do()
	return processorTime() - start
}

func processorTime() time.Duration {
	var usage syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &usage) != nil {
		return 0
	}
	return time.Duration(usage.Utime.Nano() + usage.Stime.Nano())
}

// TestMemoryGrowsWithRecordsOnly checks that ten times the events for the same records take no more memory.
func TestMemoryGrowsWithRecordsOnly(t *testing.T) {
	const records = 20_000
	few, events := held(t, newSynthetic(records, 1))
	many, more := held(t, newSynthetic(records, 40))
	t.Logf("%d events: %d bytes per record; %d events: %d bytes per record", events, few/records, more, many/records)
	if more < 8*events {
		t.Fatalf("%d events are not many more than %d", more, events)
	}
	if many > few+few/10+1<<16 {
		t.Errorf("%d events are held in %d bytes, %d events of as many records in %d", more, many, events, few)
	}
	if few/records > 110 {
		t.Errorf("a record takes %d bytes", few/records)
	}
}

// held returns the memory that the state and the checkers hold after all events.
func held(t *testing.T, source history.Source) (size uint64, events int) {
	t.Helper()
	before := heap()
	j, err := newJudge(catalogue(), source.Header())
	if err != nil {
		t.Fatal(err)
	}
	j.measurer = nil // not part of this package
	err = source.Each(func(e *history.Event) error {
		events++
		j.apply(e)
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	after := heap()
	runtime.KeepAlive(j)
	return after - before, events
}

func heap() uint64 {
	runtime.GC()
	runtime.GC()
	var stats runtime.MemStats
	runtime.ReadMemStats(&stats)
	return stats.HeapAlloc
}
