package campaign

// This file runs the cells that have no result, and merges the results.

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/reports"
)

// Backend runs cells.
type Backend interface {
	// Run runs cells until each has ended or ctx ends, and hands over what became of them. The error says why it could
	// not go on.
	Run(ctx context.Context, cells []Cell, into Sink) error
}

// Sink takes what becomes of cells. Its methods may be called concurrently.
type Sink interface {
	// Result stores the result of a cell.
	Result(cell Cell, result Result) error
	// Failed says why a cell has no result. The cell is run again when the campaign is.
	Failed(cell Cell, why error)
	// Say prints a line for people.
	Say(line string)
}

// Campaign is a suite that is run as cells.
type Campaign struct {
	Suite *gate.Suite
	// Cells are all cells of the suite, Selected those that are run.
	Cells, Selected []Cell
	Folder          Folder
	Backend         Backend
	// Told is called with each cell that has ended. Say prints a line for people.
	Told func(run reports.SuiteRun)
	Say  func(line string)
	Now  func() time.Time
}

// Run runs the selected cells that have no result and merges all results. If ctx ends, running cells end without a
// result. The error says why cells could not be run or stored; the merged results come with it.
func (c *Campaign) Run(ctx context.Context) (*reports.Suite, error) {
	began := c.Now()
	state := &state{Campaign: c, failed: map[int]error{}, reported: map[int]bool{}}
	left, err := state.left()
	if err != nil {
		return nil, err
	}
	if done := len(c.Selected) - len(left); done > 0 {
		c.Say(fmt.Sprintf("%d of %d cells have a result already", done, len(c.Selected)))
	}
	var failed error
	if len(left) > 0 {
		failed = state.run(ctx, left)
	}
	told, err := state.merge(ctx, failed)
	if err != nil {
		return nil, errors.Join(failed, err)
	}
	told.Started, told.Elapsed = began.UTC(), c.Now().Sub(began)
	return told, errors.Join(failed, gate.ArtifactsIn(c.Folder.dir).Write(told))
}

// state is a campaign while it runs.
type state struct {
	*Campaign
	mu     sync.Mutex
	failed map[int]error
	// reported are the cells whose result was there before, or has been reported.
	reported map[int]bool
}

// left returns the selected cells that have no result.
func (s *state) left() (left []Cell, err error) {
	for _, cell := range s.Selected {
		_, found, err := s.Folder.Result(cell)
		if err != nil {
			return nil, err
		}
		if s.reported[cell.Number] = found; !found {
			left = append(left, cell)
		}
	}
	return left, nil
}

// run runs cells within the suite's budget.
func (s *state) run(ctx context.Context, left []Cell) error {
	if s.Suite.Budget > 0 {
		var stop context.CancelFunc
		ctx, stop = context.WithTimeoutCause(ctx, s.Suite.Budget, gate.ErrBudget)
		defer stop()
	}
	err := s.Backend.Run(ctx, left, s)
	if ctx.Err() != nil && errors.Is(err, context.Cause(ctx)) {
		return nil // the merged results say it
	}
	return err
}

// Result stores the result of a cell and reports it.
func (s *state) Result(cell Cell, result Result) error {
	if err := s.Folder.Keep(cell, result); err != nil {
		return err
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.failed, cell.Number)
	if s.reported[cell.Number] {
		return nil
	}
	s.reported[cell.Number] = true
	s.Told(s.Suite.One(cell.Entry, done(result), nil, s.Now()))
	return nil
}

// Failed remembers why a cell has no result, and reports it.
func (s *state) Failed(cell Cell, why error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failed[cell.Number] = why
	s.Told(s.Suite.One(cell.Entry, gate.Done{}, why, s.Now()))
}

// Say prints a line for people.
func (s *state) Say(line string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Campaign.Say(line)
}

// done is a result as a gate knows it.
func done(result Result) gate.Done {
	return gate.Done{Elapsed: result.Elapsed, Judged: reports.Run{Verdict: result.Verdict, Dir: result.Dir}}
}

// merge judges the suite by the stored results. failed is why the cells could not be run to their end.
func (s *state) merge(ctx context.Context, failed error) (*reports.Suite, error) {
	suite := *s.Suite
	suite.Budget = 0 // it was for running the cells
	var unreadable error
	told, err := suite.Run(context.WithoutCancel(ctx), gate.Options{
		Now: s.Now,
		Run: func(_ context.Context, entry gate.Entry) (gate.Done, error) {
			cell := s.Cells[entry.Number-1]
			result, found, err := s.Folder.Result(cell)
			unreadable = errors.Join(unreadable, err)
			if found {
				return done(result), nil
			}
			return gate.Done{}, s.why(ctx, cell, failed)
		},
		Told: func(run *reports.SuiteRun, _ *reports.Suite) error {
			if run.Judged.Verdict != nil {
				run.Artifacts = filepath.ToSlash(s.Cells[run.Number-1].folder())
			}
			return nil
		},
	})
	told.Kind = reports.SuiteCampaign
	if ctx.Err() != nil {
		told.Verdict = reports.StandingInterrupted
	}
	return told, errors.Join(err, unreadable)
}

// why says why a cell has no result.
func (s *state) why(ctx context.Context, cell Cell, failed error) error {
	known := s.failed[cell.Number]
	switch {
	case known != nil:
		return known
	case ctx.Err() != nil:
		return gate.NotRun{Why: "interrupted before it had a result"}
	case failed != nil:
		return gate.NotRun{Why: "the campaign could not go on: " + failed.Error()}
	case s.Suite.Budget > 0:
		return gate.NotRun{Why: fmt.Sprintf("the budget of %s is used up", s.Suite.Budget)}
	}
	return gate.NotRun{Why: "it was not among the cells that were to be run"}
}
