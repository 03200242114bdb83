package drill

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"time"

	"github.com/dlqbench/dlqbench/faults"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/history"
	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/testkit/must"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// source is the scenario of the tests' drills. Its name reveals the fault, as real names do.
const source = `
name: quorum-outage
description: NOT_ENOUGH_REPLICAS on the dead-letter topic.
subject: {reference: {instances: 2, max_retries: 3, retry_backoff_ms: 50}}
workload: {rate: 100/s, duration: 10m, outcomes: {success: 9, exhausted: 1}}
`

// fakeRun is a run whose faults come into force at once. The test moves its clock.
type fakeRun struct {
	t       *testing.T
	session *Session
	refuses error // the answer to an injection

	telling sync.Mutex
	mu      sync.Mutex
	now     time.Duration
	ended   int
	written []catalogue.Spec
	healed  map[int]bool
	down    map[int]bool
}

func parse(t *testing.T, text string) *scenarios.Scenario {
	t.Helper()
	scenario := must.Get(scenarios.Parse("drill.yaml", []byte(text)))(t)
	return scenario
}

// newFake returns a session with an open load, and its run.
func newFake(t *testing.T, change func(*Options)) (*Session, *fakeRun) {
	t.Helper()
	options := Options{Scenario: parse(t, source), Source: []byte(source)}
	if change != nil {
		change(&options)
	}
	run := &fakeRun{t: t, healed: map[int]bool{}, down: map[int]bool{}}
	s := newSession(options)
	began := time.Unix(1000, 0)
	s.clock = func() time.Time { return began.Add(run.at()) }
	s.breaks, s.ending, run.session = run, run.end, s
	s.begin(0, 10*time.Minute)
	return s, run
}

func (r *fakeRun) at() time.Duration {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.now
}

// pass advances the clock and reports the lag to the session.
func (r *fakeRun) pass(d time.Duration, lag int64) {
	r.mu.Lock()
	r.now += d
	now := r.now
	r.mu.Unlock()
	const warm = 500 * time.Millisecond
	r.session.Watch(reports.Snapshot{
		Scenario: "quorum-outage", RunID: "quorum-outage-1", Phase: history.PhaseFault, Now: now + warm + time.Second,
		Elapsed: now + warm, Total: 10 * time.Minute, Lag: lag, SentRate: 40,
		ActiveFaults: []reports.FaultState{{Name: "produce-error", What: "Produce to dlq answered NOT_ENOUGH_REPLICAS"}},
		Instances: []reports.InstanceState{
			{Kind: "instance", Name: "instance 0", Status: reports.InstancePaused,
				LastError: "writing the dead letter: NOT_ENOUGH_REPLICAS"},
			{Kind: "instance", Number: 1, Name: "instance 1", Status: reports.InstanceKilled},
			{Kind: "instance", Number: 2, Name: "instance 2", Status: reports.InstanceStopped},
		},
		Events: []reports.LiveEvent{
			{Sequence: 1, At: time.Second, Kind: reports.EventPhase, Text: history.PhaseFault},
			{Sequence: 2, At: time.Second, Kind: reports.EventFault,
				Text: "produce-error: Produce to dlq answered NOT_ENOUGH_REPLICAS"},
			{Sequence: 3, At: time.Second, Kind: reports.EventInstance, Text: "instance 1 ended: signal KILL"},
			{Sequence: 4, At: 2500 * time.Millisecond, Kind: reports.EventRebalance,
				Text: "partitions are assigned, generation 2"},
		},
	})
}

func (r *fakeRun) Break(_ context.Context, written catalogue.Spec, by fmt.Stringer) (faults.Planned, error) {
	if r.refuses != nil {
		return faults.Planned{}, r.refuses
	}
	r.telling.Lock() // news must arrive in order
	defer r.telling.Unlock()
	r.mu.Lock()
	index := len(r.written)
	r.written = append(r.written, written)
	if of := written.Subject; of != nil && of.Instance != nil && of.Signal == "KILL" {
		r.down[*of.Instance] = true
	}
	at := r.now
	r.mu.Unlock()
	planned := plan.Fault(r.session.options.Scenario, 1, index, written.Traits().Name, written)
	planned.Open = true
	r.session.hear(run.FaultNews{Index: index, Written: written, Planned: planned, By: by,
		Stage: run.FaultInjected, At: at})
	return planned, nil
}

// script injects a fault that the scenario scripts.
func (r *fakeRun) script(written catalogue.Spec) { _, _ = r.Break(r.t.Context(), written, nil) }

func (r *fakeRun) Heal(_ context.Context, index int) error {
	r.telling.Lock()
	defer r.telling.Unlock()
	r.mu.Lock()
	again := r.healed[index]
	r.healed[index] = true
	clear(r.down)
	news := run.FaultNews{Index: index, Written: r.written[index], Stage: run.FaultHealed, At: r.now}
	r.mu.Unlock()
	if again {
		return fmt.Errorf("%w: %w", ErrRefused, faults.ErrNotInForce)
	}
	r.session.hear(news)
	return nil
}

func (r *fakeRun) Alive(instance int) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return !r.down[instance]
}

func (r *fakeRun) Replay(context.Context) (int, error) { return 3, r.refuses }

func (r *fakeRun) end() {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.ended++
}

func (r *fakeRun) ends() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.ended
}

// wants fails the test on any other error than the wanted one.
func wants(t *testing.T, err, want error) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("%v, want an error that is %v", err, want)
	}
}
