package main

import (
	"context"
	"os"
	"time"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/env/engine"
	"github.com/dlqbench/dlqbench/internal/env/subject"
)

// guardCommand is the subprocess reaper: the process that ends the subject's processes when dlqbench is gone, whatever
// ended it.
func (a *app) guardCommand() *cobra.Command {
	return &cobra.Command{
		Use: "guard", Hidden: true, Args: noArgs,
		RunE: func(*cobra.Command, []string) error {
			a.code = subject.GuardMain(os.Stdin, func(runID string) {
				ctx, cancel := context.WithTimeout(context.Background(), guardLimit)
				defer cancel()
				_, _ = engine.Sweep(ctx, runID) // the next run finds leftovers by their label
			})
			return nil
		},
	}
}

// guardLimit bounds the time of the reaper's requests to a container engine.
const guardLimit = 20 * time.Second
