package history

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"github.com/cespare/xxhash/v2"

	"github.com/dlqbench/dlqbench/internal/testkit/must"
)

// benchRun returns realistic events of a run: 20,000 records per second over six partitions and two instances, one in
// fifty dead-lettered, commits every 100 ms, and the final audit.
func benchRun(records int) []Event {
	const perRecord = 50 * time.Microsecond
	random := rand.New(rand.NewPCG(1, 2))
	var events []Event
	hash := func(n int) uint64 { return xxhash.Sum64([]byte{byte(n), byte(n >> 8), byte(n >> 16), byte(n >> 24)}) }
	add := func(kind Kind, at time.Duration, change func(*Event)) {
		e := New(kind, at)
		change(&e)
		events = append(events, e)
	}
	op := int64(0)
	for i := range records {
		at := time.Duration(i)*perRecord + time.Duration(random.IntN(20000))
		key, partition, offset := random.IntN(1000), int32(i%6), int64(i/6)
		instance := int16(partition % 2)
		place := func(e *Event) { e.Record, e.Topic, e.Partition = int32(i), 0, partition }
		add(KindSend, at, func(e *Event) {
			place(e)
			e.Aux, e.Outcome, e.N = int64(time.Duration(i)*perRecord), OutcomeSuccess, int32(key)
			e.KeyHash, e.ValueHash, e.HeadersHash, e.HeaderCount = hash(key), hash(i), hash(7), 2
		})
		add(KindAcked, at+300*time.Microsecond+time.Duration(random.IntN(200000)), func(e *Event) {
			place(e)
			e.Offset, e.Code = offset, 0
		})
		if i%200 == 0 {
			add(KindFetched, at+time.Millisecond, func(e *Event) {
				e.Instance, e.Run, e.Topic, e.Partition, e.Offset, e.Aux = instance, 0, 0, partition, offset, offset+33
			})
		}
		op++
		attempt := func(e *Event) { place(e); e.Op, e.Instance, e.N, e.Offset = op, instance, 1, offset }
		add(KindAttemptStart, at+2*time.Millisecond+time.Duration(random.IntN(500000)), attempt)
		add(KindAttemptEnd, at+2600*time.Microsecond+time.Duration(random.IntN(500000)), func(e *Event) {
			attempt(e)
			e.Outcome, e.Code, e.Aux = OutcomeSuccess, 200, 0
		})
		if i%50 == 0 {
			op++
			produce := func(e *Event) {
				e.Op, e.Instance, e.Topic, e.Partition, e.Record, e.KeyHash, e.ValueHash = op, instance, 1, partition, int32(i),
					hash(key), hash(i)
				e.ProducerID, e.ProducerEpoch, e.Sequence = 4000+int64(instance), 0, int32(i/300)
			}
			add(KindProduceRequest, at+4*time.Millisecond, produce)
			add(KindProduceResponse, at+5*time.Millisecond, func(e *Event) { produce(e); e.Code, e.Offset = 0, offset/50 })
		}
		if i%2000 < 6 {
			op++
			commit := func(e *Event) {
				e.Op, e.Instance, e.Topic, e.Partition, e.Offset, e.N = op, instance, 0, partition, offset, 1
			}
			add(KindCommitRequest, at+6*time.Millisecond, commit)
			add(KindCommitResponse, at+7*time.Millisecond, func(e *Event) { commit(e); e.Code = 0 })
		}
	}
	end := time.Duration(records) * perRecord
	for i := range records {
		add(KindAuditRecord, end+time.Duration(i)*time.Microsecond, func(e *Event) {
			e.Topic, e.Partition, e.Offset, e.Record = 0, int32(i%6), int64(i/6), int32(i)
			e.KeyHash, e.ValueHash, e.HeadersHash, e.HeaderCount, e.HeaderBytes = hash(i%1000), hash(i), hash(7), 2, 60
			e.Aux = 1_700_000_000_000 + int64(i/20)
		})
	}
	return events
}

func BenchmarkRecord(b *testing.B) {
	r, err := newRecorder(b.TempDir(), Header{RunID: "bench"}, NewClock(), func(string, []byte) error { return nil })
	if err != nil {
		b.Fatal(err)
	}
	defer r.Close()
	e := New(KindAttemptStart, 0)
	for b.Loop() {
		if e.Time++; e.Time%segmentEvents == 0 { // measures recording, not the speed of encoding segments
			b.StopTimer()
			for r.backlog() > 0 {
				time.Sleep(time.Millisecond)
			}
			b.StartTimer()
		}
		r.Record(e)
	}
	b.ReportMetric(float64(b.N)/b.Elapsed().Seconds(), "events/s")
	must.Do(b, r.Err())
}

func BenchmarkWrite(b *testing.B) {
	events := benchRun(200_000)
	w := newSegmentWriter("bench")
	size := 0
	for b.Loop() {
		size = 0
		for at := 0; at < len(events); at += segmentEvents {
			data, _, err := w.encode(events[at:min(at+segmentEvents, len(events))])
			if err != nil {
				b.Fatal(err)
			}
			size += len(data)
		}
	}
	b.ReportMetric(float64(b.N*len(events))/b.Elapsed().Seconds(), "events/s")
	b.ReportMetric(float64(size)/float64(len(events)), "bytes/event")
}

// writeHistory writes an unsealed history, segment by segment, at the disk's own pace.
func writeHistory(b *testing.B, dir string, events []Event) {
	b.Helper()
	r := must.Get(NewRecorder(dir, Header{RunID: "bench"}, NewClock()))(b)
	must.Do(b, r.Close())
	for segment := range slices.Chunk(events, segmentEvents) {
		must.Do(b, r.writeSegment(segment))
	}
}

func BenchmarkRead(b *testing.B) {
	events := benchRun(200_000)
	dir := b.TempDir()
	writeHistory(b, dir, events)
	reader := must.Get(Open(dir))(b)
	for b.Loop() {
		count := 0
		if err := reader.Each(func(*Event) error { count++; return nil }); err != nil || count != len(events) {
			b.Fatal(count, err)
		}
	}
	b.ReportMetric(float64(b.N*len(events))/b.Elapsed().Seconds(), "events/s")
}
