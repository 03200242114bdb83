package proof

import (
	"context"
	"errors"
	"fmt"
	"sort"
	"strings"
	"sync"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/deadletter/store/postgrestest"
)

// Soundness is the second table: is the correct consumer ever accused.
type Soundness struct {
	// First is the seed of the first run; the others follow it.
	First uint64 `json:"first"`
	Runs  int    `json:"runs"`
	// Passed, Inconclusive and Accused add up to Runs. An inconclusive run accuses nobody, but proves nothing either.
	Passed       int `json:"passed"`
	Inconclusive int `json:"inconclusive"`
	Accused      int `json:"accused"`
	// Modes and Faults count the runs by the consumer's mode and by fault; Judged the runs in which each invariant judged something.
	Modes  map[string]int `json:"modes"`
	Faults map[string]int `json:"faults"`
	Judged map[string]int `json:"judged"`
	// Alarms tell of each accusation: what, and the command that shows it again.
	Alarms []Alarm `json:"alarms,omitempty"`
	// Open say why runs were inconclusive, by reason.
	Open map[string]int `json:"open,omitempty"`
	// Skipped are runs that need what this machine does not have, by what that is; they are no part of Runs, and prove nothing.
	Skipped map[string]int `json:"skipped,omitempty"`
	// Errors are runs that could not be carried out.
	Errors []string `json:"errors,omitempty"`
}

// Alarm is a run in which the correct consumer did not pass.
type Alarm struct {
	Seed    uint64   `json:"seed"`
	What    string   `json:"what"`
	Reasons []string `json:"reasons"`
	Rerun   string   `json:"rerun"`
	Dir     string   `json:"dir"`
}

// Holds reports whether nothing was accused and most runs proved something: at least nineteen in twenty. In few runs chance alone makes the share
// larger: up to three that proved nothing say nothing then.
func (s *Soundness) Holds() bool {
	return s.Runs > 0 && s.Accused == 0 && len(s.Errors) == 0 && s.Inconclusive <= max(s.Runs/20, min(3, s.Runs/4))
}

// ProveSoundness runs the correct consumer with seeds from first on: runs of them, or as many as begin within limit if that is not 0.
// Every seed draws a mode of the consumer, by itself, with a dead-letter store or as the nodes of a graph, a load, and one or two faults.
func (c *Config) ProveSoundness(ctx context.Context, first uint64, runs int, limit time.Duration) (*Soundness, error) {
	table := &Soundness{First: first, Modes: map[string]int{}, Faults: map[string]int{}, Judged: map[string]int{}, Open: map[string]int{}, Skipped: map[string]int{}}
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
	mu.Lock()
	defer mu.Unlock()
	if ctx.Err() != nil || errors.Is(err, context.Canceled) {
		return
	}
	if errors.Is(err, postgrestest.ErrAbsent) {
		table.Skipped[postgrestest.ErrAbsent.Error()]++
		c.say("seed %d: SKIPPED: %v (%s)", seed, err, situation)
		return
	}
	table.Runs++
	if err != nil {
		table.Errors = append(table.Errors, fmt.Sprintf("%v (%s)", err, situation))
		c.say("seed %d: %v (%s)", seed, err, situation)
		return
	}
	table.Modes[situation.Mode]++
	for _, fault := range situation.Faults {
		table.Faults[fault]++
	}
	verdict := outcome.Verdict
	for _, result := range verdict.Invariants {
		if result.Status != assertions.NotApplicable {
			table.Judged[result.Name]++
		}
	}
	switch verdict.Verdict {
	case assertions.Pass:
		table.Passed++
		c.discard(outcome)
		c.say("seed %d: pass: %s", seed, situation)
	case assertions.Inconclusive:
		table.Inconclusive++
		table.Open[strings.Join(verdict.Reasons, "; ")]++
		c.say("seed %d: INCONCLUSIVE: %s: %s; kept in %s", seed, situation, strings.Join(verdict.Reasons, "; "), outcome.Dir)
	case assertions.Fail, assertions.NotApplicable:
		table.Accused++
		alarm := Alarm{Seed: seed, What: situation.String(), Reasons: verdict.Reasons, Rerun: fmt.Sprintf(rerun, seed), Dir: outcome.Dir}
		table.Alarms = append(table.Alarms, alarm)
		c.say("seed %d: ACCUSED: %s\n  %s\n  again: %s; kept in %s", seed, situation, strings.Join(alarm.Reasons, "\n  "), alarm.Rerun, outcome.Dir)
	}
}

// sorted returns the keys in order.
func sorted[count int | int64](counts map[string]count) []string {
	keys := make([]string, 0, len(counts))
	for key := range counts {
		keys = append(keys, key)
	}
	sort.Strings(keys)
	return keys
}
