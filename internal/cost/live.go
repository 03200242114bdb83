package main

// Section 8 measures the cost of viewers of a run.

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"syscall"
	"time"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/internal/livemetrics"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// liveScenario offers about the maximum load for two cores, so that any additional work shows in its duration.
const liveScenario = `
name: bench-live
description: What it costs that a run is watched.
subject: {reference: {instances: 1, retry_backoff_ms: 50, max_retry_backoff_ms: 200, retry_jitter_ms: 20}}
workload:
  rate: 20000/s
  duration: 3s
  warm_up: 500ms
  keys: {count: 10000}
  outcomes: {success: 990, transient: {weight: 6, failures: 1}, exhausted: 1, permanent: 2, logical: 1}
expect: {max_slip: 1m, drain: 5m}
`

const (
	// watchedRounds is the number of measurements of each variant. It is even, so that each variant comes first equally
	// often.
	watchedRounds = 12
	// viewers is large because the cost of one viewer, two hundredths at most by the goal, would be lost in the noise:
	// rounds differ by a tenth.
	viewers = 20
)

// watched is the result of one run.
type watched struct {
	// took is the time from the beginning of the load until the consumer had processed all of it.
	took     time.Duration
	sample   // of this process; consumer holds the consumer's
	consumer sample
	// viewed is the time spent on processing snapshots.
	viewed time.Duration
}

func measureLiveView(ctx context.Context, o options) (section, error) {
	var plain, seen []watched
	for round := range watchedRounds + 1 {
		ways := []*[]watched{&plain, &seen}
		if round%2 == 1 {
			ways[0], ways[1] = ways[1], ways[0]
		}
		for _, way := range ways {
			one, err := runWatched(ctx, o, way == &seen)
			if err != nil {
				return section{}, err
			}
			if round > 0 { // the first round does not count
				*way = append(*way, one)
			}
		}
	}
	figure := func(of func(watched) sample) (a, b []sample) {
		for i := range plain {
			a, b = append(a, of(plain[i])), append(b, of(seen[i]))
		}
		return a, b
	}
	own, ownSeen := figure(func(w watched) sample { return w.sample })
	theirs, theirsSeen := figure(func(w watched) sample { return w.consumer })
	through, throughSeen := figure(func(w watched) sample { return sample{wall: w.took, count: w.count} })
	var shares, costs []float64
	for i, one := range seen {
		shares = append(shares, 100*one.viewed.Seconds()/one.sample.wall.Seconds()/viewers)
		costs = append(costs, 100*(1-through[i].wall.Seconds()/throughSeen[i].wall.Seconds())/viewers)
	}
	share, cost := summary("one of them: time spent on snapshots, of the run's", " %", shares),
		summary("one of them: throughput lost", " %", costs)
	cost.Goal = "≤ 2 %"
	return section{
		Title: "A run that 20 watch (a snapshot every 200 ms, as JSON and as metrics, a scrape each second) against one " +
			"that nobody watches",
		How: []string{"20,000 records/s offered for 3 s, 1 broker, 1 consumer. Run in turns."},
		Rows: []row{
			ratios("processed until all is done", "", throughSeen, through, sample.perSecond, "/s"),
			ratios("processor time per record, harness", "", ownSeen, own, sample.cpuMicros, "µs"),
			ratios("processor time per record, consumer", "", theirsSeen, theirs, sample.cpuMicros, "µs"),
			cost, share,
		},
	}, nil
}

func runWatched(ctx context.Context, o options, seen bool) (watched, error) {
	scenario, err := scenarios.Parse("bench-live.yaml", []byte(liveScenario))
	if err != nil {
		return watched{}, err
	}
	options := run.Options{
		Scenario: scenario, Source: []byte(liveScenario), Out: o.dir, Executable: o.executable,
		Rerun: "bench -only 8 # seed %d", Version: "bench", Log: zerolog.Nop(),
	}
	var viewed time.Duration // written by one goroutine, which ends with the run
	if seen {
		options.Watch = watcher(&viewed)
	}
	children := processorTime(syscall.RUSAGE_CHILDREN)
	var outcome *run.Outcome
	run, err := take(1, func() error {
		outcome, err = run.Run(ctx, options)
		return err
	})
	if err == nil {
		err = ctx.Err()
	}
	if err != nil {
		return watched{}, fmt.Errorf("running it: %w", err)
	}
	verdict, measured := outcome.Judged.Verdict, outcome.Judged.Measurements
	if !measured.Drained {
		return watched{}, errors.New("the consumer could not finish in time")
	}
	run.count = int(verdict.Ledger.Acknowledged)
	consumer := sample{wall: run.wall, cpu: processorTime(syscall.RUSAGE_CHILDREN) - children, count: run.count}
	load := scenario.Workload.WarmUp.D() + scenario.Workload.Duration.D()
	return watched{took: load + measured.DrainTime, sample: run, consumer: consumer, viewed: viewed}, nil
}

// watcher processes a snapshot like each viewer's page and Prometheus do, and adds up the elapsed time, which on a busy
// machine exceeds the time needed.
func watcher(spent *time.Duration) func(reports.Snapshot) {
	metrics := livemetrics.New("bench")
	update, _ := metrics.Watch()
	count := 0
	return func(snapshot reports.Snapshot) {
		began := time.Now()
		defer func() { *spent += time.Since(began) }()
		count++
		for range viewers {
			update(snapshot)
			_ = json.NewEncoder(io.Discard).Encode(snapshot)
			if count%5 == 0 {
				metrics.Handler().ServeHTTP(httptest.NewRecorder(), httptest.NewRequest(http.MethodGet, "/metrics", nil))
			}
		}
	}
}
