package plan

// What makes a load uneven: bursts, partitions that fail together, and values that are no ordinary message.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/scenarios"
)

// transientFailures is how often a record of failing partitions fails before it succeeds, where that is their outcome.
const transientFailures = 2

// addBursts appends the records of the bursts with their times: all of a burst at one instant.
func (p *Plan) addBursts(bursts *scenarios.Bursts) {
	if bursts == nil || bursts.Every <= 0 {
		return
	}
	for at := bursts.Every.D(); at < p.Steady; at += bursts.Every.D() {
		for range bursts.Records {
			p.Records = append(p.Records, Record{At: p.WarmUp + at, Key: history.None})
		}
	}
}

// The load behind the steady phase, while a fault has not come to its end: twice as long, within these bounds, and no
// denser than needed to give faults something to meet, in records per second. After that it is thin: what is awaited
// then are sessions that expire (45 s by default, one after another where members are killed one after another) and
// runtimes that start, and the faults after them must still meet something.
const (
	spareAtLeast, spareAtMost = 10 * time.Second, time.Minute
	spareRate                 = 200
	thinFor, thinRate         = 4 * time.Minute, 10
)

// addSpare appends the records behind the steady phase, evenly at the rate of its end, then thinly. They draw after all
// others. Without faults there are none.
func (p *Plan) addSpare(load scenarios.Workload) {
	if len(p.Faults) == 0 {
		return
	}
	rate := 0.0
	for _, stretch := range load.Stretches() {
		if stretch.Rate.PerSecond() > 0 {
			rate = min(stretch.Rate.PerSecond(), spareRate)
		}
	}
	length := min(max(2*p.Steady, spareAtLeast), spareAtMost)
	p.spare(p.WarmUp+p.Steady, length, rate)
	p.spare(p.WarmUp+p.Steady+length, thinFor, min(rate, thinRate))
}

// spare appends records from a time on, for so long.
func (p *Plan) spare(from, length time.Duration, rate float64) {
	times := evenly(rate)
	for at := times(); at < float64(length); at = times() {
		p.Records = append(p.Records, Record{At: from + time.Duration(at), Key: history.None})
		p.Spare++
	}
}

// merge puts the records from index regular to due, which are in the order of their times, among the ones before, which
// are too. At the same time the regular ones come first.
func (p *Plan) merge(regular, due int) {
	bursts, spare := p.Records[regular:due], p.Records[due:]
	if len(bursts) == 0 {
		return
	}
	all, merged := p.Records[:regular], make([]Record, 0, len(p.Records))
	for len(all) > 0 || len(bursts) > 0 {
		if len(bursts) == 0 || len(all) > 0 && all[0].At <= bursts[0].At {
			merged, all = append(merged, all[0]), all[1:]
			continue
		}
		merged, bursts = append(merged, bursts[0]), bursts[1:]
	}
	p.Records = append(merged, spare...)
}

// failPartitions gives the records of failing partitions their outcome.
func (p *Plan) failPartitions(failing []scenarios.FailingPartitions) {
	outcomes := map[string]history.Outcome{
		"transient": history.OutcomeTransient, "exhausted": history.OutcomeExhausted, "permanent": history.OutcomePermanent,
		"logical": history.OutcomeLogical,
	}
	for _, stretch := range failing {
		from := p.WarmUp + stretch.At.D()
		to := from + stretch.For.D()
		for i := range p.Records {
			record := &p.Records[i]
			if record.At < from || record.At >= to || !slices.Contains(stretch.Partitions, int(record.Partition)) {
				continue
			}
			record.Outcome, record.Failures = outcomes[stretch.Outcome], 0
			if record.Outcome == history.OutcomeTransient {
				record.Failures = transientFailures
			}
		}
	}
}

// addValues says what the records' values are: tombstones, garbage, large ones, and messages of the usual size. What is
// sent in the warm-up is usual. Every record draws for each, so that adding one sort leaves the others as near as can
// be to what they were: a record that would have been of two sorts is of the first.
func (p *Plan) addValues(load scenarios.Workload) {
	var (
		tombstones, garbage, large = p.stream("tombstones"), p.stream("garbage"), p.stream("large")
		nulls, junk                = load.Tombstones.Share(), load.Garbage.Share()
		share, size                = 0.0, int32(0)
		odd, oddShare              = p.stream("odd headers"), 0.0
	)
	if load.OddHeaders != nil {
		oddShare = load.OddHeaders.Share.Share()
	}
	if load.Large != nil {
		share, size = load.Large.Share.Share(), int32(load.Large.Size)
	}
	isJunk, isLarge := among(junk, 1-nulls), among(share, 1-nulls-junk)
	for i := range p.Records {
		record := &p.Records[i]
		record.Size = int32(load.ValueSize)
		record.OddHeaders = odd.Float64() < oddShare && !record.Warmup
		one, two, three := tombstones.Float64() < nulls, garbage.Float64() < isJunk, large.Float64() < isLarge
		switch {
		case record.Warmup:
		case one:
			record.Tombstone, record.Size = true, 0
			record.Outcome, record.Failures = history.OutcomeUnknownID, 0
		case two:
			record.Garbage = true
			record.Outcome, record.Failures = history.OutcomeUnknownID, 0
		case three:
			record.Size = size
		}
	}
}

// burstRecords is how many records the bursts of a steady phase add.
func burstRecords(bursts *scenarios.Bursts, steady time.Duration) int {
	if bursts == nil || bursts.Every <= 0 || steady <= 0 {
		return 0
	}
	return int((steady-1)/bursts.Every.D()) * bursts.Records
}
