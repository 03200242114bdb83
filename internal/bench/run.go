package bench

// This file runs a bench: one repetition after another in the plan's order, stored after each run, until all are run or
// the bench is interrupted.

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/dlqbench/dlqbench/reports"
)

// mostFailures is the number of consecutive runs that may fail for reasons outside the consumer before the bench gives
// up.
const mostFailures = 3

// Runner runs one scenario.
type Runner interface {
	// Run runs a job until it or ctx ends. When ctx ends, it lifts all faults, seals the history and judges what there
	// is. The error describes a failure outside the consumer.
	Run(ctx context.Context, job Job) (Measured, error)
}

// Job is one run of a bench.
type Job struct {
	Cell PlannedCell
	// Repetition counts from 1.
	Repetition int
	// Rate is the rate of a probe, or 0 if the cell's own load is run.
	Rate float64
	// Sets are the overrides of the run: those of the cell, and the rate.
	Sets []string
	Seed uint64
}

// Measured is the result of a run.
type Measured struct {
	Run reports.BenchRun
	// Parts are the stretches of its load, if the mode needs them.
	Parts []reports.BenchPart
	// Environment describes the machine and the Kafka.
	Environment map[string]string
	// Interrupted means that the run did not reach its end and proves nothing.
	Interrupted bool
}

// Options configure how a bench is run.
type Options struct {
	Runner Runner
	// Begins is called before each run, Ended after its result has been stored; run is the one that ended.
	Begins func(Job, Standing)
	Ended  func(job Job, run reports.BenchRun, bench reports.Bench)
	// Keep stores the current results: after each run, and when the bench has ended.
	Keep func(bench reports.Bench, ended bool) error
	Now  func() time.Time
}

// Begin returns the results before anything was run.
func (p *Plan) Begin(version string, now time.Time) reports.Bench {
	bench := reports.Bench{
		Schema: reports.BenchSchema, Name: p.Spec.Name, Description: p.Spec.Description, File: p.File, SpecHash: p.Hash,
		Version:  version,
		Scenario: p.ScenarioName, Subject: p.SubjectName, Seed: p.Seed, Mode: p.Mode, Bound: p.Spec.Bound, Started: now.UTC(),
		Repetitions: p.Spec.Repetitions, Axes: p.Axes, Workloads: p.Workloads, Faults: p.Faults,
	}
	for _, cell := range p.Cells {
		bench.Cells = append(bench.Cells, reports.BenchCell{
			Number: cell.Number, Name: cell.Name, Settings: cell.Settings, Workload: cell.Workload, Faults: cell.Faults,
			State: reports.BenchNotRun,
		})
	}
	return bench
}

// session is one execution of a bench, from its beginning or resumed after an interruption.
type session struct {
	plan    *Plan
	options Options
	bench   reports.Bench
	// since is the time up to which bench.Elapsed accounts.
	since time.Time
	// skipped are repetitions that could not be run. They are left for another session.
	skipped map[[2]int]bool
	failed  []error
}

// Run runs the rest of a bench: bench holds the results of an earlier session, or those that Begin returns. When ctx
// ends, the current run ends in order, and its repetition is run again later. The error says why the bench could not be
// run or stored; the results so far come with it.
func (p *Plan) Run(ctx context.Context, bench reports.Bench, options Options) (reports.Bench, error) {
	s := &session{plan: p, options: options, bench: bench, since: options.Now(), skipped: map[[2]int]bool{}}
	s.bench.Cells = slices.Clone(bench.Cells)
	s.bench.Interrupted = false
	for ctx.Err() == nil && len(s.failed) < mostFailures {
		job, left := s.next()
		if !left {
			break
		}
		options.Begins(job, p.Standing(s.bench))
		s.since = options.Now()
		if err := s.one(ctx, job); err != nil {
			return s.bench, err
		}
	}
	s.bench.Interrupted = ctx.Err() != nil
	if len(s.failed) >= mostFailures {
		return s.bench, errors.Join(fmt.Errorf("giving up after %d runs in a row that could not be run: %w", mostFailures,
			s.failed[len(s.failed)-1]), s.keep(true))
	}
	return s.bench, s.keep(true)
}

// one carries out a job and stores its result. The error is one of storing it.
func (s *session) one(ctx context.Context, job Job) error {
	measured, failed := s.options.Runner.Run(ctx, job)
	interrupted := measured.Interrupted || failed != nil && ctx.Err() != nil
	switch {
	case interrupted:
		return nil // it is run again when the bench is resumed
	case failed != nil:
		s.failed = append(s.failed, fmt.Errorf("%s: %w", job.Cell.Name, failed))
		s.skipped[[2]int{job.Cell.Number, job.Repetition}] = true
		measured = Measured{Run: reports.BenchRun{Error: failed.Error()}}
	default:
		if err := s.sameMachine(measured.Environment); err != nil {
			return err
		}
		s.failed = nil
		measured.Run.Behind = job.Cell.behind(s.plan.Mode, measured.Run)
	}
	s.adopt(job, measured)
	if err := s.keep(false); err != nil {
		return err
	}
	s.options.Ended(job, measured.Run, s.bench)
	return nil
}

// next is the next job: the first unfinished repetition in the order of the plan.
func (s *session) next() (Job, bool) {
	for round, order := range s.plan.Rounds {
		for _, index := range order {
			cell, number := s.plan.Cells[index], round+1
			repetition, found := repetitionOf(s.bench.Cells[index], number)
			if found && repetition.Finished() || s.skipped[[2]int{cell.Number, number}] {
				continue
			}
			job := Job{Cell: cell, Repetition: number, Sets: cell.Sets, Seed: s.plan.Seed}
			if s.plan.Mode == reports.BenchMaxThroughput {
				var probes []reports.BenchProbe
				if repetition.Search != nil {
					probes = repetition.Search.Probes
				}
				job.Rate, _ = s.plan.Spec.Search.next(probes)
				job.Sets = append(slices.Clone(cell.Sets), RateSet(job.Rate))
			}
			return job, true
		}
	}
	return Job{}, false
}

func repetitionOf(cell reports.BenchCell, number int) (reports.BenchRepetition, bool) {
	for _, repetition := range cell.Repetitions {
		if repetition.Number == number {
			return repetition, true
		}
	}
	return reports.BenchRepetition{Number: number}, false
}

// adopt stores the result of a run in its place.
func (s *session) adopt(job Job, measured Measured) {
	index := job.Cell.Number - 1
	cell := s.bench.Cells[index]
	repetition, _ := repetitionOf(cell, job.Repetition)
	switch s.plan.Mode {
	case reports.BenchMaxThroughput:
		s.probed(job, measured, &repetition)
	case reports.BenchSoak:
		repetition.Run, repetition.Drift = measured.Run, &reports.BenchDrift{Parts: measured.Parts}
	case reports.BenchStep:
		repetition.Run, repetition.Knee = measured.Run, knee(measured.Parts, job.Cell.disturbed(measured.Run))
	default:
		repetition.Run = measured.Run
	}
	others := slices.DeleteFunc(slices.Clone(cell.Repetitions), func(r reports.BenchRepetition) bool {
		return r.Number == job.Repetition
	})
	at, _ := slices.BinarySearchFunc(others, job.Repetition, func(r reports.BenchRepetition, number int) int {
		return r.Number - number
	})
	cell.Repetitions = slices.Insert(others, at, repetition)
	stand(s.plan.Mode, &cell)
	s.bench.Cells[index] = cell
	if measured.Run.Error == "" {
		s.bench.Overhead.Runs += measured.Run.Elapsed
		if s.bench.Environment == nil {
			s.bench.Environment = measured.Environment
		}
	}
}

// probed adds a probe to a search. The run stored in full is that of the highest rate that held, or the first run as
// long as none did.
func (s *session) probed(job Job, measured Measured, repetition *reports.BenchRepetition) {
	if measured.Run.Error != "" {
		repetition.Run.Error = measured.Run.Error // another session can continue the search
		return
	}
	repetition.Run.Error = ""
	var probes []reports.BenchProbe
	if repetition.Search != nil {
		probes = slices.Clone(repetition.Search.Probes)
	}
	hold, why := held(job.Cell, s.plan.Spec.Bound, measured.Run)
	if len(probes) == 0 || hold == reports.BenchHeld {
		repetition.Run = measured.Run
	}
	probes = append(probes, reports.BenchProbe{Rate: job.Rate, Hold: hold, Why: why,
		Run: measured.Run.WithoutHistograms()})
	found := s.plan.Spec.Search.found(probes)
	repetition.Search = &found
}

// keep stores the current results with the elapsed time. The advice is added at the end.
func (s *session) keep(ended bool) error {
	now := s.options.Now()
	s.bench.Elapsed += now.Sub(s.since)
	s.since = now
	if runs := s.bench.Overhead.Runs; runs > 0 {
		s.bench.Overhead.Share = float64(s.bench.Elapsed-runs) / float64(runs)
	}
	if s.bench.Advice = nil; ended {
		s.bench.Advice = Advise(s.bench)
	}
	if err := s.options.Keep(s.bench, ended); err != nil {
		return fmt.Errorf("keeping the results: %w", err)
	}
	return nil
}

// sameMachine rejects figures of another machine, or of another Kafka, because they could not be compared with the
// stored ones.
func (s *session) sameMachine(now map[string]string) error {
	for _, key := range []string{"os", "arch", "cpus", "kafka"} {
		if before, found := s.bench.Environment[key]; found && before != now[key] {
			return fmt.Errorf("resuming the bench: it was started on %s %q, and this is %q: start over with --fresh", key,
				before, now[key])
		}
	}
	return nil
}

// NewMeasured extracts the results of a judged run for a bench. elapsed is its whole duration, setUp the part before
// its load began.
func NewMeasured(mode reports.BenchMode, job Job, judged reports.Run, elapsed, setUp time.Duration) (Measured, error) {
	run, err := reports.NewBenchRun(judged, elapsed, setUp)
	if err != nil {
		return Measured{}, err
	}
	measured := Measured{Run: run, Environment: judged.Header.Environment}
	if judged.Measurements != nil {
		measured.Run.BacklogGrowth = backlogGrowth(job.Cell, judged.Measurements)
	}
	if mode == reports.BenchSoak || mode == reports.BenchStep {
		measured.Parts, err = parts(job.Cell, judged)
	}
	return measured, err
}
