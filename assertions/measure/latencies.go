package measure

import (
	"math"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/dlqbench/dlqbench/history"
)

// The range and precision of the histograms, in microseconds.
const (
	lowest    = 1
	highest   = 10 * time.Minute / time.Microsecond
	precision = 3
)

// latency is the index of a latency's name.
type latency uint8

const (
	send latency = iota
	firstAttempt
	successful
	service
	deadLetter
	backoffError
	commitDelay
	replayTime
	slip
	latencyCount
)

func (l latency) name() string {
	return [latencyCount]string{
		send: LatencySend, firstAttempt: LatencyFirstAttempt, successful: LatencySuccess, service: LatencyService,
		deadLetter: LatencyDeadLetter, backoffError: LatencyBackoffError, commitDelay: LatencyCommitDelay,
		replayTime: LatencyReplay, slip: LatencySlip,
	}[l]
}

// phaseIndex is the index of a phase in latencies.phases.
type phaseIndex uint8

// part identifies a histogram: a phase's records, with the warm-up records separate.
type part struct {
	phase string
	warm  bool
}

// The parts for time outside of every phase, and for phases beyond the range of the index.
const (
	nowhere phaseIndex = iota
	nowhereWarm
)

// latencies holds the histograms during the walk, by part. The histograms of the whole run are derived from them at the
// end, so each sample is recorded once.
type latencies struct {
	phases     []part
	histograms [latencyCount][]*hdrhistogram.Histogram
}

func (l *latencies) init() { l.phases = []part{nowhere: {}, nowhereWarm: {warm: true}} }

func newHistogram() *hdrhistogram.Histogram {
	return hdrhistogram.New(lowest, int64(highest), precision)
}

// phase returns the index of a phase. Time outside of every phase, and phases beyond the range of the index, count for
// the whole run only.
func (l *latencies) phase(name string, warm bool) phaseIndex {
	index := nowhere
	if warm {
		index = nowhereWarm
	}
	if name == "" {
		return index
	}
	for i, known := range l.phases {
		if known == (part{name, warm}) {
			return phaseIndex(i)
		}
	}
	if len(l.phases) > math.MaxUint8 {
		return index
	}
	l.phases = append(l.phases, part{name, warm})
	return phaseIndex(len(l.phases) - 1)
}

// record adds a sample for a record.
func (l *latencies) record(which latency, r *record, value time.Duration) {
	l.recordIn(which, r.phase(), value)
}

// recordIn adds a sample. Values are rounded to microseconds and kept in the histograms' range; negative ones are 0.
func (l *latencies) recordIn(which latency, phase phaseIndex, value time.Duration) {
	micros := int64((min(max(value, 0), highest*time.Microsecond) + time.Microsecond/2) / time.Microsecond)
	of := l.histograms[which]
	for len(of) <= int(phase) {
		of = append(of, nil)
	}
	l.histograms[which] = of
	if of[phase] == nil {
		of[phase] = newHistogram()
	}
	_ = of[phase].RecordValue(micros) // in range, because the value was clamped
}

// named returns the histograms by name and phase. Those of the whole run exclude the warm-up records.
func (l *latencies) named() map[string]map[string]*hdrhistogram.Histogram {
	all := map[string]map[string]*hdrhistogram.Histogram{}
	for which := range latencyCount {
		whole := newHistogram()
		phases := map[string]*hdrhistogram.Histogram{PhaseAll: whole}
		for i, histogram := range l.histograms[which] {
			if histogram == nil {
				continue
			}
			of := l.phases[i]
			if !of.warm {
				whole.Merge(histogram)
			}
			if of.phase == "" {
				continue
			}
			if other := phases[of.phase]; other != nil {
				histogram.Merge(other)
			}
			phases[of.phase] = histogram
		}
		all[which.name()] = phases
	}
	return all
}

// Latencies summarises the histograms. Every latency is present; those without samples have a count of 0.
func (m *Measurements) Latencies() map[string]Latency {
	all := map[string]Latency{}
	for name, phases := range m.Histograms {
		summary := Latency{Quantiles: QuantilesOf(phases[PhaseAll]), Phases: map[string]Quantiles{}}
		for phase, histogram := range phases {
			if phase != PhaseAll {
				summary.Phases[phase] = QuantilesOf(histogram)
			}
		}
		all[name] = summary
	}
	return all
}

// QuantilesOf summarizes a histogram of microseconds. A histogram that is nil or empty has the zero Quantiles.
func QuantilesOf(h *hdrhistogram.Histogram) Quantiles {
	if h == nil || h.TotalCount() == 0 {
		return Quantiles{}
	}
	at := func(percent float64) time.Duration {
		return time.Duration(h.ValueAtPercentile(percent)) * time.Microsecond
	}
	return Quantiles{
		Count: h.TotalCount(), P50: at(50), P90: at(90), P99: at(99), P999: at(99.9),
		Max: at(100), // h.Max is the same, but visits each bucket
	}
}

// Finish returns the measurements. The measurer must not be used afterwards.
func (m *Measurer) Finish() *Measurements {
	if n := len(m.out.Phases); n > 0 {
		m.out.Phases[n-1].To = m.now
	}
	m.placeUnnamed()
	m.out.Histograms = m.latencies.named()
	m.out.LagEnd, m.out.wireOnly = m.lag, m.header.Contract().WireOnly
	m.closeSlot()
	m.out.Series, m.out.HeatMap = m.series.finish(min(m.now, farthest))
	m.out.Recoveries = m.recoveries.finish()
	m.finishThroughput()
	m.finishHealth()
	m.finishUsage()
	m.finishDrain()
	m.conserve()
	return &m.out
}

// over reports whether the history shows that a record came to its end.
func (m *Measurer) over(r *record) bool {
	switch {
	case r.has(terminal):
		return true
	case r.has(dead) && !r.has(replayed):
		return true // the audit found the dead letter
	}
	return r.has(covered) && m.ended(r)
}

func (m *Measurer) finishThroughput() {
	loaded := time.Duration(0)
	for _, phase := range m.out.Phases {
		if phase.Name == history.PhaseSteady || phase.Name == history.PhaseFault {
			loaded += phase.To - phase.From
		}
	}
	if loaded <= 0 {
		return
	}
	per := func(count int64) float64 { return float64(count) / loaded.Seconds() }
	m.out.Throughput = Throughput{Offered: per(m.offered), Sent: per(m.sent), Processed: per(m.processed)}
}

// finishDrain measures from the end of the heal phase, when every fault is confirmed lifted, to the last settled
// record.
func (m *Measurer) finishDrain() {
	for _, phase := range m.out.Phases {
		if phase.Name == history.PhaseDrain {
			m.out.Drained = m.open == 0
			m.out.DrainTime = max(0, m.done-phase.From)
			return
		}
	}
}
