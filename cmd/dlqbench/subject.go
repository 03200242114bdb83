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
		Use: "check [FILE]", Short: "Show what a subject.yaml promises and which invariants are judged because of it",
		Args: takes(0, 1), Example: "  dlqbench subject check examples/python/subject.yaml",
		RunE: func(command *cobra.Command, args []string) error {
			path := "subject.yaml"
			if len(args) > 0 {
				path = args[0]
			}
			data, err := os.ReadFile(path)
			if err != nil {
				return usageError{fmt.Errorf("reading the subject: %w", err)}
			}
			file, err := scenarios.ParseSubject(path, data)
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
			return run.CheckDatabase(command.Context(), file, func(key string) string {
				line, column := scenarios.KeyAt(data, key)
				return fmt.Sprintf("%s:%d:%d", path, line, column)
			})
		},
	})
	return command
}
