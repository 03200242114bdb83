package measure

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// sampled applies a reading of the harness, or of an instance.
func (m *Measurer) sampled(e *history.Event) {
	switch e.Text {
	case history.SampleInstanceRSS, history.SampleInstanceCPU:
		m.usage.sampled(e, m.phaseAt(e.Time).loaded)
	case history.SampleBacklog:
		m.slot.backlog, m.slot.sampled = max(m.slot.backlog, e.Aux), true
		m.out.Health.BacklogMax = max(m.out.Health.BacklogMax, e.Aux)
	case history.SampleCPU:
		used := time.Duration(e.Aux)
		if m.cpu.at != none {
			m.cpuUsed(e.Time-m.cpu.at, used-m.cpu.used)
		}
		m.cpu.at, m.cpu.used = e.Time, used
	}
}

// cpu is the processor time of the harness at its last sample.
type cpu struct {
	at, used time.Duration
	// The usage under load.
	loaded, busy time.Duration
}

// cpuUsed adds the processor time used in the interval before the reading.
func (m *Measurer) cpuUsed(in, used time.Duration) {
	if in <= 0 || used < 0 {
		return
	}
	m.slot.cpu, m.slot.cpuIn = m.slot.cpu+used, m.slot.cpuIn+in
	m.out.Health.CPUMax = max(m.out.Health.CPUMax, used.Seconds()/in.Seconds())
	if m.phaseAt(m.now).loaded {
		m.cpu.loaded, m.cpu.busy = m.cpu.loaded+in, m.cpu.busy+used
	}
}

func (m *Measurer) finishHealth() {
	slips := QuantilesOf(m.out.Histograms[LatencySlip][PhaseAll])
	m.out.Health.SlipP99, m.out.Health.SlipMax = slips.P99, slips.Max
	if m.cpu.loaded > 0 {
		m.out.Health.CPU = m.cpu.busy.Seconds() / m.cpu.loaded.Seconds()
	}
}
