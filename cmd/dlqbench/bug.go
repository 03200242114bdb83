package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/internal/verify/planted"
	"github.com/dlqbench/dlqbench/store/worker"
)

// bugCommand has the programs with planted bugs, which `dlqbench prove` and `dlqbench demo` start in place of the
// correct ones.
func (a *app) bugCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "bug", Short: "Run a program that has a planted bug", Hidden: true,
		Long: strings.TrimSpace(`
Run a program that has a planted bug, and is correct apart from it. As the command of a subject, "dlqbench bug consume
BUG" shows how a verdict fails. "dlqbench demo --all" lists the bugs, "dlqbench demo" explains some of them, and
"dlqbench prove completeness" runs all. The bug "none" is the correct program.`),
		Example: "  dlqbench run smoke --subject subject.yaml   # command: [dlqbench, bug, consume, BUG]",
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) > 0 {
				if bug, err := planted.Named(args[0]); err == nil {
					return usageError{fmt.Errorf("write it as %s %s %s", command.CommandPath(), bug.Kind(), bug.Name)}
				}
			}
			return helpOrUnknown(command, args)
		},
	}
	command.AddCommand(a.bugConsumeCommand(), a.bugReplayCommand(), a.bugRouterCommand(), a.bugWorkerCommand(),
		a.bugKeeperCommand())
	return command
}

func (a *app) bugConsumeCommand() *cobra.Command {
	return &cobra.Command{
		Use: "consume BUG", Short: "Run the reference consumer with a planted bug", Args: takes(1, 1),
		RunE: func(command *cobra.Command, args []string) error {
			bug, err := planted.Named(args[0])
			if err != nil {
				return usageError{err}
			}
			if bug.Consumer == nil {
				return usageError{fmt.Errorf("%s is not a bug of the consumer", args[0])}
			}
			config, err := consumer.FromEnvironment(os.LookupEnv)
			if err != nil {
				return usageError{err}
			}
			config.Logger = a.logger(a.stderr)
			parts := consumer.PartsFor(config)
			bug.Consumer(&config, &parts)
			return consumer.Main(command.Context(), config, parts)
		},
	}
}

func (a *app) bugReplayCommand() *cobra.Command {
	flags := replayFlags{}
	command := &cobra.Command{
		Use: "replay BUG", Short: "Replay dead letters with a planted bug", Args: takes(1, 1),
		RunE: func(command *cobra.Command, args []string) error {
			bug, err := planted.Named(args[0])
			if err != nil {
				return usageError{err}
			}
			if bug.Replay == nil {
				return usageError{fmt.Errorf("%s is not a bug of the replay", args[0])}
			}
			flags.plant = bug.Replay
			return a.replay(command, flags)
		},
	}
	flags.add(command.Flags())
	return command
}

func (a *app) bugRouterCommand() *cobra.Command {
	var bug planted.Bug
	command := a.dlqRouterCommand(func(config *worker.RouterConfig) { bug.Router(config) })
	return withBug(command, "router", &bug, func() bool { return bug.Router != nil })
}

func (a *app) bugWorkerCommand() *cobra.Command {
	var bug planted.Bug
	command := a.dlqWorkerCommand(func(address string, config *worker.Config) { bug.Worker(address, config) })
	return withBug(command, "worker", &bug, func() bool { return bug.Worker != nil })
}

// withBug gives the command the bug that its argument names, which must be of the kind.
func withBug(command *cobra.Command, kind string, bug *planted.Bug, ofKind func() bool) *cobra.Command {
	run := command.RunE
	correct := "dlqbench dlq " + command.Name()
	command.Use, command.Args, command.Example = kind+" BUG", takes(1, 1), ""
	command.Short = "Run " + correct + " with a planted bug"
	command.Long = command.Short + ". The flags and the environment are the same."
	command.RunE = func(command *cobra.Command, args []string) error {
		var err error
		if *bug, err = planted.Named(args[0]); err != nil {
			return usageError{err}
		}
		if !ofKind() {
			return usageError{fmt.Errorf("%s is not a bug of the %s", args[0], kind)}
		}
		return run(command, nil)
	}
	return command
}

func (a *app) bugKeeperCommand() *cobra.Command {
	var bug planted.Bug
	command := a.dlqRetainCommand()
	run := command.RunE
	command.RunE = func(command *cobra.Command, args []string) error {
		for name, value := range bug.Keeper {
			if err := command.Flags().Set(name, value); err != nil {
				return usageError{err}
			}
		}
		return run(command, args)
	}
	return withBug(command, "keeper", &bug, func() bool { return bug.Keeper != nil })
}
