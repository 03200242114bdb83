package measure

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// faultyRun is a load of 100 records per second for ten seconds, each a success 5 ms after its time and committed 1 ms
// later. Records held back by a fault are processed in a burst of 80 ms when the fault is lifted; commits resume 300 ms
// after that.
type faultyRun struct {
	*builder
	held, freed time.Duration
	// loadEnds is when the last record is sent.
	loadEnds time.Duration
}

func newFaultyRun(names ...string) *faultyRun {
	r := &faultyRun{builder: newBuilder(1000), held: 3 * time.Second, freed: 5 * time.Second, loadEnds: 10 * time.Second}
	for _, name := range names {
		r.header.Faults = append(r.header.Faults, history.PlannedFault{Name: name})
	}
	r.phase(0, history.PhaseSteady)
	return r
}

// fault injects fault i; its effect is 50 ms after its start.
func (r *faultyRun) fault(i int64, from, to time.Duration) {
	set := func(e *history.Event) { e.Op, e.Text, e.N = i, "requests answered", 1 }
	r.add(history.KindFaultStart, from, set)
	r.add(history.KindFaultEffect, from+50*ms, set)
	r.add(history.KindFaultEffect, from+60*ms, set)
	if to > 0 {
		r.add(history.KindFaultEnd, to, set)
	}
}

// refused is a dead letter that the broker refuses.
func (r *faultyRun) refused(at time.Duration) { r.produced(3, at, dlq, 0, 19, 0) }

func (r *faultyRun) run(t *testing.T) []Recovery {
	t.Helper()
	late := 0
	for i := range int32(1000) {
		at := time.Duration(i) * 10 * ms
		if at >= r.loadEnds {
			break
		}
		r.sent(i, at, 0, ms, 0, int64(i))
		end := at + 5*ms
		if at >= r.held && at < r.freed {
			end = r.freed + time.Duration(late)*400*time.Microsecond
			late++
		}
		if end >= 20*time.Second {
			continue // never
		}
		r.attempt(i, end-ms, end, history.OutcomeSuccess, nil)
		if commit := end + ms; commit < r.held || commit >= r.freed+300*ms {
			r.committed(commit, 0, int64(i)+1, 0, 0)
		}
	}
	if r.freed < 20*time.Second {
		// 29 records were sent since then, the last one 10 ms ago.
		r.committed(r.freed+300*ms-time.Microsecond, 0, int64((r.freed+300*ms)/(10*ms)), 0, 0)
	}
	r.phase(r.loadEnds+time.Second, history.PhaseDrain)
	r.phase(r.loadEnds+2*time.Second, history.PhaseAudit)
	// The subject is stopped: this is not a sign of a fault.
	r.add(history.KindRevoked, r.loadEnds+2100*ms, func(e *history.Event) {
		e.Instance, e.Topic, e.Partition = 0, input, 0
	})
	return r.measure(t).Recoveries
}

// spans prints a recovery for comparing.
func spans(r Recovery) string {
	var out []string
	for _, span := range []Span{r.Effect, r.Detect, r.CatchUp, r.Steady} {
		words := span.Time.Round(ms).String()
		if !span.Known() {
			words = span.State + ": " + span.Note
		}
		out = append(out, words)
	}
	return strings.Join(out, "; ")
}

func requireSpans(t *testing.T, got []Recovery, want ...string) {
	t.Helper()
	if len(got) != len(want) {
		t.Fatalf("%d faults, want %d", len(got), len(want))
	}
	for i := range want {
		if spans(got[i]) != want[i] {
			t.Errorf("fault %d:\n got %s\nwant %s", i+1, spans(got[i]), want[i])
		}
	}
}

func TestRecovery(t *testing.T) {
	r := newFaultyRun("one")
	r.fault(0, 3*time.Second, 5*time.Second)
	r.refused(3150 * ms)
	got := r.run(t)
	// All records held back are committed 300 ms after the fault. The burst is over in 80 ms, so the first half second
	// without it begins at 5.1 s.
	requireSpans(t, got, "50ms; 150ms; 300ms; 100ms")
	if b := got[0].Before; b == nil || b.Sent != 100 || b.Processed != 100 || b.P99.Round(ms) != 5*ms || b.Lag != 1 {
		t.Errorf("before: %+v", b)
	}
	// From 3.00 to 5.30 s no commit: 229 or 230 records.
	if peak := got[0].LagPeak; peak < 229 || peak > 231 {
		t.Errorf("the lag was at most %d", peak)
	}
	if by := got[0].Detect.Note; by != signWriteRefused.words() {
		t.Errorf("detected by %q", by)
	}
}

// TestLongRunsCountOnce checks that ring slots are empty when they are reused.
func TestLongRunsCountOnce(t *testing.T) {
	r := newFaultyRun()
	r.held = 30 * time.Second
	r.run(t)
	total := int64(0)
	for _, column := range r.measure(t).HeatMap.Counts {
		for _, n := range column {
			total += n
		}
	}
	if total != 1000 {
		t.Errorf("the heat map has %d successes of 1000", total)
	}
}

// TestCaughtUp checks that a lag equal to the previous level counts as caught up.
func TestCaughtUp(t *testing.T) {
	s := newBuilder(400)
	s.header.Contract().WireOnly = true
	s.header.Faults = []history.PlannedFault{{Name: "one"}}
	s.phase(0, history.PhaseSteady)
	for i := range int32(400) { // commits are always five records behind
		at := time.Duration(i) * 10 * ms
		s.sent(i, at, 0, ms, 0, int64(i))
		if at < 2*time.Second || at >= 3200*ms {
			s.committed(at+2*ms, 0, max(0, int64(i)-4), 0, 0)
		}
	}
	for at, kind := range map[time.Duration]history.Kind{2 * time.Second: history.KindFaultStart,
		3 * time.Second: history.KindFaultEnd} {
		s.add(kind, at, func(e *history.Event) { e.Op = 0 })
	}
	// Between a record's acknowledgement and the commit 1 ms later the lag is 6, and never less than 5.
	if got := s.measure(t).Recoveries[0]; got.CatchUp.Time != 202*ms || got.Before.Lag != 6 {
		t.Errorf("%+v, before %+v", got.CatchUp, got.Before)
	}
}

func TestDetection(t *testing.T) {
	const second = time.Second
	for name, c := range map[string]struct {
		tell func(*faultyRun)
		want time.Duration
		by   sign
		not  string
	}{
		// Half of the 50 records of half a second: at 3.2 s, 20 of them are missing.
		"by the throughput": {func(*faultyRun) {}, 200 * ms, signThroughput, ""},
		"not by what is usual": {func(r *faultyRun) {
			r.refused(2500 * ms)
			r.refused(3050 * ms)
		}, 200 * ms, signThroughput, ""},
		"not by what was usual long ago": {func(r *faultyRun) {
			r.held, r.freed = 8*second, 9*second
			r.refused(1 * second)
			r.refused(8050 * ms)
		}, 50 * ms, signWriteRefused, ""},
		"by a commit": {func(r *faultyRun) {
			r.add(history.KindCommitResponse, 3020*ms, func(e *history.Event) {
				e.Instance, e.Topic, e.Partition, e.Offset, e.Code = 0, input, 0, 1, 22
			})
		}, 20 * ms, signCommitRefused, ""},
		"not by what it was not told": {func(r *faultyRun) {
			r.produced(3, 3020*ms, dlq, 0, 19, history.Withheld)
		}, 200 * ms, signThroughput, ""},
		"not by the replay tool": {func(r *faultyRun) {
			r.produced(3, 3020*ms, input, history.Replayer, 19, 0)
		}, 200 * ms, signThroughput, ""},
		"by its log": {func(r *faultyRun) {
			r.add(history.KindSubjectError, 3030*ms, func(e *history.Event) { e.Instance, e.Text = 0, "no" })
		}, 30 * ms, signError, ""},
		"by its end": {func(r *faultyRun) {
			r.add(history.KindInstanceExited, 3030*ms, func(e *history.Event) { e.Instance, e.Code = 0, 1 })
		}, 30 * ms, signEnded, ""},
		"not by an end that was asked for": {func(r *faultyRun) {
			r.add(history.KindInstanceExited, 3030*ms, func(e *history.Event) { e.Instance, e.Flags = 0, history.Expected })
		}, 200 * ms, signThroughput, ""},
		"by a rebalance": {func(r *faultyRun) {
			r.add(history.KindRevoked, 3070*ms, func(e *history.Event) { e.Instance, e.Topic, e.Partition = 1, input, 1 })
		}, 70 * ms, signPartitions, ""},
		"by a hang-up": {func(r *faultyRun) {
			r.attempt(3, 3010*ms, 3080*ms, history.OutcomeTimeout, func(e *history.Event) { e.Flags = history.ClientGone })
		}, 80 * ms, signHungUp, ""},
		"by what a stall does not explain": {func(r *faultyRun) {
			r.add(history.KindStall, 3050*ms, func(e *history.Event) { e.Aux = int64(100 * ms) })
		}, 300 * ms, signThroughput, ""},
		"not by what it does": {func(r *faultyRun) {
			for at := 3 * second; at < 5*second; at += 100 * ms {
				r.add(history.KindStall, at+50*ms, func(e *history.Event) { e.Aux = int64(90 * ms) })
			}
			r.add(history.KindSubjectError, 4030*ms, func(e *history.Event) { e.Instance, e.Text = 0, "no" })
		}, 1030 * ms, signError, ""},
		"not at all": {func(r *faultyRun) { r.held, r.freed = 30*second, 30*second }, 0, 0, "nothing of it was seen"},
	} {
		r := newFaultyRun("one")
		c.tell(r)
		from := r.held
		if c.not != "" {
			from = 3 * second
		}
		r.fault(0, from, from+2*second)
		got := r.run(t)[0].Detect
		if c.not != "" {
			if got.State != SpanNever || !strings.Contains(got.Note, c.not) {
				t.Errorf("%s: %+v", name, got)
			}
			continue
		}
		if !got.Known() || got.Time.Round(ms) != c.want || got.Note != c.by.words() {
			t.Errorf("%s: %+v, want %v by %q", name, got, c.want, c.by.words())
		}
	}
}

// TestSlowness: the throughput is unchanged, but every record takes 60 ms longer.
func TestSlowness(t *testing.T) {
	s := newBuilder(1000)
	s.header.Faults = []history.PlannedFault{{Name: "slow"}}
	s.phase(0, history.PhaseSteady)
	for i := range int32(1000) {
		at := time.Duration(i) * 10 * ms
		s.sent(i, at, 0, ms, 0, int64(i))
		end := at + 5*ms
		if at >= 3*time.Second && at < 5*time.Second {
			end += 60 * ms
		}
		s.attempt(i, end-ms, end, history.OutcomeSuccess, nil)
	}
	for at, kind := range map[time.Duration]history.Kind{3 * time.Second: history.KindFaultStart,
		5 * time.Second: history.KindFaultEnd} {
		s.add(kind, at, func(e *history.Event) { e.Op = 0 })
	}
	got := s.measure(t).Recoveries[0]
	// The first slow ones end at 3.065 s; the last at 5.055 s.
	if got.Detect.Time != 100*ms || got.Detect.Note != signSlow.words() || got.Steady.Time != 100*ms {
		t.Errorf("%+v", got)
	}
}

// TestFailing: the throughput and the p99 are unchanged, but every record is dead-lettered.
func TestFailing(t *testing.T) {
	s := newBuilder(1000)
	s.header.Faults = []history.PlannedFault{{Name: "outage"}}
	s.phase(0, history.PhaseSteady)
	for i := range int32(1000) {
		at := time.Duration(i) * 10 * ms
		s.sent(i, at, 0, ms, 0, int64(i))
		if at >= 3*time.Second && at < 5*time.Second {
			s.produced(i, at+5*ms, dlq, 0, 0, 0)
			continue
		}
		s.attempt(i, at+4*ms, at+5*ms, history.OutcomeSuccess, nil)
	}
	for at, kind := range map[time.Duration]history.Kind{3 * time.Second: history.KindFaultStart,
		5 * time.Second: history.KindFaultEnd} {
		s.add(kind, at, func(e *history.Event) { e.Op = 0 })
	}
	got := s.measure(t).Recoveries[0]
	if got.Detect.Time != 200*ms || got.Detect.Note != signFailing.words() || got.Steady.Time != 0 {
		t.Errorf("%+v", got)
	}
}

func TestOverlappingFaults(t *testing.T) {
	const second = time.Second
	r := newFaultyRun("long", "short")
	r.fault(0, 3*second, 5*second)
	r.fault(1, 4*second, 4500*ms)
	requireSpans(t, r.run(t), "50ms; 200ms; 300ms; 100ms",
		"50ms; untold: another fault was in force when it began; untold: another fault was still in force; untold: another "+
			"fault was still in force")

	r = newFaultyRun("first", "second")
	r.fault(0, 3*second, 5*second)
	r.fault(1, 3050*ms, 6*second)
	requireSpans(t, r.run(t), "50ms; untold: second began before anything was seen of it; untold: another fault was "+
		"still in force; untold: another fault was still in force",
		"50ms; untold: another fault was in force when it began; 0s; 0s")

	r = newFaultyRun("first", "second")
	r.fault(0, 3*second, 5*second)
	r.fault(1, 5100*ms, 5200*ms)
	requireSpans(t, r.run(t),
		"50ms; 200ms; untold: second began before the lag was back; untold: second began before it was steady again",
		"50ms; untold: the subject was not over the fault before it; 100ms; 0s")

	// Long after the first fault, a new calm has begun, with a new level.
	r = newFaultyRun("first", "second")
	r.fault(0, 3*second, 5*second)
	r.fault(1, 8*second, 8100*ms)
	r.refused(8020 * ms)
	got := r.run(t)
	requireSpans(t, got, "50ms; 200ms; 300ms; 100ms", "50ms; 20ms; 0s; 0s")
	if got[1].Before == got[0].Before || got[1].Before.P99.Round(ms) != 5*ms || got[1].Before.Lag != 1 {
		t.Errorf("before the second: %+v", got[1].Before)
	}
}

func TestWhatCanNotBeTold(t *testing.T) {
	const second = time.Second
	forever := func(r *faultyRun) { r.freed = 30 * second }
	for name, c := range map[string]struct {
		tell     func(*faultyRun)
		from, to time.Duration
		want     string
	}{
		"just enough calm": {func(*faultyRun) {}, 400 * ms, 5 * second, "50ms; 2.8s; 300ms; 100ms"},
		"no calm": {func(*faultyRun) {}, 390 * ms, 5 * second,
			"50ms; untold: it was not calm for long enough before it; untold: it was not calm for long enough before it; " +
				"untold: it was not calm for long enough before it"},
		"never back": {forever, 3 * second, 5 * second, "50ms; 200ms; never: the lag was higher than before to the end; " +
			"never: it was not steady again while the load lasted"},
		"never healed": {forever, 3 * second, 0, "50ms; 200ms; untold: it was never healed; untold: it was never healed"},
		"no load after": {func(r *faultyRun) { r.loadEnds = 5100 * ms }, 3 * second, 5 * second,
			"50ms; 200ms; 300ms; untold: the load ended before there was half a second to look at"},
	} {
		r := newFaultyRun("one")
		c.tell(r)
		r.fault(0, c.from, c.to)
		t.Run(name, func(t *testing.T) { requireSpans(t, r.run(t), c.want) })
	}
	r := newFaultyRun("one", "never")
	r.fault(0, 3*second, 5*second)
	never := "untold: it was never injected"
	requireSpans(t, r.run(t), "50ms; 200ms; 300ms; 100ms", strings.Join([]string{never, never, never, never}, "; "))
}

// TestWireOnlyRecovery: if the records that the subject processes are not observed, its lag decides.
func TestWireOnlyRecovery(t *testing.T) {
	s := newBuilder(1000)
	s.header.Contract().WireOnly = true
	s.header.Faults = []history.PlannedFault{{Name: "one"}}
	s.phase(0, history.PhaseSteady)
	for i := range int32(1000) {
		at := time.Duration(i) * 10 * ms
		s.sent(i, at, 0, ms, 0, int64(i))
		if at < 3*time.Second || at >= 5200*ms {
			s.committed(at+2*ms, 0, int64(i)+1, 0, 0)
		}
	}
	for at, kind := range map[time.Duration]history.Kind{3 * time.Second: history.KindFaultStart,
		5 * time.Second: history.KindFaultEnd} {
		s.add(kind, at, func(e *history.Event) { e.Op = 0 })
	}
	requireSpans(t, s.measure(t).Recoveries,
		"never: it did nothing; never: nothing of it was seen on the subject's side; 202ms; untold: what the subject "+
			"processes is not seen")
}

func TestRecoveryThresholds(t *testing.T) {
	const second = time.Second
	two := newFaultyRun("first", "second")
	two.fault(0, 3*second, 5*second)
	two.fault(1, 8*second, 8100*ms)
	two.refused(8020 * ms)
	two.run(t)
	good := two.measure(t)
	never := newFaultyRun("one")
	never.freed = 30 * second
	never.fault(0, 3*second, 5*second)
	never.run(t)
	bad := never.measure(t)
	early := newFaultyRun("one")
	early.fault(0, 100*ms, 200*ms)
	early.run(t)
	for _, c := range []struct {
		m          *Measurements
		expression string
		met        bool
		says       string
	}{
		{good, "recovery.detect <= 200ms", true, "200ms"}, {good, "recovery.detect < 200ms", false, "200ms"},
		{good, "recovery.catch_up < 301ms", true, "299.999ms"}, {good, "recovery.steady < 100ms", false, "100ms"},
		{good, "recovery.steady <= 100ms and latency.service.p99 < 2ms", true, "recovery.steady = 100ms"},
		{bad, "recovery.steady < 1h", false, "recovery.steady: of fault 1: it was not steady again"},
		{bad, "not (recovery.catch_up > 1h)", false, "higher than before to the end"},
		{early.measure(t), "recovery.steady < 1h", false, "can't be told, of fault 1: it was not calm"},
		{newBuilder(1).measure(t), "recovery.detect < 1h", false, "the run had no faults"},
	} {
		got := c.m.Evaluate([]string{c.expression})[0]
		if got.Met != c.met || !strings.Contains(got.Actual+got.Error, c.says) {
			t.Errorf("%s: %+v, want %v with %q", c.expression, got, c.met, c.says)
		}
	}
}
