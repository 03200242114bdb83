package reports

// The parts of the fixtures' verdicts from which the report draws.

import (
	"math"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/assertions/measure"
)

// withFigures adds the data from which the report draws its figures to the verdict.
func withFigures(v *assertions.Verdict, m *measure.Measurements) {
	m.Drained = true
	m.HeatMap = fixtureHeatMap()
	v.Drain, v.Percentiles, v.Series, v.HeatMap = m.Drain(), m.Percentiles(), m.Series, m.HeatMap
	v.Conservation, v.Usage = fixtureConservation(v.Ledger), fixtureUsage()
	known := func(after time.Duration, by string) measure.Span {
		return measure.Span{State: measure.SpanKnown, Time: after, Note: by}
	}
	untold := measure.Span{State: measure.SpanUntold, Note: "another fault was in force when it began"}
	before := &measure.Level{Sent: 2000, Processed: 1996, Succeeded: 1920, P99: 14 * ms, Lag: 210}
	for i, recovery := range []measure.Recovery{
		{
			Effect: known(11*ms, "requests answered"), Detect: known(12*ms, "a write was refused, seen at the tap"),
			CatchUp: known(310*ms, "the lag was no higher than before"),
			Steady:  known(600*ms, "throughput, successes and p99 were in their bands for half a second"),
			Before:  before, LagPeak: 3900,
		},
		{Effect: known(3*ms, "chunks delayed"), Detect: untold, CatchUp: untold, Steady: untold, Before: before,
			LagPeak: 4120},
		{
			Effect: known(0, "processes killed"), Detect: known(45*ms, "partitions were given up or lost, seen at the tap"),
			CatchUp: known(1700*ms, "the lag was no higher than before"),
			Steady:  measure.Span{State: measure.SpanNever, Note: "it was not steady again while the load lasted"},
			Before:  before, LagPeak: 2080,
		},
	} {
		v.Faults[i].Recovery = recovery
	}
}

// fixtureUsage is the usage of two instances, the second of which was killed shortly after its start.
func fixtureUsage() measure.Usage {
	growth, mean, most, small, peak := int64(3<<20), 0.41, 0.98, 0.2, 1.1
	return measure.Usage{
		Instances: []measure.InstanceUsage{
			{Instance: 0, RSSMax: 187 << 20, RSSGrowth: &growth, CPUMean: &mean, CPUMax: &most},
			{Instance: 1, RSSMax: 203 << 20, CPUMean: &small, CPUMax: &peak},
		},
		Busiest: &measure.BusiestRecord{Record: 4711, Attempts: 4, At: 8212 * ms},
	}
}

// withInstances adds the usage of the given number of instances. The memory of each grows by 1 MiB per step, and the
// second one was away for a while.
func withInstances(run Run, instances int) Run {
	v := *run.Verdict
	v.Series.Instances = nil
	for instance := range instances {
		one := measure.InstanceCurves{Instance: int16(instance)}
		for step := range v.Series.Sent {
			rss, cpu := float64((100+step)<<20), 0.1*float64(instance+1)
			if instance == 1 && step >= 100 && step < 112 {
				rss, cpu = math.NaN(), math.NaN()
			}
			one.RSS, one.CPU = append(one.RSS, rss), append(one.CPU, cpu)
		}
		v.Series.Instances = append(v.Series.Instances, one)
	}
	run.Verdict = &v
	return run
}

// fixtureConservation matches the ledger.
func fixtureConservation(l measure.Ledger) measure.Conservation {
	entry := func(name string, n int64) measure.Entry { return measure.Entry{Name: name, Count: n} }
	different := func(name string, n int64) measure.Entry {
		one := measure.Entry{Name: name, Count: n, Difference: true}
		for i := range int32(min(n, measure.MaxEntryRecords)) {
			one.Records = append(one.Records, measure.EntryRecord{
				Record: 9000 + i, ID: "DLQB7Q2M4X9K000FXV4T9R2C", Topic: "dlqbench-7f3a-input", Partition: i % 6,
				Offset: 1499 + int64(i),
			})
		}
		return one
	}
	return measure.Conservation{
		Planned: l.Planned,
		Entries: []measure.Entry{
			entry(measure.EntrySucceeded, l.Succeeded), entry(measure.EntryDeadLettered, l.DeadLettered),
			entry(measure.EntryReplayed, 0),
			entry(measure.EntryLogical, l.Logical), entry(measure.EntryCommitted, 0),
			different(measure.EntryUnfinished, l.Unfinished),
			different(measure.EntryEndedTwice, 0), different(measure.EntryUnacknowledged, l.Sent-l.Acknowledged),
			different(measure.EntryNotSent, 0),
		},
		Notes: []measure.Entry{{Name: measure.NoteDuplicates, Count: l.Duplicates}},
	}
}

// fixtureHeatMap has a band of quick successes and, during a fault, one of slow ones.
func fixtureHeatMap() measure.HeatMap {
	heat := measure.HeatMap{Step: 200 * ms, Counts: make([][]int64, 111)}
	for bound := 2 * ms; bound < 2*sec; bound *= 2 {
		heat.Bounds = append(heat.Bounds, bound)
	}
	for column := 6; column < 91; column++ {
		counts := make([]int64, len(heat.Bounds)-1)
		counts[0], counts[1], counts[2] = 180, 120, 60
		if column > 46 && column < 56 {
			counts[0], counts[6], counts[7] = 20, 90, 40
		}
		heat.Counts[column] = counts
	}
	return heat
}
