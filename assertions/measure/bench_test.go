package measure

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// BenchmarkObserve measures a run of records that are sent, acknowledged, tried, and committed every hundred records.
func BenchmarkObserve(b *testing.B) {
	const records = 200_000
	s := newBuilder(records)
	s.phase(0, history.PhaseSteady)
	for i := range int32(records) {
		at := time.Duration(i) * 50 * time.Microsecond
		s.sent(i, at, 10*time.Microsecond, 200*time.Microsecond, i%2, int64(i/2))
		s.attempt(i, at+300*time.Microsecond, at+400*time.Microsecond, history.OutcomeSuccess, nil)
		if i%100 < 2 {
			s.committed(at+500*time.Microsecond, i%2, int64(i/2)+1, 0, 0)
		}
	}
	var events []history.Event
	if err := history.FromEvents(s.header, s.events).Each(func(e *history.Event) error {
		events = append(events, *e)
		return nil
	}); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		m := New(s.header)
		for i := range events {
			m.Observe(&events[i])
		}
		if got := m.Finish().Ledger.Succeeded; got != records {
			b.Fatal(got)
		}
	}
	b.ReportMetric(float64(b.N*len(events))/b.Elapsed().Seconds(), "events/s")
}
