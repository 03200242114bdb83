package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/consumer"
	"github.com/dlqbench/dlqbench/deadletter"
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
	var bug planted.Bug
	command := a.consumeCommand(func(config *consumer.Config, parts *consumer.Parts) { bug.Consumer(config, parts) })
	return withBug(command, "consume", "dlqbench consume", &bug, func() bool { return bug.Consumer != nil })
}

func (a *app) bugReplayCommand() *cobra.Command {
	var bug planted.Bug
	command := a.replayCommand(func(config *deadletter.Config) { bug.Replay(config) })
	return withBug(command, "replay", "dlqbench replay", &bug, func() bool { return bug.Replay != nil })
}

func (a *app) bugRouterCommand() *cobra.Command {
	var bug planted.Bug
	command := a.dlqRouterCommand(func(config *worker.RouterConfig) { bug.Router(config) })
	return withBug(command, "router", "dlqbench dlq router", &bug, func() bool { return bug.Router != nil })
}

func (a *app) bugWorkerCommand() *cobra.Command {
	var bug planted.Bug
	command := a.dlqWorkerCommand(func(address string, config *worker.Config) { bug.Worker(address, config) })
	return withBug(command, "worker", "dlqbench dlq worker", &bug, func() bool { return bug.Worker != nil })
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
	return withBug(command, "keeper", "dlqbench dlq retain", &bug, func() bool { return bug.Keeper != nil })
}

// withBug gives the command the bug that its argument names, which must be of the kind. correct is the command without
// a bug.
func withBug(command *cobra.Command, kind, correct string, bug *planted.Bug, ofKind func() bool) *cobra.Command {
	run := command.RunE
	command.Use, command.Args, command.Example = kind+" BUG", takes(1, 1), ""
	command.Short = "Run " + correct + " with a planted bug"
	command.Long = command.Short + ". The flags and the environment are the same."
	command.RunE = func(command *cobra.Command, args []string) error {
		var err error
		if *bug, err = planted.Named(args[0]); err != nil {
			return usageError{err}
		}
		if !ofKind() {
			return usageError{fmt.Errorf("%s is not a bug of %s", args[0], correct)}
		}
		return run(command, nil)
	}
	return command
}
