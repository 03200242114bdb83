package main

import (
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

func (a *app) listCommand() *cobra.Command {
	var (
		on      clusterFlags
		subject string
		asJSON  bool
		alone   bool
	)
	command := &cobra.Command{
		Use: "list", Short: "List the shipped scenarios", Args: noArgs,
		Long: strings.TrimSpace(`
List the shipped scenarios by what they are about, each with what happens in it. dlqbench show NAME prints one, with
what it proves. With --subject, only those are listed that can show something of the subject.`),
		Example: "  dlqbench list\n  dlqbench list --cluster embedded\n" +
			"  dlqbench list --subject examples/python/subject.yaml",
		RunE: func(command *cobra.Command, _ []string) error {
			if !slices.Contains(run.Clusters(), on.provider) {
				return usageError{fmt.Errorf("--cluster %q: write one of %s", on.provider, strings.Join(run.Clusters(), ", "))}
			}
			var (
				file *scenarios.SubjectFile
				err  error
			)
			if subject != "" {
				if file, err = scenarios.LoadSubject(subject); err != nil {
					return usageError{err}
				}
			}
			entries, err := scenarios.List(file)
			if err != nil {
				return err
			}
			if file != nil {
				refuse(entries, subject)
			}
			all := len(entries)
			if command.Flags().Changed("cluster") && on.provider == run.ClusterEmbedded {
				entries = slices.DeleteFunc(entries, func(one scenarios.Entry) bool { return one.Real != "" })
			}
			if alone {
				entries = slices.DeleteFunc(entries, func(one scenarios.Entry) bool { return one.NeedsSubject != "" })
			}
			if asJSON {
				encoder := json.NewEncoder(a.stdout)
				encoder.SetIndent("", "  ")
				return encoder.Encode(entries)
			}
			entries = slices.DeleteFunc(entries, func(one scenarios.Entry) bool { return one.Unfit != "" })
			a.listEntries(entries)
			if len(entries) < all {
				fmt.Fprintf(a.stdout, "\n%d of %d scenarios are listed", len(entries), all)
				if file != nil {
					fmt.Fprintf(a.stdout, "; dlqbench validate NAME --subject %s says why one of the others does not apply", subject)
				}
				fmt.Fprintln(a.stdout)
			}
			return nil
		},
	}
	command.Flags().StringVar(&on.provider, "cluster", run.ClusterProcess,
		"list the scenarios that run on this Kafka: "+strings.Join(run.Clusters(), ", "))
	command.Flags().StringVar(&subject, "subject", "", "list the scenarios that can show something of this subject.yaml")
	command.Flags().BoolVar(&alone, "reference", false,
		"list the scenarios that run without --subject, with the reference consumer")
	command.Flags().BoolVar(&asJSON, "json", false,
		"print JSON; with --subject, every scenario, and for those that do not apply the reason")
	return command
}

// refuse says of each scenario that can't be run with the subject file at this path why it can't.
func refuse(entries []scenarios.Entry, path string) {
	var names []string
	for _, one := range entries {
		names = append(names, one.Name)
	}
	refused, _ := gate.Fit(path, names)
	for i, one := range entries {
		entries[i].Unfit = cmp.Or(one.Unfit, refused[one.Name])
	}
}

// listEntries prints the scenarios below the headings of their groups, one line each.
func (a *app) listEntries(entries []scenarios.Entry) {
	width := 0
	for _, one := range entries {
		width = max(width, len(one.Name))
	}
	group := scenarios.Group("")
	for i, one := range entries {
		if one.Group != group {
			group = one.Group
			if i > 0 {
				fmt.Fprintln(a.stdout)
			}
			fmt.Fprintln(a.stdout, group.Title())
		}
		fmt.Fprintln(a.stdout, reports.OneLine(a.stdout, fmt.Sprintf("  %-*s  %s", width, one.Name, one.Line())))
	}
}

func completeScenarios(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
	return scenarios.Names(), cobra.ShellCompDirectiveDefault
}
