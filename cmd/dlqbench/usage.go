package main

// What is said of a command line that can't be understood: what was found, and how to write it.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/scenarios"
)

// anyNumber is the most arguments of a command that takes as many as there are.
const anyNumber = -1

// takes refuses fewer arguments than least and more than most. The words after the command's name in Use say what they
// are.
func takes(least, most int) cobra.PositionalArgs {
	return func(command *cobra.Command, args []string) error {
		if len(args) >= least && (most == anyNumber || len(args) <= most) {
			return nil
		}
		_, words, _ := strings.Cut(command.Use, " ")
		given := "none is given"
		if len(args) > 0 {
			given = fmt.Sprintf("given: %q", args)
		}
		return fmt.Errorf("write it as %s %s; %s (%[1]s --help says more)", command.CommandPath(), words, given)
	}
}

// wrongFlag says of a flag that was not understood which one may have been meant, or what it takes.
func wrongFlag(command *cobra.Command, err error) error {
	var (
		unknown *pflag.NotExistError
		value   *pflag.InvalidValueError
	)
	switch {
	case errors.As(err, &unknown):
		var known []string
		command.Flags().VisitAll(func(f *pflag.Flag) {
			if !f.Hidden {
				known = append(known, f.Name)
			}
		})
		if near := scenarios.Closest(unknown.GetSpecifiedName(), known); near != "" {
			return fmt.Errorf("%w: did you mean --%s?", err, near)
		}
		return fmt.Errorf("%w: %s --help lists all flags", err, command.CommandPath())
	case errors.As(err, &value):
		if takes := valueWords(value.GetFlag().Value.Type()); takes != "" {
			return fmt.Errorf("--%s %q: write %s", value.GetFlag().Name, value.GetValue(), takes)
		}
	}
	return err
}

// valueWords say what a flag of the type takes, "" where its own error says it.
func valueWords(kind string) string {
	switch kind {
	case "int", "int32", "int64", "uint", "uint64":
		return "a whole number"
	case "float64":
		return "a number"
	case "duration":
		return "a duration, such as 30s or 1m30s"
	case "bool":
		return "true or false, or nothing"
	}
	return ""
}
