package main

import (
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/scenarios"
)

func (a *app) validateCommand() *cobra.Command {
	return &cobra.Command{
		Use: "validate FILE…", Short: "Check scenario files and list every problem", Args: takes(1, anyNumber),
		Example: "  dlqbench validate mine.yaml",
		RunE: func(_ *cobra.Command, args []string) error {
			var errs []error
			for _, arg := range args {
				name, data, err := scenarios.Find(arg)
				if err == nil {
					_, err = scenarios.Parse(name, data)
				}
				if err != nil {
					errs = append(errs, err)
					continue
				}
				fmt.Fprintf(a.stdout, "%s: ok\n", arg)
			}
			if len(errs) > 0 {
				return usageError{errors.Join(errs...)}
			}
			return nil
		},
	}
}
