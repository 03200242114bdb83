package main

import (
	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/scenarios"
)

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
