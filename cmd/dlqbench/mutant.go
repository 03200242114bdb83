package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/internal/mutants"
)

// mutantCommand is what `dlqbench prove` starts in the place of the reference consumer or the replay tool: the same with one planted bug.
func (a *app) mutantCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "mutant", Short: "Run the reference consumer or the replay tool with a planted bug", Hidden: true, Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, one := range mutants.All() {
				fmt.Fprintf(table, "%s\t%s\t%s\n", one.Name, one.Anomaly, one.What)
			}
			return table.Flush()
		},
	}
	command.AddCommand(a.mutantConsumeCommand(), a.mutantReplayCommand())
	return command
}

func (a *app) mutantConsumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "consume MUTANT", Short: "Run the reference consumer with a planted bug", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			mutant, err := mutants.Named(args[0])
			if err != nil {
				return usageError{err}
			}
			if mutant.Consumer == nil {
				return usageError{fmt.Errorf("%s is a bug of the replay: dlqbench mutant replay %s", args[0], args[0])}
			}
			config, err := consumer.FromEnvironment(os.LookupEnv)
			if err != nil {
				return usageError{err}
			}
			config.Logger = a.logger(a.stderr)
			parts := consumer.DefaultParts(config.Settings)
			mutant.Consumer(&config, &parts)
			return consumer.Main(command.Context(), config, parts)
		},
	}
}

func (a *app) mutantReplayCommand() *cobra.Command {
	flags := replayFlags{}
	command := &cobra.Command{
		Use: "replay MUTANT", Short: "Put dead letters back with a planted bug", Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			mutant, err := mutants.Named(args[0])
			if err != nil {
				return usageError{err}
			}
			if mutant.Replay == nil {
				return usageError{fmt.Errorf("%s is a bug of the consumer: dlqbench mutant consume %s", args[0], args[0])}
			}
			flags.plant = mutant.Replay
			return a.replay(command, flags)
		},
	}
	flags.add(command.Flags())
	return command
}
