package bench

import (
	"strings"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
	"github.com/dlqbench/dlqbench/reports"
)

// probe is a run that held its rate.
func probe() reports.BenchRun {
	return reports.BenchRun{
		Verdict: assertions.Pass, Drained: true, Throughput: measure.Throughput{Offered: 1000, Sent: 1000, Processed: 1000},
		Ledger:     measure.Ledger{Planned: 4500, Acknowledged: 4500},
		Thresholds: []measure.Threshold{{Expression: bound, Met: true, Actual: "80ms"}},
		Latency: map[string]reports.BenchLatency{
			measure.LatencySuccess: {Quantiles: measure.Quantiles{Count: 4000, P99: 80 * time.Millisecond}},
			measure.LatencySend:    {Quantiles: measure.Quantiles{Count: 4500, P99: 4 * time.Millisecond}},
		},
	}
}

func missed(run *reports.BenchRun, p99 time.Duration) {
	run.Thresholds[0].Met, run.Thresholds[0].Actual = false, p99.String()
	run.Latency[measure.LatencySuccess] = reports.BenchLatency{Quantiles: measure.Quantiles{Count: 4000, P99: p99}}
}

// TestHeld checks which failures are the consumer's and which may be the harness's.
func TestHeld(t *testing.T) {
	cell := PlannedCell{Load: 4500 * time.Millisecond, WarmUp: 500 * time.Millisecond, MaxSlip: 250 * time.Millisecond}
	for _, test := range []struct {
		name   string
		change func(*reports.BenchRun)
		want   reports.BenchHold
		why    string
	}{
		{"all is well", func(*reports.BenchRun) {}, reports.BenchHeld, ""},
		{"the bound is missed", func(r *reports.BenchRun) {
			missed(r, 150*time.Millisecond)
		}, reports.BenchNotHeld, "was missed: 150 ms"},
		{"a promise is broken", func(r *reports.BenchRun) {
			r.Verdict, r.Reasons = assertions.Fail, []string{"lost"}
		}, reports.BenchNotHeld, "lost"},
		{"the run proves nothing", func(r *reports.BenchRun) {
			r.Verdict, r.Reasons = assertions.Inconclusive, []string{"no fault had an effect"}
		}, reports.BenchUnproven, "no fault"},
		{"it was not run", func(r *reports.BenchRun) {
			*r = reports.BenchRun{Error: "no Kafka"}
		}, reports.BenchUnproven, "no Kafka"},
		{"the backlog grows", func(r *reports.BenchRun) {
			r.BacklogGrowth, r.Throughput.Processed = 100, 900
		}, reports.BenchNotHeld, "the backlog grew by 100"},
		{"the backlog moves", func(r *reports.BenchRun) { r.BacklogGrowth = 15 }, reports.BenchHeld, ""},
		{"the backlog of a small load moves", func(r *reports.BenchRun) {
			r.BacklogGrowth, r.Throughput = 4, measure.Throughput{Offered: 50, Sent: 50, Processed: 47}
		}, reports.BenchHeld, ""},
		{"it does not drain", func(r *reports.BenchRun) { r.Drained = false }, reports.BenchNotHeld, "not every record"},
		{"the generator falls short", func(r *reports.BenchRun) {
			r.Throughput.Sent = 900
			missed(r, time.Second)
		}, reports.BenchUnproven, "did not keep the rate: 1000/s were due, 900/s were sent"},
		{"Kafka refuses records", func(r *reports.BenchRun) {
			r.Ledger.Acknowledged = 4000
		}, reports.BenchUnproven, "4000 of 4500 records were accepted"},
		{"the generator is late, and the bound is missed", func(r *reports.BenchRun) {
			r.Health.SlipP99 = 300 * time.Millisecond
			missed(r, 2*time.Second)
		}, reports.BenchUnproven, "could not keep its schedule"},
		{"the generator is late, and the bound is met", func(r *reports.BenchRun) {
			r.Health.SlipP99 = 300 * time.Millisecond
		}, reports.BenchHeld, ""},
		{"the harness stalls, and the bound is missed", func(r *reports.BenchRun) {
			r.Health.Stalled = time.Second
			missed(r, 2*time.Second)
		}, reports.BenchUnproven, "was held up for 1 s"},
		{"the harness stalls, and a promise is broken", func(r *reports.BenchRun) {
			r.Health.Stalled = time.Second
			r.Verdict = assertions.Fail
		}, reports.BenchUnproven, "was held up"},
		{"the harness stalls, and all is well", func(r *reports.BenchRun) {
			r.Health.Stalled = time.Second
		}, reports.BenchHeld, ""},
		{"being late is much of the latency", func(r *reports.BenchRun) {
			r.Health.SlipP99 = 40 * time.Millisecond
			missed(r, 120*time.Millisecond)
		}, reports.BenchUnproven, "40 ms late by the load generator"},
		{"being late is little of the latency", func(r *reports.BenchRun) {
			r.Health.SlipP99 = 20 * time.Millisecond
			missed(r, 120*time.Millisecond)
		}, reports.BenchNotHeld, "was missed"},
		{"Kafka is most of the latency", func(r *reports.BenchRun) {
			missed(r, 120*time.Millisecond)
			r.Latency[measure.LatencySend] = reports.BenchLatency{Quantiles: measure.Quantiles{Count: 1,
				P99: 90 * time.Millisecond}}
		}, reports.BenchUnproven, "Kafka itself took up to 90 ms"},
		{"the bound can't be told", func(r *reports.BenchRun) {
			r.Thresholds[0].Met, r.Thresholds[0].Error = false, "no samples"
		}, reports.BenchUnproven, "no samples"},
		{"the bound was not judged", func(r *reports.BenchRun) {
			r.Thresholds = nil
		}, reports.BenchUnproven, "not evaluated"},
	} {
		t.Run(test.name, func(t *testing.T) {
			run := probe()
			test.change(&run)
			got, why := held(cell, bound, run)
			if got != test.want || !strings.Contains(strings.Join(why, " "), test.why) {
				t.Errorf("%s: %v; want %s, %q", got, why, test.want, test.why)
			}
		})
	}
}

// TestLateNamesExist checks that late names existing anomalies. If one is renamed only elsewhere, lateness would count
// as a broken promise.
func TestLateNamesExist(t *testing.T) {
	known := strings.Join(assertions.AnomalyNames(), " ") + " "
	for _, name := range late() {
		if !strings.Contains(known, name+" ") {
			t.Errorf("there is no anomaly %s", name)
		}
	}
}

func part(rate, sent float64, p99 time.Duration, backlog int64) reports.BenchPart {
	return reports.BenchPart{To: 2 * time.Second, Rate: rate, Sent: sent, Success: measure.Quantiles{Count: 100, P99: p99},
		Backlog: backlog}
}

// TestKnee checks that the knee is the last step before the first with which the consumer did not keep up, and the
// evidence for it.
func TestKnee(t *testing.T) {
	const ms = time.Millisecond
	for _, test := range []struct {
		name        string
		parts       []reports.BenchPart
		rate, above float64
		limit       reports.BenchLimit
		why         string
	}{
		{"all kept up with", []reports.BenchPart{part(100, 100, 10*ms, 1), part(200, 200, 12*ms, 2)}, 200, 0,
			reports.BenchLimitHighest, ""},
		{"the backlog grows", []reports.BenchPart{part(100, 100, 10*ms, 1), part(200, 200, 30*ms, 101),
			part(400, 400, ms, 0)}, 100, 200, reports.BenchLimitConsumer, "the backlog grew by 50"},
		{"it becomes slow", []reports.BenchPart{part(100, 100, 10*ms, 1), part(200, 200, 45*ms, 2)}, 100, 200,
			reports.BenchLimitConsumer, "went from 10 ms to 45 ms"},
		{"a little slower than very fast", []reports.BenchPart{part(100, 100, ms, 1), part(200, 200, 15*ms, 2)}, 200, 0,
			reports.BenchLimitHighest, ""},
		{"slower than the calmest", []reports.BenchPart{part(100, 100, 50*ms, 1), part(200, 200, 10*ms, 2),
			part(300, 300, 45*ms, 2)}, 200, 300, reports.BenchLimitConsumer, "10 ms to 45 ms"},
		{"the generator falls short", []reports.BenchPart{part(100, 100, 10*ms, 1), part(200, 150, 500*ms, 200)}, 100, 200,
			reports.BenchLimitHarness, "the load generator did not keep the rate: 150/s"},
		{"the first is too much", []reports.BenchPart{part(100, 100, 10*ms, 150)}, 0, 100, reports.BenchLimitNone,
			"the backlog grew"},
		{"nothing was measured", nil, 0, 0, reports.BenchLimitHarness, "no load was measured"},
	} {
		t.Run(test.name, func(t *testing.T) {
			got := knee(test.parts, nil)
			if got.Rate != test.rate || got.Above != test.above || got.Limit != test.limit ||
				!strings.Contains(got.Why, test.why) {
				t.Errorf("%v to %v, %s, %q; want %v to %v, %s, %q", got.Rate, got.Above, got.Limit, got.Why, test.rate, test.above,
					test.limit, test.why)
			}
		})
	}
}

// TestKneeOfADisturbedRun checks that the consumer is not blamed for failures under a stalled harness, and that steps
// it kept up with all the same count.
func TestKneeOfADisturbedRun(t *testing.T) {
	parts := []reports.BenchPart{part(100, 100, 10*time.Millisecond, 1), part(200, 200, time.Second, 2)}
	if got := knee(parts, []string{"the harness itself was held up for 1s"}); got.Limit !=
		reports.BenchLimitHarness || got.Rate != 100 || !strings.Contains(got.Why, "held up") {
		t.Errorf("%+v", got)
	}
	if got := knee(parts[:1], []string{"the harness itself was held up for 1s"}); got.Limit != reports.BenchLimitHighest {
		t.Errorf("%+v", got)
	}
}

// TestStand checks the standing of a cell, and that each reason appears once.
func TestStand(t *testing.T) {
	run := func(verdict assertions.Status, reasons ...string) reports.BenchRepetition {
		return reports.BenchRepetition{Run: reports.BenchRun{Verdict: verdict, Reasons: reasons}}
	}
	failed := reports.BenchRepetition{Run: reports.BenchRun{Error: "no Kafka"}}
	open := run(assertions.Pass)
	open.Search = &reports.BenchSearch{}
	for _, test := range []struct {
		name        string
		repetitions []reports.BenchRepetition
		want        reports.BenchState
		why         string
	}{
		{"nothing was run", nil, reports.BenchNotRun, ""},
		{"a search goes on", []reports.BenchRepetition{open}, reports.BenchNotRun, ""},
		{"all pass", []reports.BenchRepetition{run(assertions.Pass), run(assertions.Pass)}, reports.BenchOK, ""},
		{"one proves nothing", []reports.BenchRepetition{run(assertions.Pass), run(assertions.Inconclusive, "late")},
			reports.BenchOK, "repetition 2: late"},
		{"none proves anything", []reports.BenchRepetition{run(assertions.Inconclusive, "late"),
			run(assertions.Inconclusive, "late")}, reports.BenchInconclusive, "repetition 1, 2: late"},
		{"none could be run", []reports.BenchRepetition{failed}, reports.BenchInconclusive, "repetition 1: no Kafka"},
	} {
		t.Run(test.name, func(t *testing.T) {
			for i := range test.repetitions {
				test.repetitions[i].Number = i + 1
			}
			cell := reports.BenchCell{Repetitions: test.repetitions}
			if stand(reports.BenchFixed, &cell); cell.State != test.want || strings.Join(cell.Why, "|") != test.why {
				t.Errorf("%s: %q, want %s: %q", cell.State, cell.Why, test.want, test.why)
			}
		})
	}
}

// TestBoundOnOtherThings checks that latency added by the generator does not excuse a count.
func TestBoundOnOtherThings(t *testing.T) {
	run := probe()
	run.Health.SlipP99 = 200 * time.Millisecond
	run.Thresholds = []measure.Threshold{{Expression: "share.duplicates < 1%", Actual: "3%"}}
	if got, why := boundHeld("share.duplicates < 1%", run); got != reports.BenchNotHeld {
		t.Errorf("%s: %s", got, why)
	}
}

// TestBehind: a cell falls behind if its backlog grows by more than stalls of the harness explain.
func TestBehind(t *testing.T) {
	cell := PlannedCell{Load: 5 * time.Second, WarmUp: time.Second}
	run := func(growth float64, stalled time.Duration) reports.BenchRun {
		return reports.BenchRun{Verdict: assertions.Pass, BacklogGrowth: growth,
			Throughput: measure.Throughput{Offered: 250, Sent: 250, Processed: 250 - growth},
			Health:     measure.Health{Stalled: stalled}}
	}
	const told = "the backlog grew by 150/s: 250/s were sent, 100/s were finished"
	for name, test := range map[string]struct {
		mode reports.BenchMode
		run  reports.BenchRun
		want string
	}{
		"it grows":                        {reports.BenchFixed, run(150, 0), told},
		"it grows in a soak":              {reports.BenchSoak, run(150, 0), told},
		"by more than the stalls explain": {reports.BenchFixed, run(150, 2*time.Second), told},
		"by what the stalls may explain":  {reports.BenchFixed, run(150, 2400*time.Millisecond), ""},
		"by a few records":                {reports.BenchFixed, run(5, 0), ""},
		"it shrinks":                      {reports.BenchFixed, run(-5, 0), ""},
		"a search looks for that":         {reports.BenchMaxThroughput, run(150, 0), ""},
		"a stepped load looks for that":   {reports.BenchStep, run(150, 0), ""},
		"nothing was judged":              {reports.BenchFixed, reports.BenchRun{BacklogGrowth: 150}, ""},
	} {
		if got := cell.behind(test.mode, test.run); got != test.want {
			t.Errorf("%s: %q, want %q", name, got, test.want)
		}
	}
}
