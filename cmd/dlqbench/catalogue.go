package main

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/bench"
	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/harness"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

func (a *app) listCommand() *cobra.Command {
	var on clusterFlags
	command := &cobra.Command{
		Use: "list", Short: "List the shipped scenarios", Args: noArgs,
		Example: "  dlqbench list\n  dlqbench list --cluster embedded",
		RunE: func(command *cobra.Command, _ []string) error {
			if !slices.Contains(harness.Clusters(), on.provider) {
				return usageError{fmt.Errorf("--cluster %q: write one of %s", on.provider, strings.Join(harness.Clusters(), ", "))}
			}
			fewer := command.Flags().Changed("cluster") && on.provider == harness.ClusterEmbedded
			table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, name := range scenarios.Names() {
				data, _ := scenarios.Shipped(name)
				scenario, err := scenarios.Parse(name, data)
				if err != nil {
					return err
				}
				switch {
				case scenario.RunsOnEmbedded():
					fmt.Fprintf(table, "%s\t%s\n", name, scenario.Description)
				case !fewer:
					fmt.Fprintf(table, "%s\t(real Kafka) %s\n", name, scenario.Description)
				}
			}
			return table.Flush()
		},
	}
	command.Flags().StringVar(&on.provider, "cluster", harness.ClusterProcess,
		"list the scenarios that run on this Kafka: "+strings.Join(harness.Clusters(), ", "))
	return command
}

func (a *app) showCommand() *cobra.Command {
	return &cobra.Command{
		Use: "show NAME", Short: "Print a shipped scenario, to read it or to copy it", Args: takes(1, 1),
		Example:           "  dlqbench show dlq-publish-failure > mine.yaml",
		ValidArgsFunction: completeScenarios,
		RunE: func(_ *cobra.Command, args []string) error {
			_, data, err := scenarios.Find(args[0])
			if err != nil {
				return usageError{err}
			}
			_, err = a.stdout.Write(data)
			return err
		},
	}
}

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE…", Short: "Check scenario files and list every problem", Args: takes(1, anyNumber),
		Example: "  dlqbench validate mine.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			var errs []error
			for _, arg := range args {
				name, data, err := scenarios.Find(arg)
				if err == nil {
					_, err = scenarios.Parse(name, data)
				}
				if err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(a.stdout, "%s: ok\n", arg)
			}
			if len(errs) > 0 {
				return usageError{errors.Join(errs...)}
			}
			return nil
		},
	}
}

func (a *app) schemaCommand() *cobra.Command {
	command := &cobra.Command{
		Use:       "schema [scenario|subject|gate|bench|verdict]",
		Short:     "Print a JSON Schema: scenario, subject, gate, bench or verdict",
		Args:      takes(0, 1),
		ValidArgs: []string{"scenario", "subject", "gate", "bench", "verdict"},
		Example: `  dlqbench schema > scenario.schema.json
  dlqbench schema subject > subject.schema.json`,
		RunE: func(_ *cobra.Command, args []string) error {
			what := "scenario"
			if len(args) == 1 {
				what = args[0]
			}
			schema, ok := schemas()[what]
			if !ok {
				return usageError{fmt.Errorf("there is no schema %q: write scenario, subject, gate, bench or verdict", what)}
			}
			data, err := schema()
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(append(data, '\n'))
			return err
		},
	}
	return command
}

func schemas() map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){
		"scenario": scenarios.Schema, "subject": scenarios.SubjectSchema, "gate": gate.Schema, "bench": bench.Schema,
		"verdict": reports.VerdictSchema,
	}
}

func completeScenarios(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return scenarios.Names(), cobra.ShellCompDirectiveDefault
}
