package generate

// Readings of process usage occur throughout the run, between all other events. No verdict depends on them.

import (
	"time"

	"github.com/dlqbench/dlqbench/history"
)

// readEvery is the interval at which processes of generated runs are read. It is shorter than in real runs, which last
// longer.
const readEvery = 50 * ms

// sampled adds the readings of all processes, from the start of each to its end.
func (h *History) sampled() {
	type process struct {
		instance int16
		run      uint16
	}
	begun := map[process]time.Duration{}
	readings := h.Events[:0:0]
	read := func(of process, to time.Duration) {
		for at := begun[of]; at < to; at += readEvery {
			e := history.New(history.KindSample, at)
			e.Instance, e.Run, e.Text, e.Aux = of.instance, of.run, history.SampleInstanceCPU, int64(at-begun[of])
			readings = append(readings, e)
			e.Text, e.Aux = history.SampleInstanceRSS, 64<<20
			readings = append(readings, e)
		}
	}
	for i := range h.Events {
		e := &h.Events[i]
		switch e.Kind {
		case history.KindInstanceStarting:
			begun[process{e.Instance, e.Run}] = e.Time + 1
		case history.KindInstanceExited:
			read(process{e.Instance, e.Run}, e.Time)
		}
	}
	h.Events = append(h.Events, readings...)
	h.sort()
}
