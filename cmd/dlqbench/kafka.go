package main

import (
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/env/cluster/install"
	brokers "github.com/dlqbench/dlqbench/internal/env/cluster/process"
)

func (a *app) kafkaCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "kafka", Short: "Install Apache Kafka for --cluster process",
		Example: "  dlqbench kafka install --version 4.4.0\n  dlqbench kafka list",
		RunE:    helpOrUnknown,
	}
	command.AddCommand(a.kafkaInstallCommand(), a.kafkaListCommand())
	return command
}

func (a *app) kafkaInstallCommand() *cobra.Command {
	var text string
	var force bool
	command := &cobra.Command{
		Use: "install", Short: "Download a version of Apache Kafka with Maven", Args: noArgs,
		Long: strings.TrimSpace(`
Download the jars of an Apache Kafka version with Maven to the user's cache, about 45 MB, for runs with --cluster
process. A complete installation is left as it is. Java is needed too, because a broker is started once so that later
ones start quickly. An unpacked release needs no installation: set KAFKA_HOME to it.`),
		Example: "  dlqbench kafka install\n  dlqbench kafka install --version 3.9.1",
		RunE: func(command *cobra.Command, _ []string) error {
			version, err := install.ParseVersion(text)
			if err != nil {
				return usageError{err}
			}
			cache, err := install.CacheDir()
			if err != nil {
				return err
			}
			installed, err := install.Install(command.Context(), cache, version, force)
			if err != nil {
				return err
			}
			if err := brokers.Prepare(command.Context(), installed, a.logger(a.stderr)); err != nil {
				return err
			}
			fmt.Fprintf(a.stdout, "Apache Kafka %s is installed in %s (%d jars)\n", version, installed.Dir, len(installed.Jars))
			return nil
		},
	}
	command.Flags().StringVar(&text, "version", install.DefaultVersion, "version: one of "+install.Supported)
	command.Flags().BoolVar(&force, "force", false, "install again, even if a complete installation exists")
	return command
}

func (a *app) kafkaListCommand() *cobra.Command {
	return &cobra.Command{
		Use: "list", Short: "List the installed versions of Apache Kafka and their folders", Args: noArgs,
		Example: "  dlqbench kafka list",
		RunE: func(*cobra.Command, []string) error {
			cache, err := install.CacheDir()
			if err != nil {
				return err
			}
			listed, err := install.List(cache)
			if err != nil {
				return err
			}
			for _, one := range listed {
				if one.Problem != nil {
					fmt.Fprintf(a.stdout, "%s  %s  %s\n", one.Version, one.Dir, one.Problem)
					continue
				}
				fmt.Fprintf(a.stdout, "%s  %s  %d jars\n", one.Version, one.Dir, one.Jars)
			}
			if len(listed) == 0 {
				fmt.Fprintln(a.stdout, "no version is installed; `dlqbench kafka install` installs "+install.DefaultVersion)
			}
			return nil
		},
	}
}
