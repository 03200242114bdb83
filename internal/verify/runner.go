package verify

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"sync"

	"github.com/rs/zerolog"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/scenarios"
)

// Config holds the settings of a proof.
type Config struct {
	// Executable is dlqbench itself. It is started as the consumer, correct or with a planted bug.
	Executable string
	// Dir keeps the runs without the expected result. The others are removed.
	Dir string
	// KeepRuns keeps the other runs, too, as a corpus.
	KeepRuns bool
	// Parallel is the number of concurrent runs, at least 1. Their loads are small, and stalls are measured and
	// excused.
	Parallel int
	// Version of dlqbench, for the record.
	Version string
	Log     zerolog.Logger
	// Progress is called with one line for each completed step.
	Progress func(line string)
}

// trial is one run of the harness.
type trial struct {
	// name appears in problems with the scenario and in the name of the run's folder.
	name string
	// of is the name of the scenario, "" for name: a shipped one is fitted to the subject.
	of       string
	scenario []byte
	seed     uint64
	// sets change the scenario, as --set does.
	sets []string
	// subject, read from subjectFile, replaces the reference consumer as the judged consumer. nil keeps the reference
	// consumer.
	subject     *scenarios.SubjectFile
	subjectFile string
	// consume and replay replace the reference consumer and the replay tool. nil keeps them.
	consume, replay []string
	// service replaces the router and the worker of the dead-letter store, under these names.
	service map[string][]string
	// rerun is the command that repeats the trial, with %d for the seed.
	rerun string
	// cluster is the Kafka; the zero value is the embedded one.
	cluster run.ClusterOptions
}

func (t trial) parse() (*scenarios.Scenario, []byte, error) {
	scenario, source, err := scenarios.ParseForSubject(cmp.Or(t.of, t.name), t.scenario, t.sets, t.subjectFile)
	if err != nil {
		err = fmt.Errorf("reading the scenario of %s: %w", t.name, err)
	}
	return scenario, source, err
}

// run carries out one trial. Its folder is the trial's own, so that trials can run in parallel.
func (c *Config) run(ctx context.Context, t trial) (*run.Outcome, error) {
	scenario, source, err := t.parse()
	if err != nil {
		return nil, err
	}
	outcome, err := run.Run(ctx, run.Options{
		Scenario: scenario, Source: source, Subject: t.subject, SubjectFile: t.subjectFile,
		Seed: &t.seed, Out: filepath.Join(c.Dir, fmt.Sprintf("%s-seed-%d", t.name, t.seed)),
		Executable: c.Executable, ReferenceCommand: t.consume, ReplayCommand: t.replay, StoreCommands: t.service,
		Rerun: t.rerun, Cluster: t.cluster, Version: c.Version, Log: c.Log,
	})
	if ctx.Err() != nil {
		return nil, ctx.Err()
	}
	if err == nil && outcome.Verdict == nil {
		err = errors.New("there is no verdict")
	}
	if err != nil {
		return nil, fmt.Errorf("running %s with seed %d: %w", t.name, t.seed, err)
	}
	return outcome, nil
}

// discard removes the folder of a trial with the expected result.
func (c *Config) discard(outcome *run.Outcome) {
	if outcome == nil || c.KeepRuns {
		return
	}
	if err := os.RemoveAll(filepath.Dir(outcome.Dir)); err != nil {
		c.Log.Warn().Err(err).Msg("a run that is not needed any more could not be removed")
	}
}

// each calls do for 0 … n−1, Parallel at a time, until ctx ends.
func (c *Config) each(ctx context.Context, n int, do func(i int)) {
	var group sync.WaitGroup
	next := make(chan int)
	for range max(c.Parallel, 1) {
		group.Go(func() {
			for i := range next {
				do(i)
			}
		})
	}
	for i := 0; i < n && ctx.Err() == nil; i++ {
		select {
		case next <- i:
		case <-ctx.Done():
		}
	}
	close(next)
	group.Wait()
}

func (c *Config) say(format string, args ...any) {
	if c.Progress != nil {
		c.Progress(fmt.Sprintf(format, args...))
	}
}
