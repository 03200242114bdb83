package main

import (
	"fmt"
	"os"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/internal/verify/planted"
	"github.com/dlqbench/dlqbench/store/worker"
)

// mutantCommand is what `dlqbench prove` starts in place of the reference consumer or the replay tool: the same program
// with one planted bug.
func (a *app) mutantCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "mutant", Short: "Run the reference consumer or the replay tool with a planted bug", Hidden: true, Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			table := tabwriter.NewWriter(a.stdout, 0, 0, 2, ' ', 0)
			for _, one := range planted.All() {
				fmt.Fprintf(table, "%s\t%s\t%s\n", one.Name, one.Anomaly, one.What)
			}
			return table.Flush()
		},
	}
	command.AddCommand(a.mutantConsumeCommand(), a.mutantReplayCommand(), a.mutantRouterCommand(), a.mutantWorkerCommand(),
		a.mutantKeeperCommand())
	return command
}

func (a *app) mutantConsumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "consume MUTANT", Short: "Run the reference consumer with a planted bug", Args: takes(1, 1),
		RunE: func(command *cobra.Command, args []string) error {
			mutant, err := planted.Named(args[0])
			if err != nil {
				return usageError{err}
			}
			if mutant.Consumer == nil {
				return usageError{fmt.Errorf("%s is no bug of the consumer", args[0])}
			}
			config, err := consumer.FromEnvironment(os.LookupEnv)
			if err != nil {
				return usageError{err}
			}
			config.Logger = a.logger(a.stderr)
			parts := consumer.PartsFor(config)
			mutant.Consumer(&config, &parts)
			return consumer.Main(command.Context(), config, parts)
		},
	}
}

func (a *app) mutantReplayCommand() *cobra.Command {
	flags := replayFlags{}
	command := &cobra.Command{
		Use: "replay MUTANT", Short: "Replay dead letters with a planted bug", Args: takes(1, 1),
		RunE: func(command *cobra.Command, args []string) error {
			mutant, err := planted.Named(args[0])
			if err != nil {
				return usageError{err}
			}
			if mutant.Replay == nil {
				return usageError{fmt.Errorf("%s is no bug of the replay", args[0])}
			}
			flags.plant = mutant.Replay
			return a.replay(command, flags)
		},
	}
	flags.add(command.Flags())
	return command
}

func (a *app) mutantRouterCommand() *cobra.Command {
	var mutant planted.Mutant
	command := a.dlqRouterCommand(func(config *worker.RouterConfig) { mutant.Router(config) })
	return withBug(command, "router", &mutant, func() bool { return mutant.Router != nil })
}

func (a *app) mutantWorkerCommand() *cobra.Command {
	var mutant planted.Mutant
	command := a.dlqWorkerCommand(func(address string, config *worker.Config) { mutant.Worker(address, config) })
	return withBug(command, "worker", &mutant, func() bool { return mutant.Worker != nil })
}

// withBug gives the command the bug that its argument names, which must be of the kind.
func withBug(command *cobra.Command, kind string, mutant *planted.Mutant, ofKind func() bool) *cobra.Command {
	run := command.RunE
	command.Use, command.Short, command.Args = kind+" MUTANT", "Run the dead-letter store's "+kind+" with a planted bug",
		takes(1, 1)
	command.RunE = func(command *cobra.Command, args []string) error {
		var err error
		if *mutant, err = planted.Named(args[0]); err != nil {
			return usageError{err}
		}
		if !ofKind() {
			return usageError{fmt.Errorf("%s is no bug of the %s", args[0], kind)}
		}
		return run(command, nil)
	}
	return command
}

func (a *app) mutantKeeperCommand() *cobra.Command {
	var mutant planted.Mutant
	command := a.dlqRetainCommand()
	run := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		for name, value := range mutant.Keeper {
			if err := command.Flags().Set(name, value); err != nil {
				return usageError{err}
			}
		}
		return run(command, args)
	}
	return withBug(command, "keeper", &mutant, func() bool { return mutant.Keeper != nil })
}
