package main

import (
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/bench"
	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/reports"
	"github.com/dlqbench/dlqbench/scenarios"
)

func (a *app) schemaCommand() *cobra.Command {
	command := &cobra.Command{
		Use:       "schema [scenario|subject|gate|bench|verdict]",
		Short:     "Print a JSON Schema: scenario, subject, gate, bench or verdict",
		Args:      takes(0, 1),
		ValidArgs: []string{"scenario", "subject", "gate", "bench", "verdict"},
		Example: `  dlqbench schema > scenario.schema.json
  dlqbench schema subject > subject.schema.json`,
		RunE: func(_ *cobra.Command, args []string) error {
			what := "scenario"
			if len(args) == 1 {
				what = args[0]
			}
			schema, ok := schemas()[what]
			if !ok {
				return usageError{fmt.Errorf("there is no schema %q: write scenario, subject, gate, bench or verdict", what)}
			}
			data, err := schema()
			if err != nil {
				return err
			}
			_, err = a.stdout.Write(append(data, '\n'))
			return err
		},
	}
	return command
}

func schemas() map[string]func() ([]byte, error) {
	return map[string]func() ([]byte, error){
		"scenario": scenarios.Schema, "subject": scenarios.SubjectSchema, "gate": gate.Schema, "bench": bench.Schema,
		"verdict": reports.VerdictSchema,
	}
}
