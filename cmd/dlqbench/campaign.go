package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/campaign"
	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
)

// campaignFlags are the flags of `dlqbench campaign`.
type campaignFlags struct {
	on, artifacts, cells string
	parallel             int
	kubernetes           kubernetesFlags
	fresh, list          bool
	keepPassed           bool
	// index, attached and printResult are for the processes and pods that a campaign starts.
	index                 int
	attached, printResult bool
}

// The values of --on.
const (
	onLocal      = "local"
	onKubernetes = "kubernetes"
)

func (a *app) campaignCommand() *cobra.Command {
	flags := campaignFlags{}
	command := &cobra.Command{
		Use: "campaign FILE", Short: "Run a suite as independent cells, and continue where it stopped",
		Args: takes(1, 1),
		Long: strings.TrimSpace(`
Run every combination of scenarios, subjects, settings and seeds that a suite (a file like dlqbench.yaml) names. Each
is a cell that runs in a process of its own. A cell with a result is never run again: the same command continues a
campaign that was interrupted or killed, and runs cells again only if nothing was judged. All results are merged into
one verdict, junit.xml, summary.md, gate.json and index.html in the artifacts folder.

With --on kubernetes, each cell runs in a pod of one Indexed Job. The results come through the pods' logs. kubectl must
be on the PATH.`),
		Example: `  dlqbench campaign nightly.yaml --list
  dlqbench campaign nightly.yaml
  dlqbench campaign nightly.yaml --cells 1-40,43 --parallel 4
  dlqbench campaign nightly.yaml --on kubernetes --namespace load --parallel 50
  dlqbench campaign nightly.yaml --on kubernetes --dry-run`,
		RunE: func(command *cobra.Command, args []string) error {
			return a.campaign(command.Context(), args[0], flags)
		},
	}
	command.Flags().StringVar(&flags.on, "on", onLocal, "where the cells run: local or kubernetes")
	command.Flags().StringVar(&flags.artifacts, "artifacts", "",
		"folder for the results (default campaign/NAME of the file)")
	command.Flags().StringVar(&flags.cells, "cells", "", "run only the cells with these numbers, such as 1-40,43")
	command.Flags().IntVar(&flags.parallel, "parallel", 0,
		"number of cells that run at a time (default 1, with kubernetes 10)")
	flags.kubernetes.add(command.Flags())
	command.Flags().StringVar(&flags.kubernetes.image, "image", "",
		"kubernetes: image of the pods (default: kubernetes.image of the file)")
	command.Flags().BoolVar(&flags.fresh, "fresh", false, "remove the results of an earlier campaign and start over")
	command.Flags().BoolVar(&flags.list, "list", false, "list the cells without running them")
	command.Flags().BoolVar(&flags.keepPassed, "keep-passed", false,
		"keep the run directories of cells that passed, too; their verdicts and reports are always kept")
	command.Flags().IntVar(&flags.index, "index", -1, "run one of --cells in this process, counted from 0")
	command.Flags().BoolVar(&flags.attached, "attached", false, "end when stdin ends")
	command.Flags().BoolVar(&flags.printResult, "print-result", false, "print the result as a line for programs")
	for _, internal := range []string{"index", "attached", "print-result"} {
		_ = command.Flags().MarkHidden(internal) // the flag was just added
	}
	return command
}

// plannedCampaign is a campaign before it runs.
type plannedCampaign struct {
	wantedKafka
	file      string
	suite     *gate.Suite
	cells     []campaign.Cell
	selected  []campaign.Cell
	folder    campaign.Folder
	artifacts string
}

// planCampaign loads everything before anything runs.
func (a *app) planCampaign(file string, flags campaignFlags) (*plannedCampaign, error) {
	p := &plannedCampaign{file: file, artifacts: flags.artifacts}
	if p.artifacts == "" {
		p.artifacts = filepath.Join("campaign", strings.TrimSuffix(filepath.Base(file), filepath.Ext(file)))
	}
	p.folder = campaign.NewFolder(p.artifacts)
	var err error
	if p.suite, err = gate.Load(file, p.read(a, file)); err != nil {
		return nil, err
	}
	if p.cells, err = campaign.Cells(p.suite, programVersion()); err != nil {
		return nil, err
	}
	if p.selected, err = campaign.Select(p.cells, flags.cells); err != nil {
		return nil, fmt.Errorf("--cells: %w", err)
	}
	return p, nil
}

func (a *app) campaign(ctx context.Context, file string, flags campaignFlags) error {
	if err := flags.check(); err != nil {
		return usageError{err}
	}
	p, err := a.planCampaign(file, flags)
	if err != nil {
		return usageError{err}
	}
	if flags.index >= 0 {
		return a.campaignCell(ctx, p, flags)
	}
	forecasts, err := p.forecasts(a)
	if err != nil {
		return err
	}
	if flags.list {
		return p.list(a, forecasts)
	}
	var on campaign.Backend = campaign.Local{
		Folder: p.folder, Parallel: flags.parallel,
		Command: func(cell campaign.Cell) []string { return p.command(cell, flags) },
		Limit:   func(cell campaign.Cell) time.Duration { return limitOf(forecasts[cell.Number]) },
	}
	if flags.on == onKubernetes {
		cluster := p.kubernetes(forecasts, flags)
		if flags.kubernetes.dryRun {
			return a.printManifests(cluster.Manifest, p.selected)
		}
		on = cluster
	}
	release, err := p.folder.Open(flags.fresh)
	if err != nil {
		return usageError{err}
	}
	defer release()
	return a.runCampaign(ctx, p, flags, on)
}

// check checks the flags and fills in the default of --parallel.
func (f *campaignFlags) check() error {
	usual := usualParallel(f.on)
	switch {
	case usual == 0:
		return fmt.Errorf("--on %q: write %s or %s", f.on, onLocal, onKubernetes)
	case f.parallel < 0:
		return fmt.Errorf("--parallel %d: write how many cells may run at a time, at least 1", f.parallel)
	case f.parallel == 0:
		f.parallel = usual
	}
	if f.on == onLocal && f.kubernetes != (kubernetesFlags{patience: defaultPatience}) {
		return errors.New("--namespace, --context, --kubeconfig, --image, --patience and --dry-run go with --on kubernetes")
	}
	return nil
}

// usualParallel is the default of --parallel, 0 for an unknown place.
func usualParallel(on string) int { return map[string]int{onLocal: 1, onKubernetes: 10}[on] }

// runCampaign runs a campaign and reports its standing.
func (a *app) runCampaign(ctx context.Context, p *plannedCampaign, flags campaignFlags, on campaign.Backend) error {
	planned := &campaign.Campaign{
		Suite: p.suite, Cells: p.cells, Selected: p.selected, Folder: p.folder, Backend: on, Now: time.Now, Say: a.sayLine,
		Told: func(run reports.SuiteRun) {
			if err := reports.SuiteLine(a.stdout, run); err != nil {
				a.complain(err)
			}
		},
	}
	told, err := planned.Run(ctx)
	if told == nil {
		return err
	}
	err = errors.Join(err, reports.SuiteEnd(a.stdout, *told, p.artifacts))
	if told.Count(reports.StandingNotRun)+told.Count(reports.StandingEnvironment) > 0 {
		a.sayLine("to continue with the cells that have no result: " + p.again(flags))
	}
	a.conclude(standingCode(told.Verdict), err)
	return nil
}

// sayLine prints a line for people on stderr.
func (a *app) sayLine(line string) { a.say("%s", line) }

// again is the command that continues the campaign.
func (p *plannedCampaign) again(flags campaignFlags) string {
	words := []string{"dlqbench", "campaign", quoteWord(p.file)}
	if flags.artifacts != "" {
		words = append(words, "--artifacts", quoteWord(flags.artifacts))
	}
	if flags.on != onLocal {
		words = append(words, "--on", flags.on)
		words = append(words, flags.kubernetes.words()...)
	}
	if flags.parallel != usualParallel(flags.on) {
		words = append(words, "--parallel", strconv.Itoa(flags.parallel))
	}
	return strings.ReplaceAll(strings.Join(words, " "), "%%", "%")
}

// command is the process that runs one cell.
func (p *plannedCampaign) command(cell campaign.Cell, flags campaignFlags) []string {
	executable, err := os.Executable()
	if err != nil {
		executable = "dlqbench" // starting it says what is wrong
	}
	words := []string{executable, "campaign", p.file, "--artifacts", p.artifacts, "--cells", strconv.Itoa(cell.Number),
		"--index", "0", "--attached"}
	if flags.keepPassed {
		words = append(words, "--keep-passed")
	}
	return words
}

// forecasts estimates the durations of the selected cells, and finds the problems of all before the first is run.
func (p *plannedCampaign) forecasts(a *app) (map[int]gate.Forecast, error) {
	forecasts := map[int]gate.Forecast{}
	for _, cell := range p.selected {
		var err error
		if _, forecasts[cell.Number], err = p.forecast(a, cell.Entry, p.folder.Runs(cell)); err != nil {
			return nil, err
		}
	}
	return forecasts, nil
}

// limitOf is the time after which a cell is taken to hang: far more than it may take.
func limitOf(forecast gate.Forecast) time.Duration { return 2*forecast.Most + 5*time.Minute }

// list lists the cells with their estimated durations and what became of them.
func (p *plannedCampaign) list(a *app, forecasts map[int]gate.Forecast) error {
	table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
	var usual time.Duration
	for _, cell := range p.selected {
		state, takes := "to run", forecasts[cell.Number]
		result, found, err := p.folder.Result(cell)
		switch {
		case err != nil:
			return err
		case found:
			state = string(result.Verdict.Verdict)
		default:
			usual += takes.Usual
		}
		fmt.Fprintf(table, "%d\t%s\t%s\tabout %s\t%s\n", cell.Number, cell.Name, state, units.Text(takes.Usual),
			strings.Join(cell.Sets, " "))
	}
	if err := table.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(a.stdout, "%d of %d cells; those to run take about %s, one after another\n", len(p.selected),
		len(p.cells), units.Text(usual))
	return err
}

// campaignCell runs one cell in this process, as a process or a pod of a campaign does.
func (a *app) campaignCell(ctx context.Context, p *plannedCampaign, flags campaignFlags) error {
	if flags.index >= len(p.selected) {
		return usageError{fmt.Errorf("--index %d: there are %d cells", flags.index, len(p.selected))}
	}
	if flags.attached {
		var stop context.CancelFunc
		ctx, stop = context.WithCancel(ctx)
		defer stop()
		go func() {
			_, _ = io.Copy(io.Discard, a.stdin) // nothing is sent: its end counts
			stop()
		}()
	}
	cell := p.selected[flags.index]
	release, err := p.folder.Claim(ctx, cell)
	if err != nil {
		return err
	}
	defer release()
	result, found, err := p.folder.Result(cell)
	if err == nil && !found {
		result, err = a.judgeCell(ctx, p, cell, flags)
	}
	if err != nil || result.Verdict == nil || !flags.printResult {
		return err
	}
	return result.WriteLine(a.stdout)
}

// judgeCell runs a cell and stores its result. An interrupted cell has none, because it proves nothing: the code says
// so.
func (a *app) judgeCell(ctx context.Context, p *plannedCampaign, cell campaign.Cell,
	flags campaignFlags) (result campaign.Result, err error) {
	if err := os.RemoveAll(p.folder.Runs(cell)); err != nil { // of an attempt that was killed
		return result, fmt.Errorf("removing what an earlier attempt left: %w", err)
	}
	options, err := p.options(a, cell.Entry, p.folder.Runs(cell))
	if err != nil {
		return result, usageError{err}
	}
	done, err := a.gateOne(ctx, options)
	switch {
	case ctx.Err() != nil || done.Interrupted:
		a.code = exitInterrupted
		return result, nil //nolint:nilerr // the code says it
	case err != nil:
		return result, err
	case done.Judged.Verdict == nil:
		return result, errors.New(run.NothingJudged)
	}
	if result, err = campaign.NewResult(cell, programVersion(), done.Judged, done.Elapsed); err != nil {
		return result, err
	}
	drop := done.Judged.Verdict.Verdict == assertions.Pass && !flags.keepPassed
	if drop {
		result.Dir = ""
	}
	if err := p.folder.Keep(cell, result); err != nil || !drop {
		return result, err
	}
	return result, os.RemoveAll(p.folder.Runs(cell))
}
