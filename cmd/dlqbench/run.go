package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// runFlags are the flags of `dlqbench run`.
type runFlags struct {
	subject     string
	seed        string
	sets        []string
	out         string
	quiet, json bool
	tui         bool
	// links is the address at which the links answer toxiproxy's API; "" for none.
	links    string
	keepData bool
	estimate bool
	parallel int
	cluster  clusterFlags
	metrics  metricsFlag
	// on says where the runs are: on this machine, or in the pods of a cluster.
	on         string
	kubernetes kubernetesFlags
	// onStdout writes the folded progress to stdout, in order with everything else there.
	onStdout bool
}

func (a *app) runCommand() *cobra.Command {
	flags := runFlags{}
	command := &cobra.Command{
		Use: "run SCENARIO…", Short: "Run scenarios against a consumer and judge it", Args: takes(1, anyNumber),
		Long: strings.TrimSpace(`
Run one scenario after another. A scenario is a file, or the name of a shipped one (see dlqbench list). Each run
writes a folder with the scenario, the plan, the history, verdict.json, report.html, junit.xml, summary.md, HDR logs
and the consumer's logs; runs/latest points to the newest. The worst verdict decides the exit code.

With --on kubernetes, a Deployment or StatefulSet is judged in its own pods: one pod runs dlqbench, each pod of the
consumer gets a sidecar, and everything is removed in the end (docs/kubernetes.md).`),
		Example: `  dlqbench run smoke
  dlqbench run dlq-publish-failure --subject examples/python/subject.yaml
  dlqbench run consumer-kill --seed 42 --set workload.rate=500/s
  dlqbench run consumer-kill --subject subject.yaml --on kubernetes --namespace load`,
		ValidArgsFunction: completeScenarios,
		RunE: func(command *cobra.Command, args []string) error {
			return a.runAll(command.Context(), args, flags)
		},
	}
	command.Flags().StringVar(&flags.subject, "subject", "",
		"subject.yaml of the consumer to judge (default: what the scenario names)")
	command.Flags().StringVar(&flags.seed, "seed", "", "seed of all random choices (default: the scenario's)")
	command.Flags().StringArrayVar(&flags.sets, "set", nil,
		"override a value of the scenario, as path=value; may be repeated")
	command.Flags().StringVar(&flags.out, "out", "runs", "folder for run directories")
	command.Flags().BoolVar(&flags.quiet, "quiet", false, "print one line per verdict and no progress")
	a.addVerbose(command)
	command.Flags().BoolVar(&flags.json, "json", false, "print verdict.json on stdout instead of the summary")
	command.Flags().BoolVar(&flags.tui, "tui", false, "show the run full-screen: rates, lag, latency, processes, events")
	command.Flags().IntVar(&flags.parallel, "parallel", 1,
		"number of concurrent scenarios; those with a high rate or thresholds still run alone")
	command.Flags().StringVar(&flags.links, "toxiproxy-api", "",
		"address at which the links answer toxiproxy's HTTP API during the run, such as 127.0.0.1:8480, so that "+
			"toxiproxy-cli injects faults; the run prints what to pass as --host (docs/toxiproxy.md)")
	command.Flags().BoolVar(&flags.estimate, "estimate", false,
		"estimate how long the runs will take, part by part, without starting them")
	flags.cluster.add(command.Flags())
	command.Flags().Lookup("image").Usage += "; with --on kubernetes: image of dlqbench"
	flags.metrics.add(command.Flags())
	command.Flags().StringVar(&flags.on, "on", onLocal,
		"where to run: local, or kubernetes with a subject of kind deployment (docs/kubernetes.md)")
	flags.kubernetes.add(command.Flags())
	command.Flags().BoolVar(&flags.keepData, "keep-data", false, "keep the brokers' data in the run directory")
	return command
}

// runAll loads everything before it runs anything, so that an error in the last scenario shows at once, not after
// minutes.
func (a *app) runAll(ctx context.Context, args []string, flags runFlags) error {
	var (
		all  []run.Options
		errs []error
	)
	if err := flags.checkPlace(); err != nil {
		return usageError{err}
	}
	kafka, err := a.kafkaOptions(flags.cluster)
	if err != nil {
		return usageError{err}
	}
	for _, arg := range args {
		options, err := a.runOptions(arg, kafka, flags)
		errs = append(errs, err)
		all = append(all, options)
	}
	if err := errors.Join(errs...); err != nil {
		return usageError{err}
	}
	if flags.parallel < 1 {
		return usageError{fmt.Errorf("--parallel %d: write how many scenarios may run at a time, at least 1", flags.parallel)}
	}
	if flags.links != "" && flags.parallel > 1 {
		return usageError{errors.New("--toxiproxy-api is about one run at a time: leave out --parallel")}
	}
	if flags.estimate {
		return a.printEstimates(all)
	}
	if flags.kubernetes.dryRun {
		return a.printPods(ctx, all, flags)
	}
	stop, err := flags.metrics.serve(a)
	if err != nil {
		return err
	}
	defer stop()
	if flags.tui {
		if flags.quiet || flags.parallel > 1 {
			return usageError{errors.New("--tui shows one run and all of it: leave out --quiet and --parallel")}
		}
		if err := a.checkTerminal(); err != nil {
			return err
		}
	}
	beside, alone := all, []run.Options(nil)
	if flags.parallel > 1 {
		beside, alone = whatRunsAlone(all)
	}
	for i := range beside {
		beside[i].Place = placeOf(i, len(all))
	}
	for i := range alone {
		alone[i].Place = placeOf(len(beside)+i, len(all))
	}
	notPassed := append(a.runSome(ctx, beside, flags.parallel, flags), a.runSome(ctx, alone, 1, flags)...)
	if ctx.Err() != nil {
		a.code = exitInterrupted
	}
	if len(all) == 1 || flags.json {
		return nil
	}
	return a.printSum(len(all), notPassed)
}

// printSum prints the total last, where readers of a long log look for it.
func (a *app) printSum(runs int, notPassed []string) error {
	text := fmt.Sprintf("%d of %d runs passed", runs-len(notPassed), runs)
	if len(notPassed) > 0 {
		slices.Sort(notPassed)
		text += "; not passed:\n    " + strings.Join(notPassed, "\n    ")
	}
	_, err := fmt.Fprintln(a.stdout, text)
	return err
}

// aloneRate is the rate in records per second from which a scenario runs alone. Beside others it could not keep its
// schedule, or would keep them from theirs.
const aloneRate = 1000

// countsOnly matches thresholds that do not depend on other work on the machine.
var countsOnly = regexp.MustCompile(`^(count|share)\.[a-z_]+ *[<>=]+ *[0-9.]+%?$`)

// whatRunsAlone separates the runs that may run in parallel from those that may not: high rates, thresholds about
// time, and fixed addresses.
func whatRunsAlone(all []run.Options) (beside, alone []run.Options) {
	for _, options := range all {
		peak := 0.0
		for _, stretch := range options.Scenario.Workload.Stretches() {
			peak = max(peak, stretch.Rate.PerSecond())
		}
		timed := slices.ContainsFunc(options.Scenario.Expect.Thresholds, func(expression string) bool {
			return !countsOnly.MatchString(expression)
		})
		// A consumer that somebody else starts has its addresses once.
		outside := options.Subject != nil && options.Subject.External != nil
		if peak >= aloneRate || timed || outside {
			alone = append(alone, options)
			continue
		}
		beside = append(beside, options)
	}
	return beside, alone
}

// runSome runs scenarios, up to parallel at a time, and prints their results one after another. With several at a time
// there is no progress display, which shows a single run. It returns those that did not pass, with reasons.
func (a *app) runSome(ctx context.Context, all []run.Options, parallel int, flags runFlags) []string {
	var (
		group     sync.WaitGroup
		mu        sync.Mutex
		waiting   = make(chan run.Options)
		notPassed []string
	)
	for range min(parallel, len(all)) {
		group.Go(func() {
			for options := range waiting {
				code, err := exitInterrupted, error(nil)
				if ctx.Err() == nil {
					code, err = a.runOne(ctx, options, flags, &mu)
				}
				mu.Lock()
				if code != exitPass {
					notPassed = append(notPassed, fmt.Sprintf("%s: %s", options.Scenario.Name, exitWords(code, err)))
				}
				if err != nil {
					a.complain(fmt.Errorf("%s: %w", options.Scenario.Name, err))
				}
				a.code = worst(a.code, code)
				mu.Unlock()
			}
		})
	}
	for _, options := range all {
		waiting <- options
	}
	close(waiting)
	group.Wait()
	return notPassed
}

// runOptions reads the scenario that one argument names.
func (a *app) runOptions(arg string, kafka run.ClusterOptions, flags runFlags) (run.Options, error) {
	options := run.Options{Arg: arg, Out: flags.out, KeepData: flags.keepData, Version: programVersion(), Cluster: kafka}
	var err error
	if options.Executable, err = executable(); err != nil {
		return options, err
	}
	name, data, err := scenarios.Find(arg)
	if err != nil {
		return options, err
	}
	options.Scenario, options.Source, err = scenarios.ParseForSubject(name, data, flags.sets, flags.subject)
	if err != nil {
		return options, err
	}
	if err := options.Cluster.Fits(options.Scenario); err != nil {
		return options, err
	}
	if flags.seed != "" {
		seed, err := strconv.ParseUint(flags.seed, 0, 64)
		if err != nil {
			return options, fmt.Errorf("--seed %q: write a whole number from 0 to 2^64-1", flags.seed)
		}
		options.Seed = &seed
	}
	file := flags.subject
	if file == "" && options.Scenario.Subject.File != "" {
		file = filepath.Join(filepath.Dir(name), options.Scenario.Subject.File)
	}
	if file != "" {
		options.Subject, err = scenarios.LoadSubject(file)
		options.SubjectFile = file
	}
	options.Rerun = rerunCommand(arg, flags)
	if err == nil {
		err = flags.fits(options.Subject, options.Scenario.Name)
	}
	return options, err
}

// rerunCommand is the command line that runs the same plan again, with %d for the seed.
func rerunCommand(arg string, flags runFlags) string {
	words := []string{"dlqbench", "run", quoteWord(arg), "--seed", "%d"}
	if flags.subject != "" {
		words = append(words, "--subject", quoteWord(flags.subject))
	}
	for _, set := range flags.sets {
		words = append(words, "--set", quoteWord(set))
	}
	words = append(words, flags.cluster.words()...)
	if flags.on == onKubernetes {
		words = append(append(words, "--on", onKubernetes), flags.kubernetes.words()...)
	}
	return strings.Join(words, " ")
}

// quoteWord quotes a word for a shell, in a command line in which a verb of fmt stands for the seed.
func quoteWord(word string) string { return run.Quoted(strings.ReplaceAll(word, "%", "%%")) }

// runOne runs one scenario and prints its verdict while it holds printing. The error describes a failure outside the
// subject.
func (a *app) runOne(ctx context.Context, options run.Options, flags runFlags, printing *sync.Mutex) (int, error) {
	outcome, err := a.carryOut(ctx, options, flags)
	if outcome == nil || outcome.Verdict == nil {
		code := a.exitCode(ctx, err)
		if code == exitEnvironment {
			err = fmt.Errorf("%s: %w", run.NothingJudged, err)
		}
		return code, err
	}
	code := verdictCode(outcome.Verdict)
	if err != nil {
		code = worst(code, a.exitCode(ctx, err))
	}
	if outcome.Interrupted {
		code, err = exitInterrupted, errors.Join(errors.New("interrupted; what there was has been sealed and judged"), err)
	}
	printing.Lock()
	defer printing.Unlock()
	if printErr := a.printRun(outcome.Judged, flags); printErr != nil && !errors.Is(printErr, syscall.EPIPE) {
		return worst(code, exitEnvironment), errors.Join(err, printErr)
	}
	return code, err
}

// carryOut runs one scenario with its progress and its log on stderr.
func (a *app) carryOut(ctx context.Context, options run.Options, flags runFlags) (*run.Outcome, error) {
	defer a.foldRun(options, flags)()
	progress := a.shower(flags)
	defer progress.Done() // restores the terminal even after a panic
	options.Log = a.logger(progress.Around(a.stderr))
	options.Watch, options.Announce = progress.Update, a.announcer(progress)
	if flags.on == onKubernetes {
		return a.runInPods(ctx, options, flags, progress)
	}
	if flags.links != "" {
		stop, err := a.serveLinks(ctx, &options, flags)
		if err != nil {
			return nil, err
		}
		defer stop()
	}
	defer context.AfterFunc(ctx, func() {
		why := "interrupted: healing, ending and judging what there is; interrupt again to end at once"
		if errors.Is(context.Cause(ctx), gate.ErrBudget) {
			why = gate.ErrBudget.Error() + ": healing, ending and judging what there is"
		}
		options.Log.Warn().Msg(why)
	})()
	return a.runShown(ctx, options, false)
}

// announcer returns a function that prints what a person has to do, also with --quiet: without it the run would wait
// in vain.
func (a *app) announcer(progress shower) func(string) {
	out := progress.Around(a.stderr)
	return func(text string) {
		if a.logFormat == "json" {
			log := a.logger(out)
			log.Log().Msg(text)
			return
		}
		_, _ = fmt.Fprint(out, text)
	}
}

// shower returns the display of a run in progress.
func (a *app) shower(flags runFlags) shower {
	if flags.tui {
		return a.openScreen(nil)
	}
	return a.progress(flags)
}

// progress is redrawn in place on a capable terminal, and printed as plain lines in a log for programs and where a CI
// log folds them. Files and pipes get none, as nobody watches it there.
func (a *app) progress(flags runFlags) *reports.Progress {
	quiet, tty := flags.silent(), isTerminal(a.stderr) && os.Getenv("TERM") != "dumb"
	switch {
	case a.logFormat == "json":
		return reports.NewProgress(progressLog{a.logger(a.stderr)}, false, quiet)
	case !tty && a.folds() != reports.NoFolds:
		return reports.NewProgress(a.foldedOut(flags), false, quiet)
	}
	return reports.NewProgress(a.stderr, tty, quiet || !tty)
}

// silent reports whether the run shows no progress.
func (f runFlags) silent() bool { return f.quiet || f.json || f.parallel > 1 }

// printRun prints a judged run. Where the log folds, a passed run is one line, with the rest folded.
func (a *app) printRun(judged reports.Run, flags runFlags) error {
	if flags.json {
		return a.print(judged, true)
	}
	passed := a.folds() != reports.NoFolds && verdictCode(judged.Verdict) == exitPass
	if flags.quiet || passed {
		if err := a.printBriefly(judged); err != nil || flags.quiet {
			return err
		}
		title := judged.Verdict.Scenario + ": details"
		defer a.fold(a.stdout, title+" "+filepath.Base(judged.Dir), title)()
	}
	return a.print(judged, false)
}

// printBriefly prints one line with the verdict, one with its coverage, and one for each reason why it is not a pass.
func (a *app) printBriefly(judged reports.Run) error {
	verdict := judged.Verdict
	word := string(verdict.Verdict)
	if verdict.Verdict == assertions.Pass && verdict.ThresholdsMissed {
		word = "threshold"
	}
	_, err := fmt.Fprintf(a.stdout, "%-12s  %-24s  %s\n    %s\n", strings.ToUpper(word), verdict.Scenario, judged.Dir,
		verdict.Coverage())
	for _, reason := range verdict.Reasons {
		if err == nil {
			_, err = fmt.Fprintf(a.stdout, "    %s\n", reason)
		}
	}
	return err
}
