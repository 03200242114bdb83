package measure

import (
	"encoding/json"
	"math"
	"reflect"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
)

func sum(curve Curve) int64 {
	total := 0.0
	for _, v := range curve {
		total += v
	}
	return int64(total)
}

// TestTotalsAgree checks that for any events and durations, the curves, the heat map and the conservation ledger agree
// with the ledger and the histograms.
func TestTotalsAgree(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		s := newBuilder(rapid.SampledFrom([]int{0, 5, 10}).Draw(t, "records"))
		s.events = anyEvents(t, 80)
		scale := rapid.SampledFrom([]time.Duration{1, ms, 40 * ms, time.Minute}).Draw(t, "scale")
		for i := range s.events {
			s.events[i].Flags &^= history.Warmup
			if at := s.events[i].Time; at > -1000 && at < 1000 {
				s.events[i].Time = at * scale
			}
		}
		m := New(s.header)
		if err := history.FromEvents(s.header, s.events).Each(func(e *history.Event) error {
			m.Observe(e)
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		out := m.Finish()
		l, c := out.Ledger, out.Series
		got := []int64{sum(c.Sent), sum(c.Acknowledged), sum(c.DeadLetters), sum(c.Attempts), sum(c.Duplicates)}
		if want := []int64{l.Sent, l.Acknowledged, l.DeadLettered, l.Attempts, l.Duplicates}; !slices.Equal(got, want) {
			t.Fatalf("the curves come to %v, the ledger to %v", got, want)
		}
		heat := int64(0)
		for _, column := range out.HeatMap.Counts {
			for _, n := range column {
				heat += n
			}
		}
		if want := out.Histograms[LatencySuccess][PhaseAll].TotalCount(); heat != want {
			t.Fatalf("the heat map has %d successes, the histogram %d", heat, want)
		}
		requireConserved(t, out)
		if len(out.HeatMap.Counts) > mostColumns || len(out.HeatMap.Bounds) > mostRows+1 || len(c.Sent) > mostSteps {
			t.Fatalf("%d columns, %d bounds, %d steps", len(out.HeatMap.Counts), len(out.HeatMap.Bounds), len(c.Sent))
		}
	})
}

func requireConserved(t *rapid.T, m *Measurements) {
	total, unfinished := int64(0), int64(0)
	for _, entry := range m.Conservation.Entries {
		total += entry.Count
		if entry.Name == EntryUnfinished {
			unfinished = entry.Count
		}
		if entry.Difference && int64(len(entry.Records)) != min(entry.Count, MaxEntryRecords) ||
			!entry.Difference && len(entry.Records) > 0 {
			t.Fatalf("%d of %d records of %s are listed", len(entry.Records), entry.Count, entry.Name)
		}
	}
	if total != m.Ledger.Planned || unfinished > m.Ledger.Unfinished {
		t.Fatalf("the entries come to %d of %d, %d unfinished of %d", total, m.Ledger.Planned, unfinished,
			m.Ledger.Unfinished)
	}
}

// TestHeatMapHoldsEachLatencyInItsRow checks this for any choice of rows.
func TestHeatMapHoldsEachLatencyInItsRow(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.SliceOfN(rapid.Int64Range(0, 1<<rapid.SampledFrom([]int{4, 8, 16, 34}).Draw(t, "bits")), 1,
			40).Draw(t, "micros")
		s := newSeries()
		var one point
		one.latencies = new(sketch)
		for _, v := range micros {
			one.latencies.add(time.Duration(v) * time.Microsecond)
		}
		s.at(0).merge(&one)
		heat := s.heatMap()
		if n := len(heat.Bounds) - 1; n > mostRows || n != len(heat.Counts[0]) || !slices.IsSorted(heat.Bounds) {
			t.Fatalf("%d rows, %d counts, bounds %v", n, len(heat.Counts[0]), heat.Bounds)
		}
		want := make([]int64, len(heat.Counts[0]))
		for _, v := range micros {
			at := time.Duration(v) * time.Microsecond
			row := slices.IndexFunc(heat.Bounds, func(b time.Duration) bool { return b > at }) - 1
			if row < 0 {
				t.Fatalf("%v is in no row of %v", at, heat.Bounds)
			}
			want[row]++
		}
		if !slices.Equal(heat.Counts[0], want) {
			t.Fatalf("rows %v have %v, want %v", heat.Bounds, heat.Counts[0], want)
		}
	})
}

// Where the contract says nothing of logical failures, a dead letter after one is the record's end, also if that is
// replayed and then succeeds.
func TestConservationOfLogicalFailures(t *testing.T) {
	for _, c := range []struct {
		either, replayed bool
		want             string
	}{
		{false, false, EntryEndedTwice}, {false, true, EntryEndedTwice},
		{true, false, EntryDeadLettered}, {true, true, EntryReplayed},
	} {
		s := newBuilder(1)
		s.header.Contract().LogicalEither = c.either
		s.sent(0, 0, 0, ms, 0, 0)
		s.attempt(0, 2*ms, 3*ms, history.OutcomeLogical, nil)
		s.produced(0, 5*ms, dlq, 0, 0, 0)
		if c.replayed {
			s.produced(0, 20*ms, input, history.Replayer, 0, 0)
			s.attempt(0, 30*ms, 31*ms, history.OutcomeSuccess, nil)
		}
		s.phase(time.Second, history.PhaseSeal)
		for _, entry := range s.measure(t).Conservation.Entries {
			if (entry.Count == 1) != (entry.Name == c.want) {
				t.Errorf("either %v, replayed %v: %d as %s", c.either, c.replayed, entry.Count, entry.Name)
			}
		}
	}
}

// A logical failure that a fault gives at another downstream may end a record before an attempt, or during one of
// several calls. Only a fault's failure may do so, and only where the contract does not dead-letter it.
func TestConservationOfRecordsEndedElsewhere(t *testing.T) {
	for name, c := range map[string]struct {
		outcome     history.Outcome
		flags       history.Flags
		deadLetters bool
		downstream  int32
		want        string
	}{
		"a fault's":             {history.OutcomeLogical, history.Forged, false, 1, EntryCommitted},
		"its own":               {history.OutcomeLogical, 0, false, 1, EntryUnfinished},
		"dead-lettered":         {history.OutcomeLogical, history.Forged, true, 1, EntryUnfinished},
		"another failure":       {history.OutcomeTransient, history.Forged, false, 1, EntryUnfinished},
		"at the one that rules": {history.OutcomeLogical, history.Forged, false, 0, EntryUnfinished},
	} {
		s := newBuilder(1)
		s.header.Contract().LogicalDeadLetters = c.deadLetters
		s.sent(0, 0, 0, ms, 0, 0)
		s.add(history.KindAttemptStart, 2*ms, func(e *history.Event) { e.Record, e.Instance, e.N, e.Op = 0, 0, 1, 1 })
		s.add(history.KindCallEnd, 3*ms, func(e *history.Event) {
			e.Record, e.Instance, e.N, e.Op, e.Outcome, e.Flags = 0, 0, c.downstream, 2, c.outcome, c.flags
		})
		s.committed(5*ms, 0, 1, 0, 0)
		s.phase(time.Second, history.PhaseSeal)
		for _, entry := range s.measure(t).Conservation.Entries {
			if (entry.Count == 1) != (entry.Name == c.want) {
				t.Errorf("%s: %d as %s, want %s", name, entry.Count, entry.Name, c.want)
			}
		}
	}
}

// On the wire alone, the end of a committed record is not seen, and the ledger says so.
func TestConservationOnTheWire(t *testing.T) {
	for _, wire := range []bool{false, true} {
		s := newBuilder(1)
		s.header.Contract().WireOnly = wire
		s.sent(0, 0, 0, ms, 0, 0)
		s.committed(5*ms, 0, 1, 0, 0)
		s.phase(time.Second, history.PhaseSeal)
		got := s.measure(t).Conservation
		if at := slices.IndexFunc(got.Entries, func(e Entry) bool { return e.Count == 1 }); got.Unseen != wire ||
			(got.Entries[at].Name == EntryCommitted) != wire {
			t.Errorf("wire %v: unseen %v, %+v", wire, got.Unseen, got.Entries[at])
		}
	}
}

func TestConservation(t *testing.T) {
	s := newBuilder(15)
	s.header.RunID = "run"
	s.header.Contract().SkipsTombstones = true
	end := time.Second
	sent := func(record int32) { s.sent(record, 0, 0, ms, record%2, int64(record/2)) }
	for record := range int32(10) {
		sent(record)
	}
	s.attempt(0, 2*ms, 3*ms, history.OutcomeSuccess, nil)
	s.produced(1, 5*ms, dlq, 0, 0, 0)
	// 2: dead-lettered, replayed, succeeded.
	s.produced(2, 5*ms, dlq, 0, 0, 0)
	s.produced(2, 20*ms, input, history.Replayer, 0, 0)
	s.attempt(2, 30*ms, 31*ms, history.OutcomeSuccess, nil)
	s.attempt(3, 2*ms, 3*ms, history.OutcomeLogical, nil)
	// 4: a tombstone that is skipped.
	s.events[8].Flags = history.Tombstone
	s.committed(50*ms, 0, 3, 0, 0)
	// 5: nothing. 6: succeeded and dead-lettered. 7: dead-lettered, and gone in its replay.
	s.attempt(6, 2*ms, 3*ms, history.OutcomeSuccess, nil)
	s.produced(6, 5*ms, dlq, 0, 0, 0)
	s.produced(7, 5*ms, dlq, 0, 0, 0)
	s.produced(7, 20*ms, input, history.Replayer, 0, 0)
	// 8: twice. 9: after its replay it fails again and is dead-lettered again.
	s.attempt(8, 2*ms, 3*ms, history.OutcomeSuccess, nil)
	s.attempt(8, 4*ms, 5*ms, history.OutcomeSuccess, nil)
	s.produced(9, 5*ms, dlq, 0, 0, 0)
	s.produced(9, 20*ms, input, history.Replayer, 0, 0)
	s.produced(9, 40*ms, dlq, 0, 0, 0)
	// 10 and 11: the producer gave up; 11 was processed all the same. 12 and 13 are never sent.
	for record := range int32(2) {
		s.add(history.KindSend, ms, func(e *history.Event) {
			e.Record, e.Topic, e.Partition, e.Aux = 10+record, input, 0, int64(ms)
		})
	}
	s.attempt(11, 2*ms, 3*ms, history.OutcomeSuccess, nil)
	// 14: dead-lettered, written back by the dead-letter store, succeeded.
	sent(14)
	s.produced(14, 5*ms, dlq, 0, 0, 0)
	s.produced(14, 20*ms, input, history.Worker(0), 0, 0)
	s.attempt(14, 30*ms, 31*ms, history.OutcomeSuccess, nil)
	s.phase(end, history.PhaseSeal)
	got := s.measure(t).Conservation
	count := map[string]int64{}
	records := map[string][]int32{}
	for _, entry := range append(slices.Clone(got.Entries), got.Notes...) {
		count[entry.Name] = entry.Count
		for _, r := range entry.Records {
			records[entry.Name] = append(records[entry.Name], r.Record)
		}
	}
	wantCount := map[string]int64{
		EntrySucceeded: 2, EntryDeadLettered: 2, EntryReplayed: 2, EntryLogical: 1, EntryCommitted: 1, EntryHeld: 0,
		EntryForfeited: 0, EntryUnfinished: 2, EntryEndedTwice: 1, EntryUnacknowledged: 2, EntryNotSent: 2, NoteDuplicates: 1, NoteUnasked: 1,
		NoteRepeated: 0,
	}
	wantRecords := map[string][]int32{
		EntryUnfinished: {5, 7}, EntryEndedTwice: {6}, EntryUnacknowledged: {10, 11}, EntryNotSent: {12, 13},
		NoteDuplicates: {8}, NoteUnasked: {11},
	}
	if got.Planned != 15 || !reflect.DeepEqual(count, wantCount) || !reflect.DeepEqual(records, wantRecords) {
		t.Errorf("of %d: %v\n%v", got.Planned, count, records)
	}
	five := got.Entries[slices.IndexFunc(got.Entries, func(e Entry) bool { return e.Name == EntryUnfinished })].Records[0]
	if want := (EntryRecord{Record: 5, ID: history.NewIDs("run").Token(5), Topic: "in", Partition: 1, Offset: 2}); five !=
		want {
		t.Errorf("%+v, want %+v", five, want)
	}
}

// TestRecordsProducedTwice checks that each counts once in the ledger, and twice for the lag.
func TestRecordsProducedTwice(t *testing.T) {
	s := newBuilder(2)
	for record := range int32(2) {
		s.sent(record, 0, 0, ms, 0, int64(2*record))
		s.sent(record, 0, 0, ms, 0, int64(2*record+1))
		for i := len(s.events) - 2; i < len(s.events); i++ {
			s.events[i].Flags |= history.Repeated
		}
	}
	s.attempt(0, 2*ms, 3*ms, history.OutcomeSuccess, nil)
	s.attempt(0, 3*ms, 4*ms, history.OutcomeSuccess, nil)
	for at := range time.Duration(3) {
		s.attempt(1, (5+at)*ms, (6+at)*ms, history.OutcomeSuccess, nil)
	}
	s.committed(50*ms, 0, 4, 0, 0)
	s.phase(time.Second, history.PhaseSeal)
	got := s.measure(t)
	if l := got.Ledger; l.Sent != 2 || l.Acknowledged != 2 || l.Succeeded != 2 || l.Duplicates != 1 || got.LagMax != 4 {
		t.Errorf("%+v, lag at most %d", l, got.LagMax)
	}
	notes := map[string]int64{}
	for _, one := range got.Conservation.Notes {
		notes[one.Name] = one.Count
	}
	if notes[NoteRepeated] != 2 || notes[NoteDuplicates] != 1 {
		t.Errorf("notes %v", notes)
	}
}

func TestHealthFromSamples(t *testing.T) {
	s := newBuilder(0)
	sample := func(at time.Duration, backlog int64, cpu time.Duration) {
		s.add(history.KindSample, at, func(e *history.Event) { e.Text, e.Aux = history.SampleBacklog, backlog })
		s.add(history.KindSample, at, func(e *history.Event) { e.Text, e.Aux = history.SampleCPU, int64(cpu) })
	}
	sample(500*ms, 7, 2*time.Second)
	s.phase(600*ms, history.PhaseSteady)
	sample(time.Second, 90, 2250*ms)   // half a processor
	sample(1250*ms, 0, 2750*ms)        // two
	sample(1500*ms, 40, 2750*ms)       // none
	sample(1750*ms, 40, 2*time.Second) // a clock that goes back is ignored
	s.phase(1800*ms, history.PhaseDrain)
	sample(2*time.Second, 0, 3*time.Second)
	m := s.measure(t)
	if h := m.Health; h.BacklogMax != 90 || h.CPU != 0.75 || h.CPUMax != 4 {
		t.Errorf("%+v", h)
	}
	at := func(curve Curve, i int) float64 { return curve[i] }
	c := m.Series
	if at(c.CPU, 10) != 0.5 || at(c.CPU, 12) != 2 || !math.IsNaN(at(c.CPU, 11)) ||
		at(c.Backlog, 10) != 90 || !math.IsNaN(at(c.Backlog, 11)) {
		t.Errorf("processors %v, backlog %v", c.CPU, c.Backlog)
	}
}

func TestPercentileCurves(t *testing.T) {
	m := wholeRun().measure(t).Percentiles()
	// 30, 460 and 1150 ms: the last point is the largest, at 1/3 of a record above it.
	success := m[LatencySuccess]
	values := success.Phases[PhaseAll]
	last := -1
	for i, v := range values.Values {
		if !math.IsNaN(v) {
			last = i
		}
	}
	if values.Count != 3 || math.Abs(success.Nines[last]-math.Log10(3)) > 1e-9 ||
		math.Abs(values.Values[last]-1151) > 1 || math.Abs(values.Values[0]-30) > 0.1 {
		t.Errorf("%d values: %v at %v", values.Count, values.Values, success.Nines)
	}
	if _, there := m[LatencyReplay].Phases[history.PhaseSteady]; there || len(m[LatencyBackoffError].Phases) == 0 {
		t.Error("there are curves of nothing, or none of something")
	}
}

// TestWarmupByPhaseAndByFlag: a warm-up record is not in the whole run's histogram; a record that was only sent in that
// phase is.
func TestWarmupByPhaseAndByFlag(t *testing.T) {
	s := newBuilder(2)
	s.phase(0, history.PhaseWarmup)
	for record := range int32(2) {
		s.sent(record, ms, 0, ms, 0, int64(record))
		s.attempt(record, 2*ms, time.Duration(10+10*record)*ms, history.OutcomeSuccess, nil)
	}
	s.events[1].Flags = history.Warmup
	l := s.measure(t).Latencies()[LatencySuccess]
	requireLatency(t, "whole run", l.Quantiles, 1, 19*ms, 19*ms)
	requireLatency(t, "warm-up", l.Phases[history.PhaseWarmup], 2, 9*ms, 19*ms)
}

func TestCurvesAreWrittenWhole(t *testing.T) {
	in := Curve{0, 1234567, -3, 1.0 / 3, math.NaN(), math.Inf(1), 1e21}
	text, err := json.Marshal(in)
	if err != nil || string(text) != "[0,1234567,-3,0.333333,null,null,1e+21]" {
		t.Errorf("%s, %v", text, err)
	}
	var back Curve
	if err := json.Unmarshal(text, &back); err != nil || len(back) != 7 || back[1] != 1234567 ||
		!math.IsNaN(back[4]) || !math.IsNaN(back[5]) {
		t.Errorf("%v, %v", back, err)
	}
	if text, _ := json.Marshal(Curve(nil)); string(text) != "[]" {
		t.Errorf("nothing is %s", text)
	}
	if json.Unmarshal([]byte(`["x"]`), &back) == nil {
		t.Error("a word is taken for a number")
	}
}
