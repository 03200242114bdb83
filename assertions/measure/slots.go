package measure

import "time"

// Events come sorted by time, so all counts belong to the current slot of 100 ms. A slot that is over is merged into
// the curves and kept in a ring for a while, for measurements that need recent values (recovery.go).

const (
	ringSlots = 64
	// farthest is the largest plausible time.
	farthest = time.Duration(1 << 61)
)

// curve is the index of a curve of counts.
type curve uint8

const (
	sentSeries curve = iota
	ackedSeries
	processedSeries
	deadLetterSeries
	attemptSeries
	retrySeries
	duplicateSeries
	curveCount
)

// slot is an interval of 100 ms.
type slot struct {
	point
	from time.Duration
	// lagPeak is the highest lag in the slot.
	lagPeak int64
	// subjectStalled is how long instances of the subject could not run.
	subjectStalled time.Duration
	sketch         sketch
}

// slots holds the current slot and those before it.
type slots struct {
	ring [ringSlots]slot
	// index is the position of the current slot in the ring; filled is the number of earlier slots in the ring.
	index, filled int
	end           time.Duration
}

func (s *slots) present() *slot { return &s.ring[s.index] }

// back returns the slot that lies n slots before the current one.
func (s *slots) back(n int) *slot { return &s.ring[(s.index+ringSlots-n)%ringSlots] }

func newSlots() *slots { return &slots{end: finestStep} }

// begin starts a new current slot.
func (s *slots) begin(from time.Duration, lag int64) {
	s.index = (s.index + 1) % ringSlots
	s.filled = min(s.filled+1, ringSlots-1)
	one := s.present()
	if one.latencies != nil {
		one.sketch = sketch{}
	}
	one.point, one.from, one.lagPeak, one.subjectStalled = point{}, from, lag, 0
	s.end = from + finestStep
}

func (s *slot) succeeded(latency time.Duration) {
	s.latencies = &s.sketch
	s.successes++
	s.sketch.add(latency)
}

// passTo makes the slot of that time the current one.
func (m *Measurer) passTo(at time.Duration) {
	at = min(at, farthest)
	for at >= m.slots.end {
		m.closeSlot()
		from := m.slots.end
		if idle := (at - from) / finestStep; idle > ringSlots && m.slots.idle() {
			from += (idle - 1) * finestStep // an empty ring does not change
		}
		m.slots.begin(from, m.lag)
	}
	m.slot = m.slots.present()
}

// idle reports whether nothing was counted in any slot of the ring.
func (s *slots) idle() bool {
	for i := range s.filled + 1 {
		if s.back(i).counts != [curveCount]int64{} {
			return false
		}
	}
	return s.filled == ringSlots-1
}

// closeSlot ends the current slot.
func (m *Measurer) closeSlot() {
	one := m.slots.present()
	one.gauges = gauges{lag: m.lag, inRetry: m.inRetry, seen: true}
	m.series.at(one.from).merge(&one.point)
	m.recoveries.slotClosed(m.slots)
}
