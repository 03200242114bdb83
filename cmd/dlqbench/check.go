package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
)

func (a *app) checkCommand() *cobra.Command {
	var (
		asJSON bool
		out    string
	)
	command := &cobra.Command{
		Use: "check RUN", Short: "Judge a stored run again", Args: takes(1, 1),
		Long: `Judge the history in a run directory again and rewrite its reports. The exit code is that of the verdict, even
if the reports cannot be written. A run that was killed is judged as far as its history goes.

RUN is a run directory, its name or id, or latest.`,
		Example:           "  dlqbench check latest",
		ValidArgsFunction: completeDirectories,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, err := findRun(args[0], out)
			if err != nil {
				return err
			}
			judged, err := run.JudgeRun(dir)
			if judged.Verdict == nil {
				return err
			}
			if err != nil { // with a full disk the verdict is still valid: it can be judged again from the history
				a.complain(fmt.Errorf("the reports in the run directory are not renewed; the verdict stands: %w", err))
			}
			a.code = worst(a.code, verdictCode(judged.Verdict))
			return a.print(judged, asJSON)
		},
	}
	lookedUpIn(command, &out)
	a.addVerbose(command)
	command.Flags().BoolVar(&asJSON, "json", false, "print verdict.json on stdout instead of the summary")
	return command
}

// addVerbose adds the flag with which a run's result is printed in full.
func (a *app) addVerbose(command *cobra.Command) {
	command.Flags().BoolVar(&a.verbose, "verbose", false,
		"print everything that is known of the run, not only what fits on a screen")
}

// print prints a judged run on stdout.
func (a *app) print(judged reports.Run, asJSON bool) error {
	if asJSON {
		return reports.JSON(a.stdout, judged)
	}
	return reports.Terminal(a.stdout, judged, reports.UseColor(a.stdout), a.verbose)
}

func completeDirectories(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}
