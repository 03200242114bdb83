package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/env/engine"
	"github.com/dlqbench/dlqbench/internal/env/subject"
)

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
