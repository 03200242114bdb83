package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"github.com/spf13/cobra"

	"github.com/dlqbench/dlqbench/internal/gate"
	"github.com/dlqbench/dlqbench/internal/scaffold"
)

func (a *app) initCommand() *cobra.Command {
	var force bool
	command := &cobra.Command{
		Use: "init [DIR]", Short: "Write dlqbench.yaml, subject.yaml and a workflow for this repository", Args: takes(0, 1),
		Long: strings.TrimSpace(`
Look at the build files and the code of the repository in DIR (default: the current folder) and write a first version of
dlqbench.yaml (the suite), subject.yaml (how the consumer is built and started and what it promises, with open
questions as comments) and .github/workflows/dlqbench.yml. Existing files are not changed. Folders that runs create
are added to .gitignore.`),
		Example:           "  dlqbench init\n  dlqbench init services/orders --force",
		ValidArgsFunction: completeDirectories,
		RunE: func(_ *cobra.Command, args []string) error {
			dir := "."
			if len(args) == 1 {
				dir = args[0]
			}
			return a.initialise(dir, force)
		},
	}
	command.Flags().BoolVar(&force, "force", false, "overwrite existing files")
	return command
}

func (a *app) initialise(dir string, force bool) error {
	info, err := os.Stat(dir)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return usageError{fmt.Errorf("there is no folder %s", dir)}
	case err != nil:
		return err
	case !info.IsDir():
		return usageError{fmt.Errorf("%s is no folder", dir)}
	}
	whole, err := filepath.Abs(dir)
	if err != nil {
		return err
	}
	proposal := scaffold.Propose(os.DirFS(dir), filepath.Base(whole))
	if !force {
		proposal.Refused, proposal.Unpromised = gate.Fit(filepath.Join(dir, "subject.yaml"),
			scaffold.Candidates())
	}
	files, err := scaffold.Files(proposal, programVersion())
	if err != nil {
		return err
	}
	subject, described := filepath.Join(dir, "subject.yaml"), false
	for _, file := range files {
		written, err := scaffold.Write(dir, file, force)
		if err != nil {
			return err
		}
		path := filepath.Join(dir, file.Path)
		if !written {
			fmt.Fprintf(a.stdout, "kept   %s, which is there already; --force writes over it\n", path)
			described = described || path == subject
			continue
		}
		fmt.Fprintf(a.stdout, "wrote  %s\n", path)
	}
	ignored, err := scaffold.Ignore(dir)
	if err != nil {
		return err
	}
	if len(ignored) > 0 {
		fmt.Fprintf(a.stdout, "added  %s to %s\n", strings.Join(ignored, ", "), filepath.Join(dir, ".gitignore"))
	}
	if described { // what was found in the repository is in it, or its author knows better
		fmt.Fprintln(a.stdout, "\nNext:")
	} else {
		a.found(proposal, subject)
	}
	fmt.Fprintf(a.stdout, "  dlqbench subject check %s\n  dlqbench gate --config %s --list\n", subject,
		filepath.Join(dir, "dlqbench.yaml"))
	return nil
}

// found says what a new subject file was made from, and how it is completed.
func (a *app) found(proposal scaffold.Proposal, subject string) {
	if proposal.File != "" {
		fmt.Fprintf(a.stdout, "\nFound %s: started as %s\n", proposal.File, strings.Join(proposal.Command, " "))
	}
	for _, note := range proposal.Notes {
		fmt.Fprintf(a.stdout, "Look at it: %s\n", note)
	}
	fmt.Fprintf(a.stdout, "\nNext: correct the command and the addresses in %s, then\n", subject)
	fmt.Fprintf(a.stdout, "  dlqbench learn %s --write   (watches the consumer, and answers the questions there)\n",
		subject)
}
