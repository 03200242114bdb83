package main

// This file words the errors about an invalid command line: what was found, and the correct form.

import (
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/dlqbench/dlqbench/scenarios"
)

// anyNumber as the maximum means that a command takes any number of arguments.
const anyNumber = -1

// takes rejects fewer than least and more than most arguments. The words after the command's name in Use describe them.
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

// wrongFlag adds to an error about a flag the flag that may have been meant, or the value that it takes.
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

// valueWords describes the value of a flag of the type, or is "" if the flag's own error does.
func valueWords(kind string) string {
	const whole = "a whole number"
	return map[string]string{"int": whole, "int32": whole, "int64": whole, "uint": whole, "uint64": whole,
		"float64": "a number", "duration": "a duration, such as 30s or 1m30s", "bool": "true or false, or nothing"}[kind]
}
