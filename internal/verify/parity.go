package verify

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/env/cluster/admin"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/verify/planted"
	"github.com/dlqbench/dlqbench/scenarios"
)

// On is a Kafka on which the shipped scenarios are run, and what makes the links to it.
type On struct {
	// Name is the column heading.
	Name    string
	Cluster run.ClusterOptions
}

// Parity holds the verdict for each scenario on each Kafka, of the correct consumer or of one with a planted bug.
type Parity struct {
	On   []string
	Rows []ParityRow
}

// ParityRow is the row of a scenario.
type ParityRow struct {
	Scenario string
	// Bug is the planted bug that must be found; "" for the correct consumer, which must pass.
	Bug string
	// Cells are in the order of Parity.On.
	Cells []ParityCell
}

// ParityCell is one run.
type ParityCell struct {
	// Verdict is empty if the scenario does not run on that Kafka.
	Verdict assertions.Status
	// Refused is why the scenario does not run there, if that is told before a run.
	Refused string
	// Found is the anomaly by which the row's planted bug was found.
	Found string
	// Why explains a verdict other than pass, or a run that could not be carried out.
	Why []string
	// Elapsed is the duration of the whole run, from its plan to its reports. SetUp is the part of it before the load
	// began. Load is the planned duration of the load.
	Elapsed, SetUp, Load time.Duration
}

// Holds reports whether every run of the correct consumer passed, and every planted bug was found.
func (p *Parity) Holds() bool {
	for _, row := range p.Rows {
		for _, cell := range row.Cells {
			right := cell.Verdict == assertions.Pass
			if row.Bug != "" {
				right = cell.Found != ""
			}
			if absent := cell.Verdict == "" && len(cell.Why) == 0; !right && !absent {
				return false
			}
		}
	}
	return len(p.Rows) > 0
}

// Compare runs scenarios on each Kafka: SCENARIO with the correct consumer, SCENARIO:BUG with a planted bug. Runs are
// sequential, because their times are compared too.
func (c *Config) Compare(ctx context.Context, names []string, on []On) (*Parity, error) {
	p := &Parity{}
	for _, one := range on {
		p.On = append(p.On, one.Name)
	}
	for _, name := range names {
		row := ParityRow{}
		row.Scenario, row.Bug, _ = strings.Cut(name, ":")
		for _, one := range on {
			if err := ctx.Err(); err != nil {
				return p, err
			}
			cell, err := c.cell(ctx, row, one)
			if err != nil {
				return p, err
			}
			row.Cells = append(row.Cells, cell)
			c.say("%-28s %-16s %s", row.name(), one.Name, cell)
		}
		p.Rows = append(p.Rows, row)
	}
	return p, nil
}

func (r ParityRow) name() string {
	if r.Bug == "" {
		return r.Scenario
	}
	return r.Scenario + ", " + r.Bug
}

func (c *Config) cell(ctx context.Context, row ParityRow, on On) (ParityCell, error) {
	name := row.Scenario
	_, text, err := scenarios.Find(name)
	if err != nil {
		return ParityCell{}, err
	}
	scenario, err := scenarios.Parse(name, text)
	if err != nil {
		return ParityCell{}, fmt.Errorf("reading %s: %w", name, err)
	}
	if !scenario.RunsOnEmbedded() && !on.Cluster.Real() {
		return ParityCell{}, nil
	}
	if err := on.Cluster.Fits(scenario); err != nil {
		return ParityCell{Refused: err.Error()}, nil //nolint:nilerr // the table shows it
	}
	t := trial{name: name + "-" + on.Name, scenario: text, seed: scenario.Seed, cluster: on.Cluster,
		rerun: "dlqbench run " + name + " --seed %d"}
	bug, err := c.plantIn(&t, row.Bug)
	if err != nil {
		return ParityCell{}, err
	}
	outcome, err := c.run(ctx, t)
	switch {
	case errors.Is(err, run.ErrNoProtocol), errors.Is(err, admin.ErrNoShareDLQ):
		return ParityCell{}, nil
	case err != nil:
		return ParityCell{Why: []string{err.Error()}}, ctx.Err()
	}
	cell := ParityCell{Verdict: outcome.Verdict.Verdict, Why: outcome.Verdict.Reasons, Elapsed: outcome.Elapsed,
		SetUp: outcome.SetUp}
	cell.Load = scenario.Workload.WarmUp.D() + scenario.Workload.Duration.D()
	if row.Bug != "" && bug.count(t.seed, 0, outcome.Verdict) {
		cell.Found = bug.Anomaly
	}
	if cell.Found != "" || row.Bug == "" && cell.Verdict == assertions.Pass {
		c.discard(outcome)
	} else {
		cell.Why = append(cell.Why, "kept in "+outcome.Dir)
	}
	return cell, nil
}

// plantIn plants a bug in a trial, if there is one, and returns the row of the proof that counts it.
func (c *Config) plantIn(t *trial, name string) (*BugRow, error) {
	if name == "" {
		return nil, nil
	}
	bug, err := planted.Named(name)
	if err != nil {
		return nil, err
	}
	t.name += "-" + name
	c.plant(t, name)
	return &BugRow{Bug: name, Invariant: bug.Invariant, Anomaly: bug.Anomaly, Named: map[string]int{}}, nil
}

func (c ParityCell) String() string {
	switch {
	case c.Refused != "":
		return "– (" + c.Refused + ")"
	case c.Verdict == "" && len(c.Why) > 0:
		return "could not be run: " + strings.Join(c.Why, "; ")
	case c.Verdict == "":
		return "–"
	}
	text := fmt.Sprintf("%s, %.1f s (tax %.1f s, set-up %.1f s of it)", c.Verdict, c.Elapsed.Seconds(),
		(c.Elapsed - c.Load).Seconds(), c.SetUp.Seconds())
	switch {
	case c.Found != "":
		text += ": " + c.Found
	case c.Verdict != assertions.Pass:
		text += ": " + strings.Join(c.Why, "; ")
	}
	return text
}

// Page returns the table as a page of the documentation. command is the command that produced it.
func (p *Parity) Page(command string) string {
	return fmt.Sprintf(`# The same verdicts on every Kafka

Each shipped scenario with the reference consumer, which is correct, one run after another, by `+"`%s`"+`. In each
cell: the verdict, the time of the whole run, its tax, which is what goes by besides the planned load (starting
brokers and consumers, draining, restarting, auditing, judging, ending everything), and how much of that went by
before the load began. What the harness costs a consumer while it runs is in [performance](performance.md). A dash
stands where a scenario is about what only a real Kafka shows, or about what that one does not have (KIP-848 came with
4.0, share groups with 4.1, dead letters by the broker with 4.4); [where the embedded one
differs](real-kafka.md#where-the-embedded-kafka-differs) says why.

%s`, command, p.Markdown())
}

// Markdown returns the table. Each cell has the verdict, the time of the whole run, and the time spent outside the
// load.
func (p *Parity) Markdown() string {
	rows := [][]string{append([]string{"scenario"}, p.On...)}
	for _, row := range p.Rows {
		cells := []string{row.name()}
		for _, cell := range row.Cells {
			cells = append(cells, strings.ReplaceAll(cell.String(), "\n", " "))
		}
		rows = append(rows, cells)
	}
	return table(rows)
}
