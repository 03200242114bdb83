package measure

import (
	"math"
	"math/bits"
	"time"
)

const (
	finestStep  = 100 * time.Millisecond
	mostSteps   = 600
	sketchParts = 32 // per doubling: a quantile is within 3 % of the truth, which is finer than a curve shows
)

// curve is the index of a curve that counts.
type curve uint8

const (
	sentSeries curve = iota
	processedSeries
	deadLetterSeries
	attemptSeries
	retrySeries
	curveCount
)

// series collects the curves. How long the run is shows only at its end, so it begins with the finest step and doubles it, merging
// neighbours, whenever there would be too many points.
type series struct {
	step   time.Duration
	points []point
}

type point struct {
	counts [curveCount]int64
	// lag at the end of the step, where it changed.
	lag       int64
	lagged    bool
	latencies *sketch
}

func newSeries() *series { return &series{step: finestStep} }

// at returns the point of that time; times before the run's base belong to the first.
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

// merge adds the point that follows p.
func (p *point) merge(next *point) {
	for i, count := range next.counts {
		p.counts[i] += count
	}
	if next.lagged {
		p.lag, p.lagged = next.lag, true
	}
	switch {
	case p.latencies == nil:
		p.latencies = next.latencies
	case next.latencies != nil:
		for i, count := range next.latencies {
			p.latencies[i] += count
		}
	}
}

func (s *series) add(which curve, at time.Duration) { s.at(at).counts[which]++ }

func (s *series) lagged(at time.Duration, lag int64) {
	p := s.at(at)
	p.lag, p.lagged = lag, true
}

func (s *series) succeeded(at, latency time.Duration) {
	p := s.at(at)
	if p.latencies == nil {
		p.latencies = new(sketch)
	}
	p.latencies.add(latency)
}

func (s *series) finish(end time.Duration) Series {
	s.at(end)
	out := Series{Step: s.step}
	lag := int64(0)
	for i := range s.points {
		p := &s.points[i]
		if p.lagged {
			lag = p.lag
		}
		out.Sent = append(out.Sent, float64(p.counts[sentSeries]))
		out.Processed = append(out.Processed, float64(p.counts[processedSeries]))
		out.DeadLetters = append(out.DeadLetters, float64(p.counts[deadLetterSeries]))
		out.Attempts = append(out.Attempts, float64(p.counts[attemptSeries]))
		out.Retries = append(out.Retries, float64(p.counts[retrySeries]))
		out.Lag = append(out.Lag, float64(lag))
		out.SuccessP50 = append(out.SuccessP50, p.latencies.quantile(0.50))
		out.SuccessP99 = append(out.SuccessP99, p.latencies.quantile(0.99))
	}
	return out
}

// sketch is a small histogram of microseconds with a fixed relative precision, for one point of a curve.
type sketch [sketchParts * 40]uint32

func (s *sketch) add(latency time.Duration) {
	s[min(sketchIndex(uint64(max(latency, 0)/time.Microsecond)), len(s)-1)]++
}

// sketchIndex numbers the values below sketchParts one by one and every doubling above by its first bits.
func sketchIndex(v uint64) int {
	if v < sketchParts {
		return int(v)
	}
	doubling := bits.Len64(v) - bits.Len64(sketchParts)
	return doubling*sketchParts + int(v>>doubling)
}

// sketchValue is the middle of what is counted at the index.
func sketchValue(index int) float64 {
	if index < 2*sketchParts {
		return float64(index)
	}
	doubling := index/sketchParts - 1
	low := uint64(index-doubling*sketchParts) << doubling
	return float64(low) + float64(uint64(1)<<doubling-1)/2
}

// quantile returns the quantile in ms, NaN where there is nothing.
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
