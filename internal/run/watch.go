package run

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/reports"
)

const (
	// ratesOver is the window over which rates are computed, latencyWindow that of latencies.
	ratesOver     = time.Second
	latencyWindow = 5 * time.Second
)

// activity is what a run is doing since a time on its clock, and for how long it will at most (0: unknown).
type activity struct {
	text         string
	since, limit time.Duration
}

// busy sets the activity that the live view shows in place of figures.
func (r *run) busy(text string, limit time.Duration) {
	r.activity.Store(&activity{text: text, since: r.clock.Now(), limit: limit})
}

// told returns the activity in words. Its duration is added if it has a limit, or if it is noticeable.
func (a *activity) told(now time.Duration) string {
	lasts := now - a.since
	switch {
	case a.limit > 0:
		return fmt.Sprintf("%s, %d of %d s", a.text, lasts/time.Second, a.limit.Round(time.Second)/time.Second)
	case lasts >= noticeable:
		return fmt.Sprintf("%s, %d s", a.text, lasts/time.Second)
	}
	return a.text
}

// noticeable is the duration from which the live view says how long an activity takes.
const noticeable = 2 * time.Second

// watch calls Options.Watch with the current state until the returned function is called.
func (r *run) watch() (stop func()) {
	if r.options.Watch == nil {
		return func() {}
	}
	ctx, cancel := context.WithCancel(context.Background())
	var group sync.WaitGroup
	group.Go(func() {
		ticker := time.NewTicker(watchEvery)
		defer ticker.Stop()
		var seen sightings
		for {
			r.options.Watch(r.snapshot(&seen))
			select {
			case <-ticker.C:
			case <-ctx.Done():
				r.options.Watch(r.snapshot(&seen)) // the final state
				return
			}
		}
	})
	return func() { cancel(); group.Wait() }
}

// sighting is a copy of all counts at one moment.
type sighting struct {
	at time.Duration
	figures
	processes             map[int16]processSample
	success, firstAttempt latencyCounts
}

// sightings are those of the last seconds, the oldest first. There is one more than fits into latencyWindow.
type sightings struct{ last []*sighting }

// add takes a new sighting and reuses the oldest one's memory.
func (s *sightings) add(take func(*sighting)) *sighting {
	now := &sighting{}
	if len(s.last) > int(latencyWindow/watchEvery) {
		now = s.last[0]
		s.last = s.last[1:]
	}
	take(now)
	s.last = append(s.last, now)
	return now
}

// before returns the sighting closest to the given time ago. Before the first sighting all counts were zero.
func (s *sightings) before(ago time.Duration) *sighting {
	now := s.last[len(s.last)-1]
	if len(s.last) == 1 || now.at < ago && len(s.last) <= int(ago/watchEvery) {
		return &sighting{}
	}
	for i := len(s.last) - 2; i > 0; i-- {
		if now.at-s.last[i].at >= ago-watchEvery/2 {
			return s.last[i]
		}
	}
	return s.last[0]
}

// largest returns the largest latencies since the sighting.
func (s *sightings) largest(since time.Duration) (success, firstAttempt time.Duration) {
	for _, one := range s.last {
		if one.at > since {
			success, firstAttempt = max(success, one.success.largest), max(firstAttempt, one.firstAttempt.largest)
		}
	}
	return success, firstAttempt
}

// snapshot returns the content of the live view.
func (r *run) snapshot(seen *sightings) reports.Snapshot {
	now := seen.add(func(s *sighting) {
		s.at, s.figures, s.processes = r.clock.Now(), r.live.figures(), r.live.processes.sample()
		r.live.success.read(&s.success)
		r.live.firstAttempt.read(&s.firstAttempt)
	})
	before, earlier := seen.before(ratesOver), seen.before(latencyWindow)
	passed := now.at - before.at
	success, firstAttempt := seen.largest(earlier.at)
	snapshot := reports.Snapshot{
		Place:    r.options.Place,
		Scenario: r.header.Scenario, RunID: r.header.RunID, Seed: r.header.Seed, Subject: r.header.Subject,
		Started: r.header.Started, Now: now.at, Elapsed: now.at,
		SentRate: perSecond(now.Sent-before.Sent, passed), ProcessedRate: perSecond(now.Processed-before.Processed, passed),
		AttemptRate:    perSecond(now.Attempts-before.Attempts, passed),
		DeadLetterRate: perSecond(now.DeadLetters-before.DeadLetters, passed),
		Totals:         now.Totals, DeadLetters: now.DeadLetters, RetriesInFlight: now.retrying,
		Latency: reports.LiveLatency{
			Window: min(now.at, now.at-earlier.at), Success: now.success.since(&earlier.success, success),
			FirstAttempt: now.firstAttempt.since(&earlier.firstAttempt, firstAttempt),
		},
		Instances: r.live.processes.states(before.processes, now.processes, passed),
	}
	if waiting := r.awaits.Load(); waiting != nil {
		snapshot.Waiting = *waiting
	}
	if activity := r.activity.Load(); activity != nil {
		snapshot.Doing = activity.told(now.at)
	}
	r.live.now(&snapshot)
	r.place(&snapshot)
	// From the load's beginning the view shows the time of the load, because the duration of setting up is not known in
	// advance.
	if loadedAt := r.loadedAt.Load(); loadedAt != nil {
		snapshot.Elapsed, snapshot.Total = max(now.at-*loadedAt, 0), r.plan.WarmUp+r.plan.Steady
	}
	if phase := r.phase.Load(); phase != nil {
		snapshot.Phase = *phase
	}
	return snapshot
}

// place sums up the partitions: the lag, and what each instance owns.
func (r *run) place(snapshot *reports.Snapshot) {
	owned := map[int]int{}
	for _, partition := range snapshot.Partitions {
		snapshot.Lag += partition.Lag
		owned[partition.Instance]++
	}
	for i := range snapshot.Instances {
		if one := &snapshot.Instances[i]; one.Kind == "instance" {
			one.Partitions = owned[one.Number]
		}
	}
}

func perSecond(count int64, passed time.Duration) float64 {
	return float64(max(count, 0)) / max(passed.Seconds(), 1e-3)
}

// whileRecording returns a context that also ends when the history cannot be written any more, or no longer explains
// what the links do, or when something that the subject needs is gone. What is not recorded cannot be judged, so the
// run need not continue.
func (r *run) whileRecording(ctx context.Context) (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancelCause(ctx)
	stop := make(chan struct{})
	var group sync.WaitGroup
	group.Go(func() {
		select {
		case <-r.recorder.Failed():
			cancel(r.recorder.Err())
		case err := <-r.paths.Failed():
			r.abandon(cancel, environment("using the links", err))
		case err := <-r.lost:
			r.abandon(cancel, err)
		case <-stop:
		}
	})
	return ctx, func() { close(stop); group.Wait(); cancel(nil) }
}

// abandon ends the run before its end.
func (r *run) abandon(cancel context.CancelCauseFunc, err error) {
	r.abandoned.Store(&err)
	cancel(err)
}

// abandonment returns the error because of which the run goes no further, if any.
func (r *run) abandonment() error {
	if err := r.abandoned.Load(); err != nil {
		return *err
	}
	return nil
}
