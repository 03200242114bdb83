package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/run"
)

// Soundness is the second table, and that of the strangers: is a correct consumer ever accused. For strangers, the
// modes are their names and the faults those of shipped scenarios.
type Soundness struct {
	// First is the seed of the first run; the others follow it.
	First uint64 `json:"first"`
	Runs  int    `json:"runs"`
	// Pairs are all that there are of a stranger and a scenario that applies to it; 0 under drawn faults.
	Pairs int `json:"pairs,omitempty"`
	// Passed, Inconclusive and Accused add up to Runs. An inconclusive run accuses nobody, but proves nothing either.
	Passed       int `json:"passed"`
	Inconclusive int `json:"inconclusive"`
	Accused      int `json:"accused"`
	// Modes and Faults count the runs by the consumer's mode and by fault; Judged the runs in which each invariant
	// judged something.
	Modes  map[string]int `json:"modes"`
	Faults map[string]int `json:"faults"`
	Judged map[string]int `json:"judged"`
	// Verdicts count the runs by the consumer's mode, then by verdict.
	Verdicts map[string]map[assertions.Status]int `json:"verdicts,omitempty"`
	// Alarms tell of each accusation: what, and the command that shows it again.
	Alarms []Alarm `json:"alarms,omitempty"`
	// Open say why runs were inconclusive, by reason.
	Open map[string]int `json:"open,omitempty"`
	// Skipped are runs that need what this machine does not have, by what that is; they are no part of Runs, and prove
	// nothing.
	Skipped map[string]int `json:"skipped,omitempty"`
	// Errors are runs that could not be carried out.
	Errors []string `json:"errors,omitempty"`
}

func newSoundness(first uint64) *Soundness {
	return &Soundness{
		First: first, Modes: map[string]int{}, Faults: map[string]int{}, Judged: map[string]int{}, Open: map[string]int{},
		Skipped: map[string]int{}, Verdicts: map[string]map[assertions.Status]int{},
	}
}

// Alarm is a run in which the correct consumer did not pass.
type Alarm struct {
	Seed    uint64   `json:"seed"`
	What    string   `json:"what"`
	Reasons []string `json:"reasons"`
	Rerun   string   `json:"rerun"`
	Dir     string   `json:"dir"`
}

// Holds reports whether no run was accused and at least nineteen runs in twenty proved something. In few runs chance
// makes the share of the others larger, so up to three of them are accepted then.
func (s *Soundness) Holds() bool {
	return s.Runs > 0 && s.Accused == 0 && len(s.Errors) == 0 && s.Inconclusive <= max(s.Runs/20, min(3, s.Runs/4))
}

// ProveSoundness runs the correct consumer with consecutive seeds from first: runs of them, or as many as can begin
// within limit if that is not 0. Every seed draws a mode of the consumer (by itself, with a dead-letter store, or as
// the nodes of a graph), a load, and one or two faults.
func (c *Config) ProveSoundness(ctx context.Context, first uint64, runs int, limit time.Duration) (*Soundness, error) {
	table := newSoundness(first)
	var mu sync.Mutex
	began := time.Now()
	c.each(ctx, runs, func(i int) {
		if limit == 0 || time.Since(began) < limit {
			c.sound(ctx, table, first+uint64(i), &mu)
		}
	})
	return table, ctx.Err()
}

func (c *Config) sound(ctx context.Context, table *Soundness, seed uint64, mu *sync.Mutex) {
	situation := Draw(seed)
	rerun := "dlqbench prove soundness --first %d --runs 1"
	outcome, err := c.run(ctx, trial{name: "soundness", scenario: []byte(situation.Scenario), seed: seed, rerun: rerun})
	c.count(ctx, table, sounded{
		seed: seed, mode: situation.Mode, faults: situation.Faults, what: situation.String(), rerun: fmt.Sprintf(rerun, seed),
		outcome: outcome, err: err,
	}, mu)
}

// sounded is the result of a run of a correct consumer.
type sounded struct {
	seed   uint64
	mode   string
	faults []string
	// what describes the consumer and the situation; rerun is the command that repeats the run.
	what, rerun string
	outcome     *run.Outcome
	err         error
}

// count adds a run to the table.
func (c *Config) count(ctx context.Context, table *Soundness, run sounded, mu *sync.Mutex) {
	mu.Lock()
	defer mu.Unlock()
	if ctx.Err() != nil || errors.Is(run.err, context.Canceled) {
		return
	}
	var absent absentError
	if errors.Is(run.err, postgres.ErrAbsent) || errors.As(run.err, &absent) {
		why := cmp.Or(absent.what, postgres.ErrAbsent.Error())
		table.Skipped[why]++
		c.say("seed %d: SKIPPED: %s (%s)", run.seed, why, run.what)
		return
	}
	table.Runs++
	if run.err != nil {
		table.Errors = append(table.Errors, fmt.Sprintf("%v (%s)", run.err, run.what))
		c.say("seed %d: %v (%s)", run.seed, run.err, run.what)
		return
	}
	table.Modes[run.mode]++
	for _, fault := range run.faults {
		table.Faults[fault]++
	}
	verdict := run.outcome.Verdict
	for _, result := range verdict.Invariants {
		if result.Status != assertions.NotApplicable {
			table.Judged[result.Name]++
		}
	}
	if table.Verdicts[run.mode] == nil {
		table.Verdicts[run.mode] = map[assertions.Status]int{}
	}
	table.Verdicts[run.mode][verdict.Verdict]++
	switch verdict.Verdict {
	case assertions.Pass:
		table.Passed++
		c.discard(run.outcome)
		c.say("seed %d: pass: %s", run.seed, run.what)
	case assertions.Inconclusive:
		table.Inconclusive++
		table.Open[strings.Join(verdict.Reasons, "; ")]++
		c.say("seed %d: INCONCLUSIVE: %s: %s; kept in %s", run.seed, run.what, strings.Join(verdict.Reasons, "; "),
			run.outcome.Dir)
	case assertions.Fail, assertions.NotApplicable:
		table.Accused++
		alarm := Alarm{Seed: run.seed, What: run.what, Reasons: verdict.Reasons, Rerun: run.rerun, Dir: run.outcome.Dir}
		table.Alarms = append(table.Alarms, alarm)
		c.say("seed %d: ACCUSED: %s\n  %s\n  again: %s; kept in %s", run.seed, run.what, strings.Join(alarm.Reasons, "\n  "),
			alarm.Rerun, run.outcome.Dir)
	}
}
