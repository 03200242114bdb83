package measure

import "time"

// Events come sorted by time, so everything that is counted belongs to the present: a slot of 100 ms. A slot that is
// over is merged into the curves and kept in a ring for a while, for whoever needs to know how things were going
// (recovery.go).

const (
	ringSlots = 64
	// farthest bounds the times that are believed.
	farthest = time.Duration(1 << 61)
)

// curve is the index of a curve that counts.
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

// slot is a stretch of 100 ms.
type slot struct {
	point
	from time.Duration
	// lagPeak is the highest lag in it.
	lagPeak int64
	// subjectStalled is how long instances of the subject could not run.
	subjectStalled time.Duration
	sketch         sketch
}

// slots are the present one and those before it.
type slots struct {
	ring [ringSlots]slot
	// index is that of the present slot in the ring; filled is how many before it are there.
	index, filled int
	end           time.Duration
}

func (s *slots) present() *slot { return &s.ring[s.index] }

// back returns the slot that was that many before the present one.
func (s *slots) back(n int) *slot { return &s.ring[(s.index+ringSlots-n)%ringSlots] }

func newSlots() *slots { return &slots{end: finestStep} }

// begin makes a new present slot.
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

// passTo makes the slot of that time the present one.
func (m *Measurer) passTo(at time.Duration) {
	at = min(at, farthest)
	for at >= m.slots.end {
		m.closeSlot()
		from := m.slots.end
		if idle := (at - from) / finestStep; idle > ringSlots && m.slots.idle() {
			from += (idle - 1) * finestStep // nothing changes in a ring of nothing
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

// closeSlot ends the present slot.
func (m *Measurer) closeSlot() {
	one := m.slots.present()
	one.gauges = gauges{lag: m.lag, inRetry: m.inRetry, seen: true}
	m.series.at(one.from).merge(&one.point)
	m.recoveries.slotClosed(m.slots)
}
