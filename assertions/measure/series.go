package measure

import (
	"math"
	"math/bits"
	"time"
)

const (
	finestStep  = 100 * time.Millisecond
	mostSteps   = 600
	sketchParts = 32 // per doubling: quantiles are accurate to 3 %, which is finer than a curve shows
)

// series collects the curves from the slots. The length of the run is known only at its end, so it begins with the
// finest step and doubles it, merging neighbours, whenever there would be too many points.
type series struct {
	step   time.Duration
	points []point
}

// point holds the values of one step.
type point struct {
	counts [curveCount]int64
	gauges gauges
	// slip, stalled and backlog describe the harness; sampled: the backlog is known. cpu is the processor time that it
	// used in cpuIn.
	slip, stalled, cpu, cpuIn time.Duration
	backlog                   int64
	sampled                   bool
	successes                 int64 // the successes counted in latencies
	latencies                 *sketch
}

// gauges are the values at the end of a step.
type gauges struct {
	lag, inRetry int64
	seen         bool
}

func newSeries() *series { return &series{step: finestStep} }

// at returns the point of the time; times before the run's base belong to the first point.
func (s *series) at(t time.Duration) *point {
	t = max(t, 0)
	for t/s.step >= mostSteps {
		s.widen()
	}
	index := int(t / s.step)
	for len(s.points) <= index {
		s.points = append(s.points, point{})
	}
	return &s.points[index]
}

func (s *series) widen() {
	s.step *= 2
	for i := range s.points {
		if i%2 == 0 {
			s.points[i/2] = s.points[i]
		} else {
			s.points[i/2].merge(&s.points[i])
		}
	}
	s.points = s.points[:(len(s.points)+1)/2]
}

// merge adds the point that follows p. It copies the latencies of next, and never keeps them.
func (p *point) merge(next *point) {
	for i, count := range next.counts {
		p.counts[i] += count
	}
	if next.gauges.seen {
		p.gauges = next.gauges
	}
	p.slip, p.stalled = max(p.slip, next.slip), p.stalled+next.stalled
	p.successes += next.successes
	p.cpu, p.cpuIn = p.cpu+next.cpu, p.cpuIn+next.cpuIn
	p.backlog, p.sampled = max(p.backlog, next.backlog), p.sampled || next.sampled
	if next.latencies == nil {
		return
	}
	if p.latencies == nil {
		p.latencies = new(sketch)
	}
	p.latencies.merge(next.latencies)
}

// finish returns the curves up to the run's end.
func (s *series) finish(end time.Duration) (Series, HeatMap) {
	s.at(end)
	out := Series{Step: s.step}
	var last gauges
	for i := range s.points {
		p := &s.points[i]
		if p.gauges.seen {
			last = p.gauges
		}
		for which, curve := range out.counts() {
			*curve = append(*curve, float64(p.counts[which]))
		}
		out.Lag, out.InRetry = append(out.Lag, float64(last.lag)), append(out.InRetry, float64(last.inRetry))
		out.SuccessP50 = append(out.SuccessP50, p.latencies.quantile(0.50))
		out.SuccessP99 = append(out.SuccessP99, p.latencies.quantile(0.99))
		out.Slip, out.Stalled = append(out.Slip, milliseconds(p.slip)), append(out.Stalled, milliseconds(p.stalled))
		backlog := math.NaN()
		if p.sampled {
			backlog = float64(p.backlog)
		}
		out.Backlog, out.CPU = append(out.Backlog, backlog), append(out.CPU, p.cpu.Seconds()/p.cpuIn.Seconds()) // 0/0 is NaN
	}
	return out, s.heatMap()
}

// counts returns the curves of counts, by their index.
func (s *Series) counts() [curveCount]*Curve {
	return [curveCount]*Curve{
		sentSeries: &s.Sent, ackedSeries: &s.Acknowledged, processedSeries: &s.Processed, deadLetterSeries: &s.DeadLetters,
		attemptSeries: &s.Attempts, retrySeries: &s.Retries, duplicateSeries: &s.Duplicates,
	}
}

func milliseconds(d time.Duration) float64 { return float64(d) / float64(time.Millisecond) }

// sketch is a small histogram of microseconds with a fixed relative precision, for one point of a curve.
type sketch [sketchParts * 40]uint32

func (s *sketch) add(latency time.Duration) {
	s[min(sketchIndex(uint64(max(latency, 0)/time.Microsecond)), len(s)-1)]++
}

func (s *sketch) merge(other *sketch) {
	for i, count := range other {
		s[i] += count
	}
}

// sketchIndex numbers the values below sketchParts individually, and every doubling above by its first bits.
func sketchIndex(v uint64) int {
	if v < sketchParts {
		return int(v)
	}
	doubling := bits.Len64(v) - bits.Len64(sketchParts)
	return doubling*sketchParts + int(v>>doubling)
}

// sketchValue is the middle of the values counted at the index.
func sketchValue(index int) float64 {
	if index < 2*sketchParts {
		return float64(index)
	}
	doubling := index/sketchParts - 1
	low := uint64(index-doubling*sketchParts) << doubling
	return float64(low) + float64(uint64(1)<<doubling-1)/2
}

// quantile returns the quantile in ms, or NaN if there are no values.
func (s *sketch) quantile(q float64) float64 {
	if s == nil {
		return math.NaN()
	}
	total := uint64(0)
	for _, count := range s {
		total += uint64(count)
	}
	rank := uint64(math.Ceil(q * float64(total)))
	for i, count := range s {
		if uint64(count) >= rank {
			return sketchValue(i) / 1000
		}
		rank -= uint64(count)
	}
	return math.NaN()
}
