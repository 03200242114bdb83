package measure

import (
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// What is needed of a record only until it is finished and committed takes memory only until then, and for the second
// that its attempts count as recent.
func TestFinishedRecordsAreNotKept(t *testing.T) {
	const records = 5_000
	s := newBuilder(records)
	m := New(s.header)
	most := 0
	for i := range int32(records) {
		s.events = s.events[:0]
		at := time.Duration(i) * 10 * ms // a hundred in a second
		s.sent(i, at, 0, 1*ms, i%2, int64(i/2))
		s.attempt(i, at+2*ms, at+3*ms, history.OutcomeTransient, nil)
		s.attempt(i, at+5*ms, at+6*ms, history.OutcomeSuccess, nil)
		s.committed(at+7*ms, i%2, int64(i/2)+1, 0, 0)
		for e := range s.events {
			m.Observe(&s.events[e])
		}
		most = max(most, len(m.records.underway)-len(m.records.free))
	}
	if kept := len(m.records.underway); most > 101 || kept > 101 {
		t.Errorf("%d of %d records are kept at once, with room for %d; want those of one second", most, records, kept)
	}
	if got := m.Finish().Ledger.Succeeded; got != records {
		t.Errorf("%d records succeeded, of %d", got, records)
	}
}
