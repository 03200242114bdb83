package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/scaffold"
	"github.com/dlqbench/dlqbench/internal/verify"
)

// proveFlags are the flags of `dlqbench prove`.
type proveFlags struct {
	bugs, scenarios     []string
	suite, resume       string
	first               uint64
	seeds, runs         int
	limit               time.Duration
	parallel            int
	strangers           string
	selected            []string
	cluster             clusterFlags
	out, markdown, json string
	quiet, keepRuns     bool
	drawn               bool
}

const (
	proofStrangers = "strangers"
	// defaultSuiteSeeds is the number of seeds with which the default suite is measured.
	defaultSuiteSeeds = 5
)

// proofParts are the parts in the order in which they are proved, the quickest first.
func proofParts() []string { return []string{"completeness", "soundness", proofStrangers} }

func (a *app) proveCommand() *cobra.Command {
	flags := proveFlags{}
	command := &cobra.Command{
		Use:   "prove [completeness|soundness|strangers]…",
		Short: "Test the judges: planted bugs must be found, correct consumers never accused",
		Long: strings.TrimSpace(`
Test the judges in three parts. Without arguments, the first two run, and the third if --strangers names its folder:

  completeness  consumers and replays with one planted bug each are run with many seeds, and the right anomaly must be
                reported; the correct consumer must pass the same scenarios. --suite selects the scenarios. aimed: the
                one written for the bug. library: a shipped scenario that finds it, then every one that applies, once.
                default: for bugs of ordinary consumers, those that dlqbench init writes, until one finds it (nine in
                ten bugs must be found with every seed)
  soundness     the correct consumer, by itself, with a dead-letter store or as the nodes of a graph, is run in every
                mode under every fault, alone and in pairs, and must never be accused (runs that need PostgreSQL are
                skipped without it)
  strangers     independent correct consumers, given by their subject files, run in every shipped scenario that applies,
                or with --drawn under drawn faults, alone and in pairs, and must never be accused; each is built once,
                and skipped if this machine cannot build it

The exit code is 1 if a bug was missed or a correct consumer accused. Unexpected runs are kept in --out, and for each
the command that repeats it is printed.`),
		Example: `  dlqbench prove
  dlqbench prove soundness --first 5000 --runs 100000 --for 8h
  dlqbench prove strangers --strangers test/strangers --first 200 --runs 12
  dlqbench prove completeness --bug commit-before-dlq-ack --seeds 20
  dlqbench prove completeness --suite default
  dlqbench prove completeness --suite library --for 1h --resume library.json`,
		ValidArgs: proofParts(),
		RunE: func(command *cobra.Command, args []string) error {
			args, err := flags.parts(args)
			if err == nil {
				err = flags.check(args, command.Flags().Changed("seeds"))
			}
			if err != nil {
				return usageError{err}
			}
			return a.prove(command.Context(), args, flags)
		},
	}
	f := command.Flags()
	f.Uint64Var(&flags.first, "first", 1, "first seed; the others are consecutive")
	f.IntVar(&flags.seeds, "seeds", 20, "completeness: runs of each planted bug; in the suite default, 5 unless given")
	f.StringVar(&flags.suite, "suite", verify.SuiteAimed,
		"completeness: the scenarios: "+strings.Join(verify.Suites(), ", "))
	f.StringArrayVar(&flags.scenarios, "scenario", nil,
		"completeness: only this scenario of the suite library or default; may be repeated")
	f.StringVar(&flags.resume, "resume", "", "completeness, suites library and default: continue from the runs in this "+
		"file and add new ones; it need not exist yet")
	f.StringArrayVar(&flags.bugs, "bug", nil, "completeness: only this planted bug; may be repeated")
	f.IntVar(&flags.runs, "runs", 1000, "soundness and strangers: number of runs")
	f.DurationVar(&flags.limit, "for", 0, "completeness and soundness: start no run after this time (0: no limit)")
	f.StringVar(&flags.strangers, "strangers", "",
		"strangers: folder of their subject files, NAME/subject.yaml and NAME/subjects/*.yaml")
	f.StringArrayVar(&flags.selected, "stranger", nil, "strangers: only the subject with this name; may be repeated")
	f.BoolVar(&flags.drawn, "drawn", false,
		"strangers: under faults drawn from the seed, alone and in pairs, in place of the shipped scenarios")
	flags.cluster.add(f)
	f.IntVar(&flags.parallel, "parallel", 4, "number of concurrent runs")
	f.StringVar(&flags.out, "out", "runs/proof", "folder for runs with an unexpected result")
	f.BoolVar(&flags.keepRuns, "keep-runs", false, "also keep runs with the expected result in --out")
	f.StringVar(&flags.markdown, "markdown", "", "also write the tables to this file")
	f.StringVar(&flags.json, "json", "", "also write everything to this file, as JSON")
	f.BoolVar(&flags.quiet, "quiet", false, "print only the tables")
	return command
}

// parts are the requested parts. If none are named, it returns those for which the flags provide everything needed.
func (f *proveFlags) parts(asked []string) ([]string, error) {
	for _, one := range asked {
		if !slices.Contains(proofParts(), one) {
			return nil, fmt.Errorf("there is no proof %q: write %s", one, strings.Join(proofParts(), ", "))
		}
	}
	if len(asked) > 0 {
		return asked, nil
	}
	return slices.DeleteFunc(proofParts(), func(part string) bool {
		return part == proofStrangers && f.strangers == ""
	}), nil
}

// check reports contradictory flags, and fills in the values that follow from the suite.
func (f *proveFlags) check(args []string, seedsGiven bool) error {
	if slices.Contains(args, proofStrangers) == (f.strangers == "") {
		return errors.New("--strangers FOLDER goes with the proof strangers, and names the folder of their subject files, " +
			"such as test/strangers")
	}
	if f.strangers == "" && f.drawn {
		return errors.New("--drawn goes with the proof strangers: the others draw their faults, or have those of a scenario")
	}
	if f.strangers == "" && f.cluster.provider != run.ClusterEmbedded {
		return errors.New("--cluster goes with the proof strangers: the others run on the embedded Kafka")
	}
	if !slices.Contains(verify.Suites(), f.suite) {
		return fmt.Errorf("there is no suite %q: write %s", f.suite, strings.Join(verify.Suites(), ", "))
	}
	if f.suite == verify.SuiteAimed && len(f.scenarios) > 0 {
		return errors.New(
			"--scenario goes with --suite library or default: in the suite aimed, each planted bug has its own scenario")
	}
	if f.suite == verify.SuiteAimed && f.resume != "" {
		return errors.New("--resume goes with --suite library or default: its file has runs in shipped scenarios")
	}
	if f.suite == verify.SuiteDefault && !seedsGiven {
		f.seeds = defaultSuiteSeeds
	}
	if min(f.seeds, f.runs, f.parallel) < 1 || f.limit < 0 {
		return errors.New("--seeds, --runs and --parallel must be at least 1, and --for no less than 0")
	}
	return nil
}

func (a *app) prove(ctx context.Context, parts []string, flags proveFlags) error {
	executable, err := executable()
	if err != nil {
		return err
	}
	config := &verify.Config{
		Executable: executable, Dir: flags.out, Parallel: flags.parallel, Version: programVersion(), Log: a.logger(a.stderr),
		KeepRuns: flags.keepRuns,
	}
	if !flags.quiet {
		config.Progress = func(line string) { fmt.Fprintln(a.stderr, line) }
	}
	var result verify.Result
	for _, part := range proofParts() {
		if !slices.Contains(parts, part) {
			continue
		}
		var err error
		switch part {
		case "completeness":
			result.Completeness, err = a.proveCompleteness(ctx, config, flags)
		case proofStrangers:
			result.Strangers, err = a.proveStrangers(ctx, config, flags)
		case "soundness":
			result.Soundness, err = config.ProveSoundness(ctx, flags.first, flags.runs, flags.limit)
		}
		if err != nil && ctx.Err() == nil {
			return usageError{err}
		}
		if ctx.Err() != nil {
			break
		}
	}
	return a.printProof(ctx, &result, flags)
}

func (a *app) proveCompleteness(ctx context.Context, config *verify.Config,
	flags proveFlags) (*verify.Completeness, error) {
	aim := verify.Aim{
		Suite: flags.suite, Bugs: flags.bugs, Scenarios: flags.scenarios, First: flags.first, Seeds: flags.seeds,
		Limit: flags.limit,
	}
	if aim.Suite == verify.SuiteDefault && len(aim.Scenarios) == 0 {
		aim.Scenarios = scaffold.Suite()
	}
	if flags.resume == "" {
		return config.ProveCompleteness(ctx, aim)
	}
	measured, err := verify.ReadMeasured(flags.resume)
	if err != nil {
		return nil, err
	}
	aim.Earlier = measured
	table, err := config.ProveCompleteness(ctx, aim)
	if table != nil {
		measured.Add(table)
		err = errors.Join(err, a.writeFile(flags.resume, func(w io.Writer) error {
			_, err := measured.WriteTo(w)
			return err
		}))
	}
	return table, err
}

func (a *app) proveStrangers(ctx context.Context, config *verify.Config, flags proveFlags) (*verify.Soundness, error) {
	cluster, _, err := flags.cluster.options()
	if err != nil {
		return nil, err
	}
	all, err := verify.FindStrangers(flags.strangers)
	if err != nil {
		return nil, err
	}
	strangers, err := verify.Selected(all, flags.selected)
	if err != nil {
		return nil, usageError{err}
	}
	return config.ProveStrangers(ctx, strangers, cluster, flags.first, flags.runs, flags.drawn)
}

// printProof prints the results of the proof, even if it was interrupted.
func (a *app) printProof(ctx context.Context, result *verify.Result, flags proveFlags) error {
	switch {
	case ctx.Err() != nil:
		a.code = exitInterrupted
	case !result.Holds():
		a.code = exitViolated
	}
	tables := result.Markdown()
	if _, err := fmt.Fprint(a.stdout, tables); err != nil {
		return err
	}
	for path, write := range map[string]func(io.Writer) error{
		flags.markdown: printed(tables),
		flags.json: func(w io.Writer) error {
			encoder := json.NewEncoder(w)
			encoder.SetIndent("", "  ")
			return encoder.Encode(result)
		},
	} {
		if path == "" {
			continue
		}
		if err := a.writeFile(path, write); err != nil {
			return fmt.Errorf("writing the tables: %w", err)
		}
	}
	return nil
}
