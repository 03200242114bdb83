package main

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/plan"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/units"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

func (a *app) validateCommand() *cobra.Command {
	var (
		subject string
		sets    []string
	)
	command := &cobra.Command{
		Use: "validate SCENARIO…", Short: "Check scenarios and list every problem; with --subject, a dry run",
		Args: takes(1, anyNumber),
		Long: strings.TrimSpace(`
Check scenario files, or shipped scenarios, and list every problem. With --subject this is a dry run: it starts nothing
and says what would run, what would be judged of the subject, and what not and why. A scenario that can show nothing of
the subject is refused with the reason, as dlqbench run refuses it.`),
		Example:           "  dlqbench validate mine.yaml\n  dlqbench validate smoke --subject examples/python/subject.yaml",
		ValidArgsFunction: completeScenarios,
		RunE: func(_ *cobra.Command, args []string) error {
			var errs []error
			for i, arg := range args {
				if subject != "" && i > 0 {
					fmt.Fprintln(a.stdout)
				}
				errs = append(errs, a.validate(arg, sets, subject))
			}
			if err := errors.Join(errs...); err != nil {
				return usageError{err}
			}
			return nil
		},
	}
	command.Flags().StringVar(&subject, "subject", "", "say what a run with this subject.yaml would judge")
	command.Flags().StringArrayVar(&sets, "set", nil, "override a value of the scenario, as path=value; may be repeated")
	return command
}

// validate checks one scenario, and with a subject tells what a run would be.
func (a *app) validate(arg string, sets []string, subject string) error {
	name, data, err := scenarios.Find(arg)
	if err != nil {
		return err
	}
	scenario, source, err := scenarios.ParseForSubject(name, data, sets, subject)
	if err != nil {
		return err
	}
	if subject == "" {
		fmt.Fprintf(a.stdout, "%s: ok\n", arg)
		return nil
	}
	file, err := scenarios.LoadSubject(subject)
	if err != nil {
		return err
	}
	return a.dryRun(run.Options{Scenario: scenario, Source: source, Subject: file, SubjectFile: subject})
}

// dryRun prints what would run and what would be judged.
func (a *app) dryRun(options run.Options) error {
	estimate, err := estimateRun(options)
	if err != nil {
		return err
	}
	text, err := options.Scenario.Outlook(options.Subject)
	if err != nil {
		return err
	}
	s, total, columns := options.Scenario, estimate.Total(), min(reports.Columns(a.stdout), widestText)
	faults := "no faults"
	if len(s.Faults) > 0 {
		faults = fmt.Sprintf("%s (%s)", units.Plural(int64(len(s.Faults)), "fault", "faults"),
			strings.Join(plan.FaultNames(s.Faults), ", "))
	}
	what := fmt.Sprintf("%s, %s, in about %s, at most %s",
		units.Plural(int64(s.InstanceCount()), "instance", "instances"), faults,
		units.Text(total.Usual), units.Text(total.Most))
	if s.Cluster.Real != "" {
		what += "; on a real Kafka only (--cluster process)"
	}
	lines := append([]string{fmt.Sprintf("%s with %s", s.Name, options.Subject.Name)},
		append(scenarios.Hanging("  would run: ", what, columns), text.Lines(columns)...)...)
	for _, line := range lines {
		if _, err := fmt.Fprintln(a.stdout, line); err != nil {
			return err
		}
	}
	return nil
}
