package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/bench"
	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// benchFlags are the flags of `dlqbench bench`.
type benchFlags struct {
	artifacts, out, resume string
	fresh, list            bool
	metrics                metricsFlag
}

func (a *app) benchCommand() *cobra.Command {
	flags := benchFlags{}
	command := &cobra.Command{
		Use: "bench [NAME|FILE]", Short: "Measure a consumer under several settings and judge every run", Args: takes(0, 1),
		Long: strings.TrimSpace(`
Run one scenario with every combination of the settings in a bench file, several times each and in turns, and show which
differences are significant. Every run is judged: settings that break a promise are marked broken, not fast. The
artifacts folder holds results.json, results.csv, cells.csv and the reports. It is written after each run, so an
interrupted bench continues where it stopped when it is started again.`),
		Example: `  dlqbench bench --list
  dlqbench bench concurrency
  dlqbench bench my-settings.yaml --artifacts bench/monday`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return bench.Names(), cobra.ShellCompDirectiveDefault
		},
		RunE: func(command *cobra.Command, args []string) error {
			return a.bench(command.Context(), strings.Join(args, ""), flags)
		},
	}
	command.Flags().StringVar(&flags.artifacts, "artifacts", "", "folder for the results (default bench/NAME)")
	command.Flags().StringVar(&flags.out, "out", "runs", "folder for run directories")
	command.Flags().StringVar(&flags.resume, "resume", "", "continue the bench whose results are in this folder")
	command.Flags().BoolVar(&flags.fresh, "fresh", false, "remove the results of an earlier bench and start over")
	command.Flags().BoolVar(&flags.list, "list", false,
		"list the runs of the bench without starting them; without a bench, list the shipped ones")
	flags.metrics.add(command.Flags())
	return command
}

// bench loads everything before it runs anything.
func (a *app) bench(ctx context.Context, arg string, flags benchFlags) error {
	if arg == "" && flags.list && flags.resume == "" {
		return a.listBenches()
	}
	arg, err := resumed(arg, &flags)
	if err != nil {
		return usageError{err}
	}
	runner := benchRunner{app: a, out: flags.out}
	plan, err := bench.Load(arg, runner.read(a, arg))
	if err != nil {
		return usageError{err}
	}
	runner.plan = plan
	if flags.list {
		return a.listBench(plan)
	}
	stop, err := flags.metrics.serve(a)
	if err != nil {
		return err
	}
	defer stop()
	flags.artifacts = cmp.Or(flags.artifacts, filepath.Join("bench", plan.Spec.Name))
	folder, results, found, err := plan.OpenFolder(flags.artifacts, programVersion(), flags.fresh)
	if err != nil {
		return usageError{err}
	}
	runner.folder = folder
	if err := runner.check(); err != nil {
		return usageError{err}
	}
	if !found {
		results = plan.Begin(programVersion(), time.Now())
	}
	return a.runBench(ctx, runner, results, found, flags)
}

// resumed is the bench for --resume: the one whose results are in the folder.
func resumed(arg string, flags *benchFlags) (string, error) {
	switch {
	case flags.resume == "" && arg == "":
		return "", fmt.Errorf("name a bench: a file, or one of %s", strings.Join(bench.Names(), ", "))
	case flags.resume == "":
		return arg, nil
	case flags.artifacts != "" || flags.fresh:
		return "", errors.New("--resume continues the results in its folder: leave out --artifacts and --fresh")
	}
	earlier, err := bench.Earlier(flags.resume)
	if err != nil {
		return "", fmt.Errorf("--resume %s: there is nothing to go on with: %w", flags.resume, err)
	}
	flags.artifacts = flags.resume
	arg = cmp.Or(arg, earlier.File)
	return arg, nil
}

// runBench runs the rest of a bench and reports its standing.
func (a *app) runBench(ctx context.Context, runner benchRunner, results reports.Bench, found bool,
	flags benchFlags) error {
	standing := runner.plan.Standing(results)
	switch {
	case found && standing.Done == standing.All:
		a.say("all %d repetitions are in %s already: nothing to run (--fresh starts over)", standing.All, flags.artifacts)
	case found:
		a.say("going on with %s: %d of %d repetitions are there", flags.artifacts, standing.Done, standing.All)
	}
	results, err := runner.plan.Run(ctx, results, bench.Options{
		Runner: runner, Keep: runner.folder.Keep, Now: time.Now,
		Begins: func(job bench.Job, standing bench.Standing) { a.benchProgress(job, standing) },
		Ended: func(job bench.Job, run reports.BenchRun, results reports.Bench) {
			if printErr := reports.BenchRunLine(a.stdout, results, job.Cell.Number, job.Repetition, run); printErr != nil {
				a.complain(printErr)
			}
		},
	})
	err = errors.Join(err, reports.BenchTerminal(a.stdout, results, flags.artifacts, reports.UseColor(a.stdout)))
	if results.Interrupted {
		a.say("interrupted: what was measured is kept; the same command goes on with it")
	}
	a.conclude(benchCode(results), err)
	return nil
}

// benchProgress reports the next run and the remaining time, as far as it is known.
func (a *app) benchProgress(job bench.Job, standing bench.Standing) {
	at := ""
	if job.Rate > 0 {
		at = " at " + units.PerSecond(job.Rate)
	}
	left := fmt.Sprintf("at least %s left", units.Text(standing.Least))
	if least, most := units.Text(standing.Least), units.Text(standing.Most); standing.Measured && least == most {
		left = "about " + least + " left" // only one run was measured so far
	} else if standing.Measured {
		left = fmt.Sprintf("%s to %s left", least, most)
	}
	a.say("%d of %d done, %s: %s, repetition %d%s", standing.Done, standing.All, left, job.Cell.Name, job.Repetition, at)
}

// say writes a line of progress to stderr, or to the log in the format for programs.
func (a *app) say(format string, values ...any) {
	line := fmt.Sprintf(format, values...)
	if a.logFormat == "json" {
		_, _ = progressLog{a.logger(a.stderr)}.Write([]byte(line)) // an error of the log itself cannot be reported
		return
	}
	fmt.Fprintln(a.stderr, line)
}

// benchCode is the exit code of a bench.
func benchCode(results reports.Bench) int {
	code := exitPass
	for _, cell := range results.Cells {
		switch cell.State {
		case reports.BenchBroken:
			code = worst(code, exitViolated)
		case reports.BenchInconclusive:
			code = worst(code, exitInconclusive)
		}
		for _, repetition := range cell.Repetitions {
			if repetition.Run.Error != "" {
				code = worst(code, exitEnvironment)
			}
			missed := repetition.ThresholdsMissed()
			if repetition.Search != nil { // the probes of a search are meant to miss the bound at some rate
				missed = repetition.Search.Limit == reports.BenchLimitNone
			}
			if missed {
				code = worst(code, exitThreshold)
			}
		}
	}
	if results.Interrupted {
		return exitInterrupted
	}
	return code
}

// benchRunner runs the jobs of a bench as dlqbench run does.
type benchRunner struct {
	wantedKafka
	app    *app
	plan   *bench.Plan
	folder bench.Folder
	out    string
}

// cellOptions are the options of the corresponding dlqbench run.
func (b benchRunner) cellOptions(cell bench.PlannedCell, sets []string, seed uint64) (run.Options, error) {
	entry := gate.Entry{Arg: b.plan.Arg, Subject: b.plan.SubjectFile(b.folder, cell), Sets: sets, Seed: &seed}
	return b.options(b.app, entry, b.out)
}

// check finds the problems of all cells before the first is run.
func (b benchRunner) check() error {
	for _, cell := range b.plan.Cells {
		sets := cell.Sets
		if b.plan.Mode == reports.BenchMaxThroughput {
			sets = append(append([]string(nil), sets...), bench.RateSet(b.plan.Spec.Search.Lowest.PerSecond()))
		}
		if _, err := b.cellOptions(cell, sets, b.plan.Seed); err != nil {
			return fmt.Errorf("%s: %w", cell.Name, err)
		}
	}
	return nil
}

// Run runs a job.
func (b benchRunner) Run(ctx context.Context, job bench.Job) (bench.Measured, error) {
	options, err := b.cellOptions(job.Cell, job.Sets, job.Seed)
	if err != nil {
		return bench.Measured{}, err
	}
	outcome, err := b.app.carryOut(ctx, options, runFlags{})
	if outcome != nil && outcome.Interrupted {
		return bench.Measured{Interrupted: true}, nil
	}
	if err != nil || outcome == nil || outcome.Verdict == nil {
		return bench.Measured{}, err
	}
	return bench.NewMeasured(b.plan.Mode, job, outcome.Judged, outcome.Elapsed, outcome.SetUp)
}

// listBenches lists the shipped benches.
func (a *app) listBenches() error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, name := range bench.Names() {
		plan, err := bench.Load(name, func(scenarios.Provider) (func(*scenarios.Scenario) error, error) {
			return func(*scenarios.Scenario) error { return nil }, nil
		})
		if err != nil {
			return err
		}
		fmt.Fprintf(table, "%s\t%s\n", name, plan.Spec.Description)
	}
	return table.Flush()
}

// listBench lists the runs of a bench.
func (a *app) listBench(plan *bench.Plan) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, cell := range plan.Cells {
		sets := slices.Concat(cell.SubjectSets, cell.Sets)
		if cell.Subject != "" {
			sets = slices.Insert(sets, 0, "subject="+cell.Subject)
		}
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\n", cell.Number, cell.Name, cell.Load, strings.Join(sets, " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	least := plan.Standing(plan.Begin("", time.Now())).Least
	_, err := fmt.Fprintf(a.stdout, "%s of %s: cells %d, repetitions of each %d, load at least %s\n", plan.Mode,
		plan.ScenarioName, len(plan.Cells), len(plan.Rounds), least)
	return err
}
