package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/env/postgres"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/verify/planted"
)

// SeedRun is one run of a row.
type SeedRun struct {
	Seed uint64 `json:"seed"`
	// Shown: the bug was named, or the correct consumer passed.
	Shown   bool    `json:"shown"`
	Seconds float64 `json:"seconds"`
}

// BugRow is one planted bug in one scenario of the matrix.
type BugRow struct {
	Bug  string `json:"bug"`
	What string `json:"what"`
	// Invariant and Anomaly are what must name it.
	Invariant string `json:"invariant"`
	Anomaly   string `json:"anomaly"`
	Scenario  string `json:"scenario"`
	// Digest tells the bug and the scenario from earlier forms.
	Digest string `json:"digest,omitempty"`
	// Caught of Seeds runs were judged to violate Invariant by Anomaly.
	Caught int `json:"caught"`
	Seeds  int `json:"seeds"`
	// Runs are these runs, as they ended.
	Runs []SeedRun `json:"runs,omitempty"`
	// Named counts the runs in which each anomaly was named, as "invariant: anomaly".
	Named map[string]int `json:"named"`
	// Missed are the commands that do the runs again in which it was not caught.
	Missed []string `json:"missed,omitempty"`
}

// meanSeconds is the mean duration of a run, or 0 without runs.
func meanSeconds(runs []SeedRun) (mean float64) {
	for _, run := range runs {
		mean += run.Seconds / float64(len(runs))
	}
	return mean
}

// share is the fraction of runs in which the bug was caught, from 0 to 1.
func (r *BugRow) share() float64 { return float64(r.Caught) / float64(max(r.Seeds, 1)) }

// ran returns the run with the seed, if there is one.
func ran(runs []SeedRun, seed uint64) (SeedRun, bool) {
	at := slices.IndexFunc(runs, func(run SeedRun) bool { return run.Seed == seed })
	if at < 0 {
		return SeedRun{}, false
	}
	return runs[at], true
}

// ControlRow is the correct consumer on a scenario of the matrix: it must pass.
type ControlRow struct {
	Scenario string `json:"scenario"`
	Digest   string `json:"digest,omitempty"`
	// beside is a planted bug that is run in the same scenario. Proving it also runs this control.
	beside string
	Passed int       `json:"passed"`
	Seeds  int       `json:"seeds"`
	Runs   []SeedRun `json:"runs,omitempty"`
	Failed []string  `json:"failed,omitempty"`
}

// Completeness is the first table: is every planted bug caught.
type Completeness struct {
	// Suite is what was run, "" for aimed; Wanted is how many seeds were asked for.
	Suite    string       `json:"suite,omitempty"`
	Wanted   int          `json:"wanted,omitempty"`
	Bugs     []BugRow     `json:"bugs"`
	Controls []ControlRow `json:"controls"`
	// Untried are bugs to which no scenario of the suite applies.
	Untried []string `json:"untried,omitempty"`
	// Skipped are scenarios that need what this machine does not have, by what that is.
	Skipped map[string]string `json:"skipped,omitempty"`
	// Errors are runs that could not be carried out.
	Errors []string `json:"errors,omitempty"`
}

// matrix is a table that is being filled.
type matrix struct {
	*Config
	*Completeness
	aim   Aim
	texts map[string][]byte
	// begin is done when no further run may begin.
	begin context.Context
	mu    sync.Mutex
}

// ProveCompleteness runs planted bugs, and the correct consumer, in the scenarios of a suite.
func (c *Config) ProveCompleteness(ctx context.Context, aim Aim) (*Completeness, error) {
	m, bugs, err := c.table(aim)
	if err != nil {
		return nil, err
	}
	m.begin = ctx
	if aim.Limit > 0 {
		var stop context.CancelFunc
		m.begin, stop = context.WithTimeout(ctx, aim.Limit)
		defer stop()
	}
	switch aim.Suite {
	case SuiteLibrary:
		m.inTurn(ctx, bugs, 1)
		m.best(ctx, 1)
		m.survey(ctx)
		m.best(ctx, again)
	case SuiteDefault:
		m.inTurn(ctx, bugs, aim.Seeds)
	default:
		m.everySeed(ctx)
	}
	return m.Completeness, ctx.Err()
}

// table returns all rows of an aim, with the earlier results for them, before anything is run.
func (c *Config) table(aim Aim) (*matrix, []planted.Bug, error) {
	bugs, of, err := aim.aims()
	if err != nil {
		return nil, nil, err
	}
	if len(bugs) == 0 {
		return nil, nil, fmt.Errorf("there is no planted bug named %s for the suite %s: dlqbench demo --all lists all",
			strings.Join(aim.Bugs, " or "), aim.Suite)
	}
	m := &matrix{Config: c, Completeness: &Completeness{Suite: aim.Suite, Wanted: aim.Seeds}, aim: aim,
		texts: map[string][]byte{}}
	m.rows(bugs, of)
	return m, bugs, nil
}

// rows creates the rows before anything is run and takes over earlier measurements.
func (m *matrix) rows(bugs []planted.Bug, of map[string][]target) {
	earlier := cmp.Or(m.aim.Earlier, &Measured{})
	for _, bug := range bugs {
		if len(of[bug.Name]) == 0 {
			m.Untried = append(m.Untried, bug.Name)
		}
		for _, at := range of[bug.Name] {
			row := BugRow{
				Bug: bug.Name, What: bug.What, Invariant: bug.Invariant, Anomaly: bug.Anomaly, Scenario: at.name,
				Digest: rowDigest(bug, at), Runs: earlier.find(earlier.Bugs, bug.Name, at.name), Named: map[string]int{},
			}
			row.Caught, row.Seeds = shown(row.Runs), len(row.Runs)
			m.Bugs = append(m.Bugs, row)
			if m.texts[at.name] == nil {
				control := ControlRow{Scenario: at.name, Digest: at.digest, beside: bug.Name,
					Runs: earlier.find(earlier.Correct, "", at.name)}
				control.Passed, control.Seeds = shown(control.Runs), len(control.Runs)
				m.Controls, m.texts[at.name] = append(m.Controls, control), at.text
			}
		}
	}
}

// shown counts the runs that gave the expected result.
func shown(runs []SeedRun) (n int) {
	for _, run := range runs {
		if run.Shown {
			n++
		}
	}
	return n
}

// everySeed runs every row with each seed.
func (m *matrix) everySeed(ctx context.Context) {
	m.beside(ctx, m.aim.Seeds, len(m.Bugs), func(i int, seed uint64) { m.bug(ctx, &m.Bugs[i], seed) })
}

// beside runs, with each of the seeds, the correct consumer in every scenario, and calls do for 0 … n−1.
func (m *matrix) beside(ctx context.Context, seeds, n int, do func(i int, seed uint64)) {
	all := len(m.Controls) + n
	m.each(m.begin, seeds*all, func(i int) {
		seed, which := m.aim.First+uint64(i/all), i%all
		if which < len(m.Controls) {
			m.control(ctx, &m.Controls[which], seed)
			return
		}
		do(which-len(m.Controls), seed)
	})
}

// survey runs each row with the first seed. It runs one scenario of each bug, then a second one of each, and so on, so
// that a survey that ends early has a result for every bug.
func (m *matrix) survey(ctx context.Context) {
	var rounds [][]*BugRow
	nth := map[string]int{}
	for i := range m.Bugs {
		row := &m.Bugs[i]
		if nth[row.Bug] == len(rounds) {
			rounds = append(rounds, nil)
		}
		rounds[nth[row.Bug]] = append(rounds[nth[row.Bug]], row)
		nth[row.Bug]++
	}
	rows := slices.Concat(rounds...)
	m.beside(ctx, 1, len(rows), func(i int, seed uint64) { m.bug(ctx, rows[i], seed) })
}

// best runs, with all seeds, the n scenarios that named each bug best. Of equally good scenarios, it takes the
// quickest.
func (m *matrix) best(ctx context.Context, n int) {
	of := map[string][]*BugRow{}
	for i := range m.Bugs {
		if row := &m.Bugs[i]; row.Caught > 0 {
			of[row.Bug] = append(of[row.Bug], row)
		}
	}
	var rows []*BugRow
	for _, all := range of {
		slices.SortFunc(all, better)
		rows = append(rows, all[:min(n, len(all))]...)
	}
	slices.SortFunc(rows, func(a, b *BugRow) int { return cmp.Compare(a.Bug, b.Bug) })
	m.each(m.begin, m.aim.Seeds*len(rows), func(i int) {
		m.bug(ctx, rows[i%len(rows)], m.aim.First+uint64(i/len(rows)))
	})
}

// better orders rows by the share of runs in which the bug was caught, descending, then by duration.
func better(a, b *BugRow) int {
	return cmp.Or(cmp.Compare(b.share(), a.share()), cmp.Compare(meanSeconds(a.Runs), meanSeconds(b.Runs)),
		cmp.Compare(a.Scenario, b.Scenario))
}

// inTurn runs, with each of the seeds, each bug in one scenario after another until one of them names it.
func (m *matrix) inTurn(ctx context.Context, bugs []planted.Bug, seeds int) {
	m.beside(ctx, seeds, len(bugs), func(i int, seed uint64) {
		for _, row := range m.likeliest(bugs[i].Name) {
			if m.begin.Err() != nil || m.bug(ctx, row, seed) {
				return
			}
		}
	})
}

// likeliest returns the rows of a bug: first those that have named it most often, then those whose scenarios have named
// most bugs.
func (m *matrix) likeliest(bug string) (rows []*BugRow) {
	m.mu.Lock()
	defer m.mu.Unlock()
	caught := map[string]int{}
	for i := range m.Bugs {
		row := &m.Bugs[i]
		if caught[row.Scenario] += row.Caught; row.Bug == bug {
			rows = append(rows, row)
		}
	}
	slices.SortStableFunc(rows, func(a, b *BugRow) int {
		return cmp.Or(cmp.Compare(b.Caught, a.Caught), cmp.Compare(caught[b.Scenario], caught[a.Scenario]))
	})
	return rows
}

// rerun is the command that repeats a run, with %d for the seed.
func (m *matrix) rerun(bug, scenario string) string {
	command := "dlqbench prove completeness"
	if m.aim.Suite != SuiteAimed {
		command += " --suite library --scenario " + scenario
	}
	return command + " --bug " + bug + " --first %d --seeds 1"
}

// try runs a trial unless it was run before. sets are the settings of every run in a shipped scenario.
func (m *matrix) try(ctx context.Context, t trial) (*run.Outcome, float64, error) {
	if m.aim.Suite != SuiteAimed {
		t.sets = []string{strangerSlip}
	}
	began := time.Now()
	outcome, err := m.run(ctx, t)
	return outcome, time.Since(began).Seconds(), err
}

// control runs the correct consumer.
func (m *matrix) control(ctx context.Context, row *ControlRow, seed uint64) {
	m.mu.Lock()
	_, done := ran(row.Runs, seed)
	m.mu.Unlock()
	if done {
		return
	}
	outcome, seconds, err := m.try(ctx, trial{
		name: "control-" + row.Scenario, scenario: m.texts[row.Scenario], seed: seed,
		rerun: m.rerun(row.beside, row.Scenario),
	})
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.failed(ctx, row.Scenario, err)
		return
	}
	passed := outcome.Verdict.Verdict == assertions.Pass
	row.Seeds++
	row.Runs = append(row.Runs, SeedRun{Seed: seed, Shown: passed, Seconds: seconds})
	if passed {
		row.Passed++
		m.discard(outcome)
		return
	}
	row.Failed = append(row.Failed, fmt.Sprintf("seed %d: %s %v (kept in %s)", seed, outcome.Verdict.Verdict,
		outcome.Verdict.Reasons, outcome.Dir))
	m.say("the correct consumer does not pass %s with seed %d: %v; kept in %s", row.Scenario, seed,
		outcome.Verdict.Reasons, outcome.Dir)
}

// bug runs a planted bug and reports whether it was named.
func (m *matrix) bug(ctx context.Context, row *BugRow, seed uint64) bool {
	m.mu.Lock()
	known, done := ran(row.Runs, seed)
	m.mu.Unlock()
	if done {
		return known.Shown
	}
	t := trial{name: row.Bug, scenario: m.texts[row.Scenario], seed: seed, rerun: m.rerun(row.Bug, row.Scenario)}
	if m.aim.Suite != SuiteAimed {
		t.name += "-" + row.Scenario
	}
	m.plant(&t, row.Bug)
	outcome, seconds, err := m.try(ctx, t)
	m.mu.Lock()
	defer m.mu.Unlock()
	if err != nil {
		m.failed(ctx, row.Scenario, err)
		return false
	}
	caught := row.count(seed, seconds, outcome.Verdict)
	switch {
	case caught:
		m.say("%-34s seed %d, %s: caught as %s", row.Bug, seed, row.Scenario, row.Anomaly)
	case m.aim.Suite != SuiteAimed:
		m.say("%-34s seed %d, %s: not named: %s", row.Bug, seed, row.Scenario, outcome.Verdict.Verdict)
	default:
		row.Missed = append(row.Missed, fmt.Sprintf(t.rerun, seed))
		m.say("%-34s seed %d: MISSED: %s with %v; kept in %s", row.Bug, seed, outcome.Verdict.Verdict,
			outcome.Verdict.Reasons, outcome.Dir)
		return false
	}
	m.discard(outcome)
	return caught
}

// count adds a run to the row and reports whether the bug was named in it.
func (r *BugRow) count(seed uint64, seconds float64, verdict *assertions.Verdict) (caught bool) {
	for _, result := range verdict.Invariants {
		for _, anomaly := range result.Anomalies {
			r.Named[result.Name+": "+anomaly.Name]++
			caught = caught || sameName(result.Name, r.Invariant) && anomaly.Name == r.Anomaly
		}
	}
	r.Seeds++
	if caught {
		r.Caught++
	}
	r.Runs = append(r.Runs, SeedRun{Seed: seed, Shown: caught, Seconds: seconds})
	return caught
}

// plant puts the bug in place of the component that has it.
func (c *Config) plant(t *trial, name string) {
	kind := "consume"
	if one, err := planted.Named(name); err == nil {
		kind = one.Kind()
	}
	switch command := []string{c.Executable, "bug", kind, name}; kind {
	case "consume":
		t.consume = command
	case "replay":
		t.replay = command
	default:
		t.service = map[string][]string{kind: command}
	}
}

// failed records a run that could not be carried out, unless the user ended it.
func (m *matrix) failed(ctx context.Context, scenario string, err error) {
	switch {
	case ctx.Err() != nil || errors.Is(err, context.Canceled):
	case errors.Is(err, postgres.ErrAbsent):
		if m.Skipped == nil {
			m.Skipped = map[string]string{}
		}
		m.Skipped[scenario] = postgres.ErrAbsent.Error()
	default:
		m.Errors = append(m.Errors, err.Error())
		m.say("%v", err)
	}
}
