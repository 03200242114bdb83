package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// gateFlags are the flags of `dlqbench gate`.
type gateFlags struct {
	config, artifacts, out, shard string
	failFast, list                bool
	metrics                       metricsFlag
}

func (a *app) gateCommand() *cobra.Command {
	flags := gateFlags{}
	command := &cobra.Command{
		Use: "gate", Short: "Run the suite of dlqbench.yaml and give one verdict", Args: noArgs,
		Long: strings.TrimSpace(`
Run every scenario that dlqbench.yaml names and judge the consumer in each. The artifacts folder holds junit.xml,
summary.md, gate.json, index.html and the verdict and report of each run. Failures that dlqbench.yaml waives are shown
and do not count until their last day has passed. The worst verdict decides the exit code. In GitHub Actions the
summary appears on the job's page, and annotations in the files. Runs are never repeated: one that proves nothing
makes the gate inconclusive.`),
		Example: `  dlqbench gate
  dlqbench gate --list
  dlqbench gate --config ci/dlqbench.yaml --shard 2/3 --fail-fast`,
		RunE: func(command *cobra.Command, _ []string) error { return a.gate(command.Context(), flags) },
	}
	command.Flags().StringVar(&flags.config, "config", gate.ConfigFile, "the suite to run")
	command.Flags().StringVar(&flags.artifacts, "artifacts", "gate",
		"folder for the results that CI keeps; those of an earlier gate are removed")
	command.Flags().StringVar(&flags.out, "out", "runs", "folder for run directories")
	command.Flags().StringVar(&flags.shard, "shard", "",
		"run only part i of n, such as 2/3; each run is in exactly one part")
	command.Flags().BoolVar(&flags.failFast, "fail-fast", false, "stop after the first run that does not pass")
	command.Flags().BoolVar(&flags.list, "list", false, "list the runs without starting them")
	flags.metrics.add(command.Flags())
	return command
}

// gate loads everything before it runs anything.
func (a *app) gate(ctx context.Context, flags gateFlags) error {
	shard, err := gate.ParseShard(flags.shard)
	if err != nil {
		return usageError{fmt.Errorf("--shard: %w", err)}
	}
	var kafka wantedKafka
	suite, err := gate.Load(flags.config, kafka.read(a, flags.config))
	if err != nil {
		a.annotate(err, flags.config)
		return usageError{err}
	}
	entries := suite.Part(shard)
	options, forecasts := map[int]run.Options{}, map[int]gate.Forecast{}
	for i, entry := range entries {
		run, takes, err := kafka.forecast(a, entry, flags.out)
		if err != nil {
			return err
		}
		run.Place = placeOf(i, len(entries))
		options[entry.Number], forecasts[entry.Number] = run, takes
	}
	usual, most := sumOf(forecasts)
	if flags.list {
		return a.listGate(suite, entries, forecasts)
	}
	if suite.Budget > 0 && usual > suite.Budget {
		fmt.Fprintln(a.stderr, againstBudget(suite.Budget, usual, most))
	}
	stop, err := flags.metrics.serve(a)
	if err != nil {
		return err
	}
	defer stop()
	artifacts, err := gate.OpenArtifacts(flags.artifacts)
	if err != nil {
		return usageError{err}
	}
	return a.runGate(ctx, suite, artifacts, flags, gate.Options{
		Shard: shard, FailFast: flags.failFast, Now: time.Now,
		Forecast: func(entry gate.Entry) gate.Forecast { return forecasts[entry.Number] },
		Run: func(ctx context.Context, entry gate.Entry) (gate.Done, error) {
			return a.gateOne(ctx, options[entry.Number])
		},
	})
}

// runGate runs the suite and reports each run as it ends. Meanwhile, a consumer's output cannot issue workflow commands
// to GitHub Actions.
func (a *app) runGate(ctx context.Context, suite *gate.Suite, artifacts gate.Artifacts, flags gateFlags,
	options gate.Options) error {
	a.stopCommands()
	options.Told = func(run *reports.SuiteRun, told *reports.Suite) error {
		kept := artifacts.Keep(run)
		return errors.Join(reports.SuiteLine(a.stdout, *run), kept, artifacts.Write(told))
	}
	told, err := suite.Run(ctx, options)
	err = errors.Join(err, artifacts.Write(told), reports.SuiteEnd(a.stdout, *told, flags.artifacts))
	if a.resumeCommands() {
		err = errors.Join(err, reports.Annotations(a.stdout, *told, os.Getenv("GITHUB_WORKSPACE")))
	}
	if summary := os.Getenv("GITHUB_STEP_SUMMARY"); summary != "" {
		err = errors.Join(err, gate.AppendSummary(summary, told))
	}
	a.conclude(standingCode(told.Verdict), err)
	return nil
}

// gateOne runs one entry as dlqbench run does.
func (a *app) gateOne(ctx context.Context, options run.Options) (gate.Done, error) {
	began := time.Now()
	outcome, err := a.carryOut(ctx, options, runFlags{onStdout: true})
	done := gate.Done{Elapsed: time.Since(began)}
	if outcome != nil {
		done.Judged, done.Interrupted = outcome.Judged, outcome.Interrupted
		done.Judged.Dir = outcome.Dir
	}
	return done, err
}

// wantedKafka is the Kafka that a suite or a bench wants.
type wantedKafka struct {
	cluster clusterFlags
	kafka   run.ClusterOptions
}

// read returns what takes the wish from a file, and returns the check whether a scenario fits it.
func (w *wantedKafka) read(a *app, file string) func(scenarios.Provider) (func(*scenarios.Scenario) error, error) {
	return func(wanted scenarios.Provider) (func(*scenarios.Scenario) error, error) {
		w.cluster = clusterOf(wanted, filepath.Dir(file))
		var err error
		w.kafka, err = a.kafkaOptions(w.cluster)
		return w.kafka.Fits, err
	}
}

// options are those of the dlqbench run that corresponds to an entry.
func (w *wantedKafka) options(a *app, entry gate.Entry, out string) (run.Options, error) {
	flags := runFlags{subject: entry.Subject, sets: entry.Sets, out: out, cluster: w.cluster}
	if entry.Seed != nil {
		flags.seed = strconv.FormatUint(*entry.Seed, 10)
	}
	return a.runOptions(entry.Arg, w.kafka, flags)
}

// forecast is options with how long the run takes.
func (w *wantedKafka) forecast(a *app, entry gate.Entry, out string) (run.Options, gate.Forecast, error) {
	options, err := w.options(a, entry, out)
	if err != nil {
		return options, gate.Forecast{}, usageError{fmt.Errorf("%s: %w", entry.Label(), err)}
	}
	estimate, err := estimateRun(options)
	return options, forecast(estimate), err
}

// clusterOf are the flags that correspond to the cluster section of a dlqbench.yaml in this folder.
func clusterOf(wanted scenarios.Provider, folder string) clusterFlags {
	flags := clusterFlags{
		provider: wanted.Provider, version: wanted.KafkaVersion, image: wanted.Image, bootstrap: wanted.Bootstrap,
		config: wanted.KafkaConfig, toxiproxy: wanted.Toxiproxy,
	}
	flags.provider = cmp.Or(flags.provider, run.ClusterEmbedded)
	if flags.config != "" && !filepath.IsAbs(flags.config) {
		flags.config = filepath.Join(folder, flags.config)
	}
	return flags
}

// sumOf is the estimated total duration of the runs, run one after another.
func sumOf(forecasts map[int]gate.Forecast) (usual, most time.Duration) {
	for _, one := range forecasts {
		usual, most = usual+one.Usual, most+one.Most
	}
	return usual, most
}

// againstBudget compares the estimate of a gate with its budget.
func againstBudget(budget, usual, most time.Duration) string {
	text := "the budget of " + units.Text(budget)
	switch {
	case usual > budget:
		return fmt.Sprintf("%s is too short by estimate: the runs take about %s. What does not fit is not run, and the gate "+
			"is then inconclusive; raise the budget, run it in shards (--shard), or shorten the load or the waits", text,
			units.Text(usual))
	case most > budget:
		return text + " suffices by estimate, if most runs do not take as long as they may"
	}
	return text + " suffices by estimate"
}

// listGate lists the runs with their estimated durations.
func (a *app) listGate(suite *gate.Suite, entries []gate.Entry, forecasts map[int]gate.Forecast) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	for _, entry := range entries {
		seed := "its own seed"
		if entry.Seed != nil {
			seed = "seed " + strconv.FormatUint(*entry.Seed, 10)
		}
		takes := forecasts[entry.Number]
		fmt.Fprintf(table, "%d\t%s\t%s\t%s\tabout %s\tat most %s\t%s\n", entry.Number, entry.Scenario, entry.SubjectName,
			seed, units.Text(takes.Usual), units.Text(takes.Most), strings.Join(entry.Sets, " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	usual, most := sumOf(forecasts)
	fmt.Fprintf(a.stdout, "%d of %d runs, estimated at about %s, at most %s\n", len(entries), len(suite.Entries),
		units.Text(usual), units.Text(most))
	if suite.Budget > 0 {
		fmt.Fprintln(a.stdout, againstBudget(suite.Budget, usual, most))
	}
	for _, left := range suite.LeftOut {
		fmt.Fprintf(a.stdout, "left out: %s: %s\n", left.Scenario, left.Why)
	}
	for _, waiver := range suite.Waivers {
		state := "waived until " + waiver.Until
		if waiver.Expired(time.Now()) {
			state = "waived no longer, it ended on " + waiver.Until
		}
		told := reports.SuiteWaiver{Invariant: waiver.Invariant, Anomaly: waiver.Anomaly, Scenario: waiver.Scenario}
		fmt.Fprintf(a.stdout, "%s:%d: %s %s: %s\n", waiver.Where, waiver.Where.Column, told.Names(), state, waiver.Reason)
	}
	return nil
}

// annotate reports the problems of the suite as GitHub Actions annotations at their places.
func (a *app) annotate(err error, config string) {
	if a.folds() != reports.GitHubFolds {
		return
	}
	found := []scenarios.Problem{{File: config, Message: err.Error()}}
	if problems, ok := errors.AsType[*scenarios.Problems](err); ok {
		found = problems.Problems
	}
	for _, problem := range found {
		message := strings.TrimSpace(problem.Message + "\n" + problem.Hint)
		place := reports.SuitePlace{File: problem.File, Line: problem.Line, Column: problem.Column}
		// stderr has it, too
		_ = reports.Annotate(a.stdout, place, "the suite can't be run", message, os.Getenv("GITHUB_WORKSPACE"))
	}
}
