package main

import (
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/run"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

// widestText is the maximum length of a line of text, however wide the terminal, because longer lines are hard to read.
const widestText = 120

func (a *app) subjectCommand() *cobra.Command {
	command := &cobra.Command{
		Use: "subject", Short: "Check the description of your own consumer",
		Example: "  dlqbench subject check examples/python/subject.yaml",
		RunE:    helpOrUnknown,
	}
	command.AddCommand(&cobra.Command{
		Use: "check FILE", Short: "Show what a subject.yaml promises and which invariants are judged because of it",
		Args: takes(1, 1), Example: "  dlqbench subject check examples/python/subject.yaml",
		RunE: func(command *cobra.Command, args []string) error {
			data, err := os.ReadFile(args[0])
			if err != nil {
				return usageError{fmt.Errorf("reading the subject: %w", err)}
			}
			file, err := scenarios.ParseSubject(args[0], data)
			if err != nil {
				return usageError{err}
			}
			text, err := file.Describe()
			if err != nil {
				return usageError{err}
			}
			for _, line := range text.Lines(min(reports.Columns(a.stdout), widestText)) {
				fmt.Fprintln(a.stdout, line)
			}
			return run.CheckDatabase(command.Context(), file, func(path string) string {
				line, column := scenarios.KeyAt(data, path)
				return fmt.Sprintf("%s:%d:%d", args[0], line, column)
			})
		},
	})
	return command
}
