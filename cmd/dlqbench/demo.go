package main

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/verify/planted"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// demoFlags are the flags of `dlqbench demo`.
type demoFlags struct {
	runFlags
	list, all, noOpen bool
}

func (a *app) demoCommand() *cobra.Command {
	flags := demoFlags{}
	command := &cobra.Command{
		Use: "demo [BUG]", Short: "See a consumer with a bug fail, and learn why", Args: takes(0, 1),
		Long: strings.TrimSpace(`
Run a consumer with a planted bug for about ten seconds and explain the verdict: the code of the mistake, which promise
it broke, how that is seen in the trace of a record, and what a correct consumer does. The report opens in the browser
if there is one. The demonstration needs nothing but this program.

--list shows the bugs for demonstration, and --all every planted bug, with the anomaly that must be reported for it. The
command of a subject can be a consumer with any of them: [dlqbench, bug, consume, BUG].

The exit code is 0 if the bug was found, 4 if the run did not show it.`),
		Example:           "  dlqbench demo\n  dlqbench demo --list\n  dlqbench demo drop-on-term",
		ValidArgsFunction: completeDemos,
		RunE: func(command *cobra.Command, args []string) error {
			if flags.list || flags.all {
				return a.listDemos(flags.all)
			}
			lesson, err := lessonOf(args)
			if err != nil {
				return usageError{err}
			}
			return a.demo(command.Context(), lesson, flags)
		},
	}
	set := command.Flags()
	set.BoolVar(&flags.list, "list", false, "list the bugs for demonstration")
	set.BoolVar(&flags.all, "all", false, "list all planted bugs")
	set.BoolVar(&flags.noOpen, "no-open", false, "do not open the report in a browser")
	set.StringVar(&flags.seed, "seed", "", "seed of all random choices (default: the scenario's)")
	set.StringVar(&flags.out, "out", "runs", "folder for run directories")
	return command
}

// lessonOf returns the demonstration that the arguments name, by default the first.
func lessonOf(args []string) (planted.Lesson, error) {
	lessons := planted.Lessons()
	if len(args) == 0 {
		return lessons[0], nil
	}
	for _, lesson := range lessons {
		if lesson.Bug == args[0] {
			return lesson, nil
		}
	}
	if bug, err := planted.Named(args[0]); err == nil {
		return planted.Lesson{}, fmt.Errorf("%s is a planted bug without a demonstration; a program with it is started by "+
			"dlqbench bug %s %s, as the command of a subject.yaml", bug.Name, bug.Kind(), bug.Name)
	}
	names := demoNames()
	if near := scenarios.Closest(args[0], names); near != "" {
		return planted.Lesson{}, fmt.Errorf("there is no demonstration %q: did you mean %s?", args[0], near)
	}
	return planted.Lesson{}, fmt.Errorf("there is no demonstration %q: there are %s", args[0], strings.Join(names, ", "))
}

func demoNames() []string {
	var names []string
	for _, lesson := range planted.Lessons() {
		names = append(names, lesson.Bug)
	}
	return names
}

func completeDemos(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return demoNames(), cobra.ShellCompDirectiveNoFileComp
}

// listDemos prints a line for each bug for demonstration, or for every planted bug.
func (a *app) listDemos(all bool) error {
	if all {
		table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
		for _, bug := range planted.All() {
			fmt.Fprintf(table, "%s\t%s\t%s\n", bug.Name, bug.Anomaly, bug.What)
		}
		return table.Flush()
	}
	width := len(slices.MaxFunc(demoNames(), func(a, b string) int { return len(a) - len(b) }))
	for _, lesson := range planted.Lessons() {
		line := fmt.Sprintf("%-*s  %s", width, lesson.Bug, lesson.Title)
		fmt.Fprintln(a.stdout, reports.OneLine(a.stdout, line))
	}
	return nil
}

// demo runs a consumer, or a replay, with the bug, and explains what it shows.
func (a *app) demo(ctx context.Context, chosen planted.Lesson, flags demoFlags) error {
	bug, err := planted.Named(chosen.Bug)
	if err != nil {
		return err
	}
	lesson := reports.Lesson{
		Name: bug.Name, What: bug.What, Invariant: bug.Invariant, Anomaly: bug.Anomaly, Scenario: chosen.Scenario,
		Mistake: chosen.Mistake, Right: chosen.Right, Trace: chosen.Trace,
	}
	options, err := a.runOptions(chosen.Scenario, run.ClusterOptions{Provider: run.ClusterEmbedded}, flags.runFlags)
	if err != nil {
		return usageError{err}
	}
	options.Rerun = "dlqbench demo " + bug.Name + " --seed %d"
	program := []string{options.Executable, "bug", bug.Kind(), bug.Name}
	if bug.Consumer != nil {
		options.ReferenceCommand = program
	} else {
		options.ReplayCommand = program
	}
	color := reports.UseColor(a.stdout)
	if err := reports.LessonBefore(a.stdout, lesson, color); err != nil {
		return err
	}
	outcome, err := a.carryOut(ctx, options, flags.runFlags)
	switch {
	case err != nil:
		return err
	case outcome.Interrupted:
		return errors.New("interrupted")
	}
	fmt.Fprintln(a.stdout)
	if err := a.print(outcome.Judged, false); err != nil {
		return err
	}
	if !lesson.Shown(outcome.Verdict) {
		a.code = exitInconclusive
		return fmt.Errorf("this run did not show %s, which happens on a busy machine: try again", bug.Anomaly)
	}
	fmt.Fprintln(a.stdout)
	return reports.LessonAfter(a.stdout, lesson, outcome.Judged, a.openReport(outcome.Dir, flags.noOpen), color)
}

// openReport opens the report in a browser if a person is there to see it, and says where it is.
func (a *app) openReport(dir string, unwanted bool) string {
	file := filepath.Join(dir, reports.HTMLFile)
	if unwanted || !isTerminal(a.stdout) || !a.openInBrowser(file) {
		return file
	}
	return file + ", opened in the browser"
}
