package run

import (
	"sync/atomic"
	"time"

	"github.com/dlqbench/dlqbench/reports"
)

// The bounds of the latency counters. Each decade, from finest on, has steps of a twentieth of its beginning (1.00,
// 1.05, 1.10 …). A latency is thus known to 5 %, and round numbers are bounds.
const (
	finest         = 10 * time.Microsecond
	decades        = 8 // up to 1000 s; longer latencies are counted in the last step
	stepsPerDecade = 180
	stepsPerUnit   = 20
)

// latencies counts latencies since the run began. It is safe for concurrent use, takes no lock and never waits.
type latencies struct {
	counts [decades*stepsPerDecade + 1]atomic.Int64 // the first counts latencies below finest
	sum    atomic.Int64
	// largest is the largest latency in ns since the last query.
	largest atomic.Int64
}

func (l *latencies) record(latency time.Duration) {
	latency = max(latency, 0)
	l.counts[stepOf(latency)].Add(1)
	l.sum.Add(int64(latency))
	raise(&l.largest, int64(latency))
}

// stepOf returns the counter index of a latency.
func stepOf(latency time.Duration) int {
	unit := finest
	for decade := range decades {
		if latency < unit {
			return decade * stepsPerDecade
		}
		if latency < 10*unit {
			return 1 + decade*stepsPerDecade + int(latency*stepsPerUnit/unit) - stepsPerUnit
		}
		unit *= 10
	}
	return decades * stepsPerDecade
}

// boundOf returns the exclusive upper bound of a counter.
func boundOf(step int) time.Duration {
	if step == 0 {
		return finest
	}
	unit := finest
	for range (step - 1) / stepsPerDecade {
		unit *= 10
	}
	return unit * time.Duration((step-1)%stepsPerDecade+1+stepsPerUnit) / stepsPerUnit
}

// latencyCounts is a copy of the counters at one moment, and the largest latency since the previous copy.
type latencyCounts struct {
	counts  [decades*stepsPerDecade + 1]int64
	sum     time.Duration
	largest time.Duration
}

// read copies the counters.
func (l *latencies) read(into *latencyCounts) {
	for i := range l.counts {
		into.counts[i] = l.counts[i].Load()
	}
	into.sum, into.largest = time.Duration(l.sum.Load()), time.Duration(l.largest.Swap(0))
}

// since returns the quantiles of the latencies counted since before. largest is the largest of them.
func (c *latencyCounts) since(before *latencyCounts, largest time.Duration) reports.LiveLatencies {
	shown := reports.LiveLatencies{SinceBegin: c.histogram()}
	for i := range c.counts {
		shown.Count += c.counts[i] - before.counts[i]
	}
	if shown.Count <= 0 {
		shown.Count = 0
		return shown
	}
	seen, p50, p99 := int64(0), (shown.Count+1)/2, (99*shown.Count+99)/100
	for i := range c.counts {
		here := c.counts[i] - before.counts[i]
		if seen < p50 && seen+here >= p50 {
			shown.P50 = boundOf(i)
		}
		if seen < p99 && seen+here >= p99 {
			shown.P99 = boundOf(i)
		}
		seen += here
	}
	shown.Max = largest
	shown.P50, shown.P99 = min(shown.P50, largest), min(shown.P99, largest)
	return shown
}

// histogram returns the latencies counted since the run began, with bounds that are round numbers.
func (c *latencyCounts) histogram() reports.Buckets {
	shown := reports.Buckets{Sum: c.sum}
	at, total := 0, uint64(0)
	for _, factor := range histogramFactors() {
		bound := finest * time.Duration(factor)
		for ; at < len(c.counts) && boundOf(at) <= bound; at++ {
			total += uint64(c.counts[at])
		}
		shown.Bounds, shown.Below = append(shown.Bounds, bound), append(shown.Below, total)
	}
	for ; at < len(c.counts); at++ {
		total += uint64(c.counts[at])
	}
	shown.Count = total
	return shown
}

// histogramFactors returns the bounds of the cumulative histogram, in units of finest: 0.5 ms to 100 s in steps of
// about 2.
func histogramFactors() []int64 {
	return []int64{50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 2e4, 5e4, 1e5, 2e5, 5e5, 1e6, 2e6, 5e6, 1e7}
}
