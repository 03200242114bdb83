package proof

import (
	"context"
	"embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/mutants"
)

//go:embed testdata/*.yaml
var aimed embed.FS

// MutantRow is one planted bug in the matrix.
type MutantRow struct {
	Mutant string `json:"mutant"`
	What   string `json:"what"`
	// Invariant and Anomaly are what must name it.
	Invariant string `json:"invariant"`
	Anomaly   string `json:"anomaly"`
	Scenario  string `json:"scenario"`
	// Caught of Seeds runs were judged to violate Invariant by Anomaly.
	Caught int `json:"caught"`
	Seeds  int `json:"seeds"`
	// Named counts the runs in which each anomaly was named, as "invariant: anomaly".
	Named map[string]int `json:"named"`
	// Missed are the commands that do the runs again in which it was not caught.
	Missed []string `json:"missed,omitempty"`
}

// ControlRow is the correct consumer on an aimed scenario: it must pass.
type ControlRow struct {
	Scenario string `json:"scenario"`
	// beside is a mutant that is aimed at the scenario: proving it runs the control, too.
	beside string
	Passed int      `json:"passed"`
	Seeds  int      `json:"seeds"`
	Failed []string `json:"failed,omitempty"`
}

// Completeness is the first table: is every planted bug caught.
type Completeness struct {
	Mutants  []MutantRow  `json:"mutants"`
	Controls []ControlRow `json:"controls"`
	// Errors are runs that could not be carried out.
	Errors []string `json:"errors,omitempty"`
}

// Holds reports whether every bug was caught in every run and no correct consumer was accused.
func (c *Completeness) Holds() bool {
	caught := !slices.ContainsFunc(c.Mutants, func(m MutantRow) bool { return m.Seeds == 0 || m.Caught < m.Seeds })
	passed := !slices.ContainsFunc(c.Controls, func(r ControlRow) bool { return r.Passed < r.Seeds })
	return caught && passed && len(c.Errors) == 0 && len(c.Mutants) > 0
}

// ProveCompleteness runs each of the mutants (all of them when names is empty) with seeds from first on, and the correct consumer on their
// scenarios.
func (c *Config) ProveCompleteness(ctx context.Context, names []string, first uint64, seeds int) (*Completeness, error) {
	table := &Completeness{}
	scenario := map[string][]byte{}
	for _, mutant := range mutants.All() {
		if len(names) > 0 && !slices.Contains(names, mutant.Name) {
			continue
		}
		text, err := aimed.ReadFile("testdata/" + mutant.Scenario + ".yaml")
		if err != nil {
			return nil, fmt.Errorf("reading the scenario at which %s is aimed: %w", mutant.Name, err)
		}
		if scenario[mutant.Scenario] == nil {
			table.Controls = append(table.Controls, ControlRow{Scenario: mutant.Scenario, beside: mutant.Name})
		}
		scenario[mutant.Scenario] = text
		table.Mutants = append(table.Mutants, MutantRow{
			Mutant: mutant.Name, What: mutant.What, Invariant: mutant.Invariant, Anomaly: mutant.Anomaly, Scenario: mutant.Scenario, Named: map[string]int{},
		})
	}
	if len(table.Mutants) == 0 {
		return nil, fmt.Errorf("there is no planted bug named %s: dlqbench mutant lists them", strings.Join(names, " or "))
	}
	var mu sync.Mutex
	controls := len(table.Controls)
	c.each(ctx, seeds*(controls+len(table.Mutants)), func(i int) {
		seed, which := first+uint64(i/(controls+len(table.Mutants))), i%(controls+len(table.Mutants))
		if which < controls {
			c.control(ctx, table, which, scenario[table.Controls[which].Scenario], seed, &mu)
			return
		}
		row := &table.Mutants[which-controls]
		c.mutant(ctx, table, row, scenario[row.Scenario], seed, &mu)
	})
	return table, ctx.Err()
}

// control runs the correct consumer; mu guards the table.
func (c *Config) control(ctx context.Context, table *Completeness, which int, scenario []byte, seed uint64, mu *sync.Mutex) {
	row := &table.Controls[which]
	t := trial{
		name: "control-" + row.Scenario, scenario: scenario, seed: seed,
		rerun: fmt.Sprintf("dlqbench prove completeness --mutant %s --first %%d --seeds 1", row.beside),
	}
	outcome, err := c.run(ctx, t)
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		c.failed(ctx, table, err)
		return
	}
	row.Seeds++
	if outcome.Verdict.Verdict == assertions.Pass {
		row.Passed++
		c.discard(outcome)
		return
	}
	row.Failed = append(row.Failed, fmt.Sprintf("seed %d: %s %v (kept in %s)", seed, outcome.Verdict.Verdict, outcome.Verdict.Reasons, outcome.Dir))
	c.say("the correct consumer does not pass %s with seed %d: %v; kept in %s", row.Scenario, seed, outcome.Verdict.Reasons, outcome.Dir)
}

// mutant runs a planted bug; mu guards the table.
func (c *Config) mutant(ctx context.Context, table *Completeness, row *MutantRow, scenario []byte, seed uint64, mu *sync.Mutex) {
	t := trial{
		name: row.Mutant, scenario: scenario, seed: seed,
		rerun: fmt.Sprintf("dlqbench prove completeness --mutant %s --first %%d --seeds 1", row.Mutant),
	}
	kind := "consume"
	if one, err := mutants.Named(row.Mutant); err == nil {
		kind = one.Kind()
	}
	switch command := []string{c.Executable, "mutant", kind, row.Mutant}; kind {
	case "consume":
		t.consume = command
	case "replay":
		t.replay = command
	default:
		t.service = map[string][]string{kind: command}
	}
	outcome, err := c.run(ctx, t)
	mu.Lock()
	defer mu.Unlock()
	if err != nil {
		c.failed(ctx, table, err)
		return
	}
	row.Seeds++
	caught := false
	for _, result := range outcome.Verdict.Invariants {
		for _, anomaly := range result.Anomalies {
			row.Named[result.Name+": "+anomaly.Name]++
			caught = caught || result.Name == row.Invariant && anomaly.Name == row.Anomaly
		}
	}
	if caught {
		row.Caught++
		c.discard(outcome)
		c.say("%-34s seed %d: caught as %s", row.Mutant, seed, row.Anomaly)
		return
	}
	row.Missed = append(row.Missed, fmt.Sprintf(t.rerun, seed))
	c.say("%-34s seed %d: MISSED: %s with %v; kept in %s", row.Mutant, seed, outcome.Verdict.Verdict, outcome.Verdict.Reasons, outcome.Dir)
}

// failed notes a run that could not be carried out, unless the user ended it.
func (c *Config) failed(ctx context.Context, table *Completeness, err error) {
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return
	}
	table.Errors = append(table.Errors, err.Error())
	c.say("%v", err)
}
