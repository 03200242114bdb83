package harness

import (
	"context"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/reports"
)

// watch tells Options.Watch what is going on until the returned function is called.
func (r *run) watch() (stop func()) {
	if r.options.Watch == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		var last figures
		var lastAt time.Duration
		for {
			now, at := r.live.figures(), r.clock.Now()
			r.options.Watch(r.snapshot(last, now, at-lastAt))
			last, lastAt = now, at
			select {
			case <-ticker.C:
			case <-ctx.Done():
				return
			}
		}
	})
	return func() { cancel(); group.Wait() }
}

// snapshot is what the live view shows; rates are over the time since the last one.
func (r *run) snapshot(last, now figures, passed time.Duration) reports.Snapshot {
	perSecond := func(count int64) float64 { return float64(count) / max(passed.Seconds(), 1e-3) }
	snapshot := reports.Snapshot{
		Elapsed:  r.clock.Now(),
		SentRate: perSecond(now.sent - last.sent), ProcessedRate: perSecond(now.processed - last.processed),
		Lag: now.lag, DeadLetters: now.deadLetters, RetriesInFlight: now.retrying, ActiveFaults: now.faults,
	}
	// From the load's beginning the time is that of the load; how long setting up takes nobody knows.
	if loadedAt := r.loadedAt.Load(); loadedAt != nil {
		snapshot.Elapsed, snapshot.Total = snapshot.Elapsed-*loadedAt, r.plan.WarmUp+r.plan.Steady
	}
	if phase := r.phase.Load(); phase != nil {
		snapshot.Phase = *phase
	}
	return snapshot
}

// whileRecording returns a context that also ends when the history can't be written any more: what is not recorded can't be judged, so
// the run need not go on.
func (r *run) whileRecording(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		select {
		case <-r.recorder.Failed():
			cancel(r.recorder.Err())
		case <-stop:
		}
	})
	return ctx, func() { close(stop); group.Wait(); cancel(nil) }
}
