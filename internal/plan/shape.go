package plan

// This file makes a load uneven: bursts, partitions that fail together, and unusual values.

import (
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/samples"
	"github.com/dlqbench/dlqbench/scenarios"
)

// transientFailures is the number of failures before success of a record in a failing partition whose outcome is
// transient.
const transientFailures = 2

// addBursts appends the records of the bursts with their times. All records of a burst have the same time.
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

// The load after the steady phase, while a fault has not ended: it is twice as long as the steady phase, within these
// limits, and only as dense as needed for faults to meet something, in records per second. After that it is thin. The
// run then waits for sessions to expire (45 s by default, one after another if members are killed one after another)
// and for runtimes to start, and the faults after them must still meet something.
const (
	spareAtLeast, spareAtMost = 10 * time.Second, time.Minute
	spareRate                 = 200
	thinFor, thinRate         = 4 * time.Minute, 10
)

// addSpare appends the records after the steady phase, evenly at the rate of its end, then thinly. They draw after
// all others. Without faults there are none.
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

// spare appends records from the given time on, for the given length.
func (p *Plan) spare(from, length time.Duration, rate float64) {
	times := evenly(rate)
	for at := times(); at < float64(length); at = times() {
		p.Records = append(p.Records, Record{At: from + time.Duration(at), Key: history.None})
		p.Spare++
	}
}

// merge merges the records from index regular to due, which are sorted by time, with the earlier ones, which are
// sorted as well. At the same time, the regular ones come first.
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

// addValues assigns the kinds of values: tombstones, garbage, malformed, large, and messages of the usual size. Records
// of the warm-up are usual. Every record draws for each kind, so that adding a kind changes the others as little as
// possible. A record that is drawn for two kinds gets the first. halts: the consumer halts at records that it can't
// read.
func (p *Plan) addValues(load scenarios.Workload, from *samples.Set, halts bool) {
	var (
		tombstones, garbage, large = p.stream("tombstones"), p.stream("garbage"), p.stream("large")
		nulls, junk                = load.Tombstones.Share(), load.Garbage.Share()
		share, size                = 0.0, int32(0)
		malformed, malformedShare  = p.stream("malformed"), 0.0
		ways, _                    = load.Malformed.Ways(from.Shape())
		odd, oddShare              = p.stream("odd headers"), 0.0
	)
	if load.OddHeaders != nil {
		oddShare = load.OddHeaders.Share.Share()
	}
	if load.Malformed != nil {
		malformedShare = load.Malformed.Share.Share()
	}
	if load.Large != nil {
		share, size = load.Large.Share.Share(), int32(load.Large.Size)
	}
	isJunk, isMalformed := among(junk, 1-nulls), among(malformedShare, 1-nulls-junk)
	isLarge := among(share, 1-nulls-junk-malformedShare)
	for i := range p.Records {
		record := &p.Records[i]
		record.Size = int32(load.ValueSize)
		record.OddHeaders = odd.Float64() < oddShare && !record.Warmup
		one, two, four := tombstones.Float64() < nulls, garbage.Float64() < isJunk, large.Float64() < isLarge
		three, way := malformed.Float64() < isMalformed, malformed.IntN(max(len(ways), 1))
		switch {
		case record.Warmup:
		case one:
			record.Tombstone = true
		case two:
			record.Garbage = true
		case three:
			record.Malformed = ways[way]
		case four:
			record.Large, record.Size = true, size
		}
	}
	if halts {
		p.confine()
	}
	for i := range p.Records {
		record := &p.Records[i]
		switch {
		case record.Tombstone:
			record.Size = 0
		case record.Malformed == samples.OversizedField:
			record.Size = max(record.Size, int32(p.largestSample)) + samples.Oversize
		}
		if record.Unidentified() {
			record.Outcome, record.Failures = history.OutcomeUnknownID, 0
		}
	}
}

// poisonous reports whether the consumer can't read the record, or may refuse it.
func (r *Record) poisonous() bool { return r.Garbage || r.Malformed != 0 }

// lateShare is the inverse of the share of the steady phase, at its end, in which a consumer gets unreadable records
// that halts at them.
const lateShare = 5

// confine leaves poisonous, of the records that were drawn so, those of one partition late in the steady phase: of the
// partition of the last one, and at least that. A consumer that halts at the first one that it meets would otherwise
// leave almost the whole load, and faults would find it standing still.
func (p *Plan) confine() {
	var last *Record
	for i := range p.Records {
		if record := &p.Records[i]; record.poisonous() && record.At < p.WarmUp+p.Steady &&
			(last == nil || record.At >= last.At) {
			last = record
		}
	}
	for i := range p.Records {
		record := &p.Records[i]
		late := record.At >= p.WarmUp+p.Steady-p.Steady/lateShare && record.At < p.WarmUp+p.Steady
		if last == nil || record != last && (!late || record.Partition != last.Partition) {
			record.Garbage, record.Malformed = false, 0
		}
	}
}

// addRepeated chooses the records that are produced twice, among those whose copies can be recognised by their id.
func (p *Plan) addRepeated(share float64) {
	random := p.stream("repeated")
	for i := range p.Records {
		record := &p.Records[i]
		drawn := random.Float64() < share
		record.Repeated = drawn && !record.Warmup && !record.Tombstone && !record.poisonous()
	}
}

// burstRecords returns the number of records in the bursts of a steady phase.
func burstRecords(bursts *scenarios.Bursts, steady time.Duration) int {
	if bursts == nil || bursts.Every <= 0 || steady <= 0 {
		return 0
	}
	return int((steady-1)/bursts.Every.D()) * bursts.Records
}
