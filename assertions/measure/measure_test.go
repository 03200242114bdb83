package measure

import (
	"math"
	"reflect"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/dlqbench/dlqbench/history"
)

const ms = time.Millisecond

// The topics of the histories in these tests.
const (
	input = iota
	dlq
	retryTopic
)

// builder writes a hand-written history.
type builder struct {
	header history.Header
	events []history.Event
}

func newBuilder(records int) *builder {
	return &builder{header: history.Header{
		Records: records, Started: time.Unix(1_700_000_000, 250e6),
		Topics: []history.Topic{
			{Name: "in", Role: history.RoleInput, Partitions: 2}, {Name: "dlq", Role: history.RoleDLQ},
			{Name: "retry", Role: history.RoleRetry},
		},
		Consumers: []history.Consumer{{Contract: history.Contract{
			DeadLetters: true,
			MaxAttempts: 3, Counter: history.CounterMemory,
			Backoff:   history.Backoff{Initial: 100 * ms, Multiplier: 2, Cap: 10 * time.Second},
			Retryable: []history.Outcome{history.OutcomeTransient, history.OutcomeRateLimited, history.OutcomeTimeout},
			Permanent: []history.Outcome{history.OutcomePermanent}, Logical: []history.Outcome{history.OutcomeLogical},
		}}},
	}}
}

func (s *builder) add(kind history.Kind, at time.Duration, change func(*history.Event)) {
	e := history.New(kind, at)
	if change != nil {
		change(&e)
	}
	s.events = append(s.events, e)
}

func (s *builder) phase(at time.Duration, name string) {
	s.add(history.KindPhase, at, func(e *history.Event) { e.Text = name })
}

// sent hands the record over late ms after its intended time and has it acknowledged ack ms after that time, at the
// offset.
func (s *builder) sent(record int32, intended, late, ack time.Duration, partition int32, offset int64) {
	s.add(history.KindSend, intended+late, func(e *history.Event) {
		e.Record, e.Topic, e.Partition, e.Aux = record, input, partition, int64(intended)
	})
	s.add(history.KindAcked, intended+ack, func(e *history.Event) {
		e.Record, e.Topic, e.Partition, e.Offset, e.Code = record, input, partition, offset, 0
	})
}

func (s *builder) attempt(record int32, start, end time.Duration, outcome history.Outcome,
	change func(*history.Event)) {
	for _, at := range []time.Duration{start, end} {
		kind := history.KindAttemptStart
		if at == end {
			kind = history.KindAttemptEnd
		}
		s.add(kind, at, func(e *history.Event) {
			e.Record, e.Instance = record, 0
			if kind == history.KindAttemptEnd {
				e.Outcome = outcome
			}
			if change != nil {
				change(e)
			}
		})
	}
}

func (s *builder) produced(record int32, at time.Duration, topic, instance int16, code int16, flags history.Flags) {
	s.add(history.KindProduceRequest, at-1*ms, func(e *history.Event) {
		e.Record, e.Topic, e.Instance = record, topic, instance
	})
	s.add(history.KindProduceResponse, at, func(e *history.Event) {
		e.Record, e.Topic, e.Instance, e.Code, e.Flags = record, topic, instance, code, flags
	})
}

func (s *builder) committed(at time.Duration, partition int32, offset int64, code int16, flags history.Flags) {
	s.add(history.KindCommitResponse, at, func(e *history.Event) {
		e.Topic, e.Partition, e.Offset, e.Code, e.Flags = input, partition, offset, code, flags
	})
}

func (s *builder) measure(t testing.TB) *Measurements {
	t.Helper()
	m := New(s.header)
	if err := history.FromEvents(s.header, s.events).Each(func(e *history.Event) error {
		m.Observe(e)
		return nil
	}); err != nil {
		t.Fatal(err)
	}
	return m.Finish()
}

// wholeRun is a run of two seconds with one warm-up record and five others.
func wholeRun() *builder {
	s := newBuilder(7)
	s.phase(0, history.PhaseSetup)
	s.phase(100*ms, history.PhaseWarmup)
	s.phase(200*ms, history.PhaseSteady)
	s.phase(700*ms, history.PhaseFault)
	s.phase(1200*ms, history.PhaseHeal)
	s.phase(1300*ms, history.PhaseDrain)
	s.phase(1900*ms, history.PhaseReplay)
	s.phase(2000*ms, history.PhaseAudit)
	s.phase(2200*ms, history.PhaseSeal)

	// Record 0, warm-up: success after 30 ms.
	s.sent(0, 150*ms, 0, 10*ms, 0, 0)
	s.events[len(s.events)-2].Flags = history.Warmup
	s.attempt(0, 170*ms, 180*ms, history.OutcomeSuccess, nil)
	// Record 1: handed over 2 ms late, acknowledged after 10, first attempt at +20, success at +30; committed at +100.
	s.sent(1, 300*ms, 2*ms, 10*ms, 0, 1)
	s.attempt(1, 320*ms, 330*ms, history.OutcomeSuccess, nil)
	s.committed(400*ms, 0, 2, 0, 0)
	// Record 2: fails twice, waits 120 ms (20 too many) and 190 ms (10 too few), succeeds at +460; committed at 1000
	// ms.
	s.sent(2, 400*ms, 0, 20*ms, 0, 2)
	s.attempt(2, 430*ms, 440*ms, history.OutcomeTransient, nil)
	s.attempt(2, 560*ms, 600*ms, history.OutcomeTransient, nil)
	s.attempt(2, 790*ms, 860*ms, history.OutcomeSuccess, nil)
	s.committed(900*ms, 0, 3, 27, 0)                // refused
	s.committed(950*ms, 0, 3, 0, history.Forged)    // the broker never saw it
	s.committed(1000*ms, 0, 3, 0, history.Withheld) // the broker accepted it
	// Record 3, sent in the fault phase and 50 ms late: permanent, dead-lettered: an error, a withheld acknowledgement,
	// and one at +600, in the drain phase. Committed at 1500 ms.
	s.sent(3, 800*ms, 50*ms, 60*ms, 1, 0)
	s.attempt(3, 900*ms, 910*ms, history.OutcomePermanent, nil)
	s.produced(3, 1000*ms, dlq, 0, 19, 0)
	s.produced(3, 1100*ms, dlq, 0, 0, history.Withheld)
	s.produced(3, 1400*ms, dlq, 0, 0, 0)
	// Record 4: logical, ends at +110; and again, as a duplicate of nothing.
	s.sent(4, 900*ms, 0, 5*ms, 1, 1)
	s.attempt(4, 1000*ms, 1010*ms, history.OutcomeLogical, nil)
	s.committed(1500*ms, 1, 2, 0, 0)
	// Record 5: the producer gave up.
	s.add(history.KindSend, 950*ms, func(e *history.Event) {
		e.Record, e.Topic, e.Partition, e.Aux = 5, input, 1, int64(950*ms)
	})
	s.add(history.KindAcked, 990*ms, func(e *history.Event) { e.Record, e.Topic, e.Partition, e.Code = 5, input, 1, 7 })
	// Record 3 goes back at 1910, succeeds at 1950, and once more.
	s.produced(3, 1911*ms, input, history.Replayer, 0, 0)
	s.attempt(3, 1940*ms, 1950*ms, history.OutcomeSuccess, nil)
	s.attempt(3, 1955*ms, 1960*ms, history.OutcomeSuccess, nil)
	for i, d := range []time.Duration{5 * ms, 30 * ms} {
		s.add(history.KindStall, 1000*ms+time.Duration(i)*ms, func(e *history.Event) { e.Aux = int64(d) })
	}
	s.add(history.KindStall, 1100*ms, func(e *history.Event) { e.Aux, e.Instance = int64(time.Second), 1 })
	return s
}

// requireLatency compares in microseconds, with the histogram's precision of three digits.
func requireLatency(t *testing.T, what string, got Quantiles, count int64, p50, highest time.Duration) {
	t.Helper()
	near := func(a, b time.Duration) bool {
		return math.Abs(float64(a-b)) <= float64(b)/1000+float64(time.Microsecond)
	}
	if got.Count != count || !near(got.P50, p50) || !near(got.Max, highest) {
		t.Errorf("%s: %d samples, p50 %v, max %v; want %d, %v, %v", what, got.Count, got.P50, got.Max, count, p50, highest)
	}
}

func TestLatenciesOfAWholeRun(t *testing.T) {
	l := wholeRun().measure(t).Latencies()
	// In order of size: 5, 10, 20, 60.
	requireLatency(t, "send", l[LatencySend].Quantiles, 4, 10*ms, 60*ms)
	// 10, 10, 40, 95.
	requireLatency(t, "first_attempt", l[LatencyFirstAttempt].Quantiles, 4, 10*ms, 95*ms)
	// 30, 460, 1150 (after its replay).
	requireLatency(t, "success", l[LatencySuccess].Quantiles, 3, 460*ms, 1150*ms)
	requireLatency(t, "success in warm-up", l[LatencySuccess].Phases[history.PhaseWarmup], 1, 30*ms, 30*ms)
	requireLatency(t, "success in steady", l[LatencySuccess].Phases[history.PhaseSteady], 2, 30*ms, 460*ms)
	requireLatency(t, "success in fault", l[LatencySuccess].Phases[history.PhaseFault], 1, 1150*ms, 1150*ms)
	requireLatency(t, "dead_letter", l[LatencyDeadLetter].Quantiles, 1, 600*ms, 600*ms)
	requireLatency(t, "dead_letter in fault", l[LatencyDeadLetter].Phases[history.PhaseFault], 1, 600*ms, 600*ms)
	// 20 late, 10 early.
	requireLatency(t, "backoff_error", l[LatencyBackoffError].Quantiles, 2, 0, 20*ms)
	// 70, 140, 100, 490.
	requireLatency(t, "commit_delay", l[LatencyCommitDelay].Quantiles, 4, 100*ms, 490*ms)
	requireLatency(t, "commit_delay in warm-up", l[LatencyCommitDelay].Phases[history.PhaseWarmup], 1, 220*ms, 220*ms)
	requireLatency(t, "replay", l[LatencyReplay].Quantiles, 1, 40*ms, 40*ms)
	requireLatency(t, "replay in replay", l[LatencyReplay].Phases[history.PhaseReplay], 1, 40*ms, 40*ms)
	// 0, 0, 0, 2, 50.
	requireLatency(t, "slip", l[LatencySlip].Quantiles, 5, 0, 50*ms)
	// 10 of each: record 3 is tried anew after its replay. Record 2 begins at 430.
	requireLatency(t, "service", l[LatencyService].Quantiles, 3, 10*ms, 430*ms)
	requireLatency(t, "service in steady", l[LatencyService].Phases[history.PhaseSteady], 2, 10*ms, 430*ms)
	if len(l) != 9 || len(l[LatencySuccess].Phases) != 3 {
		t.Errorf("%d latencies, success in %d phases", len(l), len(l[LatencySuccess].Phases))
	}
}

func TestFiguresOfAWholeRun(t *testing.T) {
	m := wholeRun().measure(t)
	want := Ledger{
		Planned: 7, Sent: 6, Acknowledged: 5, Late: 1, Succeeded: 4, Logical: 1, DeadLettered: 1, Unfinished: 0, Attempts: 9,
		Duplicates: 1, Replayed: 1,
	}
	if m.Ledger != want {
		t.Errorf("ledger %+v\nwant   %+v", m.Ledger, want)
	}
	// Steady and fault last one second. Processed in it: records 1, 2 and 4.
	if m.Throughput != (Throughput{Offered: 5, Sent: 5, Processed: 3}) {
		t.Errorf("throughput %+v", m.Throughput)
	}
	if h := m.Health; h.Stalls != 2 || h.Stalled != 35*ms || h.Worst != 30*ms || h.SlipP99.Round(ms) != 50*ms {
		t.Errorf("health %+v", h)
	}
	// Drain begins at 1300; records 3 and 4 are committed at 1500.
	if !m.Drained || m.DrainTime != 200*ms {
		t.Errorf("drain %v (%v)", m.DrainTime, m.Drained)
	}
	// Before the commit at 1000 ms: record 2 in partition 0, records 3 and 4 in partition 1.
	if m.LagMax != 3 || m.LagEnd != 0 {
		t.Errorf("lag up to %d, %d at the end", m.LagMax, m.LagEnd)
	}
	if len(m.Phases) != 9 ||
		m.Phases[3] != (Phase{Name: history.PhaseFault, From: 700 * ms, To: 1200 * ms}) || m.Phases[8].To != 2200*ms {
		t.Errorf("phases %+v", m.Phases)
	}
}

func TestSeriesOfAWholeRun(t *testing.T) {
	s := wholeRun().measure(t).Series
	if s.Step != 100*ms || len(s.Sent) != 23 {
		t.Fatalf("%d steps of %v", len(s.Sent), s.Step)
	}
	for name, check := range map[string]struct {
		curve []float64
		want  map[int]float64
	}{
		"sent":         {s.Sent, map[int]float64{1: 1, 3: 1, 4: 1, 8: 1, 9: 2, 5: 0}},
		"processed":    {s.Processed, map[int]float64{1: 1, 3: 1, 8: 1, 10: 1, 14: 1, 19: 1}},
		"acknowledged": {s.Acknowledged, map[int]float64{1: 1, 3: 1, 4: 1, 8: 1, 9: 1}},
		// Record 3's dead letter is in its topic from 1100 on, although the subject receives the acknowledgement only
		// at 1400.
		"dead letters": {s.DeadLetters, map[int]float64{10: 0, 11: 1, 14: 0}},
		"duplicates":   {s.Duplicates, map[int]float64{18: 0, 19: 1, 20: 0}},
		// Record 2 from 440 to 860, record 3 from 910 to 1400.
		"in retry": {s.InRetry, map[int]float64{3: 0, 4: 1, 7: 1, 8: 0, 9: 1, 13: 1, 14: 0, 22: 0}},
		"slip":     {s.Slip, map[int]float64{1: 0, 3: 2, 8: 50}},
		"stalled":  {s.Stalled, map[int]float64{9: 0, 10: 35, 11: 0}},
		"attempts": {s.Attempts, map[int]float64{4: 1, 5: 1, 7: 1, 9: 1, 19: 2}},
		"retries":  {s.Retries, map[int]float64{4: 0, 5: 1, 7: 1, 9: 0, 19: 2}},
		"lag":      {s.Lag, map[int]float64{0: 0, 1: 1, 3: 2, 4: 1, 8: 2, 9: 3, 10: 2, 14: 2, 15: 0, 22: 0}},
	} {
		for at, want := range check.want {
			if check.curve[at] != want {
				t.Errorf("%s in step %d: %v, want %v", name, at, check.curve[at], want)
			}
		}
	}
	if !math.IsNaN(s.SuccessP99[2]) || math.Abs(s.SuccessP99[8]-460) > 15 || math.Abs(s.SuccessP50[3]-30) > 1 {
		t.Errorf("success p99 %v, p50 %v", s.SuccessP99, s.SuccessP50)
	}
}

func TestLongRunsGetWiderSteps(t *testing.T) {
	s := newSeries()
	for i := range 2000 { // 200 s
		one := point{latencies: new(sketch), gauges: gauges{lag: int64(i), inRetry: int64(2 * i), seen: true},
			slip: time.Duration(i) * ms, stalled: ms}
		one.counts[sentSeries] = 1
		one.latencies.add(10 * ms)
		s.at(time.Duration(i) * 100 * ms).merge(&one)
	}
	out, heat := s.finish(200 * time.Second)
	if out.Step != 400*ms || len(out.Sent) != 501 {
		t.Fatalf("%d steps of %v", len(out.Sent), out.Step)
	}
	for i := range 500 {
		if out.Sent[i] != 4 || out.Lag[i] != float64(4*i+3) || out.InRetry[i] != float64(8*i+6) ||
			math.Abs(out.SuccessP50[i]-10) > 0.4 {
			t.Fatalf("step %d: sent %v, lag %v, in retry %v, p50 %v", i, out.Sent[i], out.Lag[i], out.InRetry[i],
				out.SuccessP50[i])
		}
		if out.Slip[i] != float64(4*i+3) || out.Stalled[i] != 4 || !math.IsNaN(out.Backlog[i]) || !math.IsNaN(out.CPU[i]) {
			t.Fatalf("step %d: slip %v, stalled %v, backlog %v, processors %v", i, out.Slip[i], out.Stalled[i], out.Backlog[i],
				out.CPU[i])
		}
	}
	if heat.Step != 800*ms || len(heat.Counts) != 251 || len(heat.Bounds) != 2 || heat.Counts[7][0] != 8 ||
		heat.Counts[250] != nil {
		t.Errorf("heat map: %d columns of %v, bounds %v", len(heat.Counts), heat.Step, heat.Bounds)
	}
}

func TestSketchIsPrecise(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		micros := rapid.Int64Range(0, 1<<40).Draw(t, "micros")
		var s sketch
		s.add(time.Duration(micros) * time.Microsecond)
		if got, want := s.quantile(0.99), float64(micros)/1000; math.Abs(got-want) > want*0.03 {
			t.Fatalf("%v ms read as %v", want, got)
		}
	})
}

func TestBackoffErrorIsMeasuredWhereItWasPromised(t *testing.T) {
	fails := func(s *builder, at time.Duration, outcome history.Outcome, change func(*history.Event)) {
		s.attempt(0, at, at+10*ms, outcome, change)
	}
	transient := history.OutcomeTransient
	for name, c := range map[string]struct {
		tell    func(*builder)
		samples []time.Duration // the second attempt starts 210 ms after the first one's end, when 100 ms were promised
	}{
		"plain": {func(s *builder) {
			fails(s, 0, transient, nil)
			fails(s, 220*ms, transient, nil)
		}, []time.Duration{110 * ms}},
		"permanent": {func(s *builder) { fails(s, 0, history.OutcomePermanent, nil); fails(s, 220*ms, transient, nil) }, nil},
		"hung up": {func(s *builder) {
			fails(s, 0, history.OutcomeTimeout, func(e *history.Event) { e.Flags = history.ClientGone })
			fails(s, 220*ms, transient, nil)
		}, nil},
		"told to wait": {func(s *builder) {
			fails(s, 0, history.OutcomeRateLimited, func(e *history.Event) { e.Aux = int64(200 * ms) })
			fails(s, 220*ms, transient, nil)
		}, []time.Duration{10 * ms}},
		"restarted": {func(s *builder) {
			fails(s, 0, transient, nil)
			fails(s, 220*ms, transient, func(e *history.Event) { e.Run = 1 })
			fails(s, 340*ms, transient, func(e *history.Event) { e.Run = 1 }) // the first wait again: 100 ms promised
		}, []time.Duration{10 * ms}},
		"partition lost": {func(s *builder) {
			fails(s, 0, transient, nil)
			s.add(history.KindRevoked, 100*ms, func(e *history.Event) { e.Topic, e.Partition = input, 0 })
			fails(s, 220*ms, transient, nil)
		}, nil},
		"counted in the header": {func(s *builder) {
			s.header.Contract().Counter = history.CounterHeader
			fails(s, 0, transient, nil)
			fails(s, 220*ms, transient, func(e *history.Event) { e.Run = 1 })
		}, []time.Duration{110 * ms}},
		"after the last": {func(s *builder) {
			s.header.Contract().MaxAttempts = 1
			fails(s, 0, transient, nil)
			fails(s, 220*ms, transient, nil)
		}, nil},
		"never ended": {func(s *builder) {
			s.add(history.KindAttemptStart, 0, func(e *history.Event) { e.Record, e.Instance = 0, 0 })
			fails(s, 220*ms, transient, nil)
		}, nil},
		"end without start": {func(s *builder) {
			s.add(history.KindAttemptEnd, 0, func(e *history.Event) { e.Record, e.Instance, e.Outcome = 0, 0, transient })
			fails(s, 220*ms, transient, nil)
		}, nil},
	} {
		s := newBuilder(1)
		s.add(history.KindSend, -1*ms, func(e *history.Event) { e.Record, e.Topic, e.Partition = 0, input, 0 })
		c.tell(s)
		got := s.measure(t).Latencies()[LatencyBackoffError]
		if int(got.Count) != len(c.samples) || len(c.samples) == 1 && got.Max.Round(ms) != c.samples[0] {
			t.Errorf("%s: %+v, want %v", name, got.Quantiles, c.samples)
		}
	}
}

func TestCommitsNobodySawAnswered(t *testing.T) {
	s := newBuilder(2)
	s.phase(0, history.PhaseDrain)
	s.sent(0, 10*ms, 0, 1*ms, 0, 0)
	s.attempt(0, 12*ms, 20*ms, history.OutcomeSuccess, nil)
	s.sent(1, 30*ms, 0, 1*ms, 0, 1)
	s.phase(500*ms, history.PhaseAudit)
	s.add(history.KindAuditOffsets, 510*ms, func(e *history.Event) {
		e.Topic, e.Partition, e.Offset, e.Aux = input, 0, 2, 1
	})
	m := s.measure(t)
	if m.LagEnd != 1 || m.LagMax != 2 || m.Ledger.Unfinished != 1 || m.Drained ||
		m.Latencies()[LatencyCommitDelay].Count != 0 {
		t.Errorf("lag %d (max %d), %d unfinished, drained %v", m.LagEnd, m.LagMax, m.Ledger.Unfinished, m.Drained)
	}
	s.attempt(1, 520*ms, 530*ms, history.OutcomeSuccess, nil)
	s.add(history.KindAuditOffsets, 540*ms, func(e *history.Event) {
		e.Topic, e.Partition, e.Offset, e.Aux = input, 0, 2, 2
	})
	if m := s.measure(t); m.LagEnd != 0 || !m.Drained || m.DrainTime != 530*ms {
		t.Errorf("lag %d, drained %v in %v, want 530ms: when the last record was finished", m.LagEnd, m.Drained, m.DrainTime)
	}
}

// TestShareGroups: an accept or a reject that the broker accepted covers its records, in any order.
func TestShareGroups(t *testing.T) {
	s := newBuilder(3)
	ack := func(at time.Duration, first, last int64, how int32, code int16) {
		s.add(history.KindShareAckResponse, at, func(e *history.Event) {
			e.Topic, e.Partition, e.Offset, e.Aux, e.N, e.Code = input, 0, first, last, how, code
		})
	}
	for record := range int32(2) {
		s.sent(record, 10*ms, 0, 1*ms, 0, int64(record))
	}
	s.attempt(1, 12*ms, 20*ms, history.OutcomeSuccess, nil)
	ack(25*ms, 1, 1, history.AckAccept, 0)
	ack(26*ms, 0, 0, history.AckRelease, 0)
	ack(27*ms, 0, 0, history.AckAccept, 121)
	ack(28*ms, 2, 2, history.AckReject, 0) // for a record that is not known yet
	m := s.measure(t)
	if delay := m.Latencies()[LatencyCommitDelay]; m.LagEnd != 2 || delay.Count != 1 || delay.Max.Round(ms) != 5*ms {
		t.Errorf("lag %d, commit delay %+v", m.LagEnd, delay)
	}
	s.sent(2, 28*ms, 0, 2*ms, 0, 2)
	s.attempt(0, 31*ms, 32*ms, history.OutcomeSuccess, nil)
	s.attempt(2, 29*ms, 30*ms, history.OutcomeSuccess, nil)
	ack(35*ms, 0, 0, history.AckAccept, 0)
	if m := s.measure(t); m.LagEnd != 0 || m.LagMax != 3 || m.Ledger.Unfinished != 0 {
		t.Errorf("lag %d (max %d), %d unfinished", m.LagEnd, m.LagMax, m.Ledger.Unfinished)
	}
}

func TestAttemptBeforeTheAcknowledgementWasSeen(t *testing.T) {
	s := newBuilder(1)
	s.attempt(0, 5*ms, 6*ms, history.OutcomeSuccess, nil)
	s.committed(8*ms, 0, 1, 0, 0)
	s.sent(0, 0, 1*ms, 10*ms, 0, 0)
	s.phase(20*ms, history.PhaseDrain)
	m := s.measure(t)
	requireLatency(t, "first_attempt", m.Latencies()[LatencyFirstAttempt].Quantiles, 1, 0, 0)
	if !m.Drained || m.DrainTime != 0 || m.Ledger.Unfinished != 0 || m.LagEnd != 0 {
		t.Errorf("drained %v, %d unfinished, lag %d", m.Drained, m.Ledger.Unfinished, m.LagEnd)
	}
}

func TestWhatIsOwedDependsOnTheContract(t *testing.T) {
	run := func(change func(*builder)) Ledger {
		s := newBuilder(1)
		s.sent(0, 0, 0, 1*ms, 0, 0)
		s.committed(50*ms, 0, 1, 0, 0)
		change(s)
		return s.measure(t).Ledger
	}
	for name, c := range map[string]struct {
		unfinished int64
		change     func(*builder)
	}{
		"committed unprocessed": {1, func(*builder) {}},
		"wire only":             {0, func(s *builder) { s.header.Contract().WireOnly = true }},
		"tombstone skipped": {0, func(s *builder) {
			s.header.Contract().SkipsTombstones = true
			s.events[0].Flags = history.Tombstone
		}},
		"tombstone not skipped": {1, func(s *builder) { s.events[0].Flags = history.Tombstone }},
		"logical":               {0, func(s *builder) { s.attempt(0, 5*ms, 6*ms, history.OutcomeLogical, nil) }},
		"logical to be dead-lettered": {1, func(s *builder) {
			s.header.Contract().LogicalDeadLetters = true
			s.attempt(0, 5*ms, 6*ms, history.OutcomeLogical, nil)
		}},
		"failed for good, and given up by contract": {0, func(s *builder) {
			s.header.Contract().DeadLetters = false
			s.attempt(0, 5*ms, 6*ms, history.OutcomePermanent, nil)
		}},
		"failed for good, and committed before its dead letter": {1, func(s *builder) {
			s.attempt(0, 5*ms, 6*ms, history.OutcomePermanent, nil)
		}},
		"only in a retry topic": {1, func(s *builder) {
			s.produced(0, 10*ms, retryTopic, 0, 0, 0)
		}},
		"dead letter forged": {1, func(s *builder) {
			s.produced(0, 10*ms, dlq, 0, 0, history.Forged)
		}},
		"dead letter found by audit": {0, func(s *builder) {
			s.add(history.KindAuditRecord, time.Second, func(e *history.Event) { e.Record, e.Topic = 0, dlq })
		}},
		"found in the input": {1, func(s *builder) {
			s.add(history.KindAuditRecord, time.Second, func(e *history.Event) { e.Record, e.Topic = 0, input })
		}},
		"replayed and gone": {1, func(s *builder) {
			s.produced(0, 10*ms, dlq, 0, 0, 0)
			s.produced(0, 100*ms, input, history.Replayer, 0, 0)
		}},
		"replay refused": {0, func(s *builder) {
			s.produced(0, 10*ms, dlq, 0, 0, 0)
			s.produced(0, 100*ms, input, history.Replayer, 19, 0)
		}},
	} {
		if got := run(c.change).Unfinished; got != c.unfinished {
			t.Errorf("%s: %d unfinished, want %d", name, got, c.unfinished)
		}
	}
}

func TestWhatIsCountedOnce(t *testing.T) {
	s := newBuilder(1)
	s.sent(0, 0, 0, 1*ms, 0, 0)
	s.produced(0, 10*ms, dlq, 0, 0, 0)
	s.produced(0, 20*ms, dlq, 0, 0, 0)
	s.produced(0, 30*ms, input, history.Replayer, 0, 0)
	s.produced(0, 40*ms, input, history.Replayer, 0, 0)
	for i := range 3 {
		at := time.Duration(50+10*i) * ms
		s.attempt(0, at, at+5*ms, history.OutcomeSuccess, nil)
		s.attempt(0, at+6*ms, at+7*ms, history.OutcomeLogical, nil)
		s.add(history.KindAuditRecord, time.Second, func(e *history.Event) { e.Record, e.Topic = 0, dlq })
	}
	s.events = append(s.events, s.events[0], s.events[1])
	l := s.measure(t).Ledger
	want := Ledger{
		Planned: 1, Sent: 1, Acknowledged: 1, Succeeded: 1, Logical: 1, DeadLettered: 1, Attempts: 6, Duplicates: 1,
		Replayed: 1,
	}
	if l != want {
		t.Errorf("%+v\nwant %+v", l, want)
	}
}

// TestReplayIntoTheDeadLetterTopic is a faulty replay: the records that the replay tool writes are not dead letters of
// the subject.
func TestReplayIntoTheDeadLetterTopic(t *testing.T) {
	s := newBuilder(1)
	s.sent(0, 0, 0, 1*ms, 0, 0)
	s.produced(0, 30*ms, dlq, history.Replayer, 0, 0)
	s.produced(0, 40*ms, dlq, history.Replayer, 0, 0)
	if l := s.measure(t).Ledger; l.DeadLettered != 0 || l.Unfinished != 1 {
		t.Errorf("%+v", l)
	}
}

func TestWarmupHandedOverLateIsNoLoad(t *testing.T) {
	s := newBuilder(2)
	s.phase(0, history.PhaseWarmup)
	s.phase(100*ms, history.PhaseSteady)
	s.sent(0, 90*ms, 20*ms, 30*ms, 0, 0)
	s.events[2].Flags = history.Warmup
	s.attempt(0, 130*ms, 140*ms, history.OutcomeSuccess, nil)
	s.sent(1, 150*ms, 0, 30*ms, 0, 0)
	s.phase(1100*ms, history.PhaseHeal)
	if got := s.measure(t).Throughput; got != (Throughput{Offered: 1, Sent: 1}) {
		t.Errorf("%+v", got)
	}
}

func TestNumbersOutOfRangeAreRefused(t *testing.T) {
	rs := records{limit: 2}
	for number, known := range map[int32]bool{-1: false, 0: true, 1: true, 2: false, math.MaxInt32: false} {
		if (rs.at(number) != nil) != known {
			t.Errorf("record %d", number)
		}
	}
	var p partition
	for offset, known := range map[int64]bool{-1: false, 0: true, 4: true, 5: false, math.MaxInt64: false} {
		if p.add(offset, 0, 5) != known {
			t.Errorf("offset %d", offset)
		}
	}
}

func TestSamplesAreRoundedAndKeptInRange(t *testing.T) {
	for value, micros := range map[time.Duration]int64{
		-5: 0, 0: 0, 499: 0, 1600: 2, 999_600: 1000, math.MaxInt64: int64(highest), math.MinInt64: 0,
	} {
		var l latencies
		l.init()
		l.recordIn(send, 0, value)
		h := l.histograms[send][0]
		if low := h.Min(); h.TotalCount() != 1 || low > micros || h.Max() < micros || h.Max()-low > micros/1000 {
			t.Errorf("%d ns: %d to %d µs, want %d", value, h.Min(), h.Max(), micros)
		}
	}
}

// anyEvents draws arbitrary events, which may be inconsistent.
func anyEvents(t *rapid.T, most int) []history.Event {
	extreme := func(t *rapid.T, name string) int64 {
		return rapid.OneOf(rapid.Int64Range(-3, 12), rapid.SampledFrom([]int64{math.MinInt64, math.MaxInt64, 1 << 40})).Draw(
			t, name)
	}
	anyEvent := rapid.Custom(func(t *rapid.T) history.Event {
		return history.Event{
			Time: time.Duration(extreme(t, "time")), Kind: history.Kind(rapid.IntRange(0, 40).Draw(t, "kind")),
			Outcome:  history.Outcome(rapid.IntRange(0, 12).Draw(t, "outcome")),
			Flags:    history.Flags(rapid.Uint32().Draw(t, "flags")),
			Instance: int16(extreme(t, "instance")), Topic: int16(extreme(t, "topic")),
			Partition: int32(extreme(t, "partition")),
			Record:    int32(extreme(t, "record")), Code: rapid.Int16Range(-1, 1).Draw(t, "code"), N: int32(extreme(t, "n")),
			Offset: extreme(t, "offset"), Aux: extreme(t, "aux"), Op: extreme(t, "op"),
			Text: rapid.SampledFrom([]string{"", history.PhaseSteady, history.PhaseDrain, history.PhaseReplay, "x",
				history.SampleCPU, history.SampleBacklog, history.SampleInstanceCPU, history.SampleInstanceRSS}).Draw(t, "text"),
		}
	})
	return rapid.SliceOfN(anyEvent, 0, most).Draw(t, "events")
}

func TestAnyEventsAreSurvived(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		s := newBuilder(int(rapid.SampledFrom([]int64{-1, 0, 5, 10}).Draw(rt, "records")))
		s.header.Faults = make([]history.PlannedFault, 3)
		s.events = anyEvents(rt, 80)
		m := s.measure(t)
		l := m.Ledger
		if l.Succeeded > l.Attempts+int64(len(s.events)) || l.Duplicates > l.Succeeded ||
			l.Unfinished > l.Acknowledged || m.LagEnd > m.LagMax || m.LagEnd < 0 {
			rt.Fatalf("%+v, lag %d of %d", l, m.LagEnd, m.LagMax)
		}
		m.Evaluate([]string{"latency.success.p99 < 500ms"})
		if len(m.Series.Sent) > mostSteps {
			rt.Fatalf("%d steps", len(m.Series.Sent))
		}
	})
}

func TestStateStaysSmall(t *testing.T) {
	const records = 1 << 20
	m := New(history.Header{Records: records, Consumers: make([]history.Consumer, 1)})
	e := history.New(history.KindSend, 0)
	allocated := testing.AllocsPerRun(1, func() {
		for i := range int32(records) {
			e.Record, e.Topic, e.Partition = i, 0, i%6
			m.Observe(&e)
		}
	})
	if allocated > 2*records/recordsPerChunk+100 {
		t.Errorf("%v allocations for %d records", allocated, records)
	}
	if size := reflect.TypeFor[record]().Size(); size > 56 {
		t.Errorf("a record's state has %d bytes; ten million must fit in half a GB", size)
	}
}
