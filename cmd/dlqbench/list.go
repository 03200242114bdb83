package main

import (
	"fmt"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/scenarios"
)

func (a *app) listCommand() *cobra.Command {
	var on clusterFlags
	command := &cobra.Command{
		Use: "list", Short: "List the shipped scenarios", Args: noArgs,
		Example: "  dlqbench list\n  dlqbench list --cluster embedded",
		RunE: func(command *cobra.Command, _ []string) error {
			if !slices.Contains(run.Clusters(), on.provider) {
				return usageError{fmt.Errorf("--cluster %q: write one of %s", on.provider, strings.Join(run.Clusters(), ", "))}
			}
			fewer := command.Flags().Changed("cluster") && on.provider == run.ClusterEmbedded
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
	command.Flags().StringVar(&on.provider, "cluster", run.ClusterProcess,
		"list the scenarios that run on this Kafka: "+strings.Join(run.Clusters(), ", "))
	return command
}

func completeScenarios(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return scenarios.Names(), cobra.ShellCompDirectiveDefault
}
