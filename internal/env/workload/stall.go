package workload

import (
	"context"
	"time"

	"github.com/dlqbench/dlqbench/history"
)

const stallTick = 5 * time.Millisecond

// MonitorStalls records every time at which the harness itself could not run. It repeatedly sleeps for 5 ms. When it
// wakes more than 10 ms too late, it writes a KindStall without an instance, Aux = the delay. It returns when ctx
// ends.
func MonitorStalls(ctx context.Context, clock history.Clock, sink history.Sink) {
	timer := time.NewTimer(stallTick)
	defer timer.Stop()
	for {
		due := clock.Now() + stallTick
		timer.Reset(stallTick)
		select {
		case <-timer.C:
		case <-ctx.Done():
			return
		}
		now := clock.Now()
		if late := now - due; late > LateAfter {
			event := history.New(history.KindStall, now)
			event.Aux = int64(late)
			sink.Record(event)
		}
	}
}
