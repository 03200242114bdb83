package run

import (
	"context"
	"time"

	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/env/procgroup"
)

// healthEvery is the interval at which the harness samples itself.
const healthEvery = 250 * time.Millisecond

// sampleHealth records, until ctx ends, how much processor time the harness has used and how many events wait to be
// written. The reliability of a run's figures depends on both.
func (r *run) sampleHealth(ctx context.Context) {
	ticker := time.NewTicker(healthEvery)
	defer ticker.Stop()
	for {
		select {
		case <-ticker.C:
		case <-ctx.Done():
			return
		}
		r.sample(history.SampleBacklog, int64(r.recorder.Backlog()))
		r.sampleProcessor()
	}
}

// sampleProcessor is also called at the end of each phase, so that usage is attributed to the phase in which it
// occurred, however short that is.
func (r *run) sampleProcessor() {
	if used, known := procgroup.ProcessorTime(); known {
		r.sample(history.SampleCPU, int64(used))
	}
}

func (r *run) sample(what string, value int64) {
	event := history.New(history.KindSample, r.clock.Now())
	event.Text, event.Aux = what, value
	r.live.Record(event)
}
