package gate

// The gate's run: one entry after another, each judged as soon as it ended, until all are, one does not pass, or the
// time is up.

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

// ErrBudget is the cause with which a run's context is cancelled when the suite's time is up.
var ErrBudget error = usedUp{}

// usedUp is also a context.Canceled: whoever ends because of it was cancelled, and did not fail.
type usedUp struct{}

func (usedUp) Error() string { return "the gate's time budget is used up" }

//nolint:errorlint // this is what errors.Is asks
func (usedUp) Is(target error) bool { return target == context.Canceled }

// Forecast is how long a run takes by estimate: in any case, when all goes well, and at most. Parts says what takes
// most of it, in words.
type Forecast struct {
	Least, Usual, Most time.Duration
	Parts              string
}

// Options say how a suite is run.
type Options struct {
	Shard    Shard
	FailFast bool
	// Forecast estimates how long an entry takes.
	Forecast func(entry Entry) Forecast
	// Run runs an entry until it ends or ctx does; then it heals, seals and judges what there is. The error tells what
	// failed besides the subject.
	Run func(ctx context.Context, entry Entry) (Done, error)
	// Told is called with each run when it has been judged, with the suite as it stands then. Runs that are still to
	// come stand as not run.
	Told func(run *reports.SuiteRun, suite *reports.Suite) error
	// Now is the wall clock, by whose date waivers end.
	Now func() time.Time
}

// Run runs a suite, or its shard. An interruption by ctx ends the run that goes on, in order, and keeps the others from
// running. The error is one of Told: what was found could not be kept.
func (s *Suite) Run(ctx context.Context, options Options) (*reports.Suite, error) {
	began := options.Now()
	entries := s.Part(options.Shard)
	told := &reports.Suite{Config: s.File, Shard: options.Shard.String(), Started: began.UTC(),
		Verdict: reports.StandingPass}
	for _, left := range s.LeftOut {
		told.LeftOut = append(told.LeftOut, reports.SuiteLeft(left))
	}
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
		s.stand(run, done, failed, options.Now())
		told.Verdict = worse(told.Verdict, run.Standing)
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

func (s *Suite) finish(told *reports.Suite, began time.Time, options Options) {
	told.Elapsed, told.Waivers = options.Now().Sub(began), s.waivers(told.Runs, options.Now())
}

func notRun(entry Entry) reports.SuiteRun {
	return reports.SuiteRun{
		Number: entry.Number, Label: entry.Label(), Scenario: entry.Scenario, Subject: entry.SubjectName, Seed: entry.Seed,
		Where: reports.SuitePlace(entry.Where), Standing: reports.StandingNotRun, Reasons: []string{"not run yet"},
	}
}

// keptFrom says why an entry is not run, "" if it is, and what that makes of the suite. One that stops at the first
// that does not pass has shown what it is there to show.
func (s *Suite) keptFrom(ctx context.Context, told *reports.Suite, options Options) (string, reports.Standing) {
	switch {
	case ctx.Err() != nil:
		return "interrupted before it was its turn", reports.StandingInterrupted
	case options.FailFast && told.Verdict != reports.StandingPass:
		return "--fail-fast: a run before it does not pass", reports.StandingPass
	}
	return "", reports.StandingPass
}

// tooLong is keptFrom for the time that is left of the budget. Only what can't fit by plan and contract is kept from
// running: the usual time is an estimate. Without the entries that its time was too short for a gate has not shown what
// it is there to show.
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
