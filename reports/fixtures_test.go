package reports

// Four judged runs: one that passes, one that fails with counterexamples full of hostile texts, one that is
// inconclusive, and one that keeps its promises but misses a threshold.

import (
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/history"
)

const (
	ms  = time.Millisecond
	sec = time.Second
)

func fixtures() map[string]Run {
	return map[string]Run{"pass": passRun(), "fail": failRun(), "inconclusive": inconclusiveRun(), "missed": missedRun()}
}

func fixturePhases() []measure.Phase {
	return []measure.Phase{
		{Name: history.PhaseSetup, From: 0, To: 1200 * ms}, {Name: history.PhaseWarmup, From: 1200 * ms, To: 3200 * ms},
		{Name: history.PhaseSteady, From: 3200 * ms, To: 7200 * ms},
		{Name: history.PhaseFault, From: 7200 * ms, To: 18200 * ms},
		{Name: history.PhaseHeal, From: 18200 * ms, To: 18600 * ms},
		{Name: history.PhaseDrain, From: 18600 * ms, To: 21400 * ms},
		{Name: history.PhaseAudit, From: 21400 * ms, To: 22100 * ms},
		{Name: history.PhaseSeal, From: 22100 * ms, To: 22200 * ms},
	}
}

func fixtureFaults() []assertions.FaultResult {
	planned := []history.PlannedFault{
		{Name: "dlq-refuses", Kind: "kafka", What: "Produce to dlq answered NOT_ENOUGH_REPLICAS", Target: "dlq", At: 4 * sec,
			For: 5 * sec},
		{Name: "slow-downstream", Kind: "network", What: "200 ms of latency with 50 ms of jitter on the link downstream",
			Target: "downstream", At: 6 * sec, For: 2 * sec},
		{Name: "kill-1", Kind: "subject", What: "KILL instance 1, start it again after 1 s", Target: "instance 1",
			At: 10 * sec},
	}
	seen := []assertions.FaultSeen{
		{Injected: true, Healed: true, FaultWindow: assertions.FaultWindow{From: 7203 * ms, To: 12211 * ms},
			Effects: map[string]int64{"requests answered": 1204}},
		{Injected: true, Healed: true, FaultWindow: assertions.FaultWindow{From: 9204 * ms, To: 11230 * ms},
			Effects: map[string]int64{"chunks delayed": 8123, "connections affected": 4}},
		{Injected: true, Healed: true, FaultWindow: assertions.FaultWindow{From: 13201 * ms, To: 14350 * ms},
			Effects: map[string]int64{"processes killed": 1}},
	}
	var out []assertions.FaultResult
	for i, p := range planned {
		from := 3200*ms + p.At
		out = append(out, assertions.FaultResult{
			PlannedFault: p, Planned: assertions.FaultWindow{From: from, To: from + p.For}, Observed: seen[i],
		})
	}
	return out
}

func passing(names ...string) []assertions.Result {
	of := map[string]string{"no-loss": "records", "commit-after-dlq": "commits", "commit-after-outcome": "commits",
		"backoff": "gaps", "dlq-fidelity": "dead letters"}
	var out []assertions.Result
	for i, n := range names {
		unit := of[n]
		if unit == "" {
			unit = "records"
		}
		out = append(out, assertions.Result{Name: n, Status: assertions.Pass, Judged: int64(30000 / (i + 1)), Of: unit,
			Anomalies: []assertions.Anomaly{}})
	}
	return out
}

func passRun() Run {
	m := fixtureMeasurements(1, true)
	v := &assertions.Verdict{
		Schema: assertions.SchemaVersion, Verdict: assertions.Pass, RunID: "20260314-150926-dlq-publish-failure",
		Scenario: "dlq-publish-failure",
		Seed:     42, Subject: "reference", Instances: fixtureHeader().Instances, Group: fixtureHeader().Consumers[0].Group,
		Topics: fixtureHeader().Topics, Rerun: "dlqbench run dlq-publish-failure --seed 42",
		Started: time.Date(2026, 3, 14, 15, 9, 26, 0, time.UTC), Reasons: []string{},
		Invariants: passing("no-loss", "commit-after-dlq", "commit-after-outcome", "halt-on-dlq-failure", "bounded-retries",
			"classification", "dlq-fidelity", "dlq-once", "duplicates", "ordering"),
		Faults: fixtureFaults(),
		Thresholds: []measure.Threshold{
			{Expression: "latency.success.p99 < 500ms", Met: true, Actual: "212ms"},
			{Expression: "recovery.drain < 10s", Met: true, Actual: "2.8s"},
		},
		Latency: fixtureLatency(m), Throughput: m.Throughput, Ledger: m.Ledger, Health: m.Health, Phases: m.Phases,
		Environment: map[string]string{"cpu": "2 × AMD EPYC 7B13", "go": "go1.26.8", "kafka": "embedded (kfake), 3 brokers",
			"os": "linux/amd64"},
	}
	v.Invariants = append(v.Invariants,
		assertions.Result{Name: "backoff", Status: assertions.Pass, Judged: 4210, Of: "gaps",
			NotJudged: map[string]int64{"the machine stalled": 31}},
		assertions.Result{Name: "replay-round-trip", Status: assertions.NotApplicable, Unjudged: assertions.Unexercised,
			Of: "dead letters", Why: "the scenario has no replay phase"},
		assertions.Result{Name: "store-lifecycle", Status: assertions.NotApplicable, Unjudged: assertions.Inapplicable,
			Of: "changes of entries", Why: "the run has no dead-letter store"})
	withFigures(v, m)
	return Run{Verdict: v, Measurements: m, Header: fixtureHeader(), Dir: "runs/20260314-150926-dlq-publish-failure"}
}

func fixtureHeader() history.Header {
	return history.Header{
		Format: history.FormatVersion, Subject: "reference", Instances: 2, Records: 30012,
		Consumers: []history.Consumer{{Group: "dlqbench-7f3a-orders", Instances: 2, DLQ: 1}},
		Topics: []history.Topic{
			{Name: "dlqbench-7f3a-input", Role: history.RoleInput, Partitions: 6},
			{Name: "dlqbench-7f3a-dlq", Role: history.RoleDLQ, Partitions: 6},
		},
	}
}

// hostile has everything that a record could contain to harm the reader of a report.
const hostile = "</script><script>alert(1)</script><img src=x onerror=alert(2)>\" onmouseover=\"alert(3)' " +
	"javascript:alert(4) \u202Egnp.exe\u202C \x00\x1b[31m\x1b]0;owned\a\x9b2J\xff\u200b ]]> {{.Rerun}} ${x} `rm` | " +
	"@everyone #1 <!-- \r\nSet-Cookie: a=b \U000E0041"

func failRun() Run {
	run := passRun()
	v := *run.Verdict
	v.Verdict = assertions.Fail
	v.Subject, v.Rerun = "early-committer",
		"dlqbench run dlq-publish-failure --subject examples/early/subject.yaml --seed 42"
	v.Invariants = append(passing("no-loss", "bounded-retries", "classification", "dlq-once", "duplicates"),
		run.Verdict.Invariants[10:]...)
	v.Invariants = append(v.Invariants, []assertions.Result{
		{Name: "commit-after-dlq", Status: assertions.Fail, Judged: 612, Of: "commits", Anomalies: []assertions.Anomaly{
			{Name: "commit-before-dlq", Count: 14, Counterexamples: []assertions.Counterexample{commitCounterexample(),
				secondCounterexample()},
				First: fixtureFirst(), Records: fixtureOccurrences()},
		}},
		{Name: "dlq-fidelity", Status: assertions.Fail, Judged: 590, Of: "dead letters", Anomalies: []assertions.Anomaly{
			{Name: "payload-changed", Count: 3, Counterexamples: []assertions.Counterexample{hostileCounterexample()}},
		}},
	}...)
	v.Ledger.DeadLettered, v.Ledger.Unfinished = 876, 14
	v.Usage.Busiest = &measure.BusiestRecord{Record: 9, Attempts: 1841, At: 9731 * ms}
	v.Conservation = fixtureConservation(v.Ledger)
	v.Logs = []assertions.LogExcerpt{{
		Invariant: "commit-after-dlq", Anomaly: "commit-before-dlq", Process: "instance 0", File: "logs/instance-0.log",
		At: 7410 * ms, LeftOut: 3, Lines: []assertions.LogLine{
			{Time: 7300 * ms, Text: "WRN dead letter refused error=NOT_ENOUGH_REPLICAS topic=dlq"},
			{Time: 7400 * ms, Text: hostile}, {Time: 7500 * ms, Text: "INF committed offset=1353 partition=3"},
		},
	}}
	withRoots(&v)
	run.Verdict = &v
	return run
}

// withRoots fills in what the judge says of the violations.
func withRoots(v *assertions.Verdict) {
	v.Roots, v.Reasons = assertions.Roots(v), nil
	for _, root := range v.Roots {
		v.Reasons = append(v.Reasons, strings.ToValidUTF8(v.Reason(root), "?"))
	}
}

func commitCounterexample() assertions.Counterexample {
	return assertions.Counterexample{
		Record: 8123, ID: "DLQB7Q2M4X9K000FXV4T9R2C", Topic: "dlqbench-7f3a-input", Partition: 3, Offset: 1352,
		Summary: "Offset 1353 of partition 3 was committed 1.52 s before the dead letter of record 8123 was acknowledged.",
		Command: "dlqbench show-record 20260102-030405-dlq-publish-failure-a1b2c3 8123",
		Key:     "key-000417", At: 7410 * ms, Margin: 1520 * ms,
		Actors: []assertions.Actor{
			{Name: "workload", Role: assertions.RoleWorkload}, {Name: "input", Role: "input"},
			{Name: "instance 0", Role: assertions.RoleInstance},
			{Name: "downstream", Role: assertions.RoleDownstream}, {Name: "dlq", Role: "dlq"},
		},
		Trace: []assertions.Line{
			{Time: 7262*ms + 120*time.Microsecond, Kind: "send", Text: "sent to input-3, planned as permanent", From: "workload",
				To: "input", Label: "send"},
			{Time: 7263*ms + 4*time.Microsecond, Kind: "acked", Text: "acknowledged at input-3 offset 1352", From: "input",
				To: "workload", Label: "offset 1352"},
			{Time: 7265 * ms, Kind: "fetched", Text: "instance 0 fetches input-3 offsets 1349 to 1352", From: "input",
				To: "instance 0", Label: "fetch 1349–1352"},
			{Time: 7266 * ms, Kind: "attempt-start", Text: "instance 0: attempt 1 starts", From: "instance 0", To: "downstream",
				Label: "attempt 1"},
			{Time: 7267 * ms, Kind: "attempt-end", Text: "instance 0: attempt 1 is answered permanent", From: "downstream",
				To: "instance 0", Label: "permanent", Failed: true},
			{Time: 7268*ms + 300*time.Microsecond, Kind: "produce-request", Text: "instance 0 writes it to dlq-3",
				From: "instance 0", To: "dlq", Label: "produce"},
			{Time: 7269 * ms, Kind: "produce-response",
				Text: "the write to dlq-3 is refused (error 19) by a fault in the broker's place", From: "dlq", To: "instance 0",
				Label: "NOT_ENOUGH_REPLICAS", Failed: true},
			{Time: 7410 * ms, Kind: "commit-request", Text: "instance 0 asks to commit input-3 up to offset 1353", Marked: true,
				From: "instance 0", To: "input", Label: "commit 1353"},
			{Time: 7412 * ms, Kind: "commit-response", Text: "the commit of input-3 up to offset 1353 is accepted",
				From: "input", To: "instance 0", Label: "ok"},
			{Time: 8930 * ms, Kind: "produce-response", Text: "the write to dlq-3 is accepted", Marked: true, From: "dlq",
				To: "instance 0", Label: "ok, offset 77"},
		},
	}
}

func fixtureFirst() *assertions.Occurrence {
	first := fixtureOccurrences()[0]
	first.Phase, first.Command = history.PhaseFault, "dlqbench show-record 20260102-030405-dlq-publish-failure-a1b2c3 8123"
	return &first
}

// fixtureOccurrences are 14 records: the two with a trace, and twelve that are only named.
func fixtureOccurrences() []assertions.Occurrence {
	out := []assertions.Occurrence{
		{Record: 8123, ID: "DLQB7Q2M4X9K000FXV4T9R2C", Key: "key-000417", Topic: "dlqbench-7f3a-input", Partition: 3,
			Offset: 1352, At: 7410 * ms},
		{Record: 9001, ID: "DLQB7Q2M4X9K000FXV4T9R2C", Key: "key-000417", Topic: "dlqbench-7f3a-input", Partition: 3,
			Offset: 1499, At: 10410 * ms},
	}
	for i := range int32(12) {
		out = append(out, assertions.Occurrence{
			Record: 9100 + i, ID: fmt.Sprintf("DLQB7Q2M4X9K000FXV4T9%03d", i), Key: fmt.Sprintf("key-%06d", 500+i),
			Topic: "dlqbench-7f3a-input", Partition: i % 6, Offset: 1600 + int64(i), At: 11*sec + time.Duration(i)*ms,
		})
	}
	return out
}

func secondCounterexample() assertions.Counterexample {
	w := commitCounterexample()
	w.Command = "dlqbench show-record 20260102-030405-dlq-publish-failure-a1b2c3 9001"
	w.At, w.Margin = 10410*ms, 2100*ms
	w.Record, w.Offset, w.Summary = 9001, 1499,
		"Offset 1500 of partition 3 was committed 2.10 s before the dead letter of record 9001 was acknowledged."
	long := w.Trace[:3:3]
	for i := range 200 {
		long = append(long, assertions.Line{
			Time: 7300*ms + time.Duration(i)*10*ms, Kind: "produce-response",
			Text: "the write to dlq-3 is refused (error 19) by a fault in the broker's place",
			From: "dlq", To: "instance 0", Label: "NOT_ENOUGH_REPLICAS", Failed: true,
		})
	}
	w.Trace = append(long, w.Trace[7:]...)
	for i := range w.Trace[203:] {
		w.Trace[203+i].Time += 3 * sec
	}
	return w
}

func hostileCounterexample() assertions.Counterexample {
	return assertions.Counterexample{
		Record: 17, ID: "DLQB" + hostile, Topic: hostile, Partition: 0, Offset: 4,
		Summary: "The dead letter of record 17 has another value than its source: " + hostile,
		Trace: []assertions.Line{
			{Time: 3400 * ms, Kind: "sent", Text: "key " + hostile},
			{Time: 3450 * ms, Kind: hostile, Text: strings.Repeat("A", 4096), Marked: true},
			{Time: 5000 * ms, Kind: "dead letter acked", Text: "value javascript:alert(1) \u05e9\u05dc\u05d5\u05dd " +
				strings.Repeat("\u202e", 40), Marked: true},
		},
	}
}

func inconclusiveRun() Run {
	run := passRun()
	v := *run.Verdict
	v.Verdict = assertions.Inconclusive
	v.Open = []assertions.Open{{What: "what the consumer does under fault dlq-refuses",
		Why: "fault dlq-refuses (Produce to dlq answered NOT_ENOUGH_REPLICAS) had no effect: no request matched while it was " +
			"in force", Do: "make it longer, or plan records that cause such requests (dlq)"},
		{What: "halt-on-dlq-failure", Invariant: "halt-on-dlq-failure",
			Why: "no dead letter was refused, so there was nothing to halt for",
			Do:  "run a scenario with dead-letter writes that fail (dlq-publish-failure)"}}
	v.Reasons = []string{v.Open[0].Reason(), v.Open[1].Reason()}
	v.Faults = fixtureFaults()
	v.Faults[0].Observed.Effects = map[string]int64{}
	v.Faults[2].Observed = assertions.FaultSeen{}
	v.Invariants = append([]assertions.Result{
		{Name: "halt-on-dlq-failure", Status: assertions.Inconclusive, Judged: 0, Of: "commits",
			Why: "no dead letter was refused, so there was nothing to halt for"},
	}, passing("no-loss", "commit-after-dlq")...)
	v.Thresholds = []measure.Threshold{{Expression: "latency.replay.p99 < 1s",
		Error: "nothing was replayed, so there is no such latency"}}
	v.Health = measure.Health{SlipP99: 41 * ms, Stalls: 7, Stalled: 812 * ms, Worst: 300 * ms}
	v.Throughput = measure.Throughput{Offered: math.NaN(), Sent: math.Inf(1)}
	v.Latency, v.Environment, v.Phases, v.Percentiles, v.Series, v.HeatMap = nil, nil, nil, nil, measure.Series{},
		measure.HeatMap{}
	v.Drain, v.Conservation = measure.Drain{}, measure.Conservation{}
	return Run{Verdict: &v}
}

func missedRun() Run {
	run := passRun()
	v := *run.Verdict
	v.Thresholds = []measure.Threshold{
		{Expression: "latency.success.p99 < 100ms", Met: false, Actual: "212.486225ms"},
		{Expression: "recovery.drain < 10s", Met: true, Actual: "2.8s"},
	}
	v.Reasons = []string{"the threshold \"latency.success.p99 < 100ms\" was missed: it was 212 ms"}
	v.Invariants = slices.Clone(v.Invariants)
	v.Invariants[0].Judged, v.Invariants[0].Open = 353, 2740
	v.Invariants[0].NotJudged = map[string]int64{"outcome not observable": 2739, "no audit": 1}
	run.Verdict = &v
	return run
}

// fixtureMeasurements returns curves that look like a run with an outage. The seed determines every value, so that
// golden files stay valid.
func fixtureMeasurements(seed uint64, gaps bool) *measure.Measurements {
	random := rand.New(rand.NewPCG(seed, 7))
	m := &measure.Measurements{
		Histograms: map[string]map[string]*hdrhistogram.Histogram{}, Throughput: measure.Throughput{Offered: 2000,
			Sent: 1998.7, Processed: 1996.2},
		Ledger: measure.Ledger{Planned: 30012, Sent: 30012, Acknowledged: 30000, Late: 3, Succeeded: 28810, Logical: 300,
			DeadLettered: 890, Attempts: 34518, Duplicates: 41},
		Health: measure.Health{SlipP99: 380 * time.Microsecond, SlipMax: 1540 * time.Microsecond, Stalls: 2, Stalled: 21 * ms,
			Worst: 14 * ms, BacklogMax: 61_000, CPU: 0.42, CPUMax: 0.9},
		Phases: fixturePhases(), DrainTime: 2800 * ms, LagMax: 4120, Series: fixtureSeries(random, gaps),
	}
	for key, centre := range map[string]float64{
		measure.LatencySend: 900, measure.LatencyFirstAttempt: 1800, measure.LatencySuccess: 4200,
		measure.LatencyDeadLetter:   900_000,
		measure.LatencyBackoffError: 1500, measure.LatencyCommitDelay: 60_000, measure.LatencySlip: 60,
	} {
		m.Histograms[key] = fixtureHistograms(rand.New(rand.NewPCG(seed, uint64(centre))), centre)
	}
	return m
}

func fixtureHistograms(random *rand.Rand, centre float64) map[string]*hdrhistogram.Histogram {
	out := map[string]*hdrhistogram.Histogram{}
	for i, phase := range []string{measure.PhaseAll, history.PhaseWarmup, history.PhaseSteady, history.PhaseFault,
		history.PhaseDrain} {
		h := hdrhistogram.New(1, int64(10*time.Minute/time.Microsecond), 3)
		for range []int{3000, 400, 800, 1700, 40}[i] {
			factor := math.Exp(random.NormFloat64() * []float64{1.0, 0.3, 0.35, 1.2, 0.8}[i])
			_ = h.RecordValue(int64(max(1, centre*factor)))
		}
		out[phase] = h
	}
	return out
}

func fixtureSeries(random *rand.Rand, gaps bool) measure.Series {
	s := measure.Series{Step: 100 * ms}
	lag := 0.0
	for i := range 222 {
		at := float64(i) / 10
		sent, retries, dead := 0.0, 0.0, 0.0
		if at >= 1.2 && at < 18.2 {
			sent = 200 + random.NormFloat64()*4
		}
		processed := min(sent*0.97+lag*0.2, 420)
		p50, p99 := 4+random.Float64(), 12+random.Float64()*6
		switch {
		case at > 9.2 && at < 11.2:
			processed, p50, p99 = 90+random.Float64()*10, 210+random.Float64()*20, 900+random.Float64()*200
		case at > 13.2 && at < 14.4:
			processed, p99 = 110, 700
		}
		if sent > 0 {
			retries = 24 + random.NormFloat64()*4
			dead = 7 + random.NormFloat64()*2
		}
		if at > 7.2 && at < 12.2 {
			dead = 0
		} else if at >= 12.2 && at < 12.8 {
			dead = 62
		}
		lag = max(0, lag+sent-processed)
		if gaps && (at < 1.2 || at > 21) {
			p50, p99, processed = math.NaN(), math.Inf(1), 0
		}
		s.Sent, s.Processed, s.Retries = append(s.Sent, sent), append(s.Processed, max(0, processed)),
			append(s.Retries, max(0, retries))
		s.DeadLetters, s.Lag = append(s.DeadLetters, max(0, dead)), append(s.Lag, lag)
		s.SuccessP50, s.SuccessP99 = append(s.SuccessP50, p50), append(s.SuccessP99, p99)
		s.Attempts = append(s.Attempts, processed+retries)
	}
	return s
}

func fixtureLatency(m *measure.Measurements) map[string]measure.Latency {
	out := map[string]measure.Latency{}
	for key, byPhase := range m.Histograms {
		l := measure.Latency{Phases: map[string]measure.Quantiles{}}
		for phase, h := range byPhase {
			at := func(p float64) time.Duration { return time.Duration(h.ValueAtPercentile(p)) * time.Microsecond }
			q := measure.Quantiles{Count: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
				Max: time.Duration(h.Max()) * time.Microsecond}
			l.Phases[phase] = q
			if phase == measure.PhaseAll {
				l.Quantiles = q
			}
		}
		out[key] = l
	}
	return out
}

// injected is the failing run with the same text in every place that can hold a text from outside.
func injected(payload string) Run {
	v := assertions.Verdict{Schema: assertions.SchemaVersion, Verdict: assertions.Fail,
		Ledger: measure.Ledger{Acknowledged: 2, Succeeded: 1}}
	v.RunID, v.Scenario, v.Subject, v.Rerun = payload, payload, payload, payload
	v.Reasons = []string{payload, payload}
	v.Environment = map[string]string{payload: payload}
	v.Thresholds = []measure.Threshold{{Expression: payload, Actual: payload}, {Expression: payload, Error: payload}}
	v.Phases = []measure.Phase{{Name: payload, From: 0, To: 20 * sec}}
	v.Latency = map[string]measure.Latency{payload: {
		Quantiles: measure.Quantiles{Count: 1, Max: sec}, Phases: map[string]measure.Quantiles{payload: {Count: 1, Max: sec}},
	}}
	counterexample := assertions.Counterexample{
		Record: 1, ID: payload, Key: payload, Topic: payload, Summary: payload, Command: payload,
		Actors: []assertions.Actor{{Name: payload, Role: assertions.Role(payload)},
			{Name: "downstream", Role: assertions.RoleDownstream}},
		Trace: []assertions.Line{
			{Time: 8 * sec, Kind: payload, Text: payload, Marked: true}, {Time: 9 * sec, Kind: payload, Text: payload},
			{Time: 9 * sec, Kind: payload, Text: payload, From: payload, To: "downstream", Label: payload, Marked: true},
			{Time: 9 * sec, Kind: payload, Text: payload, From: "downstream", To: payload},
			{Time: 9 * sec, Kind: payload, Text: payload, From: "downstream", Label: payload},
		},
	}
	occurrence := assertions.Occurrence{Record: 1, ID: payload, Key: payload, Topic: payload, At: 8 * sec, Phase: payload,
		Command: payload}
	bad := assertions.Result{
		Name: payload, Status: assertions.Fail, Judged: 2, Of: payload, Why: payload, NotJudged: map[string]int64{payload: 2},
		Anomalies: []assertions.Anomaly{{
			Name: payload, Count: 1, Counterexamples: []assertions.Counterexample{counterexample}, First: &occurrence,
			Records: []assertions.Occurrence{occurrence},
		}},
	}
	v.Roots = []assertions.Root{{Invariant: payload, Anomaly: payload, Count: 1, Example: occurrence, Summary: payload,
		Command: payload, Consequences: []assertions.Consequence{{Invariant: payload, Anomaly: payload, Why: payload}}},
		{Invariant: payload, Anomaly: payload, Summary: payload, Consequences: []assertions.Consequence{{Why: payload}}}}
	v.LogsNote = payload
	v.Logs = []assertions.LogExcerpt{{Invariant: payload, Anomaly: payload, Process: payload, File: payload,
		Lines: []assertions.LogLine{{Text: payload}}, LeftOut: 1}}
	v.Conservation = measure.Conservation{Entries: []measure.Entry{
		{Name: payload, Count: 1, Difference: true, Records: []measure.EntryRecord{{Record: 1, ID: payload, Topic: payload}}},
	}}
	unclear, none := bad, bad
	unclear.Status, none.Status = assertions.Inconclusive, assertions.NotApplicable
	v.Invariants = []assertions.Result{bad, unclear, none}
	v.Faults = fixtureFaults()
	for i := range v.Faults {
		v.Faults[i].PlannedFault = history.PlannedFault{Name: payload, Kind: payload, What: payload, Target: payload}
		v.Faults[i].Observed.Effects = map[string]int64{payload: 3}
		v.Faults[i].Recovery.Effect = measure.Span{State: measure.SpanKnown, Note: payload}
	}
	m := measure.Measurements{Series: measure.Series{Step: sec, Sent: []float64{1}}}
	h := hdrhistogram.New(1, 1000, 3)
	_ = h.RecordValue(7)
	m.Histograms = map[string]map[string]*hdrhistogram.Histogram{payload: {payload: h}}
	v.Series, v.Percentiles = m.Series, m.Percentiles()
	v.Instances, v.Group, v.Topics = 1, payload,
		[]history.Topic{{Name: payload, Role: history.Role(payload), Partitions: 1}}
	header := history.Header{Instances: v.Instances, Topics: v.Topics,
		Consumers: []history.Consumer{{Group: v.Group, Instances: v.Instances}}}
	return Run{Verdict: &v, Measurements: &m, Header: header, Dir: payload}
}
