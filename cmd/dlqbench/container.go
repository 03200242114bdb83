package main

import (
	"os"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/env/engine"
)

// containerCommand is the process that stands for a subject's container while it runs.
func (a *app) containerCommand() *cobra.Command {
	var c engine.Container
	var names []string
	command := &cobra.Command{
		Use: engine.Subcommand, Hidden: true,
		RunE: func(command *cobra.Command, arguments []string) error {
			c.Command = arguments
			for _, name := range names {
				if value, there := os.LookupEnv(name); there {
					c.Env = append(c.Env, name+"="+value)
				}
			}
			code, err := engine.Run(command.Context(), c, a.stdout)
			if err != nil {
				return err
			}
			a.code = code
			return nil
		},
	}
	flags := command.Flags()
	flags.StringVar(&c.Name, "name", "", "name of the container")
	flags.StringVar(&c.Image, "image", "", "what it is made of")
	flags.StringVar(&c.RunID, "run", "", "id of the run that it belongs to")
	flags.StringArrayVar(&c.Mounts, "mount", nil, "folder that it sees at the same path")
	flags.StringArrayVar(&names, "env", nil, "name of a variable that goes in")
	return command
}
