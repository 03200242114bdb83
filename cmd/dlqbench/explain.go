package main

import (
	"fmt"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/assertions"
	"github.com/dlqbench/dlqbench/faults/catalogue"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

func (a *app) explainCommand() *cobra.Command {
	return &cobra.Command{
		Use: "explain INVARIANT|FAULT|ANOMALY", Short: "Explain an invariant, an anomaly or a fault", Args: takes(0, 1),
		Example: `  dlqbench explain commit-after-dlq
  dlqbench explain network.latency
  dlqbench explain commit-before-dlq`,
		ValidArgsFunction: func(*cobra.Command, []string, string) ([]string, cobra.ShellCompDirective) {
			return explained(), cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(_ *cobra.Command, args []string) error {
			if len(args) == 0 {
				fmt.Fprintln(a.stdout, "There is an explanation for:\n  "+strings.Join(explained(), "\n  "))
				return nil
			}
			text, found := explanation(args[0])
			if !found {
				return usageError{unknownExplanation(args[0])}
			}
			_, err := fmt.Fprint(a.stdout, reports.Flow(a.stdout, text))
			return err
		},
	}
}

func explanation(name string) (string, bool) {
	var text strings.Builder
	for _, explained := range assertions.Explain(name) {
		if text.Len() > 0 {
			text.WriteString("\n")
		}
		text.WriteString(explained.String())
	}
	for _, entry := range catalogue.Lookup(name) {
		fmt.Fprintf(&text, "%s: %s\n\n%s\n\nHow it is injected: %s\n\nWhat it reveals: %s\n\n", entry.Name, entry.Summary,
			entry.Does, entry.Made, entry.Shows)
		if len(entry.Effects) > 0 {
			fmt.Fprintf(&text, "Reported effects: %s\n\n", strings.Join(entry.Effects, ", "))
		}
		example := strings.TrimRight(catalogue.YAML(entry), "\n")
		fmt.Fprintf(&text, "Example:\n  %s\n\n", strings.ReplaceAll(example, "\n", "\n  "))
	}
	return text.String(), text.Len() > 0
}

func unknownExplanation(name string) error {
	if near := scenarios.Closest(name, explained()); near != "" {
		return fmt.Errorf("nothing is called %q; did you mean %q?", name, near)
	}
	return fmt.Errorf("nothing is called %q; dlqbench explain lists all names", name)
}

// explained lists the names that can be explained.
func explained() []string {
	names := append(assertions.Names(), assertions.AnomalyNames()...)
	for _, entry := range catalogue.Entries() {
		names = append(names, entry.Name)
	}
	slices.Sort(names)
	return slices.Compact(names) // several invariants share some anomalies
}
