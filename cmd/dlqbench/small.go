package main

import (
	"context"
	"fmt"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/engine"
	"github.com/dlqbench/dlqbench/internal/harness"
	"github.com/dlqbench/dlqbench/internal/subject"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// widestText is how long a line of text is at most, however wide the terminal: longer ones are hard to read.
const widestText = 120

func (a *app) subjectCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "subject", Short: "Check the description of your own consumer",
		Example: "  dlqbench subject check examples/python/subject.yaml",
		RunE: func(command *cobra.Command, args []string) error {
			if len(args) == 0 {
				return command.Help()
			}
			return usageError{fmt.Errorf("unknown command %q for %q: there is %q", args[0], command.CommandPath(), "check")}
		},
	}
	command.AddCommand(&cobra.Command{
		Use: "check FILE", Short: "Show what a subject.yaml promises and which invariants are judged because of it",
		Args: takes(1, 1), Example: "  dlqbench subject check examples/python/subject.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			file, err := scenarios.LoadSubject(args[0])
			if err != nil {
				return usageError{err}
			}
			contract, err := file.HistoryContract()
			if err != nil {
				return usageError{err}
			}
			for _, line := range scenarios.DescribeContract(contract, file.Store != nil).Lines(
				min(reports.Columns(a.stdout), widestText)) {
				fmt.Fprintln(a.stdout, line)
			}
			return nil
		},
	})
	return command
}

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
			kafka.provider = harness.ClusterEmbedded
			if kafka.bootstrap != "" || kafka.config != "" {
				kafka.provider = harness.ClusterExternal
			}
			options, _, err := kafka.options()
			if err != nil {
				return usageError{err}
			}
			swept, err := harness.Clean(command.Context(), out, all, options)
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

// guardCommand is the process that ends the subject's processes when dlqbench has gone, whatever ended it.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: "guard", Hidden: true, Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			a.code = subject.GuardMain(os.Stdin, func(runID string) {
				ctx, cancel := context.WithTimeout(context.Background(), guardLimit)
				defer cancel()
				_, _ = engine.Sweep(ctx, runID) // what it can't remove the next run finds by its label
			})
			return nil
		},
	}
}

// guardLimit bounds what a guard asks of a container engine.
const guardLimit = 20 * time.Second

// containerCommand stands for a subject's container, as long as it runs.
func (a *app) containerCommand() *cobra.Command {
	var c engine.Container
	var names []string
	command := &cobra.Command{
		Use: engine.Subcommand, Hidden: true,
		RunE: func(command *cobra.Command, arguments []string) error {
			c.Command = arguments
			for _, name := range names {
				if value, there := os.LookupEnv(name); there {
					c.Env = append(c.Env, name+"="+value)
				}
			}
			code, err := engine.Run(command.Context(), c, a.stdout)
			if err != nil {
				return err
			}
			a.code = code
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&c.Name, "name", "", "name of the container")
	flags.StringVar(&c.Image, "image", "", "what it is made of")
	flags.StringVar(&c.RunID, "run", "", "id of the run that it belongs to")
	flags.StringVar(&c.Mount, "mount", "", "folder that it sees at the same path")
	flags.StringArrayVar(&names, "env", nil, "name of a variable that goes in")
	return command
}
