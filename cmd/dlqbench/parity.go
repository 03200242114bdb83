package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/internal/verify"
	"github.com/dlqbench/dlqbench/scenarios"
)

// parityFlags are the flags of `dlqbench parity`.
type parityFlags struct {
	on       []string
	out      string
	markdown string
}

func (a *app) parityCommand() *cobra.Command {
	flags := parityFlags{}
	command := &cobra.Command{
		Use: "parity [SCENARIO[:BUG]…]", Short: "Run scenarios on several Kafkas and compare the verdicts",
		Long: strings.TrimSpace(`
Run scenarios (default: all shipped ones) with the reference consumer on each Kafka given with --on, one run after
another, and print the verdict and the time of each. The reference consumer is correct, so every run must pass, and a
planted bug (SCENARIO:BUG; dlqbench demo --all lists them) must be found; otherwise the exit code is 1.
--on toxiproxy:start is the embedded Kafka behind the proxies of a toxiproxy server.`),
		Example: "  dlqbench parity smoke --on embedded --on process:4.4.0 --on process:4.1.2 --on process:3.9.1\n" +
			"  dlqbench parity downstream-outage dlq-link-down:commit-before-dlq-ack --on embedded --on toxiproxy:start",
		RunE: func(command *cobra.Command, args []string) error {
			on, err := kafkas(flags.on)
			if err != nil {
				return usageError{err}
			}
			if len(args) == 0 {
				args = scenarios.Names()
			}
			return a.parity(command, args, on, flags)
		},
		ValidArgsFunction: completeScenarios,
	}
	command.Flags().StringArrayVar(&flags.on, "on", []string{run.ClusterEmbedded},
		"a Kafka: embedded, process, process:VERSION, docker, docker:IMAGE, external:FILE, or toxiproxy:SERVER for the "+
			"embedded one behind toxiproxy; may be repeated")
	command.Flags().StringVar(&flags.out, "out", "runs/parity", "folder for runs that did not pass")
	command.Flags().StringVar(&flags.markdown, "markdown", "", "also write the table to this file, as a Markdown page")
	return command
}

// onToxiproxy is the provider in --on toxiproxy:SERVER.
const onToxiproxy = "toxiproxy"

// kafkas reads the values of --on.
func kafkas(words []string) ([]verify.On, error) {
	var all []verify.On
	for _, word := range words {
		provider, version, _ := strings.Cut(word, ":")
		if !slices.Contains(append(run.Clusters(), onToxiproxy), provider) {
			return nil, fmt.Errorf("--on %q: begin with one of %s, %s, such as process:4.4.0", word,
				strings.Join(run.Clusters(), ", "), onToxiproxy)
		}
		flags := clusterFlags{provider: provider}
		switch provider {
		case run.ClusterProcess:
			flags.version = version
		case run.ClusterDocker:
			flags.image = version
		case run.ClusterExternal:
			flags.config = version
		case onToxiproxy:
			flags.provider, flags.toxiproxy = run.ClusterEmbedded, version
		}
		options, _, err := flags.options()
		if err != nil {
			return nil, fmt.Errorf("--on %q: %w", word, err)
		}
		all = append(all, verify.On{Name: strings.ReplaceAll(word, ":", "-"), Cluster: options})
	}
	return all, nil
}

// madeBy is the command line that regenerates the table.
func madeBy(on []string) string {
	line := "dlqbench parity"
	for _, one := range on {
		line += " --on " + one
	}
	return line
}

func (a *app) parity(command *cobra.Command, names []string, on []verify.On, flags parityFlags) error {
	executable, err := executable()
	if err != nil {
		return err
	}
	config := &verify.Config{
		Executable: executable, Dir: flags.out, Parallel: 1, Version: programVersion(), Log: a.logger(a.stderr),
		Progress: func(line string) { fmt.Fprintln(a.stderr, line) },
	}
	table, err := config.Compare(command.Context(), names, on)
	switch {
	case command.Context().Err() != nil:
		a.code = exitInterrupted
	case err != nil:
		return usageError{err}
	case !table.Holds():
		a.code = exitViolated
	}
	text := table.Markdown()
	if _, err := fmt.Fprint(a.stdout, text); err != nil || flags.markdown == "" {
		return err
	}
	return a.writeFile(flags.markdown, printed(table.Page(madeBy(flags.on))))
}
