package gate

// This file runs the gate: one entry after another, each judged as soon as it has ended, until all are done, one does
// not pass, or the time is up.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

// ErrBudget is the cause with which a run's context is cancelled when the suite's budget is used up.
var ErrBudget error = usedUp{}

// usedUp is also a context.Canceled: a run that ends because of it was cancelled and did not fail.
type usedUp struct{}

func (usedUp) Error() string { return "the gate's time budget is used up" }

//nolint:errorlint // this is what errors.Is asks
func (usedUp) Is(target error) bool { return target == context.Canceled }

// NotRun is the error of Options.Run for an entry that was not run. The suite is then inconclusive at best.
type NotRun struct{ Why string }

func (n NotRun) Error() string { return n.Why }

// Forecast is the estimated duration of a run: the minimum, the usual and the maximum. Parts names what takes most of
// it.
type Forecast struct {
	Least, Usual, Most time.Duration
	Parts              string
}

// Options configure how a suite is run.
type Options struct {
	Shard    Shard
	FailFast bool
	// Forecast estimates the duration of an entry.
	Forecast func(entry Entry) Forecast
	// Run runs an entry until it or ctx ends. When ctx ends, it lifts all faults, seals the history and judges what
	// there is. The error describes a failure outside the subject.
	Run func(ctx context.Context, entry Entry) (Done, error)
	// Told is called with each judged run and the suite's standing at that time. Pending runs count as not run.
	Told func(run *reports.SuiteRun, suite *reports.Suite) error
	// Now is the wall clock. Waivers end by its date.
	Now func() time.Time
}

// Run runs a suite, or its shard. When ctx ends, the current run ends in order, and the others are not run. The error
// is one of Told: the findings could not be stored.
func (s *Suite) Run(ctx context.Context, options Options) (*reports.Suite, error) {
	began := options.Now()
	entries := s.Part(options.Shard)
	told := &reports.Suite{Config: s.File, Shard: options.Shard.String(), Started: began.UTC(),
		Verdict: reports.StandingPass, LeftOut: s.LeftOut}
	for _, entry := range entries {
		told.Runs = append(told.Runs, notRun(entry))
	}
	budgeted, stop := context.WithCancelCause(ctx)
	defer stop(nil)
	deadline := time.Now().Add(s.Budget)
	if s.Budget > 0 {
		defer time.AfterFunc(s.Budget, func() { stop(ErrBudget) }).Stop()
	}
	var errs []error
	for i, entry := range entries {
		run := &told.Runs[i]
		why, standing := s.keptFrom(ctx, told, options)
		if why == "" && s.Budget > 0 {
			why, standing = s.tooLong(time.Until(deadline), options.Forecast(entry))
		}
		if why != "" {
			run.Reasons, run.Missing = []string{why}, standing != reports.StandingPass
			told.Verdict = worse(told.Verdict, standing)
			continue
		}
		done, failed := options.Run(budgeted, entry)
		*run = s.One(entry, done, failed, options.Now())
		told.Verdict = worse(told.Verdict, run.Standing)
		if run.Missing {
			told.Verdict = worse(told.Verdict, reports.StandingInconclusive)
		}
		s.finish(told, began, options)
		errs = append(errs, options.Told(run, told))
	}
	if ctx.Err() != nil {
		told.Verdict = reports.StandingInterrupted
	}
	s.finish(told, began, options)
	s.require(told, len(entries) < len(s.Entries))
	return told, errors.Join(errs...)
}

// One returns how an entry stands that has been run: waived failures do not count. failed describes a failure outside
// the subject, or is a NotRun.
func (s *Suite) One(entry Entry, done Done, failed error, now time.Time) reports.SuiteRun {
	run := notRun(entry)
	s.stand(&run, done, failed, now)
	run.Promised = promised(entry.Subject, done.Judged.Verdict)
	return run
}

func (s *Suite) finish(told *reports.Suite, began time.Time, options Options) {
	told.Elapsed, told.Waivers = options.Now().Sub(began), s.waivers(told.Runs, options.Now())
}

func notRun(entry Entry) reports.SuiteRun {
	return reports.SuiteRun{
		Number: entry.Number, Label: entry.Label(), Scenario: entry.Scenario, Subject: entry.SubjectName, Seed: entry.Seed,
		Where: entry.Where, Standing: reports.StandingNotRun, Reasons: []string{"not run yet"},
	}
}

// keptFrom returns why an entry is not run, or "" if it is, and the effect on the suite's standing. A suite that stops
// at the first run that does not pass has served its purpose.
func (s *Suite) keptFrom(ctx context.Context, told *reports.Suite, options Options) (string, reports.Standing) {
	switch {
	case ctx.Err() != nil:
		return "interrupted before it was its turn", reports.StandingInterrupted
	case options.FailFast && told.Verdict != reports.StandingPass:
		return "--fail-fast: a run before it does not pass", reports.StandingPass
	}
	return "", reports.StandingPass
}

// tooLong is keptFrom for the remaining budget. It skips only what cannot fit by plan and contract, because the usual
// duration is an estimate. A gate that lacked the time for some entries has not served its purpose.
func (s *Suite) tooLong(left time.Duration, takes Forecast) (string, reports.Standing) {
	switch {
	case left <= 0:
		return fmt.Sprintf("the budget of %s is used up", s.Budget), reports.StandingInconclusive
	case left < takes.Least:
		why := fmt.Sprintf("%s of the budget of %s are left, and the run takes about %s by estimate, at least %s: %s",
			units.Text(left), units.Text(s.Budget), units.Text(takes.Usual), units.Text(takes.Least), takes.Parts)
		return why, reports.StandingInconclusive
	}
	return "", reports.StandingPass
}
