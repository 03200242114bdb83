package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/run"
)

func (a *app) cleanCommand() *cobra.Command {
	var out string
	var all bool
	var kafka clusterFlags
	command := &cobra.Command{
		Use: "clean", Short: "Remove processes, containers and data that killed runs left", Args: noArgs,
		Long: `End processes that a killed dlqbench left behind, and remove its brokers' data and containers. With --bootstrap
or --kafka-config, its topics and groups on your own cluster are removed. Histories and reports are kept; --all removes
every run directory that was not renamed.`,
		Example: "  dlqbench clean\n  dlqbench clean --all",
		RunE: func(command *cobra.Command, _ []string) error {
			kafka.provider = run.ClusterEmbedded
			if kafka.bootstrap != "" || kafka.config != "" {
				kafka.provider = run.ClusterExternal
			}
			options, _, err := kafka.options()
			if err != nil {
				return usageError{err}
			}
			swept, err := run.Clean(command.Context(), out, all, options)
			for _, line := range swept {
				fmt.Fprintln(a.stdout, line)
			}
			if err == nil && len(swept) == 0 {
				fmt.Fprintln(a.stdout, "nothing to clean")
			}
			return err
		},
	}
	command.Flags().StringVar(&out, "out", "runs", "folder of run directories")
	kafka.addExternal(command.Flags())
	command.Flags().BoolVar(&all, "all", false, "also remove the run directories, with their reports")
	return command
}
