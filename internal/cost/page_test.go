package cost

// This file measures the report of a large run with many anomalies: the size of its page, and the cost of making it.

import (
	"bytes"
	"encoding/json"
	"runtime"
	"strings"
	"testing"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/reports"
)

// pageLimit is the maximum size of a report in bytes, because reports are attached to tickets and opened on phones.
const pageLimit = 3 << 20

// spoiled is a synthetic history with many anomalies: of a hundred records, two are processed twice, one is committed
// without being processed, and all dead letters have another value.
type spoiled struct{ synthetic }

func (s spoiled) Each(see func(*history.Event) error) error {
	return s.synthetic.Each(func(e *history.Event) error {
		switch e.Kind {
		case history.KindAttemptStart, history.KindAttemptEnd:
			if e.Record%100 == 7 && !isDeadLettered(e.Record) {
				return nil
			}
		case history.KindAuditRecord:
			if e.Topic == dlqIndex {
				e.ValueHash++
			}
		}
		if err := see(e); err != nil || e.Kind != history.KindAttemptEnd ||
			e.Outcome != history.OutcomeSuccess || e.Record%50 != 3 {
			return err
		}
		again := *e
		again.Kind, again.Outcome, again.Code, again.Aux, again.N, again.Op = history.KindAttemptStart, 0, 0, 0, e.N+1,
			e.Op+1<<40
		if err := see(&again); err != nil {
			return err
		}
		again = *e
		again.N, again.Op = e.N+1, e.Op+1<<40
		return see(&again)
	})
}

// judgeSpoiled judges a spoiled history with the given number of records, which must show all three anomalies.
func judgeSpoiled(t testing.TB, records int) reports.Run {
	t.Helper()
	source := spoiled{synthetic{records: records, attempts: 1}}
	verdict, measurements, err := assertions.Judge(source)
	if err != nil {
		t.Fatal(err)
	}
	found := map[string]int64{}
	for _, r := range verdict.Invariants {
		for _, a := range r.Anomalies {
			found[a.Name] = a.Count
		}
	}
	for name, want := range map[string]int{"duplicate": records / 60, "lost": records / 120,
		"payload-changed": records / 60} {
		if found[name] < int64(want) {
			t.Fatalf("only %d × %s in %d records: the run is not spoiled as it should be (%v)", found[name], name,
				records, found)
		}
	}
	return reports.Run{Verdict: verdict, Measurements: measurements, Header: source.Header()}
}

func TestReportOfALargeRunIsSmall(t *testing.T) {
	run := judgeSpoiled(t, 60_000)
	var page bytes.Buffer
	if err := reports.HTML(&page, run); err != nil {
		t.Fatal(err)
	}
	if page.Len() > pageLimit {
		t.Errorf("the report has %d bytes, more than %d", page.Len(), pageLimit)
	}
	if got := strings.Count(page.String(), "<svg"); got < 30 {
		t.Errorf("only %d diagrams are drawn", got)
	}
}

// BenchmarkReportOfAMillion renders the report of a run of a million records, of which 30,000 have anomalies, and
// asserts its size.
//
//	go test ./internal/cost -run XXX -bench ReportOfAMillion -benchtime 1x
func BenchmarkReportOfAMillion(b *testing.B) {
	run := judgeSpoiled(b, 1_000_000)
	runtime.GC()
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	b.ResetTimer()
	var page, verdict bytes.Buffer
	for range b.N {
		page.Reset()
		if err := reports.HTML(&page, run); err != nil {
			b.Fatal(err)
		}
	}
	b.StopTimer()
	runtime.ReadMemStats(&after)
	if page.Len() > pageLimit {
		b.Errorf("the report has %d bytes, more than %d", page.Len(), pageLimit)
	}
	if err := json.NewEncoder(&verdict).Encode(run.Verdict); err != nil {
		b.Fatal(err)
	}
	b.ReportMetric(float64(page.Len()), "page-bytes")
	b.ReportMetric(float64(verdict.Len()), "verdict-bytes")
	b.ReportMetric(float64(after.TotalAlloc-before.TotalAlloc)/float64(b.N), "allocated-bytes/op")
	b.ReportMetric(float64(after.Sys), "held-bytes")
}
